"""QUIC's connections beside the truth of both ends: aioquic and quinn over four emulated networks.

The truth is what the ends' programs sent and what their qlogs say (tests/programs/recordings/quic).
"""

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import zstandard
from conftest import ROOT

from spark_jobs.jobs.flows import days_with_packets
from spark_jobs.jobs.ingest import ingest_capture
from spark_jobs.tables import quic_flows
from spark_jobs.tables.day_plan import work_items
from spark_jobs.tables.day_tables import read_partition
from spark_jobs.tables.user_partition import UserPartition
from spark_jobs.warehouse.store import Warehouse
from tests.programs.accuracy.lab import NETWORK

DATA = ROOT / "tests/data/quic"
NETWORKS = ("gprs", "umts", "lte", "reorder")
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


@pytest.fixture(scope="module", params=NETWORKS)
def recording(request, tmp_path_factory) -> Recording:
    folder = DATA / request.param
    read = partitions(tmp_path_factory.mktemp(request.param), folder / "gi.pcap.zst")
    tables = [quic_flows.rows(partition).to_pandas() for partition in read]
    found = pd.concat(tables, ignore_index=True)
    trips = []
    for partition, rows in zip(read, tables, strict=True):
        samples = pd.DataFrame(partition.quic.spin_samples[1])
        samples["flow_id"] = rows["flow_id"].to_numpy()[samples["connection"]]
        trips.append(samples)
    found["begun"] = found["start_ts"].astype("int64") / 1e6
    for name in ("user", "server"):
        found[name] = found[name].astype(str)
    truth = table(folder, "connections")
    truth["row"] = range(len(truth))
    both = truth.merge(found, on=KEY, suffixes=("", "_found"))
    late = both["begun"] - both["started"]
    both = both[(late >= 0) & (late < MAX_BEGIN_S)].sort_values("begun").drop_duplicates("row")
    return Recording(request.param, found, truth, both, table(folder, "rtt"), pd.concat(trips))


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


def test_zero_rtt_is_seen_or_not_known(recording):
    """It follows the Initial in the same datagram, behind the snap length: then it is null."""
    begun = recording.both[recording.both["begin_seen"]]
    known = begun[begun["zero_rtt_found"].notna()]
    assert (known["zero_rtt_found"].astype(bool) == (known["zero_rtt"] == 1)).all()
    assert (known["stack"] == "quinn").sum() > 5


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
        assert len(known) == len(both)
        assert known.abs().median() < 0.002


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
    print(f"{recording.name}: {len(errors)} round trips")
    if recording.name != "gprs":
        assert len(errors) > 10
        assert abs(np.median(errors)) < 0.05
