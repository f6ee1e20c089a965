"""Packets that a monitor captured more than once.

A mirror port that sees both sides of a router gives a packet twice, with another TTL; one that
mirrors two ports of a switch gives the very same packet again. The first is kept. What is compared
is what a row holds, so that rows of every front end are treated alike.

What tells a copy from a packet of its own:

- An IPv4 identification other than 0: a sender gives each packet its own (RFC 6864), retransmissions too.
  Not where it gives all the same: where the connection's last packet that way had that one, too,
  though it said something else. Fragments always have one of their datagram's own, beside which
  their offset tells them apart (RFC 6864, 4.1; RFC 8200, 4.5).
- Where there is none (atomic datagrams, IPv6, the same for all): a TTL that differs, for a TCP
  packet.
- Data, SYN or FIN again sooner than any sender could retransmission.
- Other packets look alike though each is of its own: duplicate ACKs without SACK (RFC 5681), the
  SYN ACKs to two SYNs that arrived together, a burst of UDP. They are copies where most packets of
  that direction whose copies can be told come twice in the same way.
"""

from collections.abc import Iterator

import numpy as np

from spark_jobs.capture import decode
from spark_jobs.capture.decode import ACK, FIN, SYN
from spark_jobs.capture.hashes import OTHER_FACTOR, address_hashes, mixed, pair
from spark_jobs.capture.reader import Reading, Run
from spark_jobs.compiled import compiled, inner

WINDOW_US = 100_000
"""How much later a copy may come, a router's queue between: half the least retransmission timeout
in use (Linux), so that a sender that numbers all its packets alike loses no retransmission."""
SOONEST_RETRANSMISSION_US = 1_000
"""No retransmission comes sooner: it takes a round trip to the mobile."""
REMEMBERED = 1 << 16
"""Packets among which a copy is looked for, a power of two."""
MOST_ALIKE = 64
"""Packets that look alike, of which a copy is sought among the latest."""
FEWEST_TOLD = 16
"""Packets of a direction from which on they tell whether it comes twice."""
FORGET_AT = 1024
"""Packets after which what they told counts half."""

KEPT, SAME_TTL, OTHER_TTL = range(3)

RECENT = np.dtype(
    [
        ("print", "u8"),
        ("ts", "i8"),
        ("before", "i8"),
        ("copied", "u8"),
        ("ttl", "u1"),
        ("alike", "?"),
    ],
    align=True,
)
"""A packet kept: fingerprint of all but its TTL, time, the packet before it of the same slot, TTLs
(modulo 64, as bits) of its copies, its own, and whether those before it that look alike had the
same TTL."""


SENDER = np.dtype([("who", "u8"), ("print", "u8"), ("ip_id", "u2"), ("constant", "?")], align=True)
"""An end of a connection, as a hash of both: fingerprint and identification of its last packet;
whether that was the same as of the one before that said something else."""


class Duplicates:
    """What is remembered of a file's packets to recognise those captured again."""

    def __init__(self) -> None:
        self._recent = np.zeros(REMEMBERED, RECENT)
        self._latest = np.full(REMEMBERED, -1, np.int64)
        self._state = np.zeros(2, np.int64)
        self._told = np.zeros((2, 3), np.int64)
        self._senders = np.zeros(REMEMBERED, SENDER)

    def among(self, run: Run) -> np.ndarray:
        """bool[n]: which packets of the file's next run are copies."""
        return _duplicates(
            run.rows,
            run.edges,
            address_hashes(run.addresses.known),
            self._recent,
            self._latest,
            self._state,
            self._told,
            self._senders,
        )


def without_duplicates(runs: Iterator[Run], reading: Reading) -> Iterator[Run]:
    """The runs of a file without packets captured again, which are counted; none is empty."""
    seen = Duplicates()
    for run in runs:
        copies = seen.among(run)
        if count := int(copies.sum()):
            reading.skipped["duplicate"] += count
            run = run.only(~copies)
        if len(run.rows):
            yield run


@inner
def _fingerprint(row, edges, user, server):
    """Of what a row says but its time and TTL; user, server: hashes of the addresses. Where it
    says nothing, anything may stand."""
    has = row.has
    h = mixed(user ^ server * OTHER_FACTOR, pair(row.ip_len, has))
    h = mixed(h, np.int64(row.ip_proto) << 1 | np.int64(row.downlink))
    if has & decode.HAS_PORTS:
        ip_id = np.int64(row.ip_id) if has & decode.HAS_IP_ID else np.int64(0)
        h = mixed(h, pair(ip_id, np.int64(row.user_port) << 16 | np.int64(row.server_port)))
    elif has & decode.HAS_IP_ID:
        h = mixed(h, row.ip_id)
    if row.fragment:
        h = mixed(h, pair(row.datagram, row.fragment))
    if has & decode.HAS_TCP:
        h = mixed(h, pair(row.seq, row.ack))
        wire = np.int64(row.tcp_flags) << 16 | np.int64(row.window)
        h = mixed(h, pair(row.payload_len, wire))
    if has & decode.HAS_TIMESTAMPS:
        h = mixed(h, pair(row.ts_val, row.ts_ecr))
    if has & decode.HAS_MSS:
        h = mixed(h, row.mss)
    if has & decode.HAS_WINDOW_SCALE:
        h = mixed(h, row.window_scale)
    if has & decode.HAS_SACK:
        for k in range(row.sack_edges):
            h = mixed(h, edges[row.sack_at + k])
    return h


