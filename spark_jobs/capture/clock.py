"""Steps of the capturing host's clock, back and forward.

The rows have the order of the records in the file. If one clock stamped the packets as they
arrived, this is the order of arrival. Two places can be a step of the clock: a jump back, where a
packet has an earlier timestamp than a packet before it, and a gap, in which no packet is recorded.
The connections with packets on both sides decide, each with one vote; the majority is followed.

After a jump back, either the clock was set back, or the file is out of order: the network card has
several queues, or files were concatenated. In the true order of a connection's packets, sequence
numbers, acknowledgment numbers and timestamps ascend, and data comes before its acknowledgment (RFC
9293, 3.4; RFC 7323). A connection votes for the order with fewer violations: that of the records,
or that of the times. Many jumps of one size close together come from two clocks, for example of two
interfaces. One or two packets that are stamped more than a minute late are outliers.

After a gap, either the clock was set forward, or time passed. The timestamps of both ends show it
(RFC 7323). Packets that the network held up carry old ones, so the least difference counts. Without
timestamps, retransmission timers show it: data that is not acknowledged within a second or three
RTTs is retransmitted (RFC 6298), but in the gap it was not.

After a step back, its size is added to all later timestamps of the file, so that packets stay in
order: the first packet after the step gets the timestamp of the last one before it. After a step
forward they are in order as they are.
"""

from collections import deque
from collections.abc import Iterator

import numpy as np

from spark_jobs.capture import decode, record
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
GAP_US = 150_000
"""Limit above which a gap can be a step forward (µs)."""
MIN_MISSING_US = 100_000
"""Limit above which the time that passes by an end's clock and by the file's differs (µs)."""
US_PER_TICK = (1.0, 1e3, 2e3, 4e3, 1e4, 1e5, 5e5, 1e6)
"""Usual times from tick to tick of the ends' timestamps (µs; RFC 7323, 5.4)."""
MIN_TICKS, MAX_RATE_ERROR = 5, 0.2
"""Fewest ticks that show which of these it is, and the largest error with which they do."""
TIMER_US = 1_500_000
"""Longest time of a retransmission timer besides three RTTs at the monitor (µs)."""
ROWS_COMPARED = (256, 4096)
"""Numbers of rows on either side of a jump or gap that are compared, until connections decide."""
FEW_ROWS = 16
"""Number of rows on either side of a gap that are compared first of all."""
NEARBY_ROWS = 256
"""Number of rows on either side of a jump in which other jumps as large are counted."""
MAX_NEARBY_JUMPS = 8
"""Maximum number of nearby jumps at which a jump can still be a clock step."""
MAX_OUTLIERS = 2
"""Maximum number of packets in a row that can be outliers."""
OUTLIER_US = 60_000_000
"""Limit above which a late timestamp can be an outlier (µs)."""
MAX_CREDIT = 1 << 21
"""Number of rows that may be compared before any credit is earned; for gaps only half of it."""
CREDIT_PER_ROW = 4
"""Credit for each row that is passed: the work grows no faster than the file."""
JUMP_COST = 2_000
"""Fixed cost of a jump besides the rows compared, in the number of rows that take as long."""
MAX_CLOCK_STEPS = 255
"""Largest number of steps that the column schemas.packets.clock_steps holds."""
NEVER = -(2**62)

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
        ("ts_val", "u4"),
        ("direction", "u1"),
        ("is_syn", "?"),
        ("is_closed", "?"),
        ("has_ack", "?"),
        ("has_timestamp", "?"),
        ("is_after", "?"),
    ],
    align=True,
)
"""A packet's position in its connection.

connection: hash of both endpoints; 0 for packets that are not compared
ts: timestamp (µs)
seq, seq_end: first sequence number and the one after the last; SYN and FIN count as data
ack, ts_val: acknowledgment number, the sender's timestamp; valid with has_ack, has_timestamp
direction: 1 to the mobile, 0 from it
is_syn: whether it is a SYN or SYN ACK
is_closed: whether its window is closed, so that the other end's probes follow another timer
is_after: whether it was recorded after the jump or gap
"""


