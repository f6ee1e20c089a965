"""Reassembly of fragmented datagrams: all fragments of a datagram become one packet.

RFC 791, 3.2 and RFC 8200, 4.5: the fragments of a datagram share its endpoints, its identification
and, in IPv4, its protocol. Each states the position of its data in the datagram, and whether more
fragments follow. The headers state the lengths, so fragments that the capture cut short are joined,
too. A datagram with overlapping fragments is dropped, as hosts do (RFC 5722; in IPv4 for the same
reasons: RFC 1858).

The joined packet has the TCP header of the first fragment and the length of the whole datagram. Its
timestamp and frame number are those of the frame that completed it, because the receiver has
nothing of the datagram before. It does not include IPv6's fragment header.

Each batch is processed by itself. Datagrams that may continue in the next batch are moved there.
"""

from collections.abc import Iterator

import numpy as np

from spark_jobs.capture import record
from spark_jobs.capture.reader import PacketBatch, ReadStats
from spark_jobs.compiled import compiled, inner

TIMEOUT_US = 30_000_000
"""Time after a datagram's first fragment within which the others must arrive (µs), as in Linux.

RFC 791 advises 15 s; RFC 8200 (4.5) has 60 s.
"""
MAX_FRAGMENTS = 128
"""Maximum number of fragments of a datagram: the largest one comes in 119 over links of 576 bytes.
"""
MAX_HELD_ROWS = 1 << 16
"""Maximum number of rows that are moved to the next batch."""
MAX_DATAGRAM_BYTES = 65_535
"""Largest datagram (B): RFC 791; RFC 8200, without the 40 bytes of IPv6's header."""
FRAGMENT_HEADER_BYTES, IPV6_HEADER_BYTES = 8, 40

KEPT, UNJOINED, HELD, JOINED, DUPLICATE, OVERLAPPING = range(6)
"""Fates of a row.

KEPT: it stays
UNJOINED: it stays, as a fragment
HELD: fragments of the next batch may complete its datagram
JOINED: it is part of another row
DUPLICATE: it came twice
OVERLAPPING: its datagram is dropped
"""
FATE_REASONS = {
    UNJOINED: "fragments_unjoined",
    JOINED: "fragments_joined",
    DUPLICATE: "duplicate",
    OVERLAPPING: "fragments_overlapping",
}
"""Reasons of schemas.SKIP_REASONS by fate."""
OPEN, COMPLETE, CONTRADICTORY, DROPPED = range(4)
"""States of a datagram."""
PENDING = np.dtype(
    [
        ("start", "i8"),
        ("ts", "i8"),
        ("first_row", "i8"),
        ("pieces", "i8"),
        ("data_bytes", "i8"),
        ("datagram_bytes", "i8"),
        ("state", "u1"),
    ],
    align=True,
)
"""The datagram whose fragments are being joined.

start: index in the order of its first fragment to arrive
ts: timestamp of that fragment (µs)
first_row: row of the fragment with offset 0
pieces: number of its fragments so far
data_bytes: number of its bytes so far (B)
datagram_bytes: bytes of the whole datagram (B), 0 until the last fragment arrives
state: OPEN, COMPLETE, CONTRADICTORY or DROPPED
"""


def join_fragments(batches: Iterator[PacketBatch], stats: ReadStats) -> Iterator[PacketBatch]:
    """Yield the batches of a file with one row for each datagram of which all fragments arrived.

    No batch is empty. Rows that do not stay are counted in stats.skipped, by FATE_REASONS. A batch
    is valid until the next one is requested. A batch without fragments is yielded unchanged.
    """
    held: PacketBatch | None = None
    for batch in batches:
        if held is not None:
            batch = _prepend(held, batch)
            held = None
        if batch.rows["fragment"].any():
            batch, held = _join_batch(batch, stats)
        if len(batch.rows):
            yield batch
    if held is not None:
        stats.skipped[FATE_REASONS[UNJOINED]] += len(held.rows)
        yield held