@inner
def _has_number(row):
    """Whether it has an identification, and ports."""
    both = decode.HAS_PORTS | decode.HAS_IP_ID
    return row.has & both == both and row.ip_id != 0


@inner
def _ends(row, user, server):
    """Of a row's ends, in its direction; user, server: hashes of the addresses."""
    ports = np.int64(row.user_port) << 16 | np.int64(row.server_port)
    return mixed(user ^ server * OTHER_FACTOR, ports << 1 | np.int64(row.downlink))


@inner
def _follow(sender, who, fingerprint, ip_id):
    """The sender's next packet. Of what it repeats nothing is learned."""
    if sender.who != who:
        sender.who, sender.constant = who, False
    elif sender.print != fingerprint:
        sender.constant = sender.ip_id == ip_id
    sender.print, sender.ip_id = fingerprint, ip_id


@inner
def _takes_time(row):
    """Whether a TCP sender must wait before it sends the same again: ACKs, and SYN ACKs, answer
    what came, which may be twice."""
    if not row.has & decode.HAS_TCP:
        return False
    return row.payload_len > 0 or row.tcp_flags & FIN != 0 or row.tcp_flags & (SYN | ACK) == SYN


@compiled
def _duplicates(rows, edges, addresses, recent, latest, state, told, senders):
    """bool[n]: rows, decode.ROW, that are copies of earlier ones.

    edges: uint32, of their SACK blocks; addresses: uint64, hashes by number. Kept between runs:
    recent, RECENT[a power of two], the packets by place modulo its length; latest, int64, the
    latest place of each slot; state, packets so far and the first place within the window; told,
    int64[2, 3], by direction, of packets whose copies can be told how many were KEPT, and how many
    copies came with SAME_TTL or OTHER_TTL; senders, SENDER[a power of two], by hash.
    """
    out = np.zeros(len(rows), np.bool_)
    room = len(recent)
    mask, slots = room - 1, np.uint64(len(latest) - 1)
    place, oldest = state[0], state[1]
    for i in range(len(rows)):
        row = rows[i]
        ts, ttl = row.ts, row.ttl
        while oldest < place and recent[oldest & mask].ts < ts - WINDOW_US:
            oldest += 1
        oldest = max(oldest, place - room)
        way = 1 if row.downlink else 0
        has_number = _has_number(row)
        h = _fingerprint(row, edges, addresses[row.user], addresses[row.server])
        numbered, sender = row.fragment != 0 and row.datagram != 0, senders[0]
        if has_number:
            who = _ends(row, addresses[row.user], addresses[row.server])
            sender = senders[np.int64(who & np.uint64(len(senders) - 1))]
            numbered |= not (sender.constant and sender.who == who)
        takes_time = _takes_time(row)
        enough = told[way, KEPT] >= FEWEST_TOLD
        again = takes_time or (enough and 2 * told[way, SAME_TTL] > told[way, KEPT])
        by_ttl = row.has & decode.HAS_TCP != 0
        by_ttl |= enough and 2 * told[way, OTHER_TTL] > told[way, KEPT]
        if told[way, KEPT] >= FORGET_AT:
            for k in range(len(told[way])):
                told[way, k] >>= 1
        slot = np.int64(h & slots)
        bit = np.uint64(1) << np.uint64(ttl & 63)
        at, looks, alike, same_ttl = latest[slot], 0, True, True
        while at >= oldest:
            other = recent[at & mask]
            at = other.before
            if other.print != h:
                continue
            same_ttl = other.ttl == ttl
            if looks == 0:
                alike = same_ttl and other.alike
            looks += 1
            later = abs(ts - other.ts)
            if numbered:
                out[i] = later <= WINDOW_US
            elif same_ttl:
                soon = again and later < SOONEST_RETRANSMISSION_US
                out[i] = soon and not other.copied & bit
                if alike and not soon:
                    break
            else:
                out[i] = by_ttl and later <= WINDOW_US and not other.copied & bit
            if out[i]:
                other.copied |= bit
                break
            if looks == MOST_ALIKE:
                break
        if numbered or takes_time:
            told[way, KEPT if not out[i] else SAME_TTL if same_ttl else OTHER_TTL] += 1
        if not out[i]:
            if has_number:
                _follow(sender, who, h, row.ip_id)
            new = recent[place & mask]
            new.print, new.ts, new.before = h, ts, latest[slot]
            new.copied, new.ttl, new.alike = 0, ttl, alike
            latest[slot] = place
            place += 1
    state[0], state[1] = place, oldest
    return out
