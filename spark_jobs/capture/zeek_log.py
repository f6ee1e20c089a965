"""The packet log of Zeek (zeek_scripts/) to runs of packet rows."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.zeek import ADDRESSES, PACKET_LOG
from spark_jobs.capture import decode
from spark_jobs.capture.reader import RUN_PACKETS, Reading, Run
from spark_jobs.capture.untrusted import parser
from spark_jobs.capture.zeek_lines import (
    Addresses,
    Header,
    leave_out,
    microseconds,
    read_lines,
    valid,
)
from spark_jobs.capture.zeek_tsv import FIELDS, IGNORED, parse_packets

_PLACES = {name: place for place, name in enumerate(FIELDS)}
ROOM = 1 << 16
TSV = ("\t", "-", ",")
"""Separator, unset field and set separator that Zeek uses unless told otherwise."""
_NUMBERS = frozenset(decode.ROW.names or ()) - {"ts", *ADDRESSES}


@parser
def read_zeek_log(
    path: Path, prefixes: np.ndarray, reading: Reading, run_packets: int = RUN_PACKETS
) -> Iterator[Run]:
    """The packets of a log's subscribers, in runs of about `run_packets` rows.

    prefixes: see addresses.subscriber_prefixes. A packet's frame is the number of its row in the
    log. `reading` is kept up to date as runs come. Raises UserError where the file is no packet
    log of Zeek.
    """
    run = _Filling(path, prefixes, reading)
    for block in read_lines(path, PACKET_LOG, reading, run.take):
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
        self._rows = np.empty(2 * RUN_PACKETS, decode.ROW)
        self._edges = np.empty(2 * RUN_PACKETS, np.uint32)
        self.restart()

    def restart(self) -> None:
        self._addresses = Addresses(self._prefixes)
        self.n = self._used = 0

    def finished(self) -> Run:
        """The run, to be used before the next row is added."""
        return Run(self._rows[: self.n], self._edges[: self._used], self._addresses.table)

    def take(self, lines: bytes, at: int, header: Header, first: int) -> tuple[int, int]:
        """TSV lines in which all is in order; see zeek_lines.Take."""
        if (header.separator, header.unset, header.set_separator) != TSV:
            return 0, at
        columns = np.array([_PLACES.get(name, IGNORED) for name in header.fields], np.int64)
        text, taken, before = np.frombuffer(lines, np.uint8), 0, -1
        while taken != before and at < len(lines):
            self._make_room(ROOM, ROOM)
            before = taken
            at, end, self._used = parse_packets(
                text,
                at,
                columns,
                self._rows,
                self.n,
                first + taken,
                self._edges,
                self._used,
                self._addresses.table.entries,
                self._addresses.table.slots,
                self._prefixes,
            )
            taken += end - self.n
            self.n += self._keep(self._rows[self.n : end])
        return taken, at

    def add(self, table: pa.Table, numbers: np.ndarray, lines: np.ndarray) -> None:
        """The rows that are sound: a line is malformed where a required value is missing or one
        contradicts another."""
        rows = np.zeros(len(table), decode.ROW)
        rows["frame"] = numbers
        sound = self._fill(rows, table)
        leave_out(self._reading, self._path, lines, ~sound, "malformed_line")
        timely = rows["ts"] >= 0
        leave_out(self._reading, self._path, lines, sound & ~timely, "implausible_time")
        rows = rows[sound & timely]
        self._make_room(len(rows), 0)
        self._rows[self.n : self.n + len(rows)] = rows
        self.n += self._keep(self._rows[self.n : self.n + len(rows)])

    def _keep(self, rows: np.ndarray) -> int:
        """Move the subscribers' rows to the front; returns how many these are."""
        ours = self._addresses.is_subscriber(rows["user"])
        kept = int(ours.sum())
        if kept < len(rows):
            self._reading.skipped["not_subscriber"] += len(rows) - kept
            rows[:kept] = rows[ours]
        return kept

    def _make_room(self, rows: int, edges: int) -> None:
        """Room for so many more."""
        self._rows = _roomy(self._rows, self.n, rows)
        self._edges = _roomy(self._edges, self._used, edges)
        self._addresses.table.make_room(rows)

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
        for flag, names in decode.NUMBERS_OF.items():
            each = [there[name] for name in names]
            whole = np.logical_and.reduce(each)
            rows["has"] |= np.where(whole, flag, 0).astype(np.uint16)
            sound &= whole == np.logical_or.reduce(each)
        for name, flag in decode.TOLD.items():
            if name in table.column_names:
                yes = table[name].fill_null(False).to_numpy()
                rows["has"] |= np.where(yes, flag, 0).astype(np.uint16)
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
            self._make_room(0, len(edges))
            self._edges[self._used : self._used + len(edges)] = edges
            self._used += len(edges)
        return sound


def _roomy(held: np.ndarray, used: int, more: int) -> np.ndarray:
    """The array, or a larger copy, with room for more behind what is used."""
    if used + more <= len(held):
        return held
    larger = np.empty(2 * (used + more), held.dtype)
    larger[:used] = held[:used]
    return larger


def _holds_null(column: pa.ChunkedArray, edges: pa.ChunkedArray) -> np.ndarray:
    """bool[n]: lists with a null in them."""
    holds = np.zeros(len(column), bool)
    if edges.null_count:
        owner = pc.list_parent_indices(column).to_numpy()
        holds[owner[edges.is_null().to_numpy()]] = True
    return holds
