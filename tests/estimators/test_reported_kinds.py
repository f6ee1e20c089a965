"""Kinds of traffic after reports about other tools, beside the captures in test_reports.py."""

import pytest

from tests.helpers.packet_script import connections, flow, tables

RTT_MS = 50


def line(at_s: float, way: str, flags: str, **values: int) -> str:
    return f"{at_s:.6f} {way} {flags} " + " ".join(f"{k}={v}" for k, v in values.items())


def transfer(mss: int = 1000, count: int = 10, first_id: int = 101, at_s: float = 0.3) -> list[str]:
    """Return a handshake, a request, and segments of which the mobile acknowledges each."""
    lines = [
        line(0.00, "up", "SYN", seq=99, mss=1460),
        line(0.05, "down", "SYN ACK", seq=499, ack=100, mss=1460),
        line(0.10, "up", "ACK", seq=100, ack=500),
        line(0.11, "up", "PSH ACK", seq=100, ack=500, data=200),
    ]
    for n in range(count):
        seq, at = 500 + n * mss, at_s + 0.1 * n
        flags = "PSH ACK" if n == count - 1 else "ACK"
        lines.append(line(at, "down", flags, seq=seq, ack=300, data=mss, id=first_id + n))
        lines.append(line(at + 0.05, "up", "ACK", seq=300, ack=seq + mss))
    return lines


def script(lines: list[str]) -> str:
    return "\n".join(lines)


@pytest.mark.parametrize("probe", [{"seq": 10_499}, {"seq": 10_499, "data": 1}])
@pytest.mark.parametrize("after", ["data", "FIN"])
def test_keepalives_take_ip_ids_and_are_no_retransmissions(probe, after):
    """Of Linux and of Windows; a server that counts its packets by their IP IDs."""
    lines = transfer()
    for n in range(3):
        at = 80 + 75 * n
        lines.append(line(at, "down", "ACK", ack=300, id=111 + n, **probe))
        lines.append(line(at + 0.05, "up", "ACK", seq=300, ack=10_500))
    if after == "data":
        lines.append(line(300, "down", "PSH ACK", seq=10_500, ack=300, data=500, id=114))
        lines.append(line(300.05, "up", "ACK", seq=300, ack=11_000))
    else:
        lines.append(line(300, "down", "FIN ACK", seq=10_500, ack=300, id=114))
        lines.append(line(300.05, "up", "ACK", seq=300, ack=10_501))
    found = flow(script(lines))
    assert (found["retransmissions"], found["rto_expiries"]) == (0, 0)
    assert found["keepalives_down"] == 3
    assert tables(script(lines))["retransmissions"] == []


@pytest.mark.parametrize("skipped", [(3,), (2, 5, 8)])
def test_ids_of_packets_to_elsewhere_are_no_retransmissions(skipped):
    """Between segments that were sent in turn, a sender has no reason to retransmit."""
    lines, first = [], 101
    for text in transfer():
        if "data=1000" in text:
            first += int(text.split("id=")[1]) - 101 in skipped
            text = text.split("id=")[0] + f"id={first}"
            first += 1
        lines.append(text)
    found = flow(script(lines))
    assert (found["retransmissions"], found["lost_access"], found["lost_internet"]) == (0, 0, 0)


OPENED = """
    0.00 up    SYN      seq=100
    0.10 down  SYN ACK  seq=300 ack=101
    0.20 up    ACK      seq=101 ack=301
    0.30 up    PSH ACK  seq=101 ack=301 data=10
    0.40 down  PSH ACK  seq=301 ack=111 data=10
    0.50 up    ACK      seq=111 ack=311
"""


def test_a_syn_with_the_same_number_after_both_fins_opens_another_connection():
    """Replayed traffic, and devices that always begin with the same number."""
    closed = """
        0.60 down  FIN ACK  seq=311 ack=111
        0.70 up    FIN ACK  seq=111 ack=312
        0.80 down  ACK      seq=312 ack=112
    """
    again = "1.00 up SYN seq=100\n1.10 down SYN ACK seq=300 ack=101\n1.20 up ACK seq=101 ack=301"
    assert connections(OPENED + closed + again) == [[*range(9)], [9, 10, 11]]


