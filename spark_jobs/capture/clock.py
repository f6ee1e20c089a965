"""Correction of timestamps after the capturing host's clock was set back.

The rows have the order of the records in the file. If one clock stamped the packets as they
arrived, this is the order of arrival. A backward jump is a packet with an earlier timestamp than a
packet before it. It has one of two causes. Either the clock was set back: a clock step. Or the file
is out of order: the network card has several queues, or files were concatenated. The packets
themselves decide. After a clock step, TCP sequence numbers ascend in the order of the records. In a
file that is out of order, they ascend in the order of the timestamps (RFC 9293, 3.4):

- Compare two packets of one connection and direction, of which the later record has the earlier
  timestamp. If the later record continues where the other one's data ends, or acknowledges more, it
  was sent later: the clock stepped. If its data lies before the other one's, or it acknowledges
  less, the timestamps are right. Data that was recorded before is a retransmission and decides
  nothing. The majority of the connections that decide is followed.
- If no connection decides, the answers of the other direction do: an answer with an earlier
  timestamp than the data that it acknowledges indicates a clock step. This does not hold if
  timestamps also jump back nearby, because then two clocks are at work.

Clocks are rarely set back. Many jumps of one size close together come from two clocks, for example
of two interfaces or queues. One or two packets that are stamped more than a minute late are
outliers.

After a clock step, the size of the step is added to all later timestamps of the file. The first
packet after the step then has the timestamp of the last packet before it. The order of packets is
preserved, and only the time between these two packets is lost.
"""

from collections import deque
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from spark_jobs.capture import decode
from spark_jobs.capture.decode import ACK, FIN, RST, SYN
from spark_jobs.capture.hashes import SECOND_MULTIPLIER, address_hashes, hash_combine
from spark_jobs.capture.reader import PacketBatch, ReadStats
from spark_jobs.compiled import compiled, inner

REORDERING_SLACK_US = 1_000
"""Limit below which packets out of order are simply sorted by time (µs)."""
OUT_OF_ORDER_US = 1_000_000
"""Limit above which packets out of order are counted (µs)."""
MAX_STEP_US = 86_400_000_000
"""Largest clock step, one day (µs): a larger jump comes from packets recorded at another time."""
MAX_ROWS_COMPARED = 100_000
"""Maximum number of rows on either side of a jump in which connections are compared."""
INITIAL_ROWS_COMPARED = 512
"""Number of rows on either side of a jump that are compared first, because they often suffice."""
WIDENING_FACTOR = 8
"""Factor by which the number of rows grows if those compared so far do not decide."""
ENOUGH_CONNECTIONS = 8
"""Number of deciding connections from which on no further rows are compared."""
NEARBY_ROWS = 256
"""Number of rows on either side of a jump in which other jumps as large are counted."""
MAX_NEARBY_JUMPS = 8
"""Maximum number of nearby jumps at which a jump can still be a clock step."""
MAX_OUTLIERS = 2
"""Maximum number of packets in a row that can be outliers."""
OUTLIER_US = 60_000_000
"""Limit above which a late timestamp can be an outlier (µs)."""
MAX_SEQ_DISTANCE = 1 << 24
"""Limit from which on two sequence numbers are not compared (B): they are of different streams."""
MAX_PROBES = 32
"""Maximum number of slots of a hash table that are tried for one key."""
MAX_CREDIT = 1 << 21
"""Number of rows that may be compared for the jumps of a file before any credit is earned."""
CREDIT_PER_ROW = 4
"""Credit for each row that is passed: the work grows no faster than the file."""
JUMP_COST = 2_000
"""Fixed cost of a jump besides the rows compared, in the number of rows that take as long."""
MAX_CLOCK_STEPS = 255
"""Largest number of steps that the column schemas.packets.clock_steps holds."""

