"""Captures of one odd shape each, of any length: what an adversary, or a broken end, can produce.

A shape is a function of a number of packets that returns so many as PACKET[n], in the capture's
order. `write` makes a pcap of them. All are made by arrays, so that millions take seconds.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.programs.bench.mix import BEGIN_US, RECORD, RECORD_HEADER, pcap_header

FIN, SYN, RST, ACK = 1, 2, 4, 16
TCP, UDP = 6, 17
SUBSCRIBER, SERVER = 0x0A42_0000, 0xC633_6401
"""10.66.0.0 and 198.51.100.1."""
MSS = 1000
ISN = 1000
REQUEST = 100
"""Bytes that the mobile asks for its data with."""
STEP_US = 20
"""Time between two packets."""
BLOCKS = 4
OPTIONS = 40
AT_ONCE = 250_000
"""Packets that are written at once."""
PACKET = np.dtype(
    [
        ("ts", "i8"),
        ("down", "?"),
        ("proto", "u1"),
        ("flags", "u2"),
        ("window", "u2"),
        ("payload", "u2"),
        ("ip_id", "u2"),
        ("fragment", "u2"),
        ("user_port", "u2"),
        ("server_port", "u2"),
        ("user", "u4"),
        ("server", "u4"),
        ("seq", "u4"),
        ("ack", "u4"),
        ("blocks", "u1"),
        ("edges", "u4", (BLOCKS, 2)),
        ("stamped", "?"),
        ("ts_val", "u4"),
        ("ts_ecr", "u4"),
        ("form", "u1"),
        ("cid", "u8"),
    ]
)
"""A packet: time (µs), fields as on the wire, its SACK blocks (three at most with timestamps), its
QUIC connection ID."""
WITH_OPTIONS = np.dtype([*RECORD.descr, ("options", "u1", (OPTIONS,))])
"""The record of such a packet, cut after a TCP header with all 40 bytes of options."""
SHAPES: dict[str, Callable[[int], np.ndarray]] = {}
"""All shapes by their names."""


def shape(function: Callable[[int], np.ndarray]) -> Callable[[int], np.ndarray]:
    """Add a shape to SHAPES."""
    SHAPES[function.__name__] = function
    return function


def packets(count: int) -> np.ndarray:
    """Packets of one connection of one user, all alike: pure ACKs of the mobile."""
    out = np.zeros(count, PACKET)
    out["ts"] = BEGIN_US + STEP_US * np.arange(count)
    out["proto"], out["flags"], out["window"] = TCP, ACK, 60_000
    out["user"], out["server"] = SUBSCRIBER, SERVER
    out["user_port"], out["server_port"] = 40_000, 80
    out["seq"], out["ack"] = ISN + 1 + REQUEST, ISN + 1
    out["ip_id"] = np.arange(count)
    return out


def opened(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A connection that begins with a handshake and a request: all packets, those that follow, and
    their numbers from 0. All windows are scaled by 2^14; SACK is permitted."""
    out = packets(count)
    head = out[:4]
    head["ts"] = BEGIN_US - 20_000 + np.array([0, 5_000, 15_000, 15_100])
    head["down"][1], head["payload"][3] = True, REQUEST
    head["flags"][:2] = SYN, SYN | ACK
    head["seq"] = ISN, ISN, ISN + 1, ISN + 1
    head["ack"] = 0, ISN + 1, ISN + 1, ISN + 1
    return out, out[4:], np.arange(count - 4)


def send(rest: np.ndarray, sent: np.ndarray, start: np.ndarray, size: int = MSS) -> None:
    """Make the marked packets data to the mobile that begins at these bytes of the stream."""
    rest["down"] |= sent
    rest["seq"][sent] = (ISN + 1 + start[sent]) % 2**32
    rest["ack"][sent], rest["payload"][sent] = ISN + 1 + REQUEST, size


def acknowledge(rest: np.ndarray, sent: np.ndarray, upto: np.ndarray) -> None:
    """Let the packets that are not marked acknowledge so many bytes."""
    rest["ack"][~sent] = (ISN + 1 + upto[~sent]) % 2**32