def correct_clock_steps(batches: Iterator[PacketBatch], stats: ReadStats) -> Iterator[PacketBatch]:
    """Yield the batches of a file with timestamps that never step back with the clock.

    See the module. Counts in stats.skipped the steps, their total size (µs) and the packets out of
    order by more than a second. A row's `clock_steps` is the number of steps before it. Memory:
    beside the current batch, the rows before it and the batches after it that are compared.
    """
    file = _BatchSequence(batches)
    clock = np.zeros(1, CLOCK)
    clock["latest_ts"], clock["work_credit"] = NEVER, MAX_CREDIT
    while file.advance():
        out_of_order, row = int(clock["out_of_order"][0]), 0
        while (row := _next_jump(file.batch.rows, row, clock)) < len(file.batch.rows):
            if step_us := _resolve_jump(file, row, clock[0]):
                reason = "clock_backwards" if step_us < 0 else "clock_forwards"
                stats.skipped.update({reason: 1, f"{reason}_us": abs(step_us)})
        _count_skipped(stats, "out_of_order", int(clock["out_of_order"][0]) - out_of_order)
        yield _drop_implausible_times(file.batch, stats) if clock["shift_us"][0] else file.batch


def _count_skipped(stats: ReadStats, reason: str, count: int) -> None:
    if count:
        stats.skipped[reason] += count


def _drop_implausible_times(batch: PacketBatch, stats: ReadStats) -> PacketBatch:
    """Return the batch without packets that were shifted beyond year 9999, and count them."""
    keep = batch.rows["ts"] < decode.LATEST_TS_US
    _count_skipped(stats, "implausible_time", int(len(keep) - keep.sum()))
    return batch if keep.all() else batch.select(keep)


class _BatchSequence:
    """The batches of a file in turn, with the rows around a row of the current one.

    A batch of the reader is valid only until the next one is requested.
    """

    batch: PacketBatch

    def __init__(self, batches: Iterator[PacketBatch]):
        self._batches = iter(batches)
        self._before = np.empty(0, SEGMENT)
        self._upcoming: deque[PacketBatch] = deque()
        self._is_copied = False
        self._first = 0

    def advance(self) -> bool:
        """Move to the next batch, and return whether there is one."""
        if hasattr(self, "batch"):
            rows = len(self.batch.rows)
            last = _segments(self.batch, max(self._first, rows - ROWS_COMPARED[-1]), rows)
            self._before = np.concatenate([self._before, last])[-ROWS_COMPARED[-1] :]
        self._first, self._is_copied = 0, bool(self._upcoming)
        batch = self._upcoming.popleft() if self._upcoming else next(self._batches, None)
        if batch is not None:
            self.batch = batch
        return batch is not None

    def forget_before(self, row: int) -> None:
        """Leave out what is before batch.rows[row], because a step is between."""
        self._before, self._first = self._before[:0], row

    def around(self, row: int, count: int, shift: int) -> np.ndarray:
        """Return up to `count` rows before batch.rows[row], and as many from it on: SEGMENT[].

        shift: what is added to the timestamps of the rows from it on (µs).
        """
        missing = row + count - sum(len(b.rows) for b in (self.batch, *self._upcoming))
        while missing > 0:
            if not self._is_copied:
                self.batch, self._is_copied = _copy(self.batch), True
            batch = next(self._batches, None)
            if batch is None:
                break
            self._upcoming.append(_copy(batch))
            missing -= len(batch.rows)
        first = max(self._first, row - count)
        before = np.concatenate([self._before, _segments(self.batch, first, row)])
        after = [_segments(self.batch, row, row + count)]
        after += [_segments(batch, 0, count) for batch in self._upcoming]
        later = np.concatenate(after)[:count]
        later["ts"] += shift
        later["is_after"] = True
        return np.concatenate([before[-count:], later])


def _copy(batch: PacketBatch) -> PacketBatch:
    return PacketBatch(batch.rows.copy(), batch.edges.copy(), batch.addresses)


def _segments(batch: PacketBatch, begin: int, end: int) -> np.ndarray:
    """Return rows[begin:end] of a batch as SEGMENTs."""
    rows = batch.rows[begin:end]
    return _as_segments(rows, address_hashes(batch.addresses.used_entries))


