"""Conversion of Zeek's packet log (zeek_scripts/) to batches of packet rows."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.packets import QUIC_FORMS
from schemas.zeek import ADDRESSES, PACKET_LOG
from spark_jobs.capture import decode, record
from spark_jobs.capture.reader import BATCH_PACKETS, PacketBatch, ReadStats
from spark_jobs.capture.record import HAS_QUIC, HAS_QUIC_SPIN, QUIC_COLUMNS, QUIC_SPIN_SET
from spark_jobs.capture.untrusted import parser
from spark_jobs.capture.zeek_lines import (
    AddressNumbers,
    has_value,
    read_log_rows,
    skip_rows,
    to_microseconds,
)

QUIC_NEEDS = HAS_QUIC | record.HAS_PORTS
OF_TCP = record.HAS_TCP | record.HAS_MSS | record.HAS_WINDOW_SCALE | record.HAS_TIMESTAMPS
"""Flags of the fields that a row of QUIC's has, and of those whose places they take."""
_NUMERIC_FIELDS = frozenset(record.ROW.names or ()) - {"ts", *ADDRESSES, *record.OF_UDP}


@parser
def read_zeek_log(
    path: Path, prefixes: np.ndarray, stats: ReadStats, batch_packets: int = BATCH_PACKETS
) -> Iterator[PacketBatch]:
    """Yield the packets of a log's subscribers in batches of about `batch_packets` rows.

    prefixes: see addresses.subscriber_prefixes. A packet's frame is the number of its row in the
        log. `stats` is updated as batches are read. Raises UserError if the file is no packet log
        of Zeek.
    """
    builder = _BatchBuilder(path, prefixes, stats)
    for block in read_log_rows(path, PACKET_LOG, stats):
        for table, numbers, lines in block:
            builder.add(table, numbers, lines)
        if builder.row_count >= batch_packets:
            yield builder.build()
            builder.reset()
    if builder.row_count:
        yield builder.build()


class _BatchBuilder:
    """A batch that is being filled."""

    def __init__(self, path: Path, prefixes: np.ndarray, stats: ReadStats):
        self._path, self._prefixes, self._stats = path, prefixes, stats
        self._rows = np.empty(2 * BATCH_PACKETS, record.ROW)
        self._edges = np.empty(2 * BATCH_PACKETS, np.uint32)
        self.reset()

    def reset(self) -> None:
        self._addresses = AddressNumbers(self._prefixes)
        self.row_count = self._edge_count = 0

    def build(self) -> PacketBatch:
        """Return the batch, which is valid until the next row is added."""
        return PacketBatch(
            self._rows[: self.row_count], self._edges[: self._edge_count], self._addresses.table
        )

    def add(self, table: pa.Table, numbers: np.ndarray, lines: np.ndarray) -> None:
        """Add the valid rows of a table.

        A line is malformed if a required value is missing or one value contradicts another.
        """
        rows = np.zeros(len(table), record.ROW)
        rows["frame"] = numbers
        valid = self._fill_rows(rows, table)
        is_valid = skip_rows(self._stats, self._path, lines, valid, "malformed_line")
        plausible = {"ts": ~is_valid | (rows["ts"] >= 0)}
        is_valid &= skip_rows(self._stats, self._path, lines, plausible, "implausible_time")
        rows = rows[is_valid]
        self._reserve(len(rows), 0)
        self._rows[self.row_count : self.row_count + len(rows)] = rows
        self.row_count += self._keep_subscribers(
            self._rows[self.row_count : self.row_count + len(rows)]
        )

    def _keep_subscribers(self, rows: np.ndarray) -> int:
        """Move the subscribers' rows to the front, and return their number."""
        is_subscriber = self._addresses.is_subscriber(rows["user"])
        count = int(is_subscriber.sum())
        if count < len(rows):
            self._stats.skipped["not_subscriber"] += len(rows) - count
            rows[:count] = rows[is_subscriber]
        return count

    def _reserve(self, rows: int, edges: int) -> None:
        """Make room for further rows and edges."""
        self._rows = _with_room(self._rows, self.row_count, rows)
        self._edges = _with_room(self._edges, self._edge_count, edges)
        self._addresses.table.reserve(rows)

    def _fill_rows(self, rows: np.ndarray, table: pa.Table) -> dict[str, np.ndarray]:
        """Copy the table's values into the rows; return which rows are valid, by column."""
        present = {name: has_value(table, name) for name in PACKET_LOG.fields}
        valid = {name: present[name] for name in PACKET_LOG.required}
        for name in table.column_names:
            if name in _NUMERIC_FIELDS:
                kind = table[name].type
                zero = False if pa.types.is_boolean(kind) else 0
                rows[name] = table[name].fill_null(zero).to_numpy()
        rows["ts"] = to_microseconds(table["ts"])
        valid["quic_form"] = _fill_quic(rows, table, present)
        for flag, names in (record.NUMERIC_COLUMNS | _quic_columns_by_flag()).items():
            parts = [present[name] for name in names]
            complete = np.logical_and.reduce(parts)
            rows["has"] |= np.where(complete, flag, 0).astype(np.uint32)
            group = ", ".join(names)
            valid[group] = valid.get(group, True) & (complete == np.logical_or.reduce(parts))
        of_quic = np.logical_or.reduce([present[name] for name in (*QUIC_COLUMNS, "quic_spin")])
        valid["quic_form"] &= ~of_quic | (rows["has"] & (QUIC_NEEDS | OF_TCP) == QUIC_NEEDS)
        for name, flag in record.BOOLEAN_COLUMNS.items():
            if name in table.column_names:
                is_set = table[name].fill_null(False).to_numpy()
                rows["has"] |= np.where(is_set, flag, 0).astype(np.uint32)
        for name in ADDRESSES:
            rows[name] = self._addresses.numbers(table[name])
            valid[name] = valid[name] & (rows[name] > 0)
        if "sack" in table.column_names:
            valid["sack"] = self._fill_sack(rows, table["sack"], present["sack"])
        return valid

    def _fill_sack(
        self, rows: np.ndarray, column: pa.ChunkedArray, has_sack: np.ndarray
    ) -> np.ndarray:
        is_valid = np.ones(len(rows), bool)
        if has_sack.any():
            counts = pc.list_value_length(column).fill_null(0).to_numpy()
            is_valid = ~has_sack | (
                (counts % 2 == 0) & (counts > 0) & (counts <= decode.MAX_SACK_EDGES)
            )
            edges = pc.list_flatten(column)
            is_valid &= ~_holds_null(column, edges)
            edges = edges.fill_null(0).to_numpy().astype(np.uint32)
            rows["sack_offset"] = self._edge_count + np.cumsum(counts) - counts
            rows["sack_edges"] = np.where(is_valid, counts, 0)
            rows["has"] |= np.where(has_sack, record.HAS_SACK, 0).astype(np.uint32)
            self._reserve(0, len(edges))
            self._edges[self._edge_count : self._edge_count + len(edges)] = edges
            self._edge_count += len(edges)
        return is_valid


