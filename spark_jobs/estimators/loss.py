"""Which downlink data packets were lost behind Gi (INFOCOM 2004, Section V); `internet_loss` has
those lost before it.

The paper cites Benkő and Veres (GLOBECOM 2002): a hole in the sequence space that is filled later
is a loss before the monitor, data sent again though it was seen a loss behind it, unless the
resend was not needed. Here it is decided which copy reached the mobile:

1. A copy that no other overlaps and that was acknowledged arrived.
2. What the access link's order alone proves (`order`).
3. For what remains, the likeliest history of the receiver (`receiver`): all that the ACKs tell by
   number, SACK blocks, D-SACKs, echoed timestamps and times is weighed at once, with what is known
   of the link: a FIFO of a certain pace that loses what finds its queue full (`link`). Histories
   that have lost different numbers are compared by what is still to come (`lookahead`).
4. What was lost so far tells how much the user's queue holds and how fast it drains (`queue`); with
   that, what is still unproven is decided again.

Copies at the end of what was observed, whose ACK would come later, are undecided: they count with
the probability that the queue had no room, or, where its limit is unknown, with the share lost
among the connection's others.
"""

import numpy as np
from numba import njit

from spark_jobs.estimators import link, lookahead, queue, receiver
from spark_jobs.estimators.link import PATH
from spark_jobs.estimators.order import ARRIVED, LOST, UNPROVEN, prove
from spark_jobs.estimators.receiver import ACK_SEEN, COPY, HYPOTHESIS
from spark_jobs.estimators.sequence import NONE, first_above, sequence_length, unwrap
from spark_jobs.estimators.tcp import FIN, SYN

NO_LOSS, BY_ORDER, BY_SACK, BY_DUP_ACKS, BY_SILENCE, UNDECIDED = range(6)
EVIDENCE = ("none", "order", "sack", "dup_acks", "silence", "undecided")
"""What tells of a loss: order alone; the ACKs of a receiver with SACK, without SACK; that no ACK
came; nothing yet."""

PROVEN, FIRST, AGAIN = range(3)
"""A user's connections are gone through in three turns: those that are proven throughout; the
others; and, if these tell more of what the queue holds, the others again."""
BEAM = 16
"""Hypotheses kept."""
BRANCHES = 4
"""So many follow from one at most: lost, or arrived after none to two window updates."""
WORST = 20.0
"""A hypothesis so much costlier than the best is given up."""
UNSURE = 12
"""With fewer hypotheses, none is given up that what is to come would have to save."""
OVERFLOWING = 8
"""Of a connection with so many losses for certain, the longest round trip tells of a full queue."""
MORE = 1.25
"""With so many times the losses that told what the queue holds, it is told anew."""
STEPS = 2048
"""Copies after which the best hypothesis is taken, if it has not been agreed on before."""
PATIENCE, PATIENCE_US = 2, 1_000_000
"""An ACK is awaited for this multiple of the connection's longest round trip, and 1 s."""
SEEN = np.dtype(
    [
        ("copy", "i8"),
        ("copy_end", "i8"),
        ("ack", "i8"),
        ("ack_end", "i8"),
        ("acked", "i8"),
        ("longest", "i8"),
        ("unproven", "i8"),
        ("lost", "i8"),
        ("questions", "?"),
    ]
)
"""A connection: where its copies and ACKs lie among its user's; the highest ACK; the longest round
trip that is certain (µs); how many copies are unproven and how many certainly lost; questions: a
copy is ambiguous."""


