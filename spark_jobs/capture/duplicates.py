"""Removal of packets that the monitor captured more than once.

A mirror port that sees both sides of a router delivers a packet twice, the second time with another
TTL. A mirror of two switch ports, or a capture of all interfaces of a host, delivers exactly the
same packet twice or more. The first one is kept. Only values of the rows are compared, so that the
rows of all front ends are treated alike.

Two packets are compared by all their values but the TTL. For some packets, equal values are
evidence:

- An IPv4 identification other than 0: a sender gives each packet its own (RFC 6864), but may keep
  it in a retransmission. It is no evidence if the sender uses a constant one, that is, if the
  connection's last packet in that direction had the same identification but other content.
  Fragments always have the identification of their datagram, and their offset distinguishes them
  (RFC 6864, 4.1; RFC 8200, 4.5). A sender of UDP with segmentation offload counts from 0 in each
  burst (Linux), so the payload's first bytes must be the same, too; a log has none, and so no
  identification of UDP counts there.
- The first bytes of a QUIC datagram, which are encrypted.
- Data, a SYN or a FIN of TCP.

Such a packet is a duplicate of an earlier one if its TTL differs (a packet of TCP, or one with an
identification), or if it comes sooner than any sender could retransmit it. QUIC without an
identification needs more: that the file has duplicates. A direction of a file has duplicates if
most of its packets with evidence come twice or more. Then the limit is several times the usual
delay of a duplicate, and packets without evidence can be duplicates, too: duplicate ACKs without
SACK (RFC 5681), and the SYN ACKs to two SYNs that arrived together. The beginning of a file is read
twice, to learn whether it has duplicates.
"""

from collections.abc import Iterator

import numpy as np

from spark_jobs.capture import decode, record
from spark_jobs.capture.decode import ACK, FIN, SYN
from spark_jobs.capture.hashes import SECOND_MULTIPLIER, address_hashes, hash_combine, pack_pair
from spark_jobs.capture.reader import PacketBatch, ReadStats
from spark_jobs.capture.record import HAS_QUIC
from spark_jobs.compiled import compiled, inner

WINDOW_US = 100_000
"""Maximum delay of a duplicate, which may have passed a router's queue (µs).

It is half the smallest RTO in use (Linux), so that no retransmission is dropped if a sender gives
all its packets the same identification.
"""
MIN_RETRANSMISSION_US = 1_000
"""Minimum delay of a retransmission, because it takes a round trip to the mobile (µs)."""
REMEMBERED_PACKETS = 1 << 16
"""Number of packets with which a packet is compared; a power of two."""
MAX_LOOKALIKES = 64
"""Maximum number of packets with the same fingerprint that are compared, latest first."""
MIN_WITH_EVIDENCE = 8
"""Minimum number of packets with evidence of a direction to infer that its packets come twice."""
LEARNING_PACKETS = 1 << 15
"""Number of packets at the beginning of a file by which it is learned whether it has duplicates."""
MAX_DELAY_FACTOR = 4
"""Maximum delay of a duplicate, in usual delays."""
HALVING_COUNT = 1024
"""Number of packets with evidence at which the counts are halved: recent packets weigh more."""

UNIQUE, SAME_TTL, OTHER_TTL, DELAY = range(4)

RECENT_PACKET = np.dtype(
    [
        ("fingerprint", "u8"),
        ("ts", "i8"),
        ("previous", "i8"),
        ("duplicate_ttls", "u8"),
        ("duplicates", "i4"),
        ("ttl", "u1"),
        ("constant_ttl", "?"),
    ],
    align=True,
)
"""A packet that was kept.

fingerprint: hash of all its values but the TTL
ts: timestamp (µs)
previous: position of the previous packet with the same hash slot
duplicate_ttls: TTLs of its duplicates, modulo 64, as bits
duplicates: number of its duplicates with the same TTL
ttl: its own TTL
constant_ttl: whether the packets before it with the same fingerprint had the same TTL
"""


SENDER = np.dtype(
    [("endpoints", "u8"), ("fingerprint", "u8"), ("ip_id", "u2"), ("constant_ip_id", "?")],
    align=True,
)
"""One endpoint of a connection as a sender.

endpoints: hash of both endpoints, in the direction of the packets
fingerprint, ip_id: of its last packet
constant_ip_id: whether the packet before, with other content, had the same identification
"""