def _fill_quic(rows: np.ndarray, table: pa.Table, present: dict[str, np.ndarray]) -> np.ndarray:
    """Copy QUIC's values into the rows, and return which rows have no unknown form."""
    is_quic = present["quic_form"]
    if not is_quic.any():
        return np.ones(len(rows), bool)
    forms = pc.index_in(table["quic_form"], pa.array(list(QUIC_FORMS)))
    values = {name: table[name] for name in QUIC_COLUMNS if name in table.column_names}
    for name, column in (values | {"quic_form": forms}).items():
        rows[name] = np.where(is_quic, column.fill_null(0).to_numpy(), rows[name])
    if "quic_spin" in table.column_names:
        spin = table["quic_spin"].fill_null(False).to_numpy()
        rows["has"] |= np.where(present["quic_spin"], HAS_QUIC_SPIN, 0).astype(np.uint32)
        rows["has"] |= np.where(spin, QUIC_SPIN_SET, 0).astype(np.uint32)
    return ~is_quic | forms.is_valid().to_numpy()


def _quic_columns_by_flag() -> dict[int, tuple[str, ...]]:
    """Return QUIC's columns by their flags: a row has either all columns of a flag or none.

    A row with a form counts as one with the fixed bit: its writer has looked at that.
    """
    return {
        flag | (record.QUIC_FIXED_BIT if flag == HAS_QUIC else 0): tuple(
            name for name, its_flag in QUIC_COLUMNS.items() if its_flag == flag
        )
        for flag in dict.fromkeys(QUIC_COLUMNS.values())
    }


def _with_room(array: np.ndarray, used: int, count: int) -> np.ndarray:
    """Return the array, or a larger copy, with room for `count` elements after those in use."""
    if used + count <= len(array):
        return array
    larger = np.empty(2 * (used + count), array.dtype)
    larger[:used] = array[:used]
    return larger


def _holds_null(column: pa.ChunkedArray, edges: pa.ChunkedArray) -> np.ndarray:
    """Return which lists contain a null: bool[n]."""
    holds = np.zeros(len(column), bool)
    if edges.null_count:
        owner = pc.list_parent_indices(column).to_numpy()
        holds[owner[edges.is_null().to_numpy()]] = True
    return holds