@njit(cache=True, nogil=True)
def access_losses(
    first,
    user,
    ts,
    downlink,
    flags,
    payload_len,
    window,
    number,
    to_user,
    has_ts,
    ts_val,
    ts_ecr,
    sack_at,
    sack_count,
    sack_edges,
    sack,
    path,
    until,
    user_first,
    user_ts,
    sent_before,
    answered,
):
    """The probability that each downlink data packet was lost behind Gi, and what tells so.

    Connection order (N packets, C connections): first int64[C + 1], ts int64 (µs), downlink bool,
    flags uint16, payload_len uint32, window uint16, number int64 (the downlink stream's of
    `stream_numbers`), to_user int64 (the packet's place in user order), has_ts bool, ts_val and
    ts_ecr uint32, sack_at int64 and sack_count uint8 (where its SACK edges lie in sack_edges
    uint32, and how many). Of each connection, a user's one after another: user int64, sack bool
    (permitted), path PATH (its user's), until int64 (to when the user was observed, µs).
    User order (M >= N packets of any protocol, U users): user_first int64[U + 1], user_ts int64
    (µs), sent_before int64[M + 1] (see `downlink_bytes_before`), answered int64 (when a packet's
    ACK came, where that is certain, µs; 0: it is not).

    Returns probability float32[N] (NaN: no downlink data, or the mobile's direction was not seen),
    evidence uint8[N] (into EVIDENCE; for those likely lost) and original int64[N] (the last packet
    before it that carried some of the same data, -1: none).
    """
    probability = np.full(len(ts), np.nan, np.float32)
    evidence = np.zeros(len(ts), np.uint8)
    original = np.full(len(ts), np.int64(-1))
    beam = np.zeros(BEAM, HYPOTHESIS)
    spare = np.zeros(BRANCHES * BEAM, HYPOTHESIS)
    ahead = np.zeros((lookahead.ROWS + 1, lookahead.WIDTH, 2), np.float32)
    mine, limited = np.empty(1, PATH), np.empty(1, PATH)
    begin = 0
    while begin < len(first) - 1:
        end = begin + 1
        while end < len(first) - 1 and user[end] == user[begin]:
            end += 1
        place = user_first[user[begin]]
        all_copies, all_top, all_acks, seen = _read_user(
            first[begin : end + 1], ts, downlink, flags, payload_len, window, number, to_user,
            place, sent_before, has_ts, ts_val, ts_ecr, sack_at, sack_count, sack_edges,
            sack[begin:end], path[begin], probability, original,
        )  # fmt: skip
        if len(all_copies) == 0:
            begin = end
            continue
        packets = link.packets_of_user(
            place, user_first[user[begin] + 1], user_ts, sent_before, answered
        )
        known = np.zeros(len(packets.ts), np.bool_)
        for k in range(len(all_copies)):
            packets.lost[all_copies[k].place] = all_copies[k].fate == LOST
        limited[0] = path[begin]
        told = 0
        for turn in (PROVEN, FIRST, AGAIN):
            if turn > PROVEN and path[begin].pace > 0:
                telling = int(np.count_nonzero(packets.lost & known))
                if telling >= max(OVERFLOWING, MORE * told):
                    told = telling
                    limited[0] = path[begin]
                    queue.fit(limited, packets, known)
                elif turn == AGAIN:
                    break
                link.replay(packets, limited[0])
            if turn == AGAIN and limited[0].limit == 0:
                break
            for x in range(end - begin):
                if not seen[x].questions or (turn == PROVEN) != (seen[x].unproven == 0):
                    continue
                copies = all_copies[seen[x].copy : seen[x].copy_end]
                top = all_top[seen[x].copy : seen[x].copy_end]
                acks = all_acks[seen[x].ack : seen[x].ack_end]
                c = begin + x
                if turn == PROVEN:
                    lost = copies["fate"] == LOST
                    _write(
                        copies,
                        lost,
                        sack[c],
                        0,
                        0,
                        seen[x].acked,
                        payload_len,
                        probability,
                        evidence,
                    )
                else:
                    mine[0] = limited[0]
                    mine[0].longest = _longest(limited[0], seen[x])
                    link.between(copies, packets, limited[0])
                    lost = _decide(
                        copies, top, acks, sack_edges, sack[c], mine[0], until[c], seen[x].acked,
                        beam, spare, ahead, payload_len, probability, evidence,
                    )  # fmt: skip
                for k in range(len(copies)):
                    packets.lost[copies[k].place] = lost[k]
                    known[copies[k].place] = payload_len[copies[k].at] and (
                        evidence[copies[k].at] != UNDECIDED
                    )
            if not seen["unproven"].any():
                break
        if limited[0].limit > 0:
            link.replay(packets, limited[0])
            for k in range(len(all_copies)):
                if evidence[all_copies[k].at] == UNDECIDED:
                    waiting = packets.waiting[all_copies[k].place]
                    probability[all_copies[k].at] = link.chance(waiting, limited[0])
        begin = end
    return probability, evidence, original


