"""The clock of the host that captures, where it was set back.

Rows stand as the file has its records: in the order in which packets came, if one clock stamped
them as they did. Where a packet is stamped earlier than one before it, either the clock stepped
back, or the file is out of order: several queues of a network card, files put one behind the
other. What the packets say themselves tells which. TCP's numbers ascend in the order of the
records after a step, and in the order of times otherwise (RFC 9293, 3.4):

- Of two packets of one connection and direction, the one recorded later is stamped earlier. If it
  goes on where the other one's data ends, or acknowledges more, it was sent later: the clock
  stepped. If its data lies before, or it acknowledges less, the times are right. Data that was
  recorded before is a retransmission, which tells nothing. The majority of the connections that
  tell something decides.
- Where none tells that, an answer that is stamped earlier than what it acknowledges, unless times
  run backwards close by, too: then two clocks are at work.

A clock is set back seldom: many leaps of one size close together are two clocks, as of two
interfaces, or queues. One or two packets stamped late by more than a minute are strays.

After a step all packets of the file are stamped later by its size, so that the first one has the
time of the last one before: the order stays, and only the time between these two is lost.
"""

from collections import deque
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from spark_jobs.capture import decode
from spark_jobs.capture.decode import ACK, FIN, RST, SYN
from spark_jobs.capture.hashes import OTHER_FACTOR, address_hashes, mixed
from spark_jobs.capture.reader import Reading, Run
from spark_jobs.compiled import compiled, inner

SLACK_US = 1_000
"""Packets out of order by less are put in order by time."""
LATE_US = 1_000_000
"""Packets out of order by more are counted."""
LONGEST_STEP_US = 86_400_000_000
"""A day: packets that are stamped earlier by more were written at another time."""
LOOKED_AT = 100_000
"""Rows on either side of a leap among which connections are looked for, at most,"""
FIRST_LOOK = 512
"""at first, as many may do, and"""
WIDER = 8
"""how many times more when they do not."""
ENOUGH = 8
"""Connections that need no further ones beside them."""
NEAR = 256
"""Rows on either side of a leap, in which others as large"""
MOST_NEAR = 8
"""are at most so many if it was a step."""
STRAYS = 2
"""Packets in a row that may be stamped late by themselves,"""
STRAY_US = 60_000_000
"""by more than this."""
REACH = 1 << 24
"""B: numbers further apart are not of one stream, or not compared."""
MOST_PROBES = 32
"""Places of a table that are tried for one connection."""
CREDIT = 1 << 21
"""Rows that may be looked at for the leaps of a file, and"""
EARNED = 4
"""how many more for each row that is passed, so that the work grows as the file does."""
COST = 2_000
"""Rows, which take the time that a leap takes beside them."""
MOST_STEPS = 255
"""That schemas.packets counts."""

CLOCK = np.dtype(
    [
        ("latest", "i8"),
        ("shift", "i8"),
        ("steps", "i8"),
        ("late", "i8"),
        ("credit", "i8"),
        ("bearable", "i8"),
    ]
)
"""What is known of a file's clock: the latest time since the times last ran backwards (µs), by how
much rows are stamped later (µs), steps so far, packets that were LATE_US out of order; work that
may be done, and the size of leaps (µs) that are no step, without being looked at, while there is
none left."""

SEEN = np.dtype(
    [
        ("connection", "u8"),
        ("ts", "i8"),
        ("begin", "u4"),
        ("end", "u4"),
        ("ack", "u4"),
        ("kind", "u1"),
    ],
    align=True,
)
"""What a packet says of its place in its connection: a hash of both ends, time (µs), where its data
begins and ends (SYN and FIN count as data), acknowledgement number; kind: flags."""
NUMBERED, ACKS, DOWN = 1, 2, 4
"""It has a sequence number; an acknowledgement number; it goes to the mobile."""

FRONT = np.dtype(
    [
        ("begin", "u4"),
        ("end", "u4"),
        ("end_ts", "i8"),
        ("ack", "u4"),
        ("ack_ts", "i8"),
        ("has", "u1"),
    ],
    align=True,
)
"""How far a connection's direction had come before a leap: its data that ends last, and its highest
acknowledgement number, with their times; has: NUMBERED and ACKS."""

VOTE = np.dtype(
    [("connection", "u8"), ("acks", "i4"), ("data", "i4"), ("across", "i4"), ("used", "?")],
    align=True,
)
"""A connection's votes, for a step less those against: by acknowledgement numbers, by data, by
answers of the other direction."""

STEP, DISORDER, UNDECIDED = range(3)


