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
from spark_jobs.capture.hashes import SECOND_MULTIPLIER, address_hashes, hash_combine, pack_pair
from spark_jobs.capture.reader import PacketBatch, ReadStats
from spark_jobs.compiled import compiled, inner

WINDOW_US = 100_000
"""How much later a copy may come, a router's queue between: half the least retransmission timeout
in use (Linux), so that a sender that numbers all its packets alike loses no retransmission."""
MIN_RETRANSMISSION_US = 1_000
"""No retransmission comes sooner: it takes a round trip to the mobile."""
REMEMBERED_PACKETS = 1 << 16
"""Packets among which a copy is looked for, a power of two."""
MAX_LOOKALIKES = 64
"""Packets that look alike, of which a copy is sought among the latest."""
MIN_DECIDED = 16
"""Packets of a direction from which on they tell whether it comes twice."""
HALVING_COUNT = 1024
"""Packets after which what they told counts half."""

UNIQUE, SAME_TTL, OTHER_TTL = range(3)

RECENT_PACKET = np.dtype(
    [
        ("fingerprint", "u8"),
        ("ts", "i8"),
        ("previous", "i8"),
        ("duplicate_ttls", "u8"),
        ("ttl", "u1"),
        ("constant_ttl", "?"),
    ],
    align=True,
)
"""A packet kept: fingerprint of all but its TTL, time, the packet before it of the same slot, TTLs
(modulo 64, as bits) of its copies, its own, and whether those before it that look alike had the
same TTL."""


SENDER = np.dtype(
    [("endpoints", "u8"), ("fingerprint", "u8"), ("ip_id", "u2"), ("constant_ip_id", "?")],
    align=True,
)
"""An end of a connection, as a hash of both: fingerprint and identification of its last packet;
whether that was the same as of the one before that said something else."""


class DuplicateFinder:
    """What is remembered of a file's packets to recognise those captured again."""

    def __init__(self) -> None:
        self._recent = np.zeros(REMEMBERED_PACKETS, RECENT_PACKET)
        self._latest = np.full(REMEMBERED_PACKETS, -1, np.int64)
        self._state = np.zeros(2, np.int64)
        self._fates = np.zeros((2, 3), np.int64)
        self._senders = np.zeros(REMEMBERED_PACKETS, SENDER)

    def find(self, batch: PacketBatch) -> np.ndarray:
        """bool[n]: which packets of the file's next run are copies."""
        return _find_duplicates(
            batch.rows,
            batch.edges,
            address_hashes(batch.addresses.used_entries),
            self._recent,
            self._latest,
            self._state,
            self._fates,
            self._senders,
        )


def drop_duplicates(batches: Iterator[PacketBatch], stats: ReadStats) -> Iterator[PacketBatch]:
    """The runs of a file without packets captured again, which are counted; none is empty."""
    finder = DuplicateFinder()
    for batch in batches:
        duplicates = finder.find(batch)
        if count := int(duplicates.sum()):
            stats.skipped["duplicate"] += count
            batch = batch.select(~duplicates)
        if len(batch.rows):
            yield batch


@inner
def _fingerprint(row, edges, user, server):
    """Of what a row says but its time and TTL; user, server: hashes of the addresses. Where it
    says nothing, anything may stand."""
    has = row.has
    h = hash_combine(user ^ server * SECOND_MULTIPLIER, pack_pair(row.ip_len, has))
    h = hash_combine(h, np.int64(row.ip_proto) << 1 | np.int64(row.downlink))
    if has & decode.HAS_PORTS:
        ip_id = np.int64(row.ip_id) if has & decode.HAS_IP_ID else np.int64(0)
        h = hash_combine(
            h, pack_pair(ip_id, np.int64(row.user_port) << 16 | np.int64(row.server_port))
        )
    elif has & decode.HAS_IP_ID:
        h = hash_combine(h, row.ip_id)
    if row.fragment:
        h = hash_combine(h, pack_pair(row.datagram_id, row.fragment))
    if has & decode.HAS_TCP:
        h = hash_combine(h, pack_pair(row.seq, row.ack))
        flags_and_window = np.int64(row.tcp_flags) << 16 | np.int64(row.window)
        h = hash_combine(h, pack_pair(row.payload_len, flags_and_window))
    if has & decode.HAS_TIMESTAMPS:
        h = hash_combine(h, pack_pair(row.ts_val, row.ts_ecr))
    if has & decode.HAS_MSS:
        h = hash_combine(h, row.mss)
    if has & decode.HAS_WINDOW_SCALE:
        h = hash_combine(h, row.window_scale)
    if has & decode.HAS_SACK:
        for k in range(row.sack_edges):
            h = hash_combine(h, edges[row.sack_offset + k])
    return h


@inner
def _has_ip_id(row):
    """Whether it has an identification, and ports."""
    both = decode.HAS_PORTS | decode.HAS_IP_ID
    return row.has & both == both and row.ip_id != 0