@njit(cache=True, nogil=True)
def _longest(path, connection):
    """The longest round trip, supposed to be that of a full queue (µs; 0: unknown); connection:
    SEEN. Where the queue's limit is known, that tells more."""
    if path.limit > 0 or connection.lost < OVERFLOWING:
        return 0.0
    return max(path.longest, connection.longest)


@njit(cache=True, nogil=True)
def _read_user(
    first, ts, downlink, flags, payload_len, window, number, to_user, place, sent_before,
    has_ts, ts_val, ts_ecr, sack_at, sack_count, sack_edges, sack, path, probability, original,
):  # fmt: skip
    """A user's connections, with what order alone proves of those with questions: (COPY[n], the
    highest number up to each, ACK_SEEN[m], SEEN[connections]); sets probability to 0 for data that
    may be decided, and fills original. place: the user's first packet."""
    sent = np.count_nonzero(downlink[first[0] : first[-1]])
    copies, top = np.zeros(sent, COPY), np.empty(sent, np.int64)
    acks = np.zeros(first[-1] - first[0] - sent, ACK_SEEN)
    seen = np.zeros(len(first) - 1, SEEN)
    n = m = 0
    for c in range(len(seen)):
        mine = seen[c]
        got, told, mine.acked = _read(
            first[c], first[c + 1], ts, downlink, flags, payload_len, window, number, to_user,
            place, sent_before, has_ts, ts_val, ts_ecr, sack_at, sack_count, sack_edges, original,
            copies[n:], top[n:], acks[m:],
        )  # fmt: skip
        if got == 0 or told == 0:
            continue
        for k in range(n, n + got):
            mine.questions |= copies[k].ambiguous
            if payload_len[copies[k].at]:
                probability[copies[k].at] = 0
        if not mine.questions:
            continue
        mine.copy, mine.copy_end, mine.ack, mine.ack_end = n, n + got, m, m + told
        n, m = n + got, m + told
        mine.longest = prove(
            copies[mine.copy : n], top[mine.copy : n], acks[mine.ack : m], sack_edges, sack[c],
            receiver.soonest(path),
        )  # fmt: skip
        for k in range(mine.copy, n):
            mine.unproven += copies[k].ambiguous and copies[k].fate == UNPROVEN
            mine.lost += copies[k].fate == LOST
    return copies[:n], top[:n], acks[:m], seen