def block(rest: np.ndarray, of: np.ndarray, k: int, low: np.ndarray, high: np.ndarray) -> None:
    """Let the marked packets report these bytes in SACK block k."""
    rest["blocks"][of] = k + 1
    rest["edges"][of, k, 0] = (ISN + 1 + low[of]) % 2**32
    rest["edges"][of, k, 1] = (ISN + 1 + high[of]) % 2**32


def stamp(out: np.ndarray) -> np.ndarray:
    """Let all packets have timestamps, in ms; each echoes one of 10 ms before."""
    out["stamped"] = True
    out["ts_val"] = (out["ts"] - BEGIN_US) // 1000 + 1000
    out["ts_ecr"] = np.where(out["flags"] == SYN, 0, out["ts_val"] - 10)
    return out


@shape
def one_long_connection(count: int) -> np.ndarray:
    """A transfer in order, of which every second segment is acknowledged."""
    out, rest, i = opened(count)
    sent = i % 3 < 2
    start = (i // 3 * 2 + i % 3) * MSS
    send(rest, sent, start)
    acknowledge(rest, sent, start)
    return out


@shape
def repeated_segment(count: int) -> np.ndarray:
    """One segment, again and again, each answered by a duplicate ACK."""
    out, rest, i = opened(count)
    send(rest, i % 2 == 0, 0 * i)
    acknowledge(rest, i % 2 == 0, 0 * i)
    return out


@shape
def repeated_segment_with_d_sack(count: int) -> np.ndarray:
    """One segment, again and again; it is acknowledged, and each further one by a D-SACK."""
    out, rest, i = opened(count)
    sent = i % 2 == 0
    send(rest, sent, 0 * i)
    acknowledge(rest, sent, MSS + 0 * i)
    block(rest, ~sent & (i > 2), 0, 0 * i, MSS + 0 * i)
    return out


@shape
def first_segment_never_arrives(count: int) -> np.ndarray:
    """New data, a duplicate ACK whose block grows, and the first segment once more, for ever."""
    out, rest, i = opened(count)
    sent = i % 3 != 1
    start = np.where(i % 3 == 0, (i // 3 + 1) * MSS, 0)
    send(rest, sent, start)
    acknowledge(rest, sent, 0 * i)
    block(rest, ~sent, 0, MSS + 0 * i, (i // 3 + 2) * MSS)
    return out


@shape
def first_segment_never_arrives_without_sack(count: int) -> np.ndarray:
    """The same without SACK blocks."""
    out = first_segment_never_arrives(count)
    out["blocks"] = 0
    return out


@shape
def blocks_that_jump(count: int) -> np.ndarray:
    """Data in order of which nothing is acknowledged, and four SACK blocks anywhere in each ACK."""
    out, rest, i = opened(count)
    sent, top = i % 2 == 0, i // 2 + 1
    send(rest, sent, i // 2 * MSS)
    acknowledge(rest, sent, 0 * i)
    rng = np.random.default_rng(1)
    for k in range(BLOCKS):
        low = 1 + (rng.random(len(i)) * top).astype(np.int64)
        block(rest, ~sent & (top > 4), k, low * MSS, (low + 1) * MSS)
    return out


@shape
def large_blocks_in_turns(count: int) -> np.ndarray:
    """Every second ACK reports all data but the first segment, the others one segment."""
    out, rest, i = opened(count)
    sent, top = i % 2 == 0, (i // 2 + 1) * MSS
    send(rest, sent, i // 2 * MSS)
    acknowledge(rest, sent, 0 * i)
    large = ~sent & (i % 4 == 1)
    block(rest, large, 0, MSS + 0 * i, np.maximum(top, 2 * MSS))
    block(rest, ~sent & ~large, 0, top - MSS, top)
    return out


@shape
def every_second_segment_lost(count: int) -> np.ndarray:
    """A huge window, half of it lost; ACKs report the last blocks; then the holes are filled."""
    out, rest, i = opened(count)
    # Two sent for each ACK in the first part; each hole's retransmission and an ACK in the second.
    holes = len(i) // 5
    first = i < 3 * holes
    j = i - 3 * holes
    sent = np.where(first, i % 3 < 2, j % 2 == 0)
    start = np.where(first, (i // 3 * 2 + i % 3) * MSS, j // 2 * 2 * MSS)
    send(rest, sent, start)
    acknowledge(rest, sent, np.where(first, 0, (j // 2 + 1) * 2 * MSS))
    for k in range(BLOCKS):
        low = ((i // 3 - k) * 2 + 1) * MSS
        block(rest, ~sent & first & (low > 0), k, low, low + MSS)
    return out


@shape
def nothing_acknowledged(count: int) -> np.ndarray:
    """The mobile answers nothing; the server sends it all again, in order, for ever."""
    out, rest, i = opened(count)
    send(rest, i >= 0, i % max(len(i) // 20, 1) * MSS)
    rest["down"][-1:], rest["payload"][-1:] = False, 0
    acknowledge(rest, rest["down"], 0 * i)
    return out


@shape
def sliding_overlaps(count: int) -> np.ndarray:
    """Each segment repeats all but ten bytes of the one before; ACKs follow slowly."""
    out, rest, i = opened(count)
    sent = i % 2 == 0
    send(rest, sent, i * 5)
    acknowledge(rest, sent, i * 5)
    return out


@shape
def reversed_segments(count: int) -> np.ndarray:
    """A thousand segments in reverse order, then the next thousand; duplicate ACKs."""
    out, rest, i = opened(count)
    sent, k = i % 2 == 0, i // 2
    send(rest, sent, (k // 1000 * 1000 + 999 - k % 1000) * MSS)
    acknowledge(rest, sent, k // 1000 * 1000 * MSS)
    return out


@shape
def shuffled_segments(count: int) -> np.ndarray:
    """All segments of a huge window in any order, some never; the ACK's number never moves."""
    out, rest, i = opened(count)
    sent = i % 2 == 0
    order = np.random.default_rng(2).permutation(len(i))
    send(rest, sent, (order + 1) * MSS)
    acknowledge(rest, sent, 0 * i)
    block(rest, ~sent, 0, (np.roll(order, 1) + 1) * MSS, (np.roll(order, 1) + 2) * MSS)
    return out


@shape
def go_back_n(count: int) -> np.ndarray:
    """Flights of 500 segments, each sent twenty times before it is acknowledged."""
    out, rest, i = opened(count)
    sent, k = i % 2 == 0, i // 2
    send(rest, sent, (k // 10_000 * 500 + k % 500) * MSS)
    acknowledge(rest, sent, k // 10_000 * 500 * MSS)
    return out


@shape
def keep_alives(count: int) -> np.ndarray:
    """Probes of a byte that was acknowledged, each answered."""
    out, rest, i = opened(count)
    sent = i % 2 == 0
    send(rest, sent, np.where(i == 0, 0, MSS - 1))
    rest["payload"][sent & (i > 0)] = 1
    acknowledge(rest, sent, MSS + 0 * i)
    return out


@shape
def zero_window_probes(count: int) -> np.ndarray:
    """Probes of one byte into a window that stays closed."""
    out, rest, i = opened(count)
    sent = i % 2 == 0
    send(rest, sent, np.where(i == 0, 0, MSS))
    rest["payload"][sent & (i > 0)] = 1
    acknowledge(rest, sent, MSS + 0 * i)
    rest["window"][~sent] = 0
    return out


@shape
def resets(count: int) -> np.ndarray:
    """Resets of both ends, and ACKs of data that was never seen."""
    out, rest, i = opened(count)
    rest["down"] = i % 2 == 0
    rest["flags"] = np.where(i % 4 < 3, RST | ACK, ACK)
    rest["seq"] = np.where(rest["down"], ISN + 1, ISN + 1 + REQUEST)
    rest["ack"] = np.where(rest["down"], ISN + 1 + REQUEST, ISN + 1 + i * 7_001 % 2**31)
    return out


@shape
def one_port_again_and_again(count: int) -> np.ndarray:
    """One 5-tuple opened, used and closed, with ever new initial sequence numbers."""
    out = packets(count)
    i = np.arange(count)
    step, base = i % 8, (i // 8 * 1_000_003 + ISN) % 2**31
    out["down"] = np.isin(step, (1, 4, 6))
    out["flags"] = np.array([SYN, SYN | ACK, ACK, ACK, ACK, ACK, FIN | ACK, FIN | ACK])[step]
    out["seq"] = base + np.array([0, 5, 1, 1, 6, 101, 1006, 101])[step]
    out["ack"] = base + np.array([0, 1, 6, 6, 101, 1006, 101, 1007])[step]
    out["ack"][step == 0] = 0
    out["payload"] = np.array([0, 0, 0, 100, 1000, 0, 0, 0])[step]
    return out


@shape
def ever_new_syn_acks(count: int) -> np.ndarray:
    """SYNs of one 5-tuple, each answered by a SYN ACK with another number, which the mobile takes
    up."""
    out = packets(count)
    i = np.arange(count)
    step, base = i % 3, (ISN + i // 3 * 100_003) % 2**31
    out["down"] = step == 1
    out["flags"] = np.array([SYN, SYN | ACK, ACK])[step]
    out["seq"] = np.where(step == 1, base, ISN + (step == 2))
    out["ack"] = np.where(step == 1, ISN + 1, np.where(step == 2, base + 1, 0))
    return out


@shape
def numbers_that_jump(count: int) -> np.ndarray:
    """Both ends continue with other numbers, again and again, and acknowledge them."""
    out, rest, i = opened(count)
    sent, k = i % 2 == 0, i // 2
    start = k * 300_000_007 % 2**32
    send(rest, sent, start)
    acknowledge(rest, sent, start + MSS)
    return out


@shape
def only_acks(count: int) -> np.ndarray:
    """The mobile's ACKs of a transfer whose data the capture lacks."""
    out, rest, i = opened(count)
    acknowledge(rest, i < 0, i * MSS)
    return out


def ten_segments(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all packets, the rest of them, and which are ACKs: after ten segments, of which the
    first is lost, there are duplicate ACKs alone."""
    out, rest, i = opened(count)
    sent = i < 10
    send(rest, sent, i * MSS)
    acknowledge(rest, sent, 0 * i)
    return out, rest, ~sent


@shape
def only_duplicate_acks(count: int) -> np.ndarray:
    """Ten segments, of which the first is lost, then duplicate ACKs for ever."""
    return ten_segments(count)[0]


@shape
def ip_ids_that_jump(count: int) -> np.ndarray:
    """A transfer with a loss now and then, whose IP IDs step by two to nine hundred."""
    out, rest, i = opened(count)
    sent = i % 3 < 2
    start = (i // 3 * 2 + i % 3) * MSS
    send(rest, sent, np.where(i % 300 == 1, start - MSS, start))
    acknowledge(rest, sent, start)
    rest["ip_id"] = np.cumsum(np.where(i % 5 == 0, 900, 1)) % 2**16
    return out


@shape
def port_scan(count: int) -> np.ndarray:
    """SYNs of one user to every port of many servers."""
    out = packets(count)
    i = np.arange(count)
    out["flags"], out["ack"] = SYN, 0
    out["server"] = SERVER + i // 60_000
    out["server_port"] = 1 + i % 60_000
    return out


@shape
def syn_flood(count: int) -> np.ndarray:
    """A SYN to each of many users."""
    out = packets(count)
    out["down"], out["flags"], out["ack"] = True, SYN, 0
    out["user"] = SUBSCRIBER + np.arange(count) % 4_000_000
    return out


def _parallel(count: int, connections: int) -> np.ndarray:
    """One user's connections, all open at once: handshakes, then requests, then data and ACKs in
    turns, each round through all connections."""
    out = packets(count)
    i = np.arange(count)
    c, k = i % connections, i // connections
    out["user_port"], out["server"] = 1024 + c % 60_000, SERVER + c // 60_000
    j = np.maximum(k - 4, 0)
    out["down"] = (k == 1) | (k >= 4) & (k % 2 == 0)
    out["flags"] = np.where(k == 0, SYN, np.where(k == 1, SYN | ACK, ACK))
    out["payload"] = np.where(k == 3, REQUEST, np.where((k >= 4) & out["down"], MSS, 0))
    up_seq = np.where(k == 0, ISN, np.where(k <= 3, ISN + 1, ISN + 1 + REQUEST))
    data, acked = ISN + 1 + j // 2 * MSS, ISN + 1 + (j + 1) // 2 * MSS
    out["seq"] = np.where(out["down"], np.where(k == 1, ISN, data), up_seq)
    down_ack = np.where(k == 1, ISN + 1, ISN + 1 + REQUEST)
    out["ack"] = np.where(out["down"], down_ack, np.where(k == 0, 0, acked))
    return out


@shape
def parallel_connections(count: int) -> np.ndarray:
    """One user with so many connections at once that each has ten packets."""
    return _parallel(count, max(count // 10, 1))


@shape
def parallel_connections_with_losses(count: int) -> np.ndarray:
    """The same, but each connection's first segment is sent twice, with other IP IDs."""
    out = _parallel(count, max(count // 10, 1))
    k = np.arange(count) // max(count // 10, 1)
    out["seq"][k == 6] = ISN + 1
    out["ack"][k == 5] = ISN + 1
    out["ip_id"] = np.where(out["down"], out["ip_id"], k * 999 % 2**16)
    return out


@shape
def many_connections_one_after_another(count: int) -> np.ndarray:
    """One user's connections of ten packets, each opened after the one before."""
    out = _parallel(10, 1)
    out = np.tile(out, -(-count // 10))[:count]
    i = np.arange(count)
    out["ts"], out["ip_id"] = BEGIN_US + STEP_US * i, i
    out["user_port"], out["server"] = 1024 + i // 10 % 60_000, SERVER + i // 600_000
    return out


@shape
def clock_back_and_forth(count: int) -> np.ndarray:
    """A transfer whose times step by two seconds, back and forth."""
    out = one_long_connection(count)
    out["ts"] += 2_000_000 * (np.arange(count) // 7 % 2)
    return out


@shape
def copies(count: int) -> np.ndarray:
    """A transfer of which every packet was captured several times."""
    out = one_long_connection(-(-count // 4))
    out = np.repeat(out, 4)[:count]
    out["ts"] += np.arange(count) % 4
    return out


@shape
def fragments(count: int) -> np.ndarray:
    """First fragments of ever new packets, of which the rest never comes."""
    out, rest, i = opened(count)
    send(rest, i >= 0, i * MSS)
    rest["fragment"] = 0x2000
    return out


@shape
def later_fragments(count: int) -> np.ndarray:
    """Later fragments of packets whose first fragment never comes."""
    out, rest, _ = opened(count)
    rest["down"], rest["fragment"], rest["payload"] = True, 0x2000 | 185, MSS
    return out


@shape
def quic_with_ever_new_ids(count: int) -> np.ndarray:
    """Initials of one 5-tuple, each with a connection ID of its own."""
    out = packets(count)
    out["proto"], out["server_port"], out["payload"] = UDP, 443, 1200
    out["cid"], out["form"] = np.arange(count) * 2_654_435_761 + 1, 0xC0
    return out


@shape
def quic_from_ever_new_ports(count: int) -> np.ndarray:
    """Initials of one user, each from a 5-tuple of its own."""
    out = quic_with_ever_new_ids(count)
    i = np.arange(count)
    out["user_port"], out["server"] = 1024 + i % 60_000, SERVER + i // 60_000
    return out


@shape
def repeated_segment_with_timestamps(count: int) -> np.ndarray:
    """The same with timestamps that go on."""
    return stamp(repeated_segment(count))


@shape
def timestamps_that_jump(count: int) -> np.ndarray:
    """Each segment twice, with timestamps of any age; ACKs of all, with any echo."""
    out, rest, i = opened(count)
    sent = i % 3 < 2
    send(rest, sent, i // 3 * MSS)
    acknowledge(rest, sent, i // 3 * MSS)
    stamp(out)
    rest["ts_val"] += np.random.default_rng(3).integers(0, 500, len(i)).astype(np.uint32)
    rest["ts_ecr"] += np.random.default_rng(4).integers(0, 500, len(i)).astype(np.uint32)
    return out


@shape
def blocks_above_all_data(count: int) -> np.ndarray:
    """ACKs with SACK blocks a little above all data that was sent, and nothing more is sent."""
    out, rest, is_ack = ten_segments(count)
    low = (20 + np.arange(len(rest)) % 1000) * MSS
    block(rest, is_ack, 0, low, low + MSS)
    return out


@shape
def acks_of_unseen_data(count: int) -> np.ndarray:
    """The capture lacks every second segment; each ACK is of one that it lacks."""
    out, rest, i = opened(count)
    sent = i % 2 == 0
    send(rest, sent, (i + 1) * MSS)
    acknowledge(rest, sent, (i + 1) * MSS)
    return out


@shape
def old_segment_while_acks_advance(count: int) -> np.ndarray:
    """The capture lacks all new data; the server repeats an old segment, and ACKs advance."""
    out, rest, i = opened(count)
    sent = i % 2 == 0
    send(rest, sent, 0 * i)
    acknowledge(rest, sent, i * MSS)
    return out


@shape
def repaired_by_timeouts(count: int) -> np.ndarray:
    """A huge window is lost; each segment is retransmitted after a second."""
    out, rest, i = opened(count)
    window = len(i) // 3
    late = i >= window
    j = i - window
    sent = ~late | (j % 2 == 0)
    send(rest, sent, np.where(late, j // 2, i) * MSS)
    acknowledge(rest, sent, (j // 2 + 1) * MSS)
    rest["ts"] += np.where(late, (j // 2 + 1) * 1_000_000, 0)
    return out


@shape
def upload_with_gaps_of_ip_ids(count: int) -> np.ndarray:
    """Data of the mobile; the server's ACKs have no data, and their IP IDs have gaps."""
    out, rest, i = opened(count)
    up = i % 2 == 0
    rest["down"] = ~up
    rest["payload"][up] = MSS
    rest["seq"] = np.where(up, ISN + 1 + REQUEST + i // 2 * MSS, ISN + 1)
    rest["ack"] = np.where(up, ISN + 1, ISN + 1 + REQUEST + (i // 2 + 1) * MSS)
    rest["ip_id"] = np.where(up, i, i * 3) % 2**16
    return out


@shape
def ever_new_syns(count: int) -> np.ndarray:
    """SYNs of one 5-tuple with ever new numbers, of which none is answered."""
    out = packets(count)
    out["flags"], out["ack"] = SYN, 0
    out["seq"] = ISN + np.arange(count) * 100_003 % 2**31
    return out


@shape
def requests_and_answers(count: int) -> np.ndarray:
    """A request, an answer and its ACK, again and again in one connection."""
    out, rest, i = opened(count)
    step, turn = i % 3, i // 3
    rest["down"] = step == 1
    rest["payload"] = np.array([REQUEST, MSS, 0])[step]
    up, down = ISN + 1 + REQUEST * (turn + 1), ISN + 1 + MSS * turn
    rest["seq"] = np.where(step == 1, down, up + REQUEST * (step == 2))
    rest["ack"] = np.where(step == 1, up + REQUEST, down + MSS * (step == 2))
    return out


@shape
def syn_flood_of_one_user(count: int) -> np.ndarray:
    """SYNs to one user, each from another port or server, beside a transfer with losses."""
    out = port_scan(count)
    out["down"] = True
    own = every_second_segment_lost(count // 4)
    out[: len(own)] = own
    out["ts"] = BEGIN_US + STEP_US * np.arange(count)
    return out


@shape
def packets_of_a_day(count: int) -> np.ndarray:
    """A transfer with a retransmission for each segment, spread over twenty hours."""
    out, rest, i = opened(count)
    sent = i % 3 < 2
    send(rest, sent, i // 3 * MSS)
    acknowledge(rest, sent, (i // 3 + 1) * MSS)
    rest["ts"] += (i * (20 * 3600 * 1_000_000 // len(i))) - 10 * 3600 * 1_000_000
    out["ts"][:4] -= 10 * 3600 * 1_000_000
    return out


@shape
def one_quic_connection(count: int) -> np.ndarray:
    """A QUIC transfer whose spin bit turns."""
    out = quic_with_ever_new_ids(count)
    i = np.arange(count)
    out["cid"], out["down"] = 7, i % 3 > 0
    out["form"] = np.where(i < 2, 0xC0, 0x40 | 0x20 * (i // 500 % 2))
    return out


def write(made: np.ndarray, target: Path) -> None:
    """Write packets as a pcap of raw IP."""
    with target.open("wb") as file:
        file.write(pcap_header())
        for at in range(0, len(made), AT_ONCE):
            file.write(_records(made[at : at + AT_ONCE]).data)


def _records(made: np.ndarray) -> np.ndarray:
    out = np.zeros(len(made), WITH_OPTIONS)
    down, is_udp = made["down"], made["proto"] == UDP
    out["s"], out["us"] = made["ts"] // 1_000_000, made["ts"] % 1_000_000
    out["captured"] = WITH_OPTIONS.itemsize - RECORD_HEADER
    out["ip_len"] = np.where(is_udp, 28, 80) + made["payload"]
    out["on_wire"] = np.maximum(out["ip_len"], out["captured"])
    out["version"], out["ttl"], out["proto"] = 0x45, np.where(down, 55, 63), made["proto"]
    out["ip_id"], out["fragment"] = made["ip_id"], made["fragment"]
    ends = (made["user"], made["server"]), (made["user_port"], made["server_port"])
    out["source"], out["source_port"] = (np.where(down, b, a) for a, b in ends)
    out["target"], out["target_port"] = (np.where(down, a, b) for a, b in ends)
    out["seq"], out["ack"] = made["seq"], made["ack"]
    out["flags"], out["window"] = 0xF000 | made["flags"], made["window"]
    out["options"] = 1
    syn = made["flags"] & SYN != 0
    out["options"][syn, :12] = 2, 4, MSS >> 8, MSS & 255, 3, 3, 14, 4, 2, 1, 1, 1
    sack = made["blocks"] > 0
    out["options"][sack, 2], out["options"][sack, 3] = 5, 2 + 8 * made["blocks"][sack]
    edges = made["edges"].reshape(len(made), 2 * BLOCKS).astype(">u4").view(np.uint8)
    taken = sack[:, None] & (np.arange(8 * BLOCKS) < 8 * made["blocks"][:, None])
    out["options"][:, 4 : 4 + 8 * BLOCKS][taken] = edges[taken]
    stamped = made["stamped"]
    if stamped.any():
        out["options"][stamped, 28:30] = 8, 10
        values = np.stack([made["ts_val"], made["ts_ecr"]], axis=1).astype(">u4").view(np.uint8)
        out["options"][stamped, 30:38] = values[stamped]
    if is_udp.any():
        _put_quic(out, made, is_udp)
    return out


def _put_quic(out: np.ndarray, made: np.ndarray, of: np.ndarray) -> None:
    """Make some records QUIC packets, version 1, with an 8-byte destination ID."""
    rows = out.view(np.uint8).reshape(len(out), -1)
    udp = WITH_OPTIONS.fields["seq"][1]
    body = np.zeros((int(of.sum()), WITH_OPTIONS.itemsize - udp), np.uint8)
    length = 8 + made["payload"][of]
    body[:, 0], body[:, 1] = length >> 8, length & 255
    cid = made["cid"][of].astype(">u8")[:, None].view(np.uint8)
    body[:, 4:10] = 0, 0, 0, 0, 1, 8
    body[:, 10:18], body[:, 20:22] = cid, (0x44, 0x90)
    short = made["form"][of] < 0x80
    body[short, 5:13] = cid[short]
    body[:, 4] = made["form"][of]
    rows[of, udp:] = body
