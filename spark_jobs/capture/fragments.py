"""Datagrams that came in fragments, joined to one packet each.

RFC 791, 3.2 and RFC 8200, 4.5: the fragments of a datagram share its ends, its identification and,
in IPv4, its protocol; each says where its data lies in the datagram, and whether more follows.
Their headers say how long they are, so fragments that the capture cut short are joined, too. A
datagram of which fragments overlap is dropped, as hosts do (RFC 5722; in IPv4 for the same reasons:
RFC 1858).

The joined packet has the TCP header of the first fragment, the length of the whole datagram, and
the time and the number of the frame that completed it: before that the receiver has nothing of it.
IPv6's fragment header is no part of it.

A run of packets is looked at by itself. Datagrams that may go on in the next run are handed on to
it.
"""

from collections.abc import Iterator

import numpy as np

from spark_jobs.capture import decode
from spark_jobs.capture.reader import PacketBatch, ReadStats
from spark_jobs.compiled import compiled, inner

TIMEOUT_US = 30_000_000
"""How long after the first fragment that came others belong to it: as in Linux. RFC 791 advises
15 s, RFC 8200 (4.5) has 60."""
MAX_FRAGMENTS = 128
"""Fragments of a datagram: the largest one, through links of 576 bytes, comes in 119."""
MAX_HELD_ROWS = 1 << 16
"""Rows that are handed on to the next run."""
MAX_DATAGRAM_BYTES = 65_535
"""RFC 791; RFC 8200: without the 40 bytes of IPv6's header."""
FRAGMENT_HEADER_BYTES, IPV6_HEADER_BYTES = 8, 40

KEPT, UNJOINED, HELD, JOINED, DUPLICATE, OVERLAPPING = range(6)
"""What becomes of a row: it stays; it stays, as a fragment; it may yet be joined with what the next
run has; it is part of another row; it came twice; its datagram is dropped."""
FATE_REASONS = {
    UNJOINED: "fragments_unjoined",
    JOINED: "fragments_joined",
    DUPLICATE: "duplicate",
    OVERLAPPING: "fragments_overlapping",
}
"""As schemas.SKIP_REASONS names them."""
OPEN, COMPLETE, CONTRADICTORY, DROPPED = range(4)
"""What a datagram is, so far."""
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
"""The datagram whose fragments are looked at: among them, the place and the time (us) of the first
that came; the row of that with offset 0; how many pieces and bytes there are; bytes of the whole, 0
where the last fragment has not come; what it is, so far."""