@njit(cache=True, nogil=True)
def _read(
    start, end, ts, downlink, flags, payload_len, window, number, to_user, place, sent_before,
    has_ts, ts_val, ts_ecr, sack_at, sack_count, sack_edges, original, copies, top, acks,
):  # fmt: skip
    """Writes a connection's copies, the highest number up to each, and ACKs to the beginning of
    copies, top and acks, and fills original. Returns how many copies and ACKs there are, and the
    highest ACK."""
    n = m = 0
    highest = acked = NONE
    last_window = -1
    for i in range(start, end):
        if number[i] == NONE:
            continue
        if not downlink[i]:
            ack = acks[m]
            ack.ts, ack.value, ack.ecr, ack.has_ts = ts[i], number[i], ts_ecr[i], has_ts[i]
            ack.sack_at, ack.sack_count = sack_at[i], sack_count[i]
            if sack_count[i] >= 2:
                ack.block_low = unwrap(sack_edges[sack_at[i]], number[i])
                ack.block_high = unwrap(sack_edges[sack_at[i] + 1], number[i])
            moved = m > 0 and window[i] != last_window
            ack.moved = receiver.MOVED_WINDOW if moved else 0.0
            ack.stray = receiver.STRAY_SACK if sack_count[i] else receiver.STRAY_ACK
            if payload_len[i] or flags[i] & (SYN | FIN):
                ack.stray = 0.0
            elif moved and _same_blocks(ack, acks[m - 1], sack_edges):
                ack.stray = receiver.WINDOW_UPDATE
            acked = max(acked, number[i])
            last_window = window[i]
            m += 1
            continue
        c = copies[n]
        c.at, c.ts, c.place = i, ts[i], to_user[i] - place
        c.size = sent_before[to_user[i] + 1] - sent_before[to_user[i]]
        c.low = number[i]
        c.high = c.low + sequence_length(flags[i], payload_len[i])
        c.ts_val, c.has_ts, c.opens = ts_val[i], has_ts[i], flags[i] & SYN != 0
        if highest != NONE and c.low < min(c.high, highest):
            for k in range(first_above(top, 0, n, c.low), n):
                if max(c.low, copies[k].low) < min(c.high, copies[k].high):
                    copies[k].ambiguous = c.ambiguous = True
                    original[i] = copies[k].at
        highest = max(highest, c.high)
        top[n] = highest
        n += 1
    for k in range(n):
        copies[k].ambiguous |= copies[k].high > max(acked, copies[k].low)
    return n, m, acked


@njit(cache=True, nogil=True)
def _same_blocks(a, b, edges):
    if a.sack_count != b.sack_count:
        return False
    for k in range(a.sack_count):
        if edges[a.sack_at + k] != edges[b.sack_at + k]:
            return False
    return True


@njit(cache=True, nogil=True)
def _longest_round_trip(copies, acks):
    """From a copy to the first ACK of it, µs."""
    longest, told, k = np.int64(0), NONE, 0
    for j in range(len(acks)):
        if told != NONE and acks[j].value > told:
            while k < len(copies) and copies[k].high < acks[j].value:
                k += 1
            if k < len(copies):
                longest = max(longest, acks[j].ts - copies[k].ts)
        told = max(told, acks[j].value)
    return longest


@njit(cache=True, nogil=True)
def _resumptions(copies, top, acks):
    """(int64[n]: for each copy, the one from which on the history may be told anew as if nothing
    had been before, the last such up to the next open question, n if there is none; int64[n]: the
    ACKs seen before each copy). It may where all that was sent before is acknowledged."""
    n = len(copies)
    answered = np.empty(n, np.int64)
    fresh = np.zeros(n, np.bool_)
    j, acked = 0, NONE
    for k in range(n):
        while j < len(acks) and acks[j].ts < copies[k].ts:
            acked = max(acked, acks[j].value)
            j += 1
        answered[k] = j
        new = k > 0 and copies[k].low == top[k - 1] and copies[k].high > copies[k].low
        fresh[k] = new and acked >= top[k - 1]
    resume = np.empty(n, np.int64)
    to = n
    for k in range(n - 1, -1, -1):
        c = copies[k]
        if c.ambiguous and c.fate == UNPROVEN:
            to = -1
        if to < 0 and fresh[k]:
            to = k
        resume[k] = to
    return resume, answered