def _join_batch(batch: PacketBatch, stats: ReadStats) -> tuple[PacketBatch, PacketBatch | None]:
    """Return the batch with its datagrams joined, and the rows of incomplete datagrams."""
    rows = batch.rows
    row_indices = np.flatnonzero(rows["fragment"])
    fragments = rows[row_indices]
    protocol = np.where(fragments["has"] & record.HAS_IP_ID, fragments["ip_proto"], 0)
    keys = (
        protocol,
        fragments["datagram_id"],
        fragments["server"],
        fragments["user"],
        fragments["downlink"],
    )
    fates = np.zeros(len(rows), np.uint8)
    pieces = np.zeros((2, MAX_FRAGMENTS), np.int64)
    _join_rows(rows, row_indices[np.lexsort(keys)], fates, np.zeros(1, PENDING), *pieces)
    for fate, count in enumerate(np.bincount(fates).tolist()):
        if count and fate in FATE_REASONS:
            stats.skipped[FATE_REASONS[fate]] += count
    held = _copy_rows(batch, np.flatnonzero(fates == HELD)) if (fates == HELD).any() else None
    return batch.select(fates <= UNJOINED), held


def _copy_rows(batch: PacketBatch, row_indices: np.ndarray) -> PacketBatch:
    """Return some rows of a batch as a batch that stays valid when the next one is requested."""
    rows = batch.rows[row_indices]
    with_sack = np.flatnonzero(rows["has"] & record.HAS_SACK)
    counts = rows["sack_edges"][with_sack].astype(np.int64)
    ends = np.cumsum(counts)
    edge_index = np.repeat(rows["sack_offset"][with_sack] - (ends - counts), counts)
    edges = batch.edges[edge_index + np.arange(len(edge_index))]
    rows["sack_offset"][with_sack] = ends - counts
    return PacketBatch(rows, edges, batch.addresses)


def _prepend(held: PacketBatch, batch: PacketBatch) -> PacketBatch:
    """Return the batch with the held rows of an earlier batch before its own.

    The held rows' addresses are added to the batch's table and renumbered.
    """
    batch.addresses.reserve(2 * len(held.rows))
    numbers = np.zeros(len(held.addresses) + 1, np.int32)
    for number in np.unique([held.rows["user"], held.rows["server"]]).tolist():
        high, low, mark = held.addresses.entries[number].tolist()
        numbers[number] = batch.addresses.add(high, low, mark >> 1)
    rows = held.rows
    rows["user"], rows["server"] = numbers[rows["user"]], numbers[rows["server"]]
    rows["sack_offset"] += len(batch.edges)
    edges = np.concatenate([batch.edges, held.edges])
    joined = np.concatenate([rows, batch.rows], dtype=record.ROW)
    return PacketBatch(joined, edges, batch.addresses)


@inner
def _same_datagram(fragment, other):
    """Return whether two fragments are of one datagram, apart from the time of their arrival.

    The protocols may differ in IPv6: only the first fragment has the headers after the fragment
    header.
    """
    same = fragment.user == other.user and fragment.server == other.server
    same &= fragment.downlink == other.downlink and fragment.datagram_id == other.datagram_id
    return same and (fragment.ip_proto == other.ip_proto or not fragment.has & record.HAS_IP_ID)


@inner
def _is_valid_fragment(row, begin, end):
    """Return whether a fragment is valid.

    It must have data, in units of 8 bytes except for the last fragment. It must lie within the
    largest datagram (otherwise it is a "ping of death").
    """
    size, headers = end - begin, np.int64(row.header_len)
    if not row.has & record.HAS_IP_ID:
        headers -= IPV6_HEADER_BYTES + FRAGMENT_HEADER_BYTES
    if row.header_len == 0 or size <= 0 or headers + end > MAX_DATAGRAM_BYTES:
        return False
    return size % 8 == 0 or not row.fragment & record.MORE_FRAGMENTS


@inner
def _write_datagram(rows, first_row, last_row, size):
    """Overwrite rows[last_row] with the whole datagram.

    first_row: row of the first fragment, whose header is used
    last_row: row of the fragment that completed the datagram, whose time is used
    size: bytes of the whole datagram's data (B)
    """
    ts, frame = rows[last_row].ts, rows[last_row].frame
    rows[last_row] = rows[first_row]
    row = rows[last_row]
    row.ts, row.frame, row.fragment = ts, frame, 0
    header_bytes = np.int64(row.header_len)
    if row.has & record.HAS_TCP:
        row.payload_len += size - (np.int64(row.ip_len) - header_bytes)
    if not row.has & record.HAS_IP_ID:
        header_bytes -= FRAGMENT_HEADER_BYTES
    row.ip_len = header_bytes + size


