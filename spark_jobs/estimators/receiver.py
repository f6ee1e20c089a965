"""What a TCP receiver must have held, hypothesis by hypothesis."""

import numpy as np
from numba import njit

from spark_jobs.estimators.sequence import NONE, first_above, sequence_length, unwrap
from spark_jobs.estimators.tcp import FIN, RST, SYN

WIDTH = 48
RANGES = 256
WINDOW = 2048

LOSS = 3.9
MISSING = 4.6
MISSING_SACK = 2.0
UNEXPLAINED = 6.0
LATE = 0.7
LATEST = 4.0
STALE = 8.0
LOSS_AGAIN = 1.4
UNEXPLAINED_SACK = 15.0
OWED = 2.0
IMPOSSIBLE = 30.0
MISMATCH = 7.0
PRUNE = 40.0

PLAIN, FILLS, AHEAD, AGAIN = 0, 1, 2, 3

HYPOTHESIS = np.dtype(
    [
        ("cost", "f8"),
        ("next_ack", "i8"),
        ("rcv_nxt", "i8"),
        ("acked", "i8"),
        ("last_sent", "i8"),
        ("ts_recent", "u4"),
        ("ts_maybe", "u4"),
        ("held", "i4"),
        ("owed", "i4"),
        ("parent", "i4"),
        ("lost", "?"),
        ("untold", "i8"),
        ("clock", "i8"),
        ("clock_bytes", "i8"),
        ("low", "i8", (RANGES,)),
        ("high", "i8", (RANGES,)),
    ]
)


@njit(cache=True, nogil=True)
def _copy(to, h):
    to.cost, to.next_ack, to.rcv_nxt, to.acked = h.cost, h.next_ack, h.rcv_nxt, h.acked
    to.last_sent, to.ts_recent, to.ts_maybe = h.last_sent, h.ts_recent, h.ts_maybe
    to.clock, to.clock_bytes = h.clock, h.clock_bytes
    to.held, to.owed, to.parent, to.lost, to.untold = h.held, h.owed, h.parent, h.lost, h.untold
    for k in range(h.held):
        to.low[k], to.high[k] = h.low[k], h.high[k]


@njit(cache=True, nogil=True)
def _hold(h, low, high):
    """Add a range to those held out of order; True if it was held already."""
    known = False
    n = 0
    for k in range(h.held):
        if h.low[k] <= low and high <= h.high[k]:
            known = True
        if h.high[k] < low or high < h.low[k]:
            h.low[n], h.high[n] = h.low[k], h.high[k]
            n += 1
        else:
            low, high = min(low, h.low[k]), max(high, h.high[k])
    if n == RANGES:
        for k in range(1, n):
            h.low[k - 1], h.high[k - 1] = h.low[k], h.high[k]
        n -= 1
    place = n
    while place > 0 and h.low[place - 1] > low:
        h.low[place], h.high[place] = h.low[place - 1], h.high[place - 1]
        place -= 1
    h.low[place], h.high[place] = low, high
    h.held = n + 1
    return known


@njit(cache=True, nogil=True)
def _advance(h, to):
    """Everything up to `to` arrived in order; what is held beyond it follows."""
    h.rcv_nxt = to
    n = 0
    for k in range(h.held):
        if h.low[k] <= h.rcv_nxt:
            h.rcv_nxt = max(h.rcv_nxt, h.high[k])
        else:
            h.low[n], h.high[n] = h.low[k], h.high[k]
            n += 1
    h.held = n


@njit(cache=True, nogil=True)
def _sack_cost(h, i, kind, low, high, acks, sack_at, sack_count, sack_edges):
    cost = 0.0
    count = sack_count[i] // 2
    told = h.untold <= h.rcv_nxt
    duplicate = False
    listed = 0
    for b in range(count):
        s = unwrap(sack_edges[sack_at[i] + 2 * b], h.rcv_nxt)
        e = unwrap(sack_edges[sack_at[i] + 2 * b + 1], h.rcv_nxt)
        if b == 0:
            inside = False
            if count > 1:
                s2 = unwrap(sack_edges[sack_at[i] + 2], h.rcv_nxt)
                e2 = unwrap(sack_edges[sack_at[i] + 3], h.rcv_nxt)
                inside = s2 <= s and e <= e2
            if e <= h.rcv_nxt or inside:
                duplicate = True
                if kind != AGAIN or not (s < high and low < e):
                    cost += MISMATCH
                continue
        listed += 1
        told |= s < h.untold <= e
        found = False
        for k in range(h.held):
            if h.low[k] <= s and e <= h.high[k]:
                found = True
        if not found:
            cost += MISMATCH
        if listed == 1 and kind == AHEAD and not (s <= low and high <= e):
            cost += MISMATCH
    if kind == AGAIN and not duplicate:
        cost += MISMATCH
    if not told:
        cost += MISMATCH
    if listed == 0 and h.held:
        cost += 1.0
    return cost