def on_one_clock(runs: Iterator[Run], reading: Reading) -> Iterator[Run]:
    """The runs of a file, whose times never step back with the clock: see above.

    Steps are counted, their sizes (µs), and packets that are out of order by more than a second; a
    row's `clock_steps` says how many were before it. Memory: at most LOOKED_AT rows, and the run
    behind the one that is told, are held beside it.
    """
    file = _File(runs)
    clock = np.zeros(1, CLOCK)
    clock["latest"], clock["credit"] = -(2**62), CREDIT
    while file.next():
        before = clock.copy()
        stepped, at = 0, 0
        while (at := _next_leap(file.run.rows, at, clock)) < len(file.run.rows):
            stepped += _judge(file, at, clock)
        _count(reading, "clock_backwards", clock["steps"][0] - before["steps"][0])
        _count(reading, "clock_backwards_us", stepped)
        _count(reading, "out_of_order", clock["late"][0] - before["late"][0])
        yield _before_year_10000(file.run, reading) if clock["shift"][0] else file.run


def _count(reading: Reading, reason: str, count: int) -> None:
    if count:
        reading.skipped[reason] += int(count)


def _before_year_10000(run: Run, reading: Reading) -> Run:
    """The run without packets that were shifted too far, which are counted."""
    keep = run.rows["ts"] < decode.LATEST_TS_US
    _count(reading, "implausible_time", len(keep) - keep.sum())
    return run if keep.all() else run.only(keep)


class _Held:
    """Rows of a run, and what is needed to look at them."""

    def __init__(self, run: Run):
        self.run = run

    @cached_property
    def hashes(self) -> np.ndarray:
        return address_hashes(self.run.addresses.known)

    def seen(self, begin: int, end: int, shift: int) -> np.ndarray:
        """SEEN[end - begin]"""
        return _seen(self.run.rows[begin:end], self.hashes, shift)


class _File:
    """The runs of a file, one after the other, with a look at those before and behind."""

    def __init__(self, runs: Iterator[Run]):
        self._runs = iter(runs)
        self._past: deque[_Held] = deque()
        self._ahead: deque[_Held] = deque()
        self._now: _Held | None = None
        self._is_own = False

    @property
    def run(self) -> Run:
        """The present run."""
        assert self._now is not None
        return self._now.run

    def next(self) -> bool:
        """Go on to the next run; False where there is none."""
        if self._now is not None:
            self._keep_end(self._now)
        self._is_own = bool(self._ahead)
        if self._ahead:
            self._now = self._ahead.popleft()
        else:
            run = next(self._runs, None)
            self._now = _Held(run) if run is not None else None
        return self._now is not None

    def _keep_end(self, held: _Held) -> None:
        run = held.run
        end = Run(run.rows[-LOOKED_AT:].copy(), run.edges[:0], run.addresses)
        self._past.append(_Held(end))
        while sum(len(past.run.rows) for past in self._past) >= LOOKED_AT + len(
            self._past[0].run.rows
        ):
            self._past.popleft()

    def before(self, at: int, count: int) -> np.ndarray:
        """SEEN[up to count]: the last rows before run.rows[at]."""
        assert self._now is not None
        parts = [self._now.seen(max(0, at - count), at, 0)]
        missing = count - at
        for past in reversed(self._past):
            if missing <= 0:
                break
            n = len(past.run.rows)
            parts.insert(0, past.seen(max(0, n - missing), n, 0))
            missing -= n
        return np.concatenate(parts)

    def after(self, at: int, count: int, shift: int) -> np.ndarray:
        """SEEN[up to count]: the rows from run.rows[at] on, so much later."""
        assert self._now is not None
        self._read_ahead(count - (len(self.run.rows) - at))
        parts = [self._now.seen(at, at + count, shift)]
        missing = count - len(parts[0])
        for held in self._ahead:
            if missing <= 0:
                break
            parts.append(held.seen(0, missing, shift))
            missing -= len(parts[-1])
        return np.concatenate(parts)

    def _read_ahead(self, rows: int) -> None:
        """Have so many rows behind the present run, if there are. A run holds until the next one is
        asked for, so that those that are there are copied first."""
        missing = rows - sum(len(held.run.rows) for held in self._ahead)
        while missing > 0:
            if not self._is_own:
                self._now, self._is_own = _Held(_copy(self.run)), True
            run = next(self._runs, None)
            if run is None:
                break
            self._ahead.append(_Held(_copy(run)))
            missing -= len(run.rows)


def _copy(run: Run) -> Run:
    return Run(run.rows.copy(), run.edges.copy(), run.addresses)


