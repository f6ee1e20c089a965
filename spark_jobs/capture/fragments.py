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
from spark_jobs.capture.reader import Reading, Run
from spark_jobs.compiled import compiled, inner

TIMEOUT_US = 30_000_000
"""How long after the first fragment that came others belong to it: as in Linux. RFC 791 advises
15 s, RFC 8200 (4.5) has 60."""
MOST_FRAGMENTS = 128
"""Fragments of a datagram: the largest one, through links of 576 bytes, comes in 119."""
MOST_HELD = 1 << 16
"""Rows that are handed on to the next run."""
LARGEST_DATAGRAM = 65_535
"""RFC 791; RFC 8200: without the 40 bytes of IPv6's header."""
FRAGMENT_HEADER_BYTES, IPV6_HEADER_BYTES = 8, 40

KEPT, UNJOINED, HELD, JOINED, DUPLICATE, OVERLAPPING = range(6)
"""What becomes of a row: it stays; it stays, as a fragment; it may yet be joined with what the next
run has; it is part of another row; it came twice; its datagram is dropped."""
COUNTED = {
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
        ("since", "i8"),
        ("ts", "i8"),
        ("first", "i8"),
        ("n", "i8"),
        ("data", "i8"),
        ("size", "i8"),
        ("state", "u1"),
    ],
    align=True,
)
"""The datagram whose fragments are looked at: among them, the place and the time (us) of the first
that came; the row of that with offset 0; how many pieces and bytes there are; bytes of the whole, 0
where the last fragment has not come; what it is, so far."""


def with_fragments_joined(runs: Iterator[Run], reading: Reading) -> Iterator[Run]:
    """The runs of a file with one row for each datagram whose fragments all came; none is empty.

    What becomes of the others' rows is counted in reading.skipped, by COUNTED. A run holds until
    the next is asked for. One that has no fragments is handed on as it is.
    """
    held: Run | None = None
    for run in runs:
        if held is not None:
            run = _behind(held, run)
            held = None
        if run.rows["fragment"].any():
            run, held = _joined(run, reading)
        if len(run.rows):
            yield run
    if held is not None:
        reading.skipped[COUNTED[UNJOINED]] += len(held.rows)
        yield held


def _joined(run: Run, reading: Reading) -> tuple[Run, Run | None]:
    """The run with its datagrams joined, and the rows of those that are not complete."""
    rows = run.rows
    places = np.flatnonzero(rows["fragment"])
    of = rows[places]
    protocol = np.where(of["has"] & decode.HAS_IP_ID, of["ip_proto"], 0)
    keys = (protocol, of["datagram"], of["server"], of["user"], of["downlink"])
    fates = np.zeros(len(rows), np.uint8)
    room = np.zeros((2, MOST_FRAGMENTS), np.int64)
    _join(rows, places[np.lexsort(keys)], fates, np.zeros(1, PENDING), *room)
    for fate, count in enumerate(np.bincount(fates).tolist()):
        if count and fate in COUNTED:
            reading.skipped[COUNTED[fate]] += count
    held = _copy(run, np.flatnonzero(fates == HELD)) if (fates == HELD).any() else None
    return run.only(fates <= UNJOINED), held


def _copy(run: Run, places: np.ndarray) -> Run:
    """Some rows of a run that hold though the next run is asked for."""
    rows = run.rows[places]
    has = np.flatnonzero(rows["has"] & decode.HAS_SACK)
    counts = rows["sack_edges"][has].astype(np.int64)
    ends = np.cumsum(counts)
    from_at = np.repeat(rows["sack_at"][has] - (ends - counts), counts)
    edges = run.edges[from_at + np.arange(len(from_at))]
    rows["sack_at"][has] = ends - counts
    return Run(rows, edges, run.addresses)


def _behind(held: Run, run: Run) -> Run:
    """The run with the rows of an earlier one before its own: addresses are numbered as in the run,
    to whose table they are added."""
    run.addresses.make_room(2 * len(held.rows))
    numbers = np.zeros(len(held.addresses) + 1, np.int32)
    for number in np.unique([held.rows["user"], held.rows["server"]]).tolist():
        high, low, _ = held.addresses.entries[number].tolist()
        numbers[number] = run.addresses.number(high, low)
    rows = held.rows
    rows["user"], rows["server"] = numbers[rows["user"]], numbers[rows["server"]]
    rows["sack_at"] += len(run.edges)
    edges = np.concatenate([run.edges, held.edges])
    return Run(np.concatenate([rows, run.rows]), edges, run.addresses)


@inner
def _of_one_datagram(one, other):
    """Whether two fragments are of one datagram, but for when they came. IPv6's may have other
    protocols: those behind the fragment header are in the first one only."""
    same = one.user == other.user and one.server == other.server
    same &= one.downlink == other.downlink and one.datagram == other.datagram
    return same and (one.ip_proto == other.ip_proto or not one.has & decode.HAS_IP_ID)