@njit(cache=True, nogil=True)
def _settle(h, until, n_acks, ack_at, ack_ts, number, acks_free):
    """Explain the ACKs that no later copy can have caused."""
    while h.next_ack < n_acks and ack_ts[h.next_ack] < until:
        j = h.next_ack
        value = number[ack_at[j]]
        if value > h.rcv_nxt:
            h.cost += IMPOSSIBLE
            _advance(h, value)
            h.acked = h.last_sent = value
        elif value == h.rcv_nxt and value > h.acked:
            h.acked = h.last_sent = value
            h.owed = 0
        elif value == h.acked:
            h.cost += acks_free[j]
        elif value > h.acked:
            h.acked = value
            h.cost += STALE if acks_free[j] else 0.0
        h.next_ack += 1


@njit(cache=True, nogil=True)
def _skip_stale(h, n_acks, ack_at, number, acks_free):
    while h.next_ack < n_acks and number[ack_at[h.next_ack]] < h.rcv_nxt:
        j = h.next_ack
        value = number[ack_at[j]]
        if value == h.acked:
            h.cost += acks_free[j]
        elif value > h.acked:
            h.acked = value
            h.cost += STALE if acks_free[j] else 0.0
        h.next_ack += 1


@njit(cache=True, nogil=True)
def _arrive(
    h,
    i,
    low,
    high,
    flags,
    watched,
    n_acks,
    ack_at,
    number,
    acks_free,
    acks_window,
    ts,
    user_bytes,
    base,
    pace,
    has_ts,
    ts_val,
    ts_ecr,
    sack,
    sack_at,
    sack_count,
    sack_edges,
):
    if low == high:
        if has_ts[i] and low == h.last_sent and np.int32(ts_val[i] - h.ts_recent) > 0:
            h.ts_maybe = ts_val[i]
        j = h.next_ack
        if low < h.rcv_nxt and j < n_acks:
            if number[ack_at[j]] == h.rcv_nxt == h.acked and sack_count[ack_at[j]] == 0:
                h.next_ack += 1
        return
    if has_ts[i] and low <= h.last_sent <= high:
        if np.int32(ts_val[i] - h.ts_recent) >= 0 or h.ts_recent == 0:
            h.ts_recent = h.ts_maybe = ts_val[i]
    if high <= h.rcv_nxt:
        kind = AGAIN
    elif low > h.rcv_nxt:
        kind = AGAIN if _hold(h, low, high) else AHEAD
    else:
        kind = FILLS if h.held else PLAIN
        before = h.rcv_nxt
        _advance(h, high)
        _skip_stale(h, n_acks, ack_at, number, acks_free)
    h.owed += 1
    best, take = np.inf, -1
    j = h.next_ack
    if (
        j < n_acks
        and number[ack_at[j]] == h.rcv_nxt
        and (kind != PLAIN or h.acked < h.rcv_nxt)
    ):
        at = ack_at[j]
        best, take = 0.0, j
        if has_ts[at] and h.ts_recent != 0 and ts_ecr[at] != h.ts_recent:
            past = np.int32(ts_ecr[at] - h.ts_recent)
            if past <= 0 or np.int32(h.ts_maybe - ts_ecr[at]) < 0:
                best += MISMATCH
        if sack and not flags[i] & SYN:
            best += _sack_cost(h, at, kind, low, high, 0, sack_at, sack_count, sack_edges)
        if kind == AHEAD or kind == AGAIN:
            best += acks_window[j]
        if base > 0:
            due = ts[i] + base
            if h.clock > due:
                due = h.clock
            due += (user_bytes[i] - h.clock_bytes) * pace if h.clock_bytes else 0.0
            late = (ts[at] - due) / base
            if late > 0:
                best += min(late, LATEST) * LATE
    missing = MISSING_SACK if sack and kind == AHEAD else MISSING
    if take >= 0 and (kind == PLAIN or best <= missing):
        h.cost += best
        if has_ts[ack_at[take]] and h.ts_recent != 0:
            if np.int32(ts_ecr[ack_at[take]] - h.ts_recent) > 0:
                h.ts_recent = ts_ecr[ack_at[take]]
        h.acked = h.last_sent = h.rcv_nxt
        h.next_ack = take + 1
        h.clock = ts[ack_at[take]]
        h.clock_bytes = user_bytes[i]
        h.untold = NONE
        h.owed = 0
        return
    if h.owed > 2 and watched:
        h.cost += OWED
    if kind != PLAIN:
        h.cost += missing if watched else 0.0
        h.last_sent = h.rcv_nxt
        h.owed = 0
        if kind == AHEAD:
            h.untold = high