@njit(cache=True, nogil=True)
def _decide(
    copies, top, acks, edges, sack, path, until, acked,
    beam, spare, ahead, payload_len, probability, evidence,
):  # fmt: skip
    """Find the likeliest history of the receiver, and write it down; which copies it lost."""
    parents = np.empty((min(STEPS, len(copies)), len(beam)), np.int8)
    losses = np.empty(parents.shape, np.bool_)
    longest = _longest_round_trip(copies, acks)
    patience = PATIENCE * longest + PATIENCE_US
    soonest = receiver.soonest(path)
    watched = np.empty(len(copies), np.bool_)
    for k in range(len(copies)):
        c = copies[k]
        watched[k] = c.ts + patience < until or c.ts + longest < acks[-1].ts
    latest = np.int64(1.5 * path.longest) if path.longest > 0 else 2 * longest
    rest = lookahead.begin(copies, acks, soonest, latest)
    first = receiver.first_number(copies, acks)
    receiver.begin(beam[0], first, link.clock_before(copies[0]))
    alive, steps, settled = 1, 0, 0
    lost = np.zeros(len(copies), np.bool_)
    resume, answered = _resumptions(copies, top, acks)
    known = 0  # costs are known for the copies up to it, ROWS in number
    for k in range(len(copies)):
        c = copies[k]
        if settled > k:
            continue
        if alive == 1 and resume[k] > k:
            for passed in range(k, resume[k]):
                lost[passed] = copies[passed].fate == LOST
            settled = resume[k]
            if settled < len(copies):
                receiver.begin(beam[0], copies[settled].low, link.clock_before(copies[settled]))
                beam[0].next_ack = answered[settled]
            continue
        if alive == 1 and c.fate != LOST and (c.fate == ARRIVED or not c.ambiguous):
            receiver.settle(beam[0], c.ts + soonest, acks)
            if not _may_update(beam[0], beam[0].next_ack, acks):
                receiver.arrive(beam[0], c, acks, edges, sack, watched[k], path)
                beam[0].lost = False
                settled += 1
                continue
        made = 0
        for x in range(alive):
            receiver.settle(beam[x], c.ts + soonest, acks)
            made = _branch(beam[x], x, c, acks, edges, sack, watched[k], path, spare, made)
        if made > UNSURE:
            if k + 1 >= known:
                known = k + 1 + lookahead.ROWS
                lookahead.at_least(copies, acks, rest, k + 1, sack, watched, path, ahead)
            row = ahead[k + 1 - known + lookahead.ROWS]
            for x in range(made):
                spare[x].ahead = lookahead.to_come(rest, k + 1, row, spare[x])
        else:
            for x in range(made):
                spare[x].ahead = 0.0
        alive = _keep_best(spare[:made], beam, parents[steps], losses[steps])
        steps += 1
        if alive == 1 or steps == len(parents):
            _trace_back(parents, losses, steps, 0, lost[settled : settled + steps])
            settled += steps
            alive, steps = 1, 0
    best = 0
    for x in range(alive):
        receiver.settle(beam[x], np.int64(2**62), acks)
        if beam[x].cost < beam[best].cost:
            best = x
    _trace_back(parents, losses, steps, best, lost[settled : settled + steps])
    _write(
        copies, lost, sack, until - patience, acks[-1].ts - longest, acked,
        payload_len, probability, evidence,
    )  # fmt: skip
    return lost


@njit(cache=True, nogil=True)
def _branch(h, place, c, acks, edges, sack, watched, path, spare, made):
    """What may become of one hypothesis with the next copy: lost, or arrived, perhaps after window
    updates that no copy caused. Returns how many hypotheses `spare` then holds."""
    round_trip = receiver.due(h, c, path) - c.ts
    goes = receiver.NEXT_LOSS if h.lost else receiver.LOSS
    comes = 0.0
    if path.limit > 0:
        p = link.chance(receiver.backlog(h, c, path), path)
        goes, comes = min(goes, -np.log(p)), -np.log(1 - p)
    else:
        goes = min(goes, receiver.overflow(round_trip, path, c.size * path.pace))
    if c.fate == LOST or (c.ambiguous and c.fate == UNPROVEN):
        to = spare[made]
        receiver.copy(to, h)
        to.cost += goes
        if c.last and not receiver.has(h, c.low, c.high):
            to.cost += receiver.IMPOSSIBLE
        receiver.lose(to, c, path)
        to.parent, to.lost = place, True
        made += 1
    if c.fate == LOST:
        return made
    skipped = comes
    for updates in range(BRANCHES - 1):
        to = spare[made]
        receiver.copy(to, h)
        to.cost += skipped
        to.next_ack += updates
        to.parent, to.lost = place, False
        receiver.arrive(to, c, acks, edges, sack, watched, path)
        made += 1
        if not _may_update(h, h.next_ack + updates, acks):
            break
        skipped += acks[h.next_ack + updates].stray
    return made


