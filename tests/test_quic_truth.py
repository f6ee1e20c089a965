"""QUIC's connections beside the truth of both ends.

tests/data/quic: aioquic and quinn over five emulated networks; the truth is what the ends' programs
sent and what their qlogs say (tests/programs/recordings/quic). tests/data/quic_stacks: quic-go,
ngtcp2, picoquic and quiche over emulated networks, and single connections that were once wrong,
after the same kinds of truth.
"""

import gzip
import io
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import zstandard
from conftest import ROOT

from schemas import QUIC_FLOWS
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.jobs.flows import days_with_packets
from spark_jobs.tables import quic_flows
from spark_jobs.tables.day_plan import work_items
from spark_jobs.tables.day_tables import read_partition
from spark_jobs.tables.user_partition import UserPartition
from spark_jobs.warehouse.store import Warehouse
from tests.programs.accuracy.lab import NETWORK

DATA, STACKS = ROOT / "tests/data/quic", ROOT / "tests/data/quic_stacks"
NETWORKS = ("gprs", "umts", "lte", "reorder", "satellite")
KEY = ["user", "user_port", "server", "server_port"]
MAX_BEGIN_S = 8
"""Time for which the first Initial may be lost on its way to Gi, or waits there (s)."""


class Recording(NamedTuple):
    """A recording: giscope's connections, those of the truth, and the RTTs of both ends' qlogs.

    both: the truth's connections, with giscope's columns; those of the same name end in _found.
    round_trips: those of giscope's spin bits.
    """

    name: str
    found: pd.DataFrame
    truth: pd.DataFrame
    both: pd.DataFrame
    rtts: pd.DataFrame
    round_trips: pd.DataFrame


def table(folder: Path, name: str) -> pd.DataFrame:
    text = zstandard.ZstdDecompressor().stream_reader((folder / f"{name}.csv.zst").open("rb"))
    return pd.read_csv(io.BytesIO(text.read()))


def partitions(folder: Path, capture: Path) -> list[UserPartition]:
    """Return the user partitions of a capture's only day."""
    warehouse = Warehouse(folder)
    assert ingest_capture(warehouse, NETWORK, capture).error is None
    (day,) = days_with_packets(warehouse, NETWORK.name)
    with warehouse.staging() as staging:
        items = work_items(warehouse, NETWORK, day, staging.path)
        return [read for read in map(read_partition, items) if read is not None]