@njit(cache=True, nogil=True)
def _same_blocks(i, j, sack_at, sack_count, sack_edges):
    if sack_count[i] != sack_count[j]:
        return False
    for b in range(sack_count[i]):
        if sack_edges[sack_at[i] + b] != sack_edges[sack_at[j] + b]:
            return False
    return True


@njit(cache=True, nogil=True)
def _proven(
    low, high, sent, copy_ts_val, copy_has_ts, top, ambiguous, n,
    ack_ts, ack_value, ack_pure, ack_ecr, ack_has_ts, m, soonest, forced, block_low, block_high,
):  # fmt: skip
    """What FIFO order alone proves. forced: int8[n], 1 lost, 2 arrived.

    reached: some copy of this index or a later one has arrived. An ACK that advances is due to a
    copy of the byte that was missing; a duplicate ACK to one of another byte. All copies before it
    of the byte that is still missing then would have arrived, so they were lost.
    """
    limit = np.empty(m, np.int64)
    cover = np.empty(m, np.int64)
    horizon = 0
    cum = NONE
    for j in range(m):
        while horizon < n and sent[horizon] + soonest <= ack_ts[j]:
            horizon += 1
        limit[j] = horizon
        cum = max(cum, ack_value[j])
        cover[j] = cum
    for _ in range(2):
        reached = -1
        cum = ack_value[0]
        for j in range(1, m):
            value = ack_value[j]
            trigger = -1
            if value > cum:
                unique = False
                for need_ecr in (True, False):
                    if need_ecr and not ack_has_ts[j]:
                        continue
                    for k in range(reached + 1, limit[j]):
                        if forced[k] == 1 or not (low[k] <= cum < high[k]):
                            continue
                        if need_ecr and (not copy_has_ts[k] or copy_ts_val[k] != ack_ecr[j]):
                            continue
                        if trigger < 0:
                            trigger = k
                            unique = True
                            if not ambiguous[k]:
                                break
                        else:
                            unique = False
                            break
                    if trigger >= 0:
                        break
                begin = first_above(top, 0, n, value)
                cum = value
                if unique:
                    for x in range(j - 1, -1, -1):
                        if limit[x] <= trigger:
                            break
                        limit[x] = trigger
                    forced[trigger] = 2
            elif value == cum and ack_pure[j]:
                for k in range(reached + 1, limit[j]):
                    if forced[k] == 1 or low[k] == high[k] or low[k] <= value < high[k]:
                        continue
                    if block_high[j] > block_low[j] and (
                        high[k] <= block_low[j] or block_high[j] <= low[k]
                    ):
                        continue
                    trigger = k
                    break
                begin = max(first_above(top, 0, n, value), reached + 1)
            if trigger < 0:
                continue
            for k in range(begin, trigger):
                if low[k] <= value < high[k] and forced[k] == 0:
                    forced[k] = 1
            reached = trigger
        for k in range(n):
            if not ambiguous[k] or forced[k] or low[k] == high[k]:
                continue
            j = first_above(cover, 0, m, high[k] - 1)
            if j == m or k >= limit[j]:
                continue
            alone = True
            for o in range(first_above(top, 0, n, low[k]), limit[j]):
                if o != k and forced[o] != 1 and low[o] < high[k] and low[k] < high[o]:
                    alone = False
                    break
            if alone:
                forced[k] = 2


@njit(cache=True, nogil=True)
def _same(a, b):
    if (
        a.next_ack != b.next_ack
        or a.rcv_nxt != b.rcv_nxt
        or a.held != b.held
        or a.untold != b.untold
        or a.ts_recent != b.ts_recent
        or a.last_sent != b.last_sent
        or a.acked != b.acked
    ):
        return False
    for k in range(a.held):
        if a.low[k] != b.low[k] or a.high[k] != b.high[k]:
            return False
    return True