CLOCK = np.dtype(
    [
        ("latest_ts", "i8"),
        ("shift_us", "i8"),
        ("steps", "i8"),
        ("out_of_order", "i8"),
        ("work_credit", "i8"),
        ("ignored_jump_us", "i8"),
    ]
)
"""State of a file's clock.

latest_ts: latest timestamp since timestamps last jumped back (µs)
shift_us: what is added to the timestamps (µs)
steps: number of clock steps so far
out_of_order: number of packets out of order by more than OUT_OF_ORDER_US
work_credit: number of rows that may still be compared
ignored_jump_us: largest jump that counts as disorder without a comparison while the credit is used
    up (µs)
"""

SEGMENT = np.dtype(
    [
        ("connection", "u8"),
        ("ts", "i8"),
        ("seq", "u4"),
        ("seq_end", "u4"),
        ("ack", "u4"),
        ("flags", "u1"),
    ],
    align=True,
)
"""A packet's position in its connection.

connection: hash of both endpoints
ts: timestamp (µs)
seq, seq_end: first sequence number and the one after the last; SYN and FIN count as data
ack: acknowledgment number
flags: HAS_SEQ, HAS_ACK and IS_DOWNLINK
"""
HAS_SEQ, HAS_ACK, IS_DOWNLINK = 1, 2, 4
"""Flags of a SEGMENT: it has a sequence number, an acknowledgment number, goes to the mobile."""

PROGRESS = np.dtype(
    [
        ("seq", "u4"),
        ("seq_end", "u4"),
        ("seq_end_ts", "i8"),
        ("ack", "u4"),
        ("ack_ts", "i8"),
        ("flags", "u1"),
    ],
    align=True,
)
"""Progress of one direction of a connection before a jump.

seq, seq_end, seq_end_ts: the data that ends last, and its timestamp (µs)
ack, ack_ts: the highest acknowledgment number, and its timestamp (µs)
flags: HAS_SEQ and HAS_ACK
"""

VOTE = np.dtype(
    [
        ("connection", "u8"),
        ("ack_votes", "i4"),
        ("data_votes", "i4"),
        ("answer_votes", "i4"),
        ("used", "?"),
    ],
    align=True,
)
"""Votes of one connection for a clock step; votes against are negative.

connection: hash of both endpoints
ack_votes: votes by acknowledgment numbers of one direction
data_votes: votes by sequence numbers of one direction
answer_votes: votes by answers of the other direction
used: whether the slot of the hash table is in use
"""

STEP, DISORDER, UNDECIDED = range(3)


def correct_clock_steps(batches: Iterator[PacketBatch], stats: ReadStats) -> Iterator[PacketBatch]:
    """Yield the batches of a file with timestamps that never step back with the clock.

    See the module. Counts in stats.skipped the steps, their total size (µs) and the packets out of
    order by more than a second. A row's `clock_steps` is the number of steps before it. Memory:
    beside the current batch, about MAX_ROWS_COMPARED rows before it and the batches that hold as
    many rows after it.
    """
    file = _BatchSequence(batches)
    clock = np.zeros(1, CLOCK)
    clock["latest_ts"], clock["work_credit"] = -(2**62), MAX_CREDIT
    while file.advance():
        previous = clock.copy()
        stepped_us, row = 0, 0
        while (row := _next_jump(file.batch.rows, row, clock)) < len(file.batch.rows):
            stepped_us += _resolve_jump(file, row, clock)
        _count_skipped(stats, "clock_backwards", clock["steps"][0] - previous["steps"][0])
        _count_skipped(stats, "clock_backwards_us", stepped_us)
        _count_skipped(
            stats, "out_of_order", clock["out_of_order"][0] - previous["out_of_order"][0]
        )
        yield _drop_implausible_times(file.batch, stats) if clock["shift_us"][0] else file.batch


def _count_skipped(stats: ReadStats, reason: str, count: int) -> None:
    if count:
        stats.skipped[reason] += int(count)