def join_fragments(batches: Iterator[PacketBatch], stats: ReadStats) -> Iterator[PacketBatch]:
    """The runs of a file with one row for each datagram whose fragments all came; none is empty.

    What becomes of the others' rows is counted in reading.skipped, by COUNTED. A run holds until
    the next is asked for. One that has no fragments is handed on as it is.
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
    """The run with its datagrams joined, and the rows of those that are not complete."""
    rows = batch.rows
    places = np.flatnonzero(rows["fragment"])
    fragments = rows[places]
    protocol = np.where(fragments["has"] & decode.HAS_IP_ID, fragments["ip_proto"], 0)
    keys = (
        protocol,
        fragments["datagram_id"],
        fragments["server"],
        fragments["user"],
        fragments["downlink"],
    )
    fates = np.zeros(len(rows), np.uint8)
    pieces = np.zeros((2, MAX_FRAGMENTS), np.int64)
    _join_rows(rows, places[np.lexsort(keys)], fates, np.zeros(1, PENDING), *pieces)
    for fate, count in enumerate(np.bincount(fates).tolist()):
        if count and fate in FATE_REASONS:
            stats.skipped[FATE_REASONS[fate]] += count
    held = _copy_rows(batch, np.flatnonzero(fates == HELD)) if (fates == HELD).any() else None
    return batch.select(fates <= UNJOINED), held


def _copy_rows(batch: PacketBatch, places: np.ndarray) -> PacketBatch:
    """Some rows of a run that hold though the next run is asked for."""
    rows = batch.rows[places]
    with_sack = np.flatnonzero(rows["has"] & decode.HAS_SACK)
    counts = rows["sack_edges"][with_sack].astype(np.int64)
    ends = np.cumsum(counts)
    edge_index = np.repeat(rows["sack_offset"][with_sack] - (ends - counts), counts)
    edges = batch.edges[edge_index + np.arange(len(edge_index))]
    rows["sack_offset"][with_sack] = ends - counts
    return PacketBatch(rows, edges, batch.addresses)


def _prepend(held: PacketBatch, batch: PacketBatch) -> PacketBatch:
    """The run with the rows of an earlier one before its own: addresses are numbered as in the run,
    to whose table they are added."""
    batch.addresses.reserve(2 * len(held.rows))
    numbers = np.zeros(len(held.addresses) + 1, np.int32)
    for number in np.unique([held.rows["user"], held.rows["server"]]).tolist():
        high, low, _ = held.addresses.entries[number].tolist()
        numbers[number] = batch.addresses.add(high, low)
    rows = held.rows
    rows["user"], rows["server"] = numbers[rows["user"]], numbers[rows["server"]]
    rows["sack_offset"] += len(batch.edges)
    edges = np.concatenate([batch.edges, held.edges])
    return PacketBatch(np.concatenate([rows, batch.rows]), edges, batch.addresses)


@inner
def _same_datagram(fragment, other):
    """Whether two fragments are of one datagram, but for when they came. IPv6's may have other
    protocols: those behind the fragment header are in the first one only."""
    same = fragment.user == other.user and fragment.server == other.server
    same &= fragment.downlink == other.downlink and fragment.datagram_id == other.datagram_id
    return same and (fragment.ip_proto == other.ip_proto or not fragment.has & decode.HAS_IP_ID)


@inner
def _is_valid_fragment(row, begin, end):
    """Whether a fragment may be one: it has data, up to the last in units of 8 bytes, and lies
    within the largest datagram (else it is a "ping of death")."""
    size, headers = end - begin, np.int64(row.header_len)
    if not row.has & decode.HAS_IP_ID:
        headers -= IPV6_HEADER_BYTES + FRAGMENT_HEADER_BYTES
    if row.header_len == 0 or size <= 0 or headers + end > MAX_DATAGRAM_BYTES:
        return False
    return size % 8 == 0 or not row.fragment & decode.MORE_FRAGMENTS


@inner
def _write_datagram(rows, first_row, last_row, size):
    """Make rows[last] the datagram: rows[first], the first fragment's, at the time of the last to
    come. size: bytes of the whole datagram's data."""
    ts, frame = rows[last_row].ts, rows[last_row].frame
    rows[last_row] = rows[first_row]
    row = rows[last_row]
    row.ts, row.frame, row.fragment = ts, frame, 0
    header_bytes = np.int64(row.header_len)
    if row.has & decode.HAS_TCP:
        row.payload_len += size - (np.int64(row.ip_len) - header_bytes)
    if not row.has & decode.HAS_IP_ID:
        header_bytes -= FRAGMENT_HEADER_BYTES
    row.ip_len = header_bytes + size


@inner
def _add_fragment(row, datagram, begins, ends):
    """Add a fragment to its datagram `of`, a PENDING whose pieces are begins[:n] to ends[:n].

    Returns DUPLICATE where it is there already, else UNJOINED; the state says what has become of
    the datagram.
    """
    begin = np.int64(row.fragment & decode.FRAGMENT_OFFSET) * 8
    end = begin + np.int64(row.ip_len) - np.int64(row.header_len)
    is_last = not row.fragment & decode.MORE_FRAGMENTS
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
def _set_fates(fates, places, fate):
    """Give a datagram's fragments a fate, but for those that came twice."""
    for place in places:
        if fates[place] == UNJOINED:
            fates[place] = fate


@compiled
def _join_rows(rows, order, fates, pending, begins, ends):
    """Join rows, decode.ROW[n], in place: a datagram's where it became complete.

    order: int64[..], the places of the fragments, those of one datagram side by side, as they came;
    fates: uint8[n], set for these; pending: PENDING[1], begins, ends: int64[MOST_FRAGMENTS], room
    for one datagram.
    """
    datagram, held_rows = pending[0], 0
    oldest_open_ts = rows[len(rows) - 1].ts - TIMEOUT_US
    for k in range(len(order)):
        place = order[k]
        row = rows[place]
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
        fates[place] = UNJOINED
        if datagram.state == OPEN:
            fates[place] = _add_fragment(row, datagram, begins, ends)
            if datagram.state == DROPPED:
                _set_fates(fates, order[datagram.start : k], OVERLAPPING)
            elif fates[place] != DUPLICATE and row.fragment & decode.FRAGMENT_OFFSET == 0:
                datagram.first_row = place
        if datagram.state == DROPPED:
            fates[place] = OVERLAPPING
        elif datagram.state == COMPLETE:
            _set_fates(fates, order[datagram.start : k], JOINED)
            fates[place] = KEPT
            _write_datagram(rows, datagram.first_row, place, datagram.datagram_bytes)
        elif (
            datagram.state == OPEN
            and datagram.ts >= oldest_open_ts
            and held_rows + k + 1 - datagram.start <= MAX_HELD_ROWS
        ):
            if k + 1 == len(order) or not _same_datagram(row, rows[order[k + 1]]):
                _set_fates(fates, order[datagram.start : k + 1], HELD)
                held_rows += k + 1 - datagram.start