@inner
def _hash_endpoints(row, user, server):
    """Of a row's ends, in its direction; user, server: hashes of the addresses."""
    ports = np.int64(row.user_port) << 16 | np.int64(row.server_port)
    return hash_combine(user ^ server * SECOND_MULTIPLIER, ports << 1 | np.int64(row.downlink))


@inner
def _update_sender(sender, endpoints, fingerprint, ip_id):
    """The sender's next packet. Of what it repeats nothing is learned."""
    if sender.endpoints != endpoints:
        sender.endpoints, sender.constant_ip_id = endpoints, False
    elif sender.fingerprint != fingerprint:
        sender.constant_ip_id = sender.ip_id == ip_id
    sender.fingerprint, sender.ip_id = fingerprint, ip_id


@inner
def _sender_must_wait(row):
    """Whether a TCP sender must wait before it sends the same again: ACKs, and SYN ACKs, answer
    what came, which may be twice."""
    if not row.has & decode.HAS_TCP:
        return False
    return row.payload_len > 0 or row.tcp_flags & FIN != 0 or row.tcp_flags & (SYN | ACK) == SYN


@compiled
def _find_duplicates(rows, edges, addresses, recent, latest, state, fates, senders):
    """bool[n]: rows, decode.ROW, that are copies of earlier ones.

    edges: uint32, of their SACK blocks; addresses: uint64, hashes by number. Kept between runs:
    recent, RECENT[a power of two], the packets by place modulo its length; latest, int64, the
    latest place of each slot; state, packets so far and the first place within the window; told,
    int64[2, 3], by direction, of packets whose copies can be told how many were KEPT, and how many
    copies came with SAME_TTL or OTHER_TTL; senders, SENDER[a power of two], by hash.
    """
    is_duplicate = np.zeros(len(rows), np.bool_)
    capacity = len(recent)
    mask, slots = capacity - 1, np.uint64(len(latest) - 1)
    position, oldest = state[0], state[1]
    for i in range(len(rows)):
        row = rows[i]
        ts, ttl = row.ts, row.ttl
        while oldest < position and recent[oldest & mask].ts < ts - WINDOW_US:
            oldest += 1
        oldest = max(oldest, position - capacity)
        direction = 1 if row.downlink else 0
        has_ip_id = _has_ip_id(row)
        fingerprint = _fingerprint(row, edges, addresses[row.user], addresses[row.server])
        is_identified, sender = row.fragment != 0 and row.datagram_id != 0, senders[0]
        if has_ip_id:
            endpoints = _hash_endpoints(row, addresses[row.user], addresses[row.server])
            sender = senders[np.int64(endpoints & np.uint64(len(senders) - 1))]
            is_identified |= not (sender.constant_ip_id and sender.endpoints == endpoints)
        must_wait = _sender_must_wait(row)
        has_enough = fates[direction, UNIQUE] >= MIN_DECIDED
        repeats = must_wait or (
            has_enough and 2 * fates[direction, SAME_TTL] > fates[direction, UNIQUE]
        )
        by_ttl = row.has & decode.HAS_TCP != 0
        by_ttl |= has_enough and 2 * fates[direction, OTHER_TTL] > fates[direction, UNIQUE]
        if fates[direction, UNIQUE] >= HALVING_COUNT:
            for k in range(len(fates[direction])):
                fates[direction, k] >>= 1
        slot = np.int64(fingerprint & slots)
        bit = np.uint64(1) << np.uint64(ttl & 63)
        earlier, compared, constant_ttl, same_ttl = latest[slot], 0, True, True
        while earlier >= oldest:
            other = recent[earlier & mask]
            earlier = other.previous
            if other.fingerprint != fingerprint:
                continue
            same_ttl = other.ttl == ttl
            if compared == 0:
                constant_ttl = same_ttl and other.constant_ttl
            compared += 1
            delay_us = abs(ts - other.ts)
            if is_identified:
                is_duplicate[i] = delay_us <= WINDOW_US
            elif same_ttl:
                too_soon = repeats and delay_us < MIN_RETRANSMISSION_US
                is_duplicate[i] = too_soon and not other.duplicate_ttls & bit
                if constant_ttl and not too_soon:
                    break
            else:
                is_duplicate[i] = (
                    by_ttl and delay_us <= WINDOW_US and not other.duplicate_ttls & bit
                )
            if is_duplicate[i]:
                other.duplicate_ttls |= bit
                break
            if compared == MAX_LOOKALIKES:
                break
        if is_identified or must_wait:
            fates[
                direction, UNIQUE if not is_duplicate[i] else SAME_TTL if same_ttl else OTHER_TTL
            ] += 1
        if not is_duplicate[i]:
            if has_ip_id:
                _update_sender(sender, endpoints, fingerprint, row.ip_id)
            kept = recent[position & mask]
            kept.fingerprint, kept.ts, kept.previous = fingerprint, ts, latest[slot]
            kept.duplicate_ttls, kept.ttl, kept.constant_ttl = 0, ttl, constant_ttl
            latest[slot] = position
            position += 1
    state[0], state[1] = position, oldest
    return is_duplicate