def _drop_implausible_times(batch: PacketBatch, stats: ReadStats) -> PacketBatch:
    """Return the batch without packets that were shifted beyond year 9999, and count them."""
    keep = batch.rows["ts"] < decode.LATEST_TS_US
    _count_skipped(stats, "implausible_time", len(keep) - keep.sum())
    return batch if keep.all() else batch.select(keep)


class _BatchView:
    """A batch, and what is computed to compare its rows."""

    def __init__(self, batch: PacketBatch):
        self.batch = batch

    @cached_property
    def address_hashes(self) -> np.ndarray:
        """Return the hashes of the batch's addresses, by address number."""
        return address_hashes(self.batch.addresses.used_entries)

    def segments(self, begin: int, end: int, shift: int) -> np.ndarray:
        """Return rows[begin:end] as SEGMENTs, `shift` (µs) later."""
        return _segments(self.batch.rows[begin:end], self.address_hashes, shift)


class _BatchSequence:
    """The batches of a file, one after the other, with access to the rows before and after."""

    def __init__(self, batches: Iterator[PacketBatch]):
        self._batches = iter(batches)
        self._past: deque[_BatchView] = deque()
        self._upcoming: deque[_BatchView] = deque()
        self._current: _BatchView | None = None
        self._owns_current = False

    @property
    def batch(self) -> PacketBatch:
        """Return the current batch."""
        assert self._current is not None
        return self._current.batch

    def advance(self) -> bool:
        """Move to the next batch, and return whether there is one."""
        if self._current is not None:
            self._keep_last_rows(self._current)
        self._owns_current = bool(self._upcoming)
        if self._upcoming:
            self._current = self._upcoming.popleft()
        else:
            batch = next(self._batches, None)
            self._current = _BatchView(batch) if batch is not None else None
        return self._current is not None

    def _keep_last_rows(self, view: _BatchView) -> None:
        batch = view.batch
        last_rows = PacketBatch(
            batch.rows[-MAX_ROWS_COMPARED:].copy(), batch.edges[:0], batch.addresses
        )
        self._past.append(_BatchView(last_rows))
        while sum(len(past.batch.rows) for past in self._past) >= MAX_ROWS_COMPARED + len(
            self._past[0].batch.rows
        ):
            self._past.popleft()

    def rows_before(self, row: int, count: int) -> np.ndarray:
        """Return the last rows before batch.rows[row]: SEGMENT[up to count]."""
        assert self._current is not None
        parts = [self._current.segments(max(0, row - count), row, 0)]
        missing = count - row
        for past in reversed(self._past):
            if missing <= 0:
                break
            n = len(past.batch.rows)
            parts.insert(0, past.segments(max(0, n - missing), n, 0))
            missing -= n
        return np.concatenate(parts)

    def rows_after(self, row: int, count: int, shift: int) -> np.ndarray:
        """Return the rows from batch.rows[row] on, `shift` (µs) later: SEGMENT[up to count]."""
        assert self._current is not None
        self._read_ahead(count - (len(self.batch.rows) - row))
        parts = [self._current.segments(row, row + count, shift)]
        missing = count - len(parts[0])
        for view in self._upcoming:
            if missing <= 0:
                break
            parts.append(view.segments(0, missing, shift))
            missing -= len(parts[-1])
        return np.concatenate(parts)

    def _read_ahead(self, rows: int) -> None:
        """Read up to `rows` rows after the current batch, if the file has them.

        A batch is valid only until the next one is requested. Batches that are still needed are
        copied first.
        """
        missing = rows - sum(len(view.batch.rows) for view in self._upcoming)
        while missing > 0:
            if not self._owns_current:
                self._current, self._owns_current = _BatchView(_copy_batch(self.batch)), True
            batch = next(self._batches, None)
            if batch is None:
                break
            self._upcoming.append(_BatchView(_copy_batch(batch)))
            missing -= len(batch.rows)


