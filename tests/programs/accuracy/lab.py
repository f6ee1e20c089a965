"""Compares a lab capture's inferred losses with the true ones."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from schemas import FLOWS, LOSSES, PACKETS
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.settings.networks import Network
from spark_jobs.tables.day_plan import WorkItem, work_items
from spark_jobs.tables.day_tables import make_flows, read_partition
from spark_jobs.tables.registry import ROWS
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.targets import table_name

NETWORK = Network.model_validate(
    {
        "name": "lab",
        "country": "AA",
        "access": "lte",
        "timezone": "Europe/Budapest",
        "subscribers": ["10.64.0.0/14", "7.0.0.0/8"],
        "pseudonyms": "none",  # the ground truth has addresses
    }
)
"""The lab's mobiles, and those of ns-3."""
NS3_MIN_RTO_S = 1.0
"""ns-3's TCP takes the RTO's minimum of RFC 6298, and not Linux's."""


@dataclass(frozen=True)
class Recording:
    """A capture with its ground truth."""

    capture: Path
    """The pcap."""
    lost_frames: Path
    """CSV (frame, fate) of the downlink frames that were not delivered, fate 'queued' for those
    still in the buffer at the end."""
    unseen: Path
    """The lab's losses_unseen.csv: packets that Gi never saw."""


@dataclass(frozen=True)
class Counts:
    """Numbers of downlink data packets lost on one side of Gi: truly, inferred, both; the expected
    losses: the sum of probabilities."""

    lost: int
    inferred: int
    hits: int
    expected: float

    @property
    def precision(self) -> float:
        return self.hits / self.inferred if self.inferred else float("nan")

    @property
    def recall(self) -> float:
        return self.hits / self.lost if self.lost else float("nan")


@dataclass(frozen=True)
class Accuracy(Counts):
    """One capture. Access side, by frame: what Counts has, downlink data frames in all; those of
    the true losses that the evidence leaves undecided, and of these the ones inferred; what the
    simple rule ('retransmitted later: lost') infers, and both of it. Internet side: what Gi never
    saw."""

    data: int
    undecided: int
    undecided_hits: int
    simple: int
    simple_hits: int
    unseen: Counts

    @property
    def decided_recall(self) -> float:
        """The recall of the losses whose evidence was observed."""
        decided = self.lost - self.undecided
        return (self.hits - self.undecided_hits) / decided if decided else float("nan")


def ingested(folder: Path, capture: Path, network: Network) -> Warehouse:
    """Makes a new warehouse in a folder, with a capture's packets."""
    warehouse = Warehouse(folder)
    result = ingest_capture(warehouse, network, capture)
    assert result.error is None, result.error
    return warehouse


def measure(recording: Recording, network: Network) -> Accuracy:
    """Measures a recording by the whole flows job."""
    with TemporaryDirectory() as folder:
        warehouse = ingested(Path(folder), recording.capture, network)
        tables = job_tables(warehouse, network)
        packets = _packets(warehouse)
        simple = _retransmitted_later(warehouse)
    fates = _Fates.read(recording.lost_frames, packets)
    frames, true = fates.data, fates.lost
    losses = tables[LOSSES.name]
    access = losses.filter(pc.equal(losses["side"], "access"))
    of_frame = dict(
        zip(access["frame"].to_pylist(), access["probability"].to_pylist(), strict=True)
    )
    evidence = dict(zip(access["frame"].to_pylist(), access["evidence"].to_pylist(), strict=True))
    inferred = {f for f, p in of_frame.items() if p > 0.5} & frames
    by_simple_rule = simple & frames
    return Accuracy(
        data=len(frames),
        lost=len(true),
        inferred=len(inferred),
        hits=len(true & inferred),
        expected=sum(p for f, p in of_frame.items() if f in frames),
        undecided=sum(evidence.get(f) == "undecided" for f in true),
        undecided_hits=sum(evidence.get(f) == "undecided" for f in true & inferred),
        simple=len(by_simple_rule),
        simple_hits=len(by_simple_rule & true),
        unseen=_match_unseen(recording.unseen, tables),
    )


def access_counts(warehouse: Warehouse, lost_frames: Path, network: Network) -> Counts:
    """Counts the losses on the access side of an ingested recording, by only their estimator."""
    fates = _Fates.read(lost_frames, _packets(warehouse))
    probability: dict[int, float] = {}
    with warehouse.staging() as staging:
        items = [
            item
            for day in sorted(_days(warehouse))
            for item in work_items(warehouse, network, day, staging.path)
        ]
    for item in items:
        probability.update(_probabilities(item))
    inferred = {f for f, p in probability.items() if p > 0.5} & fates.data
    return Counts(
        lost=len(fates.lost),
        inferred=len(inferred),
        hits=len(fates.lost & inferred),
        expected=float(sum(p for f, p in probability.items() if f in fates.data)),
    )


def _probabilities(item: WorkItem) -> Iterator[tuple[int, float]]:
    """Returns (frame, probability) of the item's packets that may have been lost on the access
    side."""
    partition = read_partition(item)
    if partition is None:
        return iter(())
    probability = partition.access_losses.probability
    at = np.flatnonzero(probability > 0)
    at = at[partition.connections.starts_in_window[partition.connection_of(at)]]
    frame = partition.packets.frame[partition.segments.place[at]]
    return zip(frame.tolist(), probability[at].tolist(), strict=True)