def _judge(file: _File, at: int, clock: np.ndarray) -> int:
    """Decide what the leap back to run.rows[at] is; returns the size of the step (µs), or 0."""
    state = clock[0]
    latest, shift = int(state["latest"]), int(state["shift"])
    back = latest - int(file.run.rows["ts"][at]) - shift
    count, cost, verdict = FIRST_LOOK, COST, UNDECIDED
    if back > LONGEST_STEP_US or shift + back >= decode.LATEST_TS_US:
        verdict = DISORDER
    while verdict == UNDECIDED:
        before, after = file.before(at, count), file.after(at, count, shift)
        cost += len(before) + len(after)
        all_before = len(before) < count or before["ts"][0] <= latest - 2 * back
        all_after = len(after) < count or after["ts"][-1] >= latest + back
        at_last = (all_before and all_after) or count >= LOOKED_AT
        verdict = _verdict(before, after, latest, back, at_last)
        count = min(LOOKED_AT, WIDER * count)
    state["credit"] -= cost
    if verdict == DISORDER or state["credit"] < 0:
        state["bearable"] = max(int(state["bearable"]), 2 * back)
    if verdict == STEP:
        state["shift"] += back
        state["steps"] += 1
        return back
    state["latest"] = latest - back
    state["late"] += back > LATE_US
    return 0


@compiled
def _next_leap(rows, at, clock):
    """Where the first of rows[at:], decode.ROW, is stamped earlier than one before by more than
    SLACK_US; len(rows) where there is none. Rows before it are put on the file's clock,
    CLOCK[1]."""
    c = clock[0]
    for i in range(at, len(rows)):
        ts = rows[i].ts + c.shift
        if ts < c.latest - SLACK_US:
            back = c.latest - ts
            if c.credit > 0 or back > c.bearable:
                return i
            c.latest = ts
            c.late += back > LATE_US
        if c.credit < CREDIT:
            c.credit += EARNED
            if c.credit >= CREDIT:
                c.bearable = 0
        c.latest = max(c.latest, ts)
        if c.shift:
            rows[i].ts = ts
            rows[i].clock_steps = min(c.steps, MOST_STEPS)
    return len(rows)


@compiled
def _seen(rows, addresses, shift):
    """SEEN[n] of rows, decode.ROW[n], so much later (µs); addresses: uint64, hashes by number."""
    out = np.zeros(len(rows), SEEN)
    for i in range(len(rows)):
        row, to = rows[i], out[i]
        to.ts = row.ts + shift
        if not row.has & decode.HAS_TCP or row.tcp_flags & (RST | ACK) == RST:
            continue
        ports = np.int64(row.user_port) << 16 | np.int64(row.server_port)
        to.connection = mixed(addresses[row.user] ^ addresses[row.server] * OTHER_FACTOR, ports)
        flags = row.tcp_flags
        length = np.int64(row.payload_len)
        length += (1 if flags & SYN else 0) + (1 if flags & FIN else 0)
        to.begin, to.end, to.ack = row.seq, np.uint32(row.seq + length), row.ack
        to.kind = NUMBERED | (ACKS if flags & ACK else 0) | (DOWN if row.downlink else 0)
    return out


@inner
def _apart(one, other):
    """one - other of two 32-bit numbers; 0 where that is more than REACH."""
    apart = np.int64(np.int32(np.uint32(one) - np.uint32(other)))
    return apart if abs(apart) < REACH else np.int64(0)


@inner
def _place(votes, connection, add):
    """The connection's place in VOTE[a power of two], -1 where it has none; add: give it one."""
    mask = len(votes) - 1
    at = np.int64(connection & np.uint64(mask))
    for _ in range(MOST_PROBES):
        vote = votes[at]
        if not vote.used:
            if not add:
                return np.int64(-1)
            vote.used, vote.connection = True, connection
            return at
        if vote.connection == connection:
            return at
        at = (at + 1) & mask
    return np.int64(-1)


@inner
def _was_sent(sent, packet, add):
    """Whether data that begins where the packet's does is in a table, uint64[a power of two]; add:
    put it there."""
    mask = len(sent) - 1
    h = mixed(packet.connection, np.int64(packet.begin) << 1 | np.int64(packet.kind & DOWN > 0))
    h |= np.uint64(1)
    at = np.int64(h >> np.uint64(1) & np.uint64(mask))
    for _ in range(MOST_PROBES):
        if sent[at] == h:
            return True
        if sent[at] == 0:
            if add:
                sent[at] = h
            return False
        at = (at + 1) & mask
    return False