def _copy_batch(batch: PacketBatch) -> PacketBatch:
    return PacketBatch(batch.rows.copy(), batch.edges.copy(), batch.addresses)


def _resolve_jump(file: _BatchSequence, row: int, clock: np.ndarray) -> int:
    """Decide whether the jump back to batch.rows[row] is a clock step.

    Returns the size of the step (µs), or 0.
    """
    state = clock[0]
    latest_ts, shift_us = int(state["latest_ts"]), int(state["shift_us"])
    jump_us = latest_ts - int(file.batch.rows["ts"][row]) - shift_us
    row_limit, cost, verdict = INITIAL_ROWS_COMPARED, JUMP_COST, UNDECIDED
    if jump_us > MAX_STEP_US or shift_us + jump_us >= decode.LATEST_TS_US:
        verdict = DISORDER
    while verdict == UNDECIDED:
        before, after = file.rows_before(row, row_limit), file.rows_after(row, row_limit, shift_us)
        cost += len(before) + len(after)
        has_all_before = len(before) < row_limit or before["ts"][0] <= latest_ts - 2 * jump_us
        has_all_after = len(after) < row_limit or after["ts"][-1] >= latest_ts + jump_us
        is_final = (has_all_before and has_all_after) or row_limit >= MAX_ROWS_COMPARED
        verdict = _classify_jump(before, after, latest_ts, jump_us, is_final)
        row_limit = min(MAX_ROWS_COMPARED, WIDENING_FACTOR * row_limit)
    state["work_credit"] -= cost
    if verdict == DISORDER or state["work_credit"] < 0:
        state["ignored_jump_us"] = max(int(state["ignored_jump_us"]), 2 * jump_us)
    if verdict == STEP:
        state["shift_us"] += jump_us
        state["steps"] += 1
        return jump_us
    state["latest_ts"] = latest_ts - jump_us
    state["out_of_order"] += jump_us > OUT_OF_ORDER_US
    return 0


@compiled
def _next_jump(rows, start, clock):
    """Return the index of the next row that jumps back by more than REORDERING_SLACK_US.

    Returns len(rows) if no row does. Rows before it get the timestamps of the file's clock. rows:
    decode.ROW[n], searched from `start` on; clock: CLOCK[1].
    """
    state = clock[0]
    for i in range(start, len(rows)):
        ts = rows[i].ts + state.shift_us
        if ts < state.latest_ts - REORDERING_SLACK_US:
            jump_us = state.latest_ts - ts
            if state.work_credit > 0 or jump_us > state.ignored_jump_us:
                return i
            state.latest_ts = ts
            state.out_of_order += jump_us > OUT_OF_ORDER_US
        if state.work_credit < MAX_CREDIT:
            state.work_credit += CREDIT_PER_ROW
            if state.work_credit >= MAX_CREDIT:
                state.ignored_jump_us = 0
        state.latest_ts = max(state.latest_ts, ts)
        if state.shift_us:
            rows[i].ts = ts
            rows[i].clock_steps = min(state.steps, MAX_CLOCK_STEPS)
    return len(rows)


@compiled
def _segments(rows, addresses, shift):
    """Return rows, decode.ROW[n], as SEGMENT[n], `shift` (µs) later.

    addresses: uint64, hashes by address number.
    """
    out = np.zeros(len(rows), SEGMENT)
    for i in range(len(rows)):
        row, segment = rows[i], out[i]
        segment.ts = row.ts + shift
        if not row.has & decode.HAS_TCP or row.tcp_flags & (RST | ACK) == RST:
            continue
        ports = np.int64(row.user_port) << 16 | np.int64(row.server_port)
        segment.connection = hash_combine(
            addresses[row.user] ^ addresses[row.server] * SECOND_MULTIPLIER, ports
        )
        flags = row.tcp_flags
        length = np.int64(row.payload_len)
        length += (1 if flags & SYN else 0) + (1 if flags & FIN else 0)
        segment.seq, segment.seq_end, segment.ack = row.seq, np.uint32(row.seq + length), row.ack
        segment.flags = (
            HAS_SEQ | (HAS_ACK if flags & ACK else 0) | (IS_DOWNLINK if row.downlink else 0)
        )
    return out