@inner
def _add_fragment(row, datagram, begins, ends):
    """Add a fragment to its datagram, a PENDING with the pieces begins[i] to ends[i].

    Returns DUPLICATE if the fragment is already there, otherwise UNJOINED. Sets the datagram's
    state.
    """
    begin = np.int64(row.fragment & record.FRAGMENT_OFFSET) * 8
    end = begin + np.int64(row.ip_len) - np.int64(row.header_len)
    is_last = not row.fragment & record.MORE_FRAGMENTS
    if not _is_valid_fragment(row, begin, end):
        datagram.state = CONTRADICTORY
        return UNJOINED
    i = datagram.pieces
    while i > 0 and begins[i - 1] >= begin:
        i -= 1
    if i < datagram.pieces and begins[i] == begin and ends[i] == end:
        return DUPLICATE
    if (i < datagram.pieces and begins[i] < end) or (i > 0 and ends[i - 1] > begin):
        datagram.state = DROPPED
    elif (
        datagram.pieces == MAX_FRAGMENTS
        or (is_last and (i < datagram.pieces or datagram.datagram_bytes))
        or 0 < datagram.datagram_bytes < end
    ):
        datagram.state = CONTRADICTORY
    else:
        for k in range(datagram.pieces, i, -1):
            begins[k], ends[k] = begins[k - 1], ends[k - 1]
        begins[i], ends[i] = begin, end
        datagram.pieces += 1
        datagram.data_bytes += end - begin
        if is_last:
            datagram.datagram_bytes = end
        if datagram.data_bytes == datagram.datagram_bytes:
            datagram.state = COMPLETE
    return UNJOINED


@inner
def _set_fates(fates, row_indices, fate):
    """Set the fate of a datagram's fragments, except for duplicates."""
    for row_index in row_indices:
        if fates[row_index] == UNJOINED:
            fates[row_index] = fate


@compiled
def _join_rows(rows, order, fates, pending, begins, ends):
    """Join the fragments among rows, record.ROW[n], in place.

    The row of the fragment that completes a datagram becomes the datagram.

    order: int64[..], indices of the fragments; those of one datagram are adjacent, in order of
        arrival
    fates: uint8[n], set for these rows
    pending: PENDING[1], room for one datagram
    begins, ends: int64[MAX_FRAGMENTS], room for its pieces
    """
    datagram, held_rows = pending[0], 0
    oldest_open_ts = rows[len(rows) - 1].ts - TIMEOUT_US
    for k in range(len(order)):
        row_index = order[k]
        row = rows[row_index]
        if (
            k == 0
            or not _same_datagram(row, rows[order[k - 1]])
            or datagram.state == COMPLETE
            or abs(row.ts - datagram.ts) > TIMEOUT_US
        ):
            (
                datagram.state,
                datagram.start,
                datagram.ts,
                datagram.pieces,
                datagram.data_bytes,
                datagram.datagram_bytes,
            ) = OPEN, k, row.ts, 0, 0, 0
        fates[row_index] = UNJOINED
        if datagram.state == OPEN:
            fates[row_index] = _add_fragment(row, datagram, begins, ends)
            if datagram.state == DROPPED:
                _set_fates(fates, order[datagram.start : k], OVERLAPPING)
            elif fates[row_index] != DUPLICATE and row.fragment & record.FRAGMENT_OFFSET == 0:
                datagram.first_row = row_index
        if datagram.state == DROPPED:
            fates[row_index] = OVERLAPPING
        elif datagram.state == COMPLETE:
            _set_fates(fates, order[datagram.start : k], JOINED)
            fates[row_index] = KEPT
            _write_datagram(rows, datagram.first_row, row_index, datagram.datagram_bytes)
        elif (
            datagram.state == OPEN
            and datagram.ts >= oldest_open_ts
            and held_rows + k + 1 - datagram.start <= MAX_HELD_ROWS
        ):
            if k + 1 == len(order) or not _same_datagram(row, rows[order[k + 1]]):
                _set_fates(fates, order[datagram.start : k + 1], HELD)
                held_rows += k + 1 - datagram.start