@dataclass(frozen=True)
class _Fates:
    """Downlink data frames whose fate the ground truth has, and those of them that were lost."""

    data: set[int]
    lost: set[int]

    @classmethod
    def read(cls, lost_frames: Path, packets: pa.Table) -> "_Fates":
        table = pyarrow.csv.read_csv(stream(lost_frames))
        fates = list(zip(table["frame"].to_pylist(), table["fate"].to_pylist(), strict=True))
        data = pc.and_(packets["downlink"], pc.greater(packets["payload_len"], 0)).fill_null(False)
        frames = set(packets["frame"].filter(data).to_pylist())
        frames -= {frame for frame, fate in fates if fate == "queued"}
        return cls(frames, {frame for frame, fate in fates if fate != "queued"} & frames)


def downlink_frames(warehouse: Warehouse) -> list[int]:
    """Returns the frames to subscribers, in order."""
    packets = _packets(warehouse)
    return sorted(packets["frame"].filter(packets["downlink"]).to_pylist())


def _packets(warehouse: Warehouse) -> pa.Table:
    """Returns frame, direction and payload of all packets."""
    return pa.concat_tables(
        pq.read_table(path, columns=["frame", "downlink", "payload_len"])
        for path in warehouse.files(PACKETS)
    )


def job_tables(warehouse: Warehouse, network: Network) -> dict[str, pa.Table]:
    """Returns the tables that the flows job makes of all days."""
    parts: dict[str, list[pa.Table]] = {table.name: [] for table in ROWS}
    with warehouse.staging() as staging:
        for day in sorted(_days(warehouse)):
            for item in work_items(warehouse, network, day, staging.path):
                made = make_flows(item)
                for file in (*made.files, *made.going_on):
                    name = table_name(file.staged.target)
                    parts[name].append(pq.read_table(file.staged.path, partitioning=None))
    return {
        table.name: pa.concat_tables(parts[table.name], promote_options="permissive")
        if parts[table.name]
        else table.arrow_dictionary.empty_table()
        for table in ROWS
    }


def _days(warehouse: Warehouse) -> set[datetime.date]:
    names = [path.parent.name for path in warehouse.files(PACKETS)]
    return {datetime.date.fromisoformat(name.removeprefix("date=")) for name in names}


def stream(path: Path) -> pa.NativeFile:
    """Returns a file's bytes, decompressed as its name indicates."""
    return pa.input_stream(path, compression="detect")


def _retransmitted_later(warehouse: Warehouse) -> set[int]:
    """Applies the simple rule: returns frames of data that passed Gi once more on the same
    5-tuple."""
    rows = (
        warehouse.connect()
        .sql("""
            with data as (
                select "user", user_port, server, server_port, seq, payload_len, frame
                from packets where downlink and payload_len > 0
            )
            select frame from data
            where exists (
                select 1 from data as later
                where later."user" = data."user" and later.user_port = data.user_port
                    and later.server = data.server and later.server_port = data.server_port
                    and later.seq = data.seq and later.frame > data.frame
            )
        """)
        .fetchall()
    )
    return {frame for (frame,) in rows}


def _match_unseen(unseen: Path, tables: dict[str, pa.Table]) -> Counts:
    """Matches events with losses: where the connection and the sequence number agree."""
    events = pyarrow.csv.read_csv(stream(unseen)).to_pylist()
    # 52 bytes are the headers with timestamps; a SYN ACK has up to 60; 64: and a D-SACK block
    true = [
        e for e in events
        if e["where"] == "internet" and e["direction"] == "down" and (e["ip_len"] or 0) > 60
        and e["ip_len"] != 64
    ]  # fmt: skip
    flows = {f["flow_id"]: f for f in tables[FLOWS.name].to_pylist()}
    losses = tables[LOSSES.name]
    found = losses.filter(pc.equal(losses["side"], "internet")).to_pylist()
    holes: dict[tuple, list[tuple[int, int]]] = {}
    for row in found:
        f = flows[row["flow_id"]]
        key = (f["user"], f["user_port"], f["server"], f["server_port"])
        holes.setdefault(key, []).append((row["seq"], row["payload_len"]))
    hits = 0
    for e in true:
        key = (e["dst"], e["dport"], e["src"], e["sport"])
        mine = holes.get(key, [])
        for k, (seq, size) in enumerate(mine):
            if (e["seq"] - seq) % 2**32 < size or (seq - e["seq"]) % 2**32 < e["ip_len"] - 40:
                hits += 1
                del mine[k]
                break
    expected = pc.sum(tables[FLOWS.name]["lost_internet_expected"]).as_py() or 0.0
    return Counts(len(true), len(found), hits, expected)


def lost_frames_csv(frames: Path, capture_frames: list[int], target: Path) -> None:
    """Writes the short form that `measure` reads, from the lab's frames.csv.gz (fate of every
    frame)."""
    table = pyarrow.csv.read_csv(stream(frames))
    lost = table.filter(pc.not_equal(table["fate"], "delivered"))
    known = set(table["frame"].to_pylist())
    queued = [f for f in capture_frames if f not in known]
    out = pa.table(
        {
            "frame": pa.concat_arrays(
                [lost["frame"].combine_chunks().cast(pa.int64()), pa.array(queued, pa.int64())]
            ),
            "fate": pa.concat_arrays(
                [
                    lost["fate"].combine_chunks().cast(pa.string()),
                    pa.array(["queued"] * len(queued), pa.string()),
                ]
            ),
        }
    ).sort_by("frame")
    with pa.output_stream(target, compression="zstd") as sink:
        pyarrow.csv.write_csv(out, sink, pyarrow.csv.WriteOptions(quoting_style="none"))