@inner
def _seq_difference(one, other):
    """Return one - other of two 32-bit sequence numbers, or 0 if they are too far apart."""
    difference = np.int64(np.int32(np.uint32(one) - np.uint32(other)))
    return difference if abs(difference) < MAX_SEQ_DISTANCE else np.int64(0)


@inner
def _vote_slot(votes, connection, add):
    """Return the index of a connection in VOTE[a power of two], or -1 if it has none.

    add: add the connection if it is new and a slot is free.
    """
    mask = len(votes) - 1
    slot = np.int64(connection & np.uint64(mask))
    for _ in range(MAX_PROBES):
        vote = votes[slot]
        if not vote.used:
            if not add:
                return np.int64(-1)
            vote.used, vote.connection = True, connection
            return slot
        if vote.connection == connection:
            return slot
        slot = (slot + 1) & mask
    return np.int64(-1)


@inner
def _was_recorded(recorded, segment, add):
    """Return whether data that begins where the segment's does is in a hash table.

    recorded: uint64[a power of two], the hash table
    add: whether to add the data if it is not there
    """
    mask = len(recorded) - 1
    key = hash_combine(
        segment.connection, np.int64(segment.seq) << 1 | np.int64(segment.flags & IS_DOWNLINK > 0)
    )
    key |= np.uint64(1)
    slot = np.int64(key >> np.uint64(1) & np.uint64(mask))
    for _ in range(MAX_PROBES):
        if recorded[slot] == key:
            return True
        if recorded[slot] == 0:
            if add:
                recorded[slot] = key
            return False
        slot = (slot + 1) & mask
    return False


@inner
def _count_jumps(segments, begin, end, min_us):
    """Return how often timestamps jump back by `min_us` (µs) or more within segments[begin:end]."""
    count = np.int64(0)
    if begin < end:
        latest_ts = segments[begin].ts
        for i in range(begin + 1, end):
            if latest_ts - segments[i].ts >= min_us:
                count += 1
                latest_ts = segments[i].ts
            latest_ts = max(latest_ts, segments[i].ts)
    return count


@inner
def _follows_outliers(before, jump_target):
    """Return whether the jump comes from a few outliers at the end of `before`.

    The last packets are outliers if a packet just before them is stamped no later than the jump's
    target.
    """
    for i in range(len(before) - 1, max(-1, len(before) - 2 - MAX_OUTLIERS), -1):
        if before[i].ts <= jump_target:
            return True
    return False


@inner
def _update_progress(progress, segment):
    """Update the PROGRESS of a direction with a further packet of it."""
    if not progress.flags & HAS_SEQ or _seq_difference(segment.seq_end, progress.seq_end) >= 0:
        if (
            not progress.flags & HAS_SEQ
            or segment.seq_end != progress.seq_end
            or segment.seq != segment.seq_end
        ):
            progress.seq, progress.seq_end, progress.seq_end_ts = (
                segment.seq,
                segment.seq_end,
                segment.ts,
            )
        progress.flags |= HAS_SEQ
    if segment.flags & HAS_ACK:
        if not progress.flags & HAS_ACK or _seq_difference(segment.ack, progress.ack) >= 0:
            progress.ack, progress.ack_ts = segment.ack, segment.ts
            progress.flags |= HAS_ACK


