"""Zero-window probes and keep-alives count as no data: no losses, no retransmissions, no background
traffic.

The mobile has d1 and d2, of 1000 bytes each, up to 2500 (see `segments`).
"""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, tables
from tests.helpers.replies import SECOND, server_packet, transfer
from tests.helpers.segments import DATA, RTT_US, acked, sent, user_seen_at

END = 500 + 2 * DATA
"""The next byte."""


def closed(last: Packet) -> Packet:
    return replace(last, win=0)


def probed(seq: int, data: int, times: int = 3) -> tuple[list[Packet], int]:
    """d1, d2, and the mobile closes its window; the server probes it, every 2 s, in vain. And when
    the last probe is answered."""
    lines = transfer(2)
    lines[-1] = closed(lines[-1])
    at = lines[-1].us
    for _ in range(times):
        at += 2 * SECOND
        lines += [server_packet(at, seq, data), closed(acked(at + RTT_US, 2))]
    return lines, at + RTT_US


def probe_counts(lines: list[Packet]) -> tuple[int, int, int, int, int | None]:
    """For the first connection: window probes, keep-alives; how many rows `losses` and
    `retransmissions` have; flows.retransmissions."""
    rows = tables([*lines, *user_seen_at(400 * SECOND)])
    flow = rows["flows"][0]
    return (
        flow["window_probes_down"],
        flow["keepalives_down"],
        len(rows["losses"]),
        len(rows["retransmissions"]),
        flow["retransmissions"],
    )


@pytest.mark.parametrize(
    ("seq", "data"),
    [(END - 1, 0), (END - 1, 1), (END, 1), (END, DATA)],
    ids=["Linux", "an old byte", "the next byte", "a whole segment"],
)
def test_window_probes_are_no_losses_and_no_retransmissions(seq, data):
    """
    Gi     | d2        p         p         p               d3
    mobile |    a2 win=0  a2 win=0  a2 win=0  a2 win=0  a2 win=8192   a3
    """
    lines, at = probed(seq, data)
    opens = at + SECOND
    # the mobile's buffer holds d1 and d2, which nobody fetches from it
    lines = [replace(p, win=END - max(p.ack, 500)) if p.way == "up" else p for p in lines]
    lines += [acked(opens, 2), sent(opens + 100_000, 3), acked(opens + 100_000 + RTT_US, 3)]
    assert probe_counts(lines) == (3, 0, 0, 0, 0)


def test_window_probe_byte_that_is_acknowledged_is_data():
    """
    Gi     | d2            p             p'                2501...
    mobile |    a2 win=0      a2 win=0      a2501 win=0       a3501
    """
    lines, at = probed(END, 1, times=2)
    lines[-1] = replace(lines[-1], ack=END + 1)
    lines += [replace(acked(at + SECOND, 2), ack=END + 1)]
    lines += [server_packet(at + SECOND + 100_000, END + 1, DATA)]
    lines += [replace(acked(at + 2 * SECOND, 2), ack=END + 1 + DATA)]
    assert probe_counts(lines) == (1, 0, 0, 0, 0)
    (row, _) = tables([*lines, *user_seen_at(400 * SECOND)])["flows"]
    assert row["payload_bytes_down"] == 3 * DATA + 1


def test_window_probe_byte_that_is_never_acknowledged_is_no_payload():
    lines, _ = probed(END, 1)
    assert tables(lines)["flows"][0]["payload_bytes_down"] == 2 * DATA


def test_segment_sent_before_the_window_closed_is_no_window_probe():
    """The mobile takes back the room that it had offered, and then lacks d3, which is lost.

    Gi     | d2  d3                  d3'
    mobile |        a2 win=0  a2         a3
    """
    lines = transfer(2)
    at = lines[-1].us
    lines += [sent(at + 1000, 3), closed(acked(at + 2000, 2)), acked(at + SECOND, 2)]
    lines += [sent(at + 3 * SECOND, 3), acked(at + 3 * SECOND + RTT_US, 3)]
    assert probe_counts(lines)[:2] == (0, 0)
    assert probe_counts(lines)[2:4] == (1, 1)


def kept_alive(data: int = 0, times: int = 3, every: int = 70 * SECOND) -> list[Packet]:
    lines = transfer(2)
    end = lines[-1].us
    for k in range(1, times + 1):
        at = end + every * k
        lines += [server_packet(at, END - 1, data), acked(at + RTT_US, 2)]
    return lines


@pytest.mark.parametrize("data", [0, 1])
def test_keepalives_are_no_losses_and_no_retransmissions(data):
    assert probe_counts(kept_alive(data)) == (0, 3, 0, 0, 0)


def test_keepalives_of_the_mobile_are_counted():
    """
    Gi     | d2        a          a
    mobile |    a2  k         k
    """
    lines = transfer(2)
    end = lines[-1].us
    for k in (1, 2):
        at = end + 70 * SECOND * k
        lines += [replace(acked(at, 2), seq=299), server_packet(at + 100_000, END)]
    (row,) = tables(lines)["flows"]
    assert (row["keepalives_up"], row["keepalives_down"], row["retransmissions"]) == (2, 0, 0)
    assert row["limited_server"] < SECOND


def test_retransmitted_single_byte_is_no_keepalive():
    """
    Gi     | b         b'         one byte; the ACK did not reach the server
    mobile |    a(b)      a(b)
    """
    lines = transfer(2)
    at = lines[-1].us + SECOND
    for wait in (0, 3 * SECOND):
        lines += [server_packet(at + wait, END, 1)]
        lines += [replace(acked(at + wait + RTT_US, 2), ack=END + 1)]
    assert probe_counts(lines) == (0, 0, 0, 1, 1)


def test_keepalives_of_another_connection_are_no_background_traffic():
    """One connection is kept alive, another one transfers meanwhile, 3 s after a keep-alive."""
    lines = kept_alive()
    begin = lines[-1].us - 80 * SECOND  # between the first and the second
    other = [replace(p.later(begin + 3 * SECOND), port=2000) for p in transfer(10)]
    _, row = tables([*lines, *other])["flows"]
    assert row["single"]
    assert not row["setup_background"]


def test_data_of_another_connection_is_background_traffic():
    lines = [*kept_alive(), *user_seen_at(75 * SECOND)]
    other = [replace(p.later(70 * SECOND), port=3000) for p in transfer(10)]
    rows = {row["user_port"]: row for row in tables([*lines, *other])["flows"]}
    assert not rows[3000]["single"]