class DuplicateFinder:
    """Finder of packets of a file that were captured more than once, batch by batch."""

    def __init__(self) -> None:
        self._fates = np.zeros((2, 4), np.int64)
        self._forget()
        self._has_learned = False

    def _forget(self) -> None:
        """Forget all packets, but not whether the file has duplicates."""
        self._recent = np.zeros(REMEMBERED_PACKETS, RECENT_PACKET)
        self._latest = np.full(REMEMBERED_PACKETS, -1, np.int64)
        self._state = np.zeros(2, np.int64)
        self._senders = np.zeros(REMEMBERED_PACKETS, SENDER)

    def find(self, batch: PacketBatch) -> np.ndarray:
        """Return which packets of the file's next batch are duplicates: bool[n]."""
        if not self._has_learned:
            self._find(batch, batch.rows[:LEARNING_PACKETS], True)
            self._forget()
            self._has_learned = True
        return self._find(batch, batch.rows, False)

    def _find(self, batch: PacketBatch, rows: np.ndarray, is_learning: bool) -> np.ndarray:
        return _find_duplicates(
            rows,
            batch.edges,
            address_hashes(batch.addresses.used_entries),
            self._recent,
            self._latest,
            self._state,
            self._fates,
            self._senders,
            is_learning,
        )


def drop_duplicates(batches: Iterator[PacketBatch], stats: ReadStats) -> Iterator[PacketBatch]:
    """Yield the batches of a file without duplicates, which are counted; no batch is empty."""
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
    """Return a hash of all values of a row but its timestamp and TTL.

    user, server: hashes of the addresses. Values that are null are left out, because they are
        undefined.
    """
    has = row.has
    h = hash_combine(user ^ server * SECOND_MULTIPLIER, pack_pair(row.ip_len, has))
    h = hash_combine(h, np.int64(row.ip_proto) << 1 | np.int64(row.downlink))
    if has & record.HAS_PORTS:
        ip_id = np.int64(row.ip_id) if has & record.HAS_IP_ID else np.int64(0)
        h = hash_combine(
            h, pack_pair(ip_id, np.int64(row.user_port) << 16 | np.int64(row.server_port))
        )
    elif has & record.HAS_IP_ID:
        h = hash_combine(h, row.ip_id)
    if row.fragment:
        h = hash_combine(h, pack_pair(row.datagram_id, row.fragment))
    elif row.ip_proto == decode.UDP and has & record.HAS_PORTS:
        h = hash_combine(h, row.content)
    if has & record.HAS_TCP:
        h = hash_combine(h, pack_pair(row.seq, row.ack))
        flags_and_window = np.int64(row.tcp_flags) << 16 | np.int64(row.window)
        h = hash_combine(h, pack_pair(row.payload_len, flags_and_window))
    if has & record.HAS_TIMESTAMPS:
        h = hash_combine(h, pack_pair(row.ts_val, row.ts_ecr))
    if has & record.HAS_MSS:
        h = hash_combine(h, row.mss)
    if has & record.HAS_WINDOW_SCALE:
        h = hash_combine(h, row.window_scale)
    if has & record.HAS_SACK:
        for k in range(row.sack_edges):
            h = hash_combine(h, edges[row.sack_offset + k])
    return h


@inner
def _has_ip_id(row):
    """Return whether a row has ports and an IPv4 identification that counts."""
    both = record.HAS_PORTS | record.HAS_IP_ID
    if row.ip_proto == decode.UDP and not row.fragment and row.content == 0:
        return False
    return row.has & both == both and row.ip_id != 0


@inner
def _hash_endpoints(row, user, server):
    """Return a hash of a row's endpoints and direction; user, server: hashes of the addresses."""
    ports = np.int64(row.user_port) << 16 | np.int64(row.server_port)
    return hash_combine(user ^ server * SECOND_MULTIPLIER, ports << 1 | np.int64(row.downlink))


@inner
def _update_sender(sender, endpoints, fingerprint, ip_id):
    """Update a SENDER with its next packet.

    A packet that repeats the last one says nothing about the use of identifications.
    """
    if sender.endpoints != endpoints:
        sender.endpoints, sender.constant_ip_id = endpoints, False
    elif sender.fingerprint != fingerprint:
        sender.constant_ip_id = sender.ip_id == ip_id
    sender.fingerprint, sender.ip_id = fingerprint, ip_id