@inner
def _add_votes(vote, own, other, segment, is_new):
    """Add the votes of a packet that was recorded after the jump.

    own, other: PROGRESS of its own direction and of the other one before the jump
    is_new: whether its data was not recorded before
    """
    ts = segment.ts
    if own.flags & HAS_SEQ and ts < own.seq_end_ts:
        gap_after, gap_before = (
            _seq_difference(segment.seq, own.seq_end),
            _seq_difference(own.seq, segment.seq_end),
        )
        if gap_after >= 0 and _seq_difference(segment.seq_end, own.seq) > 0:
            vote.data_votes += 1
        elif own.seq_end != own.seq and is_new:  # otherwise it may be a retransmission
            if gap_before >= 0 and _seq_difference(own.seq_end, segment.seq) > 0:
                vote.data_votes -= 1
    if segment.flags & HAS_ACK and own.flags & HAS_ACK and ts < own.ack_ts:
        advance = _seq_difference(segment.ack, own.ack)
        vote.ack_votes += (1 if advance > 0 else 0) - (1 if advance < 0 else 0)
    if segment.flags & HAS_ACK and other.flags & HAS_SEQ and ts < other.seq_end_ts:
        if other.seq_end != other.seq and segment.ack == other.seq_end:
            vote.answer_votes += 1
    if other.flags & HAS_ACK and ts < other.ack_ts and segment.seq_end != segment.seq and is_new:
        if _seq_difference(other.ack, segment.seq) > 0:
            vote.answer_votes -= 1


@compiled
def _classify_jump(before, after, latest_ts, jump_us, is_final):
    """Return whether a jump is a STEP, DISORDER, or still UNDECIDED.

    latest_ts, jump_us: the jump goes back by jump_us from latest_ts (µs)
    before, after: SEGMENTs on either side of the jump
    is_final: whether no further rows can be compared. If not, the result may be UNDECIDED.
    """
    min_us = max(REORDERING_SLACK_US, jump_us // 2)
    nearby_jumps = _count_jumps(after, np.int64(0), min(NEARBY_ROWS, len(after)), min_us)
    nearby_jumps += _count_jumps(
        before, max(np.int64(0), len(before) - NEARBY_ROWS), len(before), min_us
    )
    jump_target = latest_ts - jump_us
    if nearby_jumps > MAX_NEARBY_JUMPS or (
        jump_us > OUTLIER_US and _follows_outliers(before, jump_target)
    ):
        return DISORDER
    size = 2
    while size < 2 * len(before):
        size *= 2
    votes, progress = np.zeros(size, VOTE), np.zeros((size, 2), PROGRESS)
    recorded = np.zeros(size, np.uint64)
    for i in range(len(before)):
        segment = before[i]
        if not segment.flags & HAS_SEQ:
            continue
        direction = 1 if segment.flags & IS_DOWNLINK else 0
        if segment.seq_end != segment.seq:
            _was_recorded(recorded, segment, True)
        if segment.ts > jump_target:
            slot = _vote_slot(votes, segment.connection, True)
            if slot >= 0:
                _update_progress(progress[slot, direction], segment)
    for i in range(len(after)):
        segment = after[i]
        if segment.ts >= latest_ts or not segment.flags & HAS_SEQ:
            continue
        slot = _vote_slot(votes, segment.connection, False)
        if slot >= 0:
            direction = 1 if segment.flags & IS_DOWNLINK else 0
            is_new = not _was_recorded(recorded, segment, False)
            _add_votes(
                votes[slot],
                progress[slot, direction],
                progress[slot, 1 - direction],
                segment,
                is_new,
            )
    decided, balance, answer_balance = np.int64(0), np.int64(0), np.int64(0)
    for k in range(size):
        vote = votes[k]
        sign = np.sign(vote.ack_votes) if vote.ack_votes else np.sign(vote.data_votes)
        decided += abs(sign)
        balance += sign
        answer_balance += np.sign(vote.answer_votes)
    if decided >= ENOUGH_CONNECTIONS or (decided and is_final):
        return STEP if balance > 0 else DISORDER
    if not is_final:
        return UNDECIDED
    return STEP if answer_balance > 0 and nearby_jumps == 0 else DISORDER
