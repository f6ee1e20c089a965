"""The packet log of Zeek (zeek_scripts/) to runs of packet rows."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.zeek import ADDRESSES, PACKET_LOG
from spark_jobs.capture import decode
from spark_jobs.capture.reader import RUN_PACKETS, Reading, Run
from spark_jobs.capture.zeek_lines import Addresses, leave_out, microseconds, read_lines, valid

TCP_COLUMNS = ("tcp_flags", "seq", "ack", "window", "payload_len")
_HAS = {
    decode.HAS_PORTS: ("user_port", "server_port"),
    decode.HAS_IP_ID: ("ip_id",),
    decode.HAS_TCP: TCP_COLUMNS,
    decode.HAS_MSS: ("mss",),
    decode.HAS_WINDOW_SCALE: ("window_scale",),
    decode.HAS_TIMESTAMPS: ("ts_val", "ts_ecr"),
}
_NUMBERS = frozenset(decode.ROW.names or ()) - {"ts", *ADDRESSES}


def read_zeek_log(
    path: Path, prefixes: np.ndarray, reading: Reading, run_packets: int = RUN_PACKETS
) -> Iterator[Run]:
    """The packets of a log's subscribers, in runs of about `run_packets` rows.

    prefixes: see addresses.subscriber_prefixes. A packet's frame is the number of its row in the
    log. `reading` is kept up to date as runs come. Raises UserError where the file is no packet
    log of Zeek.
    """
    run = _Filling(path, prefixes, reading)
    for block in read_lines(path, PACKET_LOG, reading):
        for table, numbers, lines in block:
            run.add(table, numbers, lines)
        if run.n >= run_packets:
            yield run.finished()
            run.restart()
    if run.n:
        yield run.finished()


class _Filling:
    """A run that is being filled."""

    def __init__(self, path: Path, prefixes: np.ndarray, reading: Reading):
        self._path, self._prefixes, self._reading = path, prefixes, reading
        self._previous_ts = -(2**62)
        self.restart()

    def restart(self) -> None:
        self._rows: list[np.ndarray] = []
        self._edges: list[np.ndarray] = []
        self._addresses = Addresses(self._prefixes)
        self.n = self._used = 0

    def finished(self) -> Run:
        edges = np.concatenate(self._edges) if self._edges else np.empty(0, np.uint32)
        return Run(np.concatenate(self._rows), edges, self._addresses.table)

    def add(self, table: pa.Table, numbers: np.ndarray, lines: np.ndarray) -> None:
        """The rows that are sound: a line is malformed where a required value is missing or one
        contradicts another."""
        rows = np.zeros(len(table), decode.ROW)
        rows["frame"] = numbers
        sound = self._fill(rows, table)
        leave_out(self._reading, self._path, lines, ~sound, "malformed_line")
        timely = rows["ts"] >= 0
        leave_out(self._reading, self._path, lines, sound & ~timely, "implausible_time")
        keep = sound & timely
        ours = self._addresses.is_subscriber(rows["user"])
        if strangers := int((keep & ~ours).sum()):
            self._reading.skipped["not_subscriber"] += strangers
        self._count_clock(rows["ts"][keep])
        rows = rows[keep & ours]
        if len(rows):
            self._rows.append(rows)
            self.n += len(rows)

    def _count_clock(self, ts: np.ndarray) -> None:
        if len(ts):
            before = np.concatenate(([self._previous_ts], ts[:-1]))
            if back := int((ts < before - decode.CLOCK_SLACK_US).sum()):
                self._reading.skipped["clock_backwards"] += back
            self._previous_ts = int(ts[-1])

    def _fill(self, rows: np.ndarray, table: pa.Table) -> np.ndarray:
        """Values into the rows; returns which rows are sound."""
        there = {name: valid(table, name) for name in PACKET_LOG.fields}
        sound = np.logical_and.reduce([there[name] for name in PACKET_LOG.required])
        for name in table.column_names:
            if name in _NUMBERS:
                kind = table[name].type
                zero = False if pa.types.is_boolean(kind) else 0
                rows[name] = table[name].fill_null(zero).to_numpy()
        rows["ts"] = microseconds(table["ts"])
        for flag, names in _HAS.items():
            each = [there[name] for name in names]
            whole = np.logical_and.reduce(each)
            rows["has"] |= np.where(whole, flag, 0).astype(np.uint16)
            sound &= whole == np.logical_or.reduce(each)
        if "sack_permitted" in table.column_names:
            permitted = table["sack_permitted"].fill_null(False).to_numpy()
            rows["has"] |= np.where(permitted, decode.HAS_SACK_PERMITTED, 0).astype(np.uint16)
        for name in ADDRESSES:
            rows[name] = self._addresses.numbers(table[name])
            sound &= rows[name] > 0
        if "sack" in table.column_names:
            sound &= self._sack(rows, table["sack"], there["sack"])
        return sound

    def _sack(self, rows: np.ndarray, column: pa.ChunkedArray, there: np.ndarray) -> np.ndarray:
        sound = np.ones(len(rows), bool)
        if there.any():
            counts = pc.list_value_length(column).fill_null(0).to_numpy()
            sound = ~there | ((counts % 2 == 0) & (counts > 0) & (counts <= decode.MOST_EDGES))
            edges = pc.list_flatten(column)
            sound &= ~_holds_null(column, edges)
            edges = edges.fill_null(0).to_numpy().astype(np.uint32)
            rows["sack_at"] = self._used + np.cumsum(counts) - counts
            rows["sack_edges"] = np.where(sound, counts, 0)
            rows["has"] |= np.where(there, decode.HAS_SACK, 0).astype(np.uint16)
            self._edges.append(edges)
            self._used += len(edges)
        return sound


def _holds_null(column: pa.ChunkedArray, edges: pa.ChunkedArray) -> np.ndarray:
    """bool[n]: lists with a null in them."""
    holds = np.zeros(len(column), bool)
    if edges.null_count:
        owner = pc.list_parent_indices(column).to_numpy()
        holds[owner[edges.is_null().to_numpy()]] = True
    return holds