@pytest.mark.parametrize(("silence_s", "count"), [(30, 1), (90, 2)])
def test_a_syn_with_the_same_number_opens_another_connection_after_a_minute(silence_s, count):
    again = f"{0.5 + silence_s} up SYN seq=100\n{1 + silence_s} down SYN ACK seq=300 ack=101"
    assert len(connections(OPENED + again)) == count


@pytest.mark.parametrize("in_flight", [20, 400])
@pytest.mark.parametrize("idle_s", [2400, 7000])
def test_timestamps_in_microseconds_go_on_after_a_long_silence(in_flight, idle_s):
    """The clock has turned half around, or further: no segment is an old duplicate."""

    def stamped(at_s: float, way: str, flags: str, echo_s: float, **values: int) -> str:
        clock = {"up": 7_000_000, "down": 4_000_000_000}
        other = "down" if way == "up" else "up"
        tsval, tsecr = (
            (clock[end] + round(1e6 * s)) % 2**32 for end, s in ((way, at_s), (other, echo_s))
        )
        return line(at_s, way, flags, tsval=tsval, tsecr=tsecr, win=65_535, **values)

    lines = [
        stamped(0.00, "up", "SYN", 0, seq=99, mss=1460, ws=7),
        stamped(0.05, "down", "SYN ACK", 0.00, seq=499, ack=100, mss=1460, ws=7),
        stamped(0.10, "up", "ACK", 0.05, seq=100, ack=500),
        stamped(0.11, "up", "PSH ACK", 0.05, seq=100, ack=500, data=200),
    ]
    for begin, seq, count in ((0.2, 500, 2), (idle_s, 2500, in_flight)):
        for n in range(count):
            at = begin + 0.0001 * n
            lines.append(
                stamped(at, "down", "ACK", begin - 0.05, seq=seq + 1000 * n, ack=300, data=1000)
            )
        for n in range(count):
            at = begin + 0.05 + 0.0001 * n
            lines.append(stamped(at, "up", "ACK", at - 0.05, seq=300, ack=seq + 1000 * (n + 1)))
    found = flow(script(lines))
    assert found["payload_bytes_down"] == 1000 * (2 + in_flight)
    for name in ("out_of_window_down", "lost_access", "lost_internet", "acked_unseen_bytes"):
        assert found[name] == 0


@pytest.mark.parametrize("mss", [1288, 1360])
@pytest.mark.parametrize("multiples", [(2, 4, 6, 10), (3, 5, 7, 2, 9)])
def test_merged_packets_alone_show_the_size_of_segments(mss, multiples):
    lines, seq, at = transfer(count=0), 500, 0.3
    for parts in multiples:
        size = parts * mss
        lines.append(line(at, "down", "ACK", seq=seq, ack=300, data=size))
        seq, at = seq + size, at + 0.1
        lines.append(line(at - 0.05, "up", "ACK", seq=300, ack=seq))
    assert flow(script(lines))["data_packets_down"] == sum(multiples)


@pytest.mark.parametrize("fits", [1000, 1300])
def test_smaller_segments_before_the_timer_is_due_answer_icmp(fits):
    """What was in flight comes again, 30 ms after it was sent."""
    lines, full, flight = transfer(count=0), 1400, 6
    for n in range(flight):
        lines.append(line(0.2 + 0.0001 * n, "down", "ACK", seq=500 + n * full, ack=300, data=full))
    end, seq, at = 500 + flight * full, 500, 0.23
    while seq < end:
        size = min(fits, end - seq)
        lines.append(line(at, "down", "ACK", seq=seq, ack=300, data=size))
        lines.append(line(at + 0.05, "up", "ACK", seq=300, ack=seq + size))
        seq, at = seq + size, at + 0.001
    found = tables(script(lines))
    assert {row["cause"] for row in found["retransmissions"]} == {"pmtu"}
    assert found["flows"][0]["rto_expiries"] == 0
    assert not any(row["backed_off"] for row in found["rto_values"])