def connections(folder: Path, capture: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a capture's connections and the round trips of their spin bits."""
    read = partitions(folder, capture)
    tables = [quic_flows.rows(partition).to_pandas() for partition in read]
    found = pd.concat(tables, ignore_index=True)
    trips = []
    for partition, rows in zip(read, tables, strict=True):
        samples = pd.DataFrame(partition.quic.spin_samples[1])
        samples["flow_id"] = rows["flow_id"].to_numpy()[samples["connection"]]
        trips.append(samples)
    found["begun"] = found["start_ts"].astype("int64") / 1e6
    for name in ("user", "server", "setup_class", "spin"):
        found[name] = found[name].astype(object)
    return found, pd.concat(trips)


def matched(truth: pd.DataFrame, found: pd.DataFrame, start: str) -> pd.DataFrame:
    """Return the truth's connections with giscope's; start: the truth's column of the begin."""
    both = truth.assign(row=range(len(truth))).merge(found, on=KEY, suffixes=("", "_found"))
    late = both["begun"] - both[start]
    both = both[(late > -1e-4) & (late < MAX_BEGIN_S)]
    return both.sort_values("begun").drop_duplicates("row")


@pytest.fixture(scope="module", params=NETWORKS)
def recording(request, tmp_path_factory) -> Recording:
    folder = DATA / request.param
    found, trips = connections(tmp_path_factory.mktemp(request.param), folder / "gi.pcap.zst")
    truth = table(folder, "connections")
    both = matched(truth, found, "started")
    return Recording(request.param, found, truth, both, table(folder, "rtt"), trips)


def test_every_connection_is_found(recording):
    assert len(recording.both) == len(recording.truth)


def test_other_connections_are_moves_with_a_new_connection_id(recording):
    """Nobody can follow a client that moves on purpose (RFC 9000, 9.5)."""
    others = recording.found[~recording.found["flow_id"].isin(recording.both["flow_id"])]
    movers = recording.truth[recording.truth["scenario"] == "migrate"]
    assert not others["begin_seen"].any()
    assert set(others["user"]) <= set(movers["user"])
    assert len(others) == len(movers)


def test_set_ups_are_classified_right(recording):
    for row in recording.both.itertuples():
        if row.from_middle:
            assert pd.isna(row.setup_class)
            continue
        if row.result != "ok":
            expected = {row.result}
        elif row.version_negotiation:
            expected = {"version_negotiation"}
        elif row.retry:
            expected = {"retry"}
        elif row.initials_sent == 1:
            expected = {"optimal"}
        else:  # the answer may pass Gi before the Initial that the client repeats
            expected = {"optimal", "initial_repeated"}
        assert row.setup_class in expected, row


def test_first_message_in_two_datagrams_is_no_repetition(recording):
    """On GPRS, the second one is half a second later."""
    long = recording.both[recording.both["scenario"] == "long-hello"]
    assert set(long["setup_class"]) <= {"optimal"}
    assert long["rtt_internet"].notna().all()


def test_zero_rtt_is_right(recording):
    begun = recording.both[recording.both["begin_seen"]]
    assert (begun["zero_rtt_found"].astype(bool) == (begun["zero_rtt"] == 1)).all()


def test_versions_and_numbers_of_packets(recording):
    """Gi sees what the ends sent, but for what was lost before it."""
    begun = recording.both[recording.both["begin_seen"]]
    versions = begun["version"].map(lambda text: int(text, 16))
    assert (versions == begun["version_found"]).all()
    whole = begun[~begun["scenario"].isin(["migrate", "rebind"])].set_index(["user", "user_port"])
    lost = table(DATA / recording.name, "losses_unseen")
    ends = {
        "up": ("client", "access", ["src", "sport"]),
        "down": ("server", "internet", ["dst", "dport"]),
    }
    for way, (end, where, port) in ends.items():
        before_gi = lost[(lost["direction"] == way) & (lost["where"] == where)]
        unseen = before_gi.groupby(port).size().reindex(whole.index, fill_value=0)
        assert (whole[f"packets_{way}"] + unseen == whole[f"datagrams_sent_{end}"]).all()


def test_nat_rebinding_is_a_migration(recording):
    expected = recording.both["migrations"].where(recording.both["scenario"] == "rebind", 0)
    assert (recording.both["migrations_found"] == expected).all()


def test_setup_delay_is_the_clients(recording):
    """But for the difference of two delays of the uplink: 1,200 B take 3 to 530 ms there."""
    known = recording.both[recording.both["setup_delay"].notna()]
    error = known["setup_delay"] - (known["confirmed"] - known["started"])
    print(f"{recording.name}: {len(error)} set-up delays, {1e3 * error.abs().quantile(0.9):.1f} ms")
    completed = recording.both[(recording.both["result"] == "ok") & recording.both["begin_seen"]]
    assert len(known) == len(completed)
    assert error.abs().median() < {"gprs": 0.6, "umts": 0.02}.get(recording.name, 0.005)


def test_handshake_round_trips_are_the_clients_first_sample(recording):
    """On GPRS and UMTS, the ends repeat their first packets before they can have an answer."""
    first = recording.rtts[recording.rtts["side"] == "client"].drop_duplicates(KEY)
    both = recording.both.merge(first[[*KEY, "latest_rtt"]], on=KEY)
    both = both[(both["result"] == "ok") & both["begin_seen"]]
    error = both["rtt_access"] + both["rtt_internet"] - both["latest_rtt"]
    known = error.dropna()
    print(f"{recording.name}: {len(known)} of {len(both)}, {1e3 * known.abs().median():.1f} ms")
    if recording.name in ("lte", "reorder"):
        assert len(known) >= len(both) - 1
        assert known.abs().median() < 0.003


def test_spin_bits_are_distinguished_from_constants_and_random_values(recording):
    known = recording.both[recording.both["spin_found"].notna()]
    expected = known["spin"].map({"yes": "spins", "constant": "constant", "random": "no_signal"})
    assert (known["spin_found"] == expected).all()
    assert set(known["spin_found"]) == {"spins", "constant", "no_signal"}


def test_spin_round_trips_are_those_of_the_server(recording):
    """Each beside the server's latest RTT sample when the uplink edge arrived."""
    errors = []
    for row in recording.both.itertuples():
        samples = recording.rtts[
            (recording.rtts[KEY] == [getattr(row, name) for name in KEY]).all(axis=1)
            & (recording.rtts["side"] == "server")
        ].sort_values("t")
        trips = recording.round_trips[recording.round_trips["flow_id"] == row.flow_id]
        if len(samples):
            at = np.searchsorted(samples["t"], trips["ts"] / 1e6).clip(max=len(samples) - 1)
            errors += list(trips["rtt"] / samples["latest_rtt"].to_numpy()[at] - 1)
    print(f"{recording.name}: {len(errors)} round trips, {100 * np.median(errors):+.1f} %")
    if recording.name != "gprs":
        assert len(errors) > 10
        assert abs(np.median(errors)) < 0.05


def one_a_round_trip(samples: pd.DataFrame) -> float:
    """Return the median of an end's RTT samples, of which one counts in each round trip."""
    kept, after = [], -np.inf
    for t, rtt in zip(samples["t"], samples["latest_rtt"], strict=True):
        if t >= after and rtt > 0:
            kept.append(rtt)
            after = t + rtt
    return float(np.median(kept)) if kept else np.nan


def spin_errors(recording: Recording) -> np.ndarray:
    """Return the relative errors of the connections' median RTTs by the spin bit."""
    known = recording.both[recording.both["spin_rtt_median"].notna()]
    of_server = recording.rtts[recording.rtts["side"] == "server"].sort_values("t")
    truth = of_server.groupby(KEY).apply(one_a_round_trip).rename("truth")
    return (known.merge(truth, on=KEY).eval("spin_rtt_median / truth - 1")).to_numpy()


def test_median_of_the_spin_bit_is_the_servers(recording):
    """The server of an upload has samples of its first packets only."""
    downloads = recording.both["scenario"] != "upload"
    errors = spin_errors(recording._replace(both=recording.both[downloads]))
    right = np.mean(np.abs(errors) <= 0.1)
    print(f"{recording.name}: {len(errors)} medians, {100 * np.median(errors):+.1f} %, {right:.0%}")
    if recording.name in ("lte", "reorder", "satellite"):
        assert abs(np.median(errors)) < 0.05
        assert len(errors) >= 12
        assert right >= 0.8


def cut_capture(capture: Path, snap: int, target: Path) -> Path:
    """Write a capture with a shorter snap length, and return its path."""
    packed = capture.read_bytes()
    unpack = zstandard.ZstdDecompressor().stream_reader
    data = gzip.decompress(packed) if capture.suffix == ".gz" else unpack(packed).read()
    out, at = [data[:24]], 24
    while at < len(data):
        seconds, fraction, kept, on_wire = struct.unpack_from("<IIII", data, at)
        size = min(kept, snap)
        out.append(struct.pack("<IIII", seconds, fraction, size, on_wire))
        out.append(data[at + 16 : at + 16 + size])
        at += 16 + kept
    target.write_bytes(b"".join(out))
    return target


def check_cut(whole: pd.DataFrame, cut: pd.DataFrame) -> None:
    """Check that each value of a cut capture is null or that of the whole one.

    A set-up delay may be that of the packet before, if that makes no difference.
    """
    both = whole.merge(cut, on="flow_id", suffixes=("", "_cut"))
    assert len(both) == len(cut) == len(whole)
    for column in QUIC_FLOWS.columns:
        if column.name != "flow_id":
            of_whole, of_cut = both[column.name], both[f"{column.name}_cut"]
            known = of_cut.notna()
            if column.name == "setup_delay":
                assert (of_cut[known] / of_whole[known]).between(0.98, 1.02).all()
                print(f"{known.sum()} of {of_whole.notna().sum()} set-up delays")
            else:
                assert (of_cut[known] == of_whole[known]).all(), column.name


@pytest.mark.integration
@pytest.mark.parametrize("snap", [80, 96, 128, 200])
def test_what_a_shorter_snap_length_hides_is_null(recording, snap, tmp_path):
    capture = DATA / recording.name / "gi.pcap.zst"
    found, _ = connections(tmp_path / "W", cut_capture(capture, snap, tmp_path / "gi.pcap"))
    check_cut(recording.found, found)


@pytest.mark.integration
@pytest.mark.parametrize("snap", [80, 96, 128])
@pytest.mark.parametrize("folder", sorted(STACKS.iterdir()), ids=lambda folder: folder.name)
def test_what_a_shorter_snap_length_hides_of_other_stacks_is_null(folder, snap, tmp_path):
    whole, _ = connections(tmp_path / "whole", folder / "gi.pcap.gz")
    cut = cut_capture(folder / "gi.pcap.gz", snap, tmp_path / "gi.pcap")
    check_cut(whole, connections(tmp_path / "cut", cut)[0])


@pytest.fixture(scope="module")
def stacks(tmp_path_factory) -> pd.DataFrame:
    """Return the connections of all inputs in STACKS, with giscope's; input: the folder's name."""
    tables = []
    for folder in sorted(STACKS.iterdir()):
        found, _ = connections(tmp_path_factory.mktemp(folder.name), folder / "gi.pcap.gz")
        truth = pd.read_csv(folder / "connections.csv")
        both = matched(truth, found, "start")
        assert len(both) == len(truth), folder.name
        tables.append(both.assign(input=folder.name))
    return pd.concat(tables, ignore_index=True)


def test_set_ups_of_other_stacks(stacks):
    assert (stacks["setup_class"].fillna(stacks["outcome"]) == stacks["outcome"]).all()
    assert stacks["setup_class"].notna().mean() > 0.95
    known = stacks["setup_delay"].notna()
    ratio = stacks["setup_delay"][known] / stacks["setup_gi"][known]
    assert ratio.between(0.98, 1.02).all()
    assert known.sum() >= 0.9 * stacks["setup_gi"].notna().sum()


def test_zero_rtt_of_other_stacks(stacks):
    known = stacks[stacks["zero_rtt_found"].notna()]
    assert (known["zero_rtt_found"].astype(bool) == (known["zero_rtt"] == 1)).all()
    assert known["zero_rtt"].sum() >= 5


def test_volumes_of_other_stacks(stacks):
    """But of clients that move on purpose, and of two whose addresses a NAT changed with that."""
    together = stacks[~stacks["scenario"].isin(["migrate", "pmigrate", "rebind"])]
    for name in ("packets_up", "packets_down", "ip_bytes_up", "ip_bytes_down"):
        assert (together[name] == together[f"{name}_found"]).all(), name


def test_spin_bits_of_other_stacks(stacks):
    known = stacks[stacks["spin"].notna() & stacks["spin_found"].notna()]
    assert (known["spin"] == known["spin_found"]).all()
    medians = stacks[stacks["spin_rtt_median"].notna()]
    errors = medians["spin_rtt_median"] / medians["spin_rtt_server"] - 1
    print(f"{len(errors)} medians, {100 * errors.median():+.1f} %")
    assert len(errors) >= 3
    assert abs(errors.median()) < 0.05
    assert (errors.abs() <= 0.1).mean() >= 0.8