@inner
def _sender_must_wait(row):
    """Return whether the sender must wait before it sends the same packet again.

    ACKs and SYN ACKs answer packets, which can arrive twice. Their sender need not wait.
    """
    if not row.has & record.HAS_TCP:
        return False
    return row.payload_len > 0 or row.tcp_flags & FIN != 0 or row.tcp_flags & (SYN | ACK) == SYN


@compiled
def _find_duplicates(rows, edges, addresses, recent, latest, state, fates, senders, is_learning):
    """Return which rows, record.ROW[n], are duplicates of earlier ones: bool[n].

    edges: uint32, SACK edges
    addresses: uint64, hashes by address number

    State that is kept between batches:

    recent: RECENT_PACKET[a power of two], indexed by the packet's position modulo the length
    latest: int64, latest position of each hash slot
    state: number of packets so far, and the first position within the time window
    fates: int64[2, 4], by direction: how many packets with evidence were UNIQUE, how many of them
        duplicates with SAME_TTL or OTHER_TTL, and the sum of the DELAYs of the former (µs)
    senders: SENDER[a power of two], indexed by hash

    is_learning: take every packet with evidence that equals an earlier one for a duplicate
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
        has_content = row.ip_proto == decode.UDP and row.has & HAS_QUIC != 0
        has_content &= row.payload_len != 0 and row.fragment == 0
        has_evidence = is_identified or has_content or _sender_must_wait(row)
        unique, same, other_ttl, delays_us = fates[direction]
        if (
            unique < MIN_WITH_EVIDENCE
        ):  # few packets of this direction have evidence: both directions count
            unique, same, other_ttl, delays_us = fates[0] + fates[1]
        has_enough = unique >= MIN_WITH_EVIDENCE
        has_duplicates = is_learning or (has_enough and 2 * same > unique)
        max_delay_us = MIN_RETRANSMISSION_US
        if is_learning:
            max_delay_us = WINDOW_US
        elif has_duplicates:
            usual_us = delays_us // same
            max_delay_us = min(max(max_delay_us, MAX_DELAY_FACTOR * usual_us), WINDOW_US)
        max_duplicates = max(1, (same + unique // 2) // max(unique, 1))
        by_ttl = row.has & record.HAS_TCP != 0
        by_ttl |= has_enough and 2 * other_ttl > unique
        if fates[direction, UNIQUE] >= HALVING_COUNT:
            for k in range(len(fates[direction])):
                fates[direction, k] >>= 1
        slot = np.int64(fingerprint & slots)
        bit = np.uint64(1) << np.uint64(ttl & 63)
        earlier, compared, constant_ttl, same_ttl = latest[slot], 0, True, True
        delay_us = np.int64(0)
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
            if same_ttl:
                is_duplicate[i] = delay_us < max_delay_us
                if not is_identified and (has_content or not has_evidence):
                    is_duplicate[i] &= has_duplicates and other.duplicates < max_duplicates
                if constant_ttl and delay_us >= max_delay_us:
                    break
            elif is_identified:
                is_duplicate[i] = delay_us <= WINDOW_US
            else:
                is_duplicate[i] = (
                    by_ttl and delay_us <= WINDOW_US and not other.duplicate_ttls & bit
                )
            if is_duplicate[i]:
                other.duplicate_ttls |= bit
                other.duplicates += same_ttl
                break
            if compared == MAX_LOOKALIKES:
                break
        if has_evidence:
            fate = UNIQUE if not is_duplicate[i] else SAME_TTL if same_ttl else OTHER_TTL
            fates[direction, fate] += 1
            if fate == SAME_TTL:
                fates[direction, DELAY] += delay_us
        if not is_duplicate[i]:
            if has_ip_id:
                _update_sender(sender, endpoints, fingerprint, row.ip_id)
            kept = recent[position & mask]
            kept.fingerprint, kept.ts, kept.previous = fingerprint, ts, latest[slot]
            kept.duplicate_ttls, kept.duplicates = 0, 0
            kept.ttl, kept.constant_ttl = ttl, constant_ttl
            latest[slot] = position
            position += 1
    state[0], state[1] = position, oldest
    return is_duplicate