def _resolve_jump(file: _BatchSequence, row: int, state: np.void) -> int:
    """Decide whether the jump or gap before batch.rows[row] is a clock step.

    Returns the size of the step (µs), negative for a step back, or 0.
    """
    latest_ts, shift_us = int(state["latest_ts"]), int(state["shift_us"])
    jump_us = int(file.batch.rows["ts"][row]) + shift_us - latest_ts
    balance, cost, is_possible = 0, JUMP_COST, shift_us - jump_us < decode.LATEST_TS_US
    for count in ROWS_COMPARED if is_possible and abs(jump_us) <= MAX_STEP_US else ():
        segments = file.around(row, count, shift_us)
        cost += len(segments)
        is_final = len(segments) < 2 * count or count == ROWS_COMPARED[-1]
        in_order = np.argsort(segments["connection"], kind="stable")
        if _is_disorder(segments, latest_ts, jump_us):
            break
        if jump_us > 0:
            balance = _vote_on_gap(segments[in_order], jump_us, is_final)
        else:
            by_time = np.lexsort((segments["ts"], segments["connection"]))
            balance = _vote_on_jump(segments[in_order], segments[by_time])
        if balance < 0 or (balance and jump_us < 0):
            break
    state["work_credit"] -= cost
    is_step = balance > 0
    if is_step:
        file.forget_before(row)
        state["steps"] += 1
    if jump_us < 0 and not is_step:
        state["latest_ts"] += jump_us
        state["out_of_order"] += -jump_us > OUT_OF_ORDER_US
        state["ignored_jump_us"] = max(int(state["ignored_jump_us"]), -2 * jump_us)
    elif jump_us < 0:
        state["shift_us"] -= jump_us
    else:
        state["latest_ts"] += jump_us
    return jump_us if is_step else 0


@compiled
def _next_jump(rows, start, clock):
    """Return the index of the next row that comes after a jump back or a gap.

    Returns len(rows) if no row does. Rows before it get the timestamps of the file's clock. rows:
    record.ROW[n], searched from `start` on; clock: CLOCK[1].
    """
    state = clock[0]
    for i in range(start, len(rows)):
        ts = rows[i].ts + state.shift_us
        jump_us = ts - state.latest_ts
        if jump_us < -REORDERING_SLACK_US:
            if state.work_credit > 0 or -jump_us > state.ignored_jump_us:
                return i
            state.latest_ts = ts
            state.out_of_order += -jump_us > OUT_OF_ORDER_US
        elif jump_us > GAP_US and state.latest_ts != NEVER:
            if state.work_credit > MAX_CREDIT // 2 and not _time_passed(rows, i, state.shift_us):
                return i
        if state.work_credit < MAX_CREDIT:
            state.work_credit += CREDIT_PER_ROW
            if state.work_credit >= MAX_CREDIT:
                state.ignored_jump_us = 0
        state.latest_ts = max(state.latest_ts, ts)
        if state.steps:
            rows[i].ts = ts
            rows[i].clock_steps = min(state.steps, MAX_CLOCK_STEPS)
    return len(rows)


@inner
def _time_passed(rows, gap, shift_us):
    """Return whether timestamps in ms of few packets show that the time of a gap passed.

    Most gaps are found so at little cost. gap: index of the first of the rows after it;
    shift_us: what is added to their timestamps (µs).
    """
    for i in range(gap, min(gap + FEW_ROWS, len(rows))):
        for k in range(max(0, gap - FEW_ROWS), gap):
            one, other = rows[k], rows[i]
            if (
                one.has & other.has & record.HAS_TIMESTAMPS
                and one.user == other.user
                and one.server == other.server
                and one.user_port == other.user_port
                and one.downlink == other.downlink
            ):
                passed_us = 1000 * np.int64(np.int32(other.ts_val - one.ts_val))
                if abs(other.ts + shift_us - one.ts - passed_us) < MIN_MISSING_US:
                    return True
    return False


@compiled
def _as_segments(rows, addresses):
    """Return rows, record.ROW[n], as SEGMENT[n].

    addresses: uint64, hashes by address number.
    """
    out = np.zeros(len(rows), SEGMENT)
    for i in range(len(rows)):
        row, segment = rows[i], out[i]
        flags = row.tcp_flags
        segment.ts = row.ts
        if not row.has & record.HAS_TCP or flags & (RST | ACK) == RST:
            continue
        ports = np.int64(row.user_port) << 16 | np.int64(row.server_port)
        segment.connection = hash_combine(
            addresses[row.user] ^ addresses[row.server] * SECOND_MULTIPLIER, ports
        )
        length = np.int64(row.payload_len)
        length += (1 if flags & SYN else 0) + (1 if flags & FIN else 0)
        segment.seq, segment.seq_end, segment.ack = row.seq, np.uint32(row.seq + length), row.ack
        segment.direction, segment.is_syn = row.downlink, flags & SYN > 0
        segment.is_closed = row.window == 0
        segment.has_ack = flags & ACK > 0
        if row.has & record.HAS_TIMESTAMPS:
            segment.has_timestamp, segment.ts_val = True, row.ts_val
    return out