@inner
def _leaps(seen, begin, end, least):
    """How often times run back by `least` (µs) or more within seen[begin:end]."""
    count = np.int64(0)
    if begin < end:
        latest = seen[begin].ts
        for i in range(begin + 1, end):
            if latest - seen[i].ts >= least:
                count += 1
                latest = seen[i].ts
            latest = max(latest, seen[i].ts)
    return count


@inner
def _is_stray(before, leapt_to):
    """Whether the last of the packets before are stamped late by themselves: before they were, a
    packet was stamped no later than the one behind them."""
    for i in range(len(before) - 1, max(-1, len(before) - 2 - STRAYS), -1):
        if before[i].ts <= leapt_to:
            return True
    return False


@inner
def _follow(front, packet):
    """A direction's FRONT, after a further packet of it."""
    if not front.has & NUMBERED or _apart(packet.end, front.end) >= 0:
        if not front.has & NUMBERED or packet.end != front.end or packet.begin != packet.end:
            front.begin, front.end, front.end_ts = packet.begin, packet.end, packet.ts
        front.has |= NUMBERED
    if packet.kind & ACKS:
        if not front.has & ACKS or _apart(packet.ack, front.ack) >= 0:
            front.ack, front.ack_ts = packet.ack, packet.ts
            front.has |= ACKS


@inner
def _vote(vote, own, other, packet, is_new):
    """What a packet that was recorded later says beside what was recorded before, FRONTs of its own
    direction and the other; is_new: its data was not recorded before."""
    ts = packet.ts
    if own.has & NUMBERED and ts < own.end_ts:
        goes_on, lies_before = _apart(packet.begin, own.end), _apart(own.begin, packet.end)
        if goes_on >= 0 and _apart(packet.end, own.begin) > 0:
            vote.data += 1
        elif own.end != own.begin and is_new:  # else who sends nothing new may retransmit
            if lies_before >= 0 and _apart(own.end, packet.begin) > 0:
                vote.data -= 1
    if packet.kind & ACKS and own.has & ACKS and ts < own.ack_ts:
        more = _apart(packet.ack, own.ack)
        vote.acks += (1 if more > 0 else 0) - (1 if more < 0 else 0)
    if packet.kind & ACKS and other.has & NUMBERED and ts < other.end_ts:
        if other.end != other.begin and packet.ack == other.end:
            vote.across += 1
    if other.has & ACKS and ts < other.ack_ts and packet.end != packet.begin and is_new:
        if _apart(other.ack, packet.begin) > 0:
            vote.across -= 1


@compiled
def _verdict(before, after, latest, back, at_last):
    """STEP or DISORDER, of a leap back by `back` from `latest` (µs), between SEEN before and after;
    UNDECIDED where more of them may tell: not at_last."""
    least = max(SLACK_US, back // 2)
    near = _leaps(after, np.int64(0), min(NEAR, len(after)), least)
    near += _leaps(before, max(np.int64(0), len(before) - NEAR), len(before), least)
    leapt_to = latest - back
    if near > MOST_NEAR or (back > STRAY_US and _is_stray(before, leapt_to)):
        return DISORDER
    size = 2
    while size < 2 * len(before):
        size *= 2
    votes, fronts = np.zeros(size, VOTE), np.zeros((size, 2), FRONT)
    sent = np.zeros(size, np.uint64)
    for i in range(len(before)):
        packet = before[i]
        if not packet.kind & NUMBERED:
            continue
        way = 1 if packet.kind & DOWN else 0
        if packet.end != packet.begin:
            _was_sent(sent, packet, True)
        if packet.ts > leapt_to:
            at = _place(votes, packet.connection, True)
            if at >= 0:
                _follow(fronts[at, way], packet)
    for i in range(len(after)):
        packet = after[i]
        if packet.ts >= latest or not packet.kind & NUMBERED:
            continue
        at = _place(votes, packet.connection, False)
        if at >= 0:
            way = 1 if packet.kind & DOWN else 0
            is_new = not _was_sent(sent, packet, False)
            _vote(votes[at], fronts[at, way], fronts[at, 1 - way], packet, is_new)
    told, balance, across = np.int64(0), np.int64(0), np.int64(0)
    for k in range(size):
        vote = votes[k]
        own = np.sign(vote.acks) if vote.acks else np.sign(vote.data)
        told += abs(own)
        balance += own
        across += np.sign(vote.across)
    if told >= ENOUGH or (told and at_last):
        return STEP if balance > 0 else DISORDER
    if not at_last:
        return UNDECIDED
    return STEP if across > 0 and near == 0 else DISORDER
