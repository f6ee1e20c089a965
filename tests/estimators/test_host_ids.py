"""IP IDs of a server that counts all packets to a user; segments as in test_loss."""

from dataclasses import replace

from tests.helpers.packet_script import Packet, partition, tables
from tests.helpers.segments import acked, sent, started, user_seen_at

SECOND = 1_000_000
T = 5_000_000
OTHER = 1025
FIRST = 65_530
"""The counter wraps soon."""


def backed_off() -> list[Packet]:
    """
    Gi     | d4 d5 d6      (d4')          d4''          all was lost on the access side
    mobile |                                   a6
    """
    lines = [*started(), *(sent(T + 1000 * n, 4 + n) for n in range(3))]
    return [*lines, sent(T + 9 * SECOND, 4), acked(T + 10 * SECOND, 6)]


def other(begin_us: int) -> list[Packet]:
    """Another connection of the user with the server: 24 segments, one a second."""
    return [replace(p, port=OTHER, us=p.us + begin_us) for p in started(first=24)]


def counted(lines: list[Packet], *lost_before: int, step: int = 1) -> list[Packet]:
    """The server counts its packets to the user; an ID is missing before those of these times."""
    number, made = FIRST, []
    for p in sorted(lines, key=lambda p: p.us):
        if p.way == "down":
            number += step + (p.us in lost_before)
            p = replace(p, id=number % 2**16)
        made.append(p)
    return made


def found(lines: list[Packet]) -> tuple[list[str], list[int]]:
    """(Evidence of the losses on the Internet side, the connections' retransmissions)."""
    rows = tables([*lines, *user_seen_at(90 * SECOND)])
    evidence = [row["evidence"] for row in rows["losses"] if row["side"] == "internet"]
    by_port = sorted(rows["flows"], key=lambda f: f["user_port"])
    return evidence, [f["retransmissions"] for f in by_port if f["data_packets_down"]]


LATE = T + 9 * SECOND


def test_missing_id_is_of_the_connection_before_and_after_it():
    assert found(counted([*backed_off(), *other(20 * SECOND)], LATE)) == (["ip_id"], [2, 0])
    assert found(counted([*backed_off(), *other(20 * SECOND)])) == ([], [1, 0])


def test_missing_id_between_two_connections_is_of_none():
    assert found(counted([*backed_off(), *other(0)], LATE)) == ([], [1, 0])


def test_counter_of_packets_to_other_hosts_shows_nothing():
    """Every second ID is another host's, or more than one of 20 are missing."""
    lines = [*backed_off(), *other(20 * SECOND)]
    assert found(counted(lines, LATE, step=2)) == ([], [1, 0])
    assert found(counted(lines, LATE, 31_900_000, 33_900_000)) == ([], [1, 0])


def numbers(lines: list[Packet], port: int) -> list[int]:
    """Return the numbers of a connection's packets to the mobile, in order of time."""
    made = partition(lines)
    segments, _ = made.numbered
    chosen = segments.downlink & (made.packets.user_port[segments.place] == port)
    return segments.ip_id[chosen].tolist()


def test_each_connection_counts_for_itself():
    lines = counted([*backed_off(), *other(200_000)])
    assert numbers(lines, 1024) == list(range(1, 9))
    assert numbers(lines, OTHER) == list(range(1, 26))


def test_numbers_keep_the_order_of_sending():
    """d4 and d5 overtook each other between the server and Gi."""
    lines = counted([*backed_off(), *other(20 * SECOND)])
    d4, d5 = (k for k, p in enumerate(lines) if p.us in (T, T + 1000))
    lines[d4], lines[d5] = replace(lines[d4], id=lines[d5].id), replace(lines[d5], id=lines[d4].id)
    assert numbers(lines, 1024)[4:6] == [6, 5]


def test_counters_of_single_connections_stay():
    """Linux counts each connection's packets from any number, and gives its SYN ACK the ID 0."""
    sent_by = {1024: iter(range(300, 400)), OTHER: iter(range(9000, 9100))}
    lines = [
        replace(p, id=next(sent_by[p.port])) if p.way == "down" and p.data else p
        for p in sorted([*started(), *other(200_000)], key=lambda p: p.us)
    ]
    assert numbers(lines, 1024) == [0, 300, 301, 302]
    assert numbers(lines, OTHER)[:3] == [0, 9000, 9001]