@inner
def _is_sound(row, begin, end):
    """Whether a fragment may be one: it has data, up to the last in units of 8 bytes, and lies
    within the largest datagram (else it is a "ping of death")."""
    size, before = end - begin, np.int64(row.header_len)
    if not row.has & decode.HAS_IP_ID:
        before -= IPV6_HEADER_BYTES + FRAGMENT_HEADER_BYTES
    if row.header_len == 0 or size <= 0 or before + end > LARGEST_DATAGRAM:
        return False
    return size % 8 == 0 or not row.fragment & decode.MORE_FRAGMENTS


@inner
def _complete(rows, first, last, size):
    """Make rows[last] the datagram: rows[first], the first fragment's, at the time of the last to
    come. size: bytes of the whole datagram's data."""
    ts, frame = rows[last].ts, rows[last].frame
    rows[last] = rows[first]
    row = rows[last]
    row.ts, row.frame, row.fragment = ts, frame, 0
    header = np.int64(row.header_len)
    if row.has & decode.HAS_TCP:
        row.payload_len += size - (np.int64(row.ip_len) - header)
    if not row.has & decode.HAS_IP_ID:
        header -= FRAGMENT_HEADER_BYTES
    row.ip_len = header + size


@inner
def _take(row, of, begins, ends):
    """Add a fragment to its datagram `of`, a PENDING whose pieces are begins[:n] to ends[:n].

    Returns DUPLICATE where it is there already, else UNJOINED; the state says what has become of
    the datagram.
    """
    begin = np.int64(row.fragment & decode.FRAGMENT_OFFSET) * 8
    end = begin + np.int64(row.ip_len) - np.int64(row.header_len)
    last = not row.fragment & decode.MORE_FRAGMENTS
    if not _is_sound(row, begin, end):
        of.state = CONTRADICTORY
        return UNJOINED
    at = of.n
    while at > 0 and begins[at - 1] >= begin:
        at -= 1
    if at < of.n and begins[at] == begin and ends[at] == end:
        return DUPLICATE
    if (at < of.n and begins[at] < end) or (at > 0 and ends[at - 1] > begin):
        of.state = DROPPED
    elif of.n == MOST_FRAGMENTS or (last and (at < of.n or of.size)) or 0 < of.size < end:
        of.state = CONTRADICTORY
    else:
        for k in range(of.n, at, -1):
            begins[k], ends[k] = begins[k - 1], ends[k - 1]
        begins[at], ends[at] = begin, end
        of.n += 1
        of.data += end - begin
        if last:
            of.size = end
        if of.data == of.size:
            of.state = COMPLETE
    return UNJOINED


@inner
def _mark(fates, places, fate):
    """Give a datagram's fragments a fate, but for those that came twice."""
    for place in places:
        if fates[place] == UNJOINED:
            fates[place] = fate


@compiled
def _join(rows, order, fates, pending, begins, ends):
    """Join rows, decode.ROW[n], in place: a datagram's where it became complete.

    order: int64[..], the places of the fragments, those of one datagram side by side, as they came;
    fates: uint8[n], set for these; pending: PENDING[1], begins, ends: int64[MOST_FRAGMENTS], room
    for one datagram.
    """
    of, held = pending[0], 0
    until = rows[len(rows) - 1].ts - TIMEOUT_US
    for k in range(len(order)):
        place = order[k]
        row = rows[place]
        if (
            k == 0
            or not _of_one_datagram(row, rows[order[k - 1]])
            or of.state == COMPLETE
            or abs(row.ts - of.ts) > TIMEOUT_US
        ):
            of.state, of.since, of.ts, of.n, of.data, of.size = OPEN, k, row.ts, 0, 0, 0
        fates[place] = UNJOINED
        if of.state == OPEN:
            fates[place] = _take(row, of, begins, ends)
            if of.state == DROPPED:
                _mark(fates, order[of.since : k], OVERLAPPING)
            elif fates[place] != DUPLICATE and row.fragment & decode.FRAGMENT_OFFSET == 0:
                of.first = place
        if of.state == DROPPED:
            fates[place] = OVERLAPPING
        elif of.state == COMPLETE:
            _mark(fates, order[of.since : k], JOINED)
            fates[place] = KEPT
            _complete(rows, of.first, place, of.size)
        elif of.state == OPEN and of.ts >= until and held + k + 1 - of.since <= MOST_HELD:
            if k + 1 == len(order) or not _of_one_datagram(row, rows[order[k + 1]]):
                _mark(fates, order[of.since : k + 1], HELD)
                held += k + 1 - of.since