@njit(cache=True, nogil=True)
def fates(
    first,
    ts,
    downlink,
    flags,
    payload_len,
    window,
    number,
    up_number,
    has_ts,
    ts_val,
    ts_ecr,
    sack_permitted,
    sack_at,
    sack_count,
    sack_edges,
    soonest,
    until,
    user_bytes,
    base_rtt,
    pace,
    force,
    trace,
):
    """probability float32[N]: of having been lost behind Gi; NaN where not a data copy."""
    lost = np.full(len(ts), np.nan, np.float32)
    proof = np.zeros(len(ts), np.int8)
    now = np.zeros(WIDTH, HYPOTHESIS)
    then = np.zeros(4 * WIDTH, HYPOTHESIS)
    parents = np.zeros((WINDOW, WIDTH), np.int16)
    decisions = np.zeros((WINDOW, WIDTH), np.bool_)
    margin = np.zeros(len(first) - 1)
    for c in range(len(first) - 1):
        start, end = first[c], first[c + 1]
        copies = np.empty(end - start, np.int64)
        top = np.empty(end - start, np.int64)
        ambiguous = np.zeros(end - start, np.bool_)
        ack_at = np.empty(end - start, np.int64)
        n = m = 0
        highest = NONE
        acked = NONE
        for i in range(start, end):
            if number[i] == NONE:
                continue
            if downlink[i]:
                length = sequence_length(flags[i], payload_len[i])
                low = number[i]
                high = low + length
                if highest != NONE and low < highest:
                    for j in range(first_above(top, 0, n, low), n):
                        o = copies[j]
                        olow = number[o]
                        ohigh = olow + sequence_length(flags[o], payload_len[o])
                        if max(low, olow) < min(high, ohigh):
                            ambiguous[j] = ambiguous[n] = True
                highest = max(highest, high)
                copies[n] = i
                top[n] = highest
                n += 1
            else:
                acked = max(acked, number[i])
                ack_at[m] = i
                m += 1
        if n == 0:
            continue
        resent = False
        for k in range(n):
            i = copies[k]
            length = sequence_length(flags[i], payload_len[i])
            if length and number[i] + length > acked:
                ambiguous[k] = True
            resent |= ambiguous[k]
            if payload_len[i]:
                lost[i] = 0
        if not resent or m == 0:
            if m == 0:
                for k in range(n):
                    lost[copies[k]] = np.nan
            continue
        free = np.empty(m)
        ack_ts = np.empty(m, np.int64)
        moved = np.zeros(m)
        last_window = -1
        for j in range(m):
            i = ack_at[j]
            ack_ts[j] = ts[i]
            free[j] = UNEXPLAINED_SACK if sack_count[i] else UNEXPLAINED
            if payload_len[i] or flags[i] & (SYN | FIN):
                free[j] = 0.0
            elif window[i] != last_window and (
                sack_count[i] == 0 or _same_blocks(i, ack_at[j - 1], sack_at, sack_count, sack_edges)
            ):
                free[j] = 1.0
            if window[i] != last_window:
                moved[j] = 1.5
            last_window = window[i]
        copy_low = np.empty(n, np.int64)
        copy_high = np.empty(n, np.int64)
        copy_ts = np.empty(n, np.int64)
        copy_ts_val = np.empty(n, np.uint32)
        copy_has_ts = np.empty(n, np.bool_)
        ack_ecr = np.empty(m, np.uint32)
        ack_has_ts = np.empty(m, np.bool_)
        proven = np.zeros(n, np.int8)
        for k in range(n):
            i = copies[k]
            copy_low[k] = number[i]
            copy_high[k] = number[i] + sequence_length(flags[i], payload_len[i])
            copy_ts[k] = ts[i]
            copy_ts_val[k] = ts_val[i]
            copy_has_ts[k] = has_ts[i]
        ack_value = np.empty(m, np.int64)
        pure = np.zeros(m, np.bool_)
        block_low = np.zeros(m, np.int64)
        block_high = np.zeros(m, np.int64)
        for j in range(m):
            i = ack_at[j]
            ack_value[j] = number[i]
            ack_ecr[j] = ts_ecr[i]
            ack_has_ts[j] = has_ts[i]
            pure[j] = free[j] >= UNEXPLAINED
            if sack_count[i]:
                block_low[j] = unwrap(sack_edges[sack_at[i]], number[i])
                block_high[j] = unwrap(sack_edges[sack_at[i] + 1], number[i])
        _proven(
            copy_low, copy_high, copy_ts, copy_ts_val, copy_has_ts, top, ambiguous, n,
            ack_ts, ack_value, pure, ack_ecr, ack_has_ts, m, soonest[c], proven,
            block_low, block_high,
        )  # fmt: skip
        for k in range(n):
            proof[copies[k]] = proven[k]
        patience = np.int64(0)
        last_told = 0
        told = NONE
        k = 0
        for j in range(m):
            if told != NONE and ack_value[j] > told:
                while k < n and copy_high[k] < ack_value[j]:
                    k += 1
                if k < n and copy_ts[k] < ack_ts[j]:
                    patience = max(patience, ack_ts[j] - copy_ts[k])
            told = max(told, ack_value[j])
        while last_told < n and copy_ts[last_told] + patience < ack_ts[m - 1]:
            last_told += 1
        patience = 2 * patience + 1_000_000
        h = now[0]
        h.cost = 0.0
        h.next_ack = 0
        h.held = h.owed = 0
        h.lost = False
        h.clock = h.clock_bytes = 0
        h.untold = NONE
        h.ts_recent = h.ts_maybe = 0
        h.rcv_nxt = number[copies[0]]
        if ack_at[0] < copies[0]:
            h.rcv_nxt = number[ack_at[0]]
        h.acked = h.last_sent = h.rcv_nxt
        h.parent = 0
        alive = 1
        s = 0
        base = 0
        for k in range(n):
            i = copies[k]
            low = number[i]
            high = low + sequence_length(flags[i], payload_len[i])
            made = 0
            watched = ts[i] + patience < until[c] or k < last_told
            for x in range(alive):
                _settle(now[x], ts[i] + soonest[c], m, ack_at, ack_ts, number, free)
                if force[i] == 1 or (force[i] < 0 and proven[k] == 1):
                    _copy(then[made], now[x])
                    then[made].parent = x
                    then[made].lost = True
                    then[made].cost += LOSS_AGAIN if now[x].lost else LOSS
                    made += 1
                    continue
                skips = 0
                while True:
                    _copy(then[made], now[x])
                    then[made].parent = x
                    then[made].lost = False
                    for j in range(now[x].next_ack, now[x].next_ack + skips):
                        then[made].cost += free[j]
                    then[made].next_ack += skips
                    _arrive(
                        then[made], i, low, high, flags, watched, m, ack_at, number, free, moved,
                        ts, user_bytes, base_rtt[c], pace[c],
                        has_ts, ts_val, ts_ecr, sack_permitted[c], sack_at, sack_count, sack_edges,
                    )  # fmt: skip
                    made += 1
                    j = now[x].next_ack + skips
                    if (
                        skips == 2
                        or j >= m
                        or free[j] >= UNEXPLAINED
                        or not (number[ack_at[j]] == now[x].rcv_nxt == now[x].acked)
                    ):
                        break
                    skips += 1
                if ambiguous[k] and force[i] < 0 and proven[k] != 2:
                    _copy(then[made], now[x])
                    then[made].parent = x
                    then[made].lost = True
                    then[made].cost += LOSS_AGAIN if now[x].lost else LOSS
                    made += 1
            # the best, each state once
            best = np.inf
            for x in range(made):
                best = min(best, then[x].cost)
            alive = 0
            while alive < WIDTH:
                pick = -1
                for x in range(made):
                    if then[x].cost <= best + PRUNE and (
                        pick < 0 or then[x].cost < then[pick].cost
                    ):
                        pick = x
                if pick < 0:
                    break
                twin = False
                for x in range(alive):
                    if _same(now_next(then, pick), now[x]):
                        twin = True
                        break
                if not twin:
                    _copy(now[alive], then[pick])
                    parents[s, alive] = then[pick].parent
                    decisions[s, alive] = then[pick].lost
                    alive += 1
                then[pick].cost = np.inf
            for x in range(alive):
                now[x].cost -= best
            trace[i] = best
            margin[c] += best
            s += 1
            if alive == 1 or s == WINDOW:
                _write(s, 0, parents, decisions, copies, base, payload_len, lost)
                alive = 1
                base += s
                s = 0
        for x in range(alive):
            _settle(now[x], np.int64(2**62), m, ack_at, ack_ts, number, free)
        choice = 0
        for x in range(alive):
            if now[x].cost < now[choice].cost:
                choice = x
        margin[c] += now[choice].cost
        _write(s, choice, parents, decisions, copies, base, payload_len, lost)
    return lost, margin, proof


@njit(cache=True, nogil=True)
def now_next(then, pick):
    return then[pick]


@njit(cache=True, nogil=True)
def _write(s, choice, parents, decisions, copies, base, payload_len, lost):
    x = choice
    for k in range(s - 1, -1, -1):
        i = copies[base + k]
        if payload_len[i]:
            lost[i] = 1.0 if decisions[k, x] else 0.0
        x = parents[k, x]