@compiled
def _is_disorder(segments, latest_ts, jump_us):
    """Return whether what is near a jump or gap shows that it is no clock step.

    Either timestamps jump back nearby as often as where two clocks are at work, or a few outliers
    are at its beginning or its end: beyond them, timestamps are as if they were not there.
    """
    nearby_jumps, place = 0, 0
    while not segments[place].is_after:
        place += 1
    first = max(0, place - NEARBY_ROWS)
    latest = segments[first].ts
    for i in range(first, min(place + NEARBY_ROWS, len(segments))):
        if latest - segments[i].ts >= max(REORDERING_SLACK_US, abs(jump_us) // 2):
            nearby_jumps += i != place
            latest = segments[i].ts
        latest = max(latest, segments[i].ts)
    if jump_us < -OUTLIER_US:
        for i in range(max(0, place - 1 - MAX_OUTLIERS), place):
            if segments[i].ts <= latest_ts + jump_us:
                return True
    if jump_us > 0:
        for i in range(place, min(place + 1 + MAX_OUTLIERS, len(segments))):
            if segments[i].ts < latest_ts + jump_us // 2:
                return True
    return nearby_jumps > MAX_NEARBY_JUMPS


@inner
def _end(segments, begin):
    """Return the index after the last segment of the connection that begins at segments[begin]."""
    end = begin
    while end < len(segments) and segments[end].connection == segments[begin].connection:
        end += 1
    return end


@compiled
def _vote_on_jump(by_record, by_time):
    """Return how many more connections vote for a step back than against.

    by_record, by_time: SEGMENT[n], by connection and order of the records, or by time
    """
    balance, begin, latest = 0, 0, np.zeros(2, SEGMENT)
    while begin < len(by_record):
        end = _end(by_record, begin)
        if by_record[begin].connection:
            in_time = _violations(by_time, begin, end, latest)
            in_record = _violations(by_record, begin, end, latest)
            balance += np.sign(in_time - in_record)
        begin = end
    return balance


@inner
def _violations(segments, begin, end, latest):
    """Return how often a connection's segments contradict their order.

    latest: SEGMENT[2], overwritten: the latest numbers of each direction; `is_after`: seq_end known
    """
    violations = 0
    latest[:] = segments[begin]
    for way in latest:
        way.is_after = way.has_ack = way.has_timestamp = False
    for i in range(begin, end):
        segment = segments[i]
        own, other = latest[segment.direction], latest[1 - segment.direction]
        if not own.is_after or _is_later(segment.seq_end, own.seq_end):
            own.seq_end, own.is_after = segment.seq_end, True
        elif segment.seq != segment.seq_end or _is_later(own.seq_end, segment.seq_end):
            violations += 1
        if segment.seq != segment.seq_end and other.has_ack:
            violations += not _is_later(segment.seq_end, other.ack)
        if segment.has_ack:
            violations += own.has_ack and _is_later(own.ack, segment.ack)
            if not own.has_ack or _is_later(segment.ack, own.ack):
                own.ack, own.has_ack = segment.ack, True
        if segment.has_timestamp:
            violations += own.has_timestamp and _is_later(own.ts_val, segment.ts_val)
            own.ts_val, own.has_timestamp = segment.ts_val, True
    return violations


@inner
def _is_later(one, other):
    """Return whether a 32-bit number is after another one (RFC 9293, 3.4)."""
    return np.int32(np.uint32(one) - np.uint32(other)) > 0


@compiled
def _vote_on_gap(segments, gap_us, is_final):
    """Return how many more connections vote for a step forward in a gap than against.

    segments: SEGMENT[n], by connection and order of the records
    is_final: whether no further rows can be compared
    """
    balance, begin, latest = 0, 0, np.zeros(4, SEGMENT)
    while begin < len(segments):
        end = _end(segments, begin)
        place = begin
        while place < end and not segments[place].is_after:
            place += 1
        goes_on = begin < place < end and segments[place].is_syn <= segments[place - 1].is_syn
        if segments[begin].connection and goes_on:
            before, after = segments[begin:place], segments[place:end]
            up, down = _missing_us(before, after, 0), _missing_us(before, after, 1)
            if np.isnan(up) and np.isnan(down):
                balance += _vote_by_timers(before, after, gap_us, latest)
            elif np.fmin(up, down) <= 0:
                balance -= 1
            else:
                balance += is_final or not (np.isnan(up) or np.isnan(down))
        begin = end
    return balance


@inner
def _missing_us(before, after, direction):
    """Return how much more time passed in a gap by the file's clock than by an end's, µs.

    before, after: SEGMENTs of one connection on either side of the gap
    Returns 0 or less if it may be nothing, and NaN if the end's timestamps do not show it.
    """
    us_per_tick = max(_us_per_tick(before, direction), _us_per_tick(after, direction))
    if us_per_tick == 0:
        return np.nan
    origin, lag_before, lag_after = np.uint32(0), np.nan, np.nan
    for i in range(len(before)):
        if before[i].direction == direction and before[i].has_timestamp:
            if np.isnan(lag_before):
                origin = before[i].ts_val
            passed_us = us_per_tick * np.int32(before[i].ts_val - origin)
            lag_before = np.fmin(lag_before, before[i].ts - passed_us)
    for i in range(len(after)):
        if after[i].direction == direction and after[i].has_timestamp:
            passed_us = us_per_tick * np.int32(after[i].ts_val - origin)
            lag_after = np.fmin(lag_after, after[i].ts - passed_us)
    return lag_after - lag_before - MIN_MISSING_US - 2 * us_per_tick


@inner
def _us_per_tick(side, direction):
    """Return the µs from tick to tick of an end's timestamps, or 0 if that is not known."""
    first, last = -1, -1
    for i in range(len(side)):
        if side[i].direction == direction and side[i].has_timestamp:
            first = i if first < 0 else first
            last = i
    ticks = np.int32(side[last].ts_val - side[first].ts_val) if first >= 0 else np.int32(0)
    if ticks >= MIN_TICKS:
        measured = (side[last].ts - side[first].ts) / ticks
        for us_per_tick in US_PER_TICK:
            if abs(measured - us_per_tick) < MAX_RATE_ERROR * us_per_tick:
                return us_per_tick
    return 0.0


@inner
def _vote_by_timers(before, after, gap_us, latest):
    """Return a connection's vote on a gap: 1 if a retransmission timer had to expire in it.

    before, after: SEGMENTs of one connection on either side of the gap
    latest: SEGMENT[4], overwritten: each direction's latest data, then the data whose RTT is
        measured; `is_after`: not acknowledged
    Returns -1 if the sender retransmits after the gap, and 0 if that is not known.
    """
    rtt_us = np.int64(0)
    for way in latest:
        way.is_after = False
    for i in range(max(0, len(before) - 2), len(before)):
        if before[i].is_closed:
            return 0
    for i in range(len(before)):
        segment, peer = before[i], 1 - before[i].direction
        if segment.has_ack:
            if latest[peer].is_after and segment.ack == latest[peer].seq_end:
                latest[peer].is_after = False
            if latest[2 + peer].is_after and not _is_later(latest[2 + peer].seq_end, segment.ack):
                rtt_us = max(rtt_us, segment.ts - latest[2 + peer].ts)
                latest[2 + peer].is_after = False
        if segment.seq != segment.seq_end:
            for k in range(segment.direction, 4, 2):
                if k < 2 or not latest[k].is_after:
                    latest[k] = segment
                    latest[k].is_after = True
    segment = after[0]
    own, other = latest[segment.direction], latest[1 - segment.direction]
    if rtt_us == 0 or gap_us < TIMER_US + 3 * rtt_us:
        return 0
    if own.is_after and segment.seq != segment.seq_end:
        return 1 if segment.seq == own.seq_end else -_is_later(own.seq_end, segment.seq)
    return other.is_after and segment.has_ack and not _is_later(segment.ack, other.seq_end)