@njit(cache=True, nogil=True)
def _may_update(h, j, acks):
    """Whether an ACK may be a window update that no copy caused."""
    if j >= len(acks) or acks[j].stray >= receiver.STRAY_ACK:
        return False
    return acks[j].value == h.rcv_nxt == h.acked


@njit(cache=True, nogil=True)
def _keep_best(spare, beam, parents, losses):
    """Move the best hypotheses into the beam, of equal receivers the cheapest; returns how many."""
    total = np.empty(len(spare))
    for x in range(len(spare)):
        total[x] = spare[x].cost + spare[x].ahead
    order = np.argsort(total)
    alive = 0
    for pick in order:
        if alive == len(beam) or total[pick] > total[order[0]] + WORST:
            break
        new = True
        for x in range(alive):
            if receiver.same(spare[pick], beam[x]):
                new = False
                break
        if new:
            receiver.copy(beam[alive], spare[pick])
            parents[alive], losses[alive] = spare[pick].parent, spare[pick].lost
            alive += 1
    return alive


@njit(cache=True, nogil=True)
def _trace_back(parents, losses, steps, x, lost):
    for step in range(steps - 1, -1, -1):
        lost[step] = losses[step, x]
        x = parents[step, x]


@njit(cache=True, nogil=True)
def _write(
    copies, lost, sack, last_watched, last_answered, acked,
    payload_len, probability, evidence,
):  # fmt: skip
    """Probability and evidence of one connection's data packets."""
    decided = decided_lost = 0
    for k in range(len(copies)):
        c = copies[k]
        if not payload_len[c.at]:
            continue
        probability[c.at], evidence[c.at] = 0, NO_LOSS
        if c.fate == UNPROVEN and c.high > acked and c.ts >= max(last_watched, last_answered):
            evidence[c.at] = UNDECIDED
            continue
        decided += 1
        if lost[k]:
            decided_lost += 1
            probability[c.at] = 1
            if c.fate == LOST:
                evidence[c.at] = BY_ORDER
            elif c.high > acked:
                evidence[c.at] = BY_SILENCE
            else:
                evidence[c.at] = BY_SACK if sack else BY_DUP_ACKS
    share = queue.share(decided_lost, decided)
    for k in range(len(copies)):
        if evidence[copies[k].at] == UNDECIDED:
            probability[copies[k].at] = share


@njit(cache=True, nogil=True)
def observed_until(end_ts, user, user_first, user_ts, longest_us):
    """int64[C]: the user's last packet up to longest_us after each connection's end (µs)."""
    until = np.empty(len(end_ts), np.int64)
    for c in range(len(end_ts)):
        mine = user_ts[user_first[user[c]] : user_first[user[c] + 1]]
        until[c] = mine[np.searchsorted(mine, end_ts[c] + longest_us, "right") - 1]
    return until


@njit(cache=True, nogil=True)
def access_totals(first, downlink, payload_len, number, probability):
    """Of each connection: whether it has downlink data, whether what became of all of it is known,
    packets lost behind Gi, and those expected to be (arrays: see access_losses)."""
    count = len(first) - 1
    has_data, measurable = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    lost, expected = np.zeros(count, np.int64), np.zeros(count)
    for c in range(count):
        for i in range(first[c], first[c + 1]):
            if not downlink[i] or payload_len[i] == 0:
                continue
            has_data[c] = True
            if not np.isnan(probability[i]):
                lost[c] += probability[i] > 0.5
                expected[c] += probability[i]
            elif number[i] >= 0:
                measurable[c] = False
    return has_data, measurable, lost, expected
