"""Packets that a network card merged become the segments that were on the wire."""

import pytest

from tests.helpers.packet_script import flow, partition, tables

HANDSHAKE = """
    0.000 up    SYN      seq=99  mss=1460
    0.050 down  SYN ACK  seq=499 ack=100 mss=1460
    0.250 up    ACK      seq=100 ack=500
    0.251 up    PSH ACK  seq=100 ack=500 data=200
"""


def down(exchange: str, *names: str) -> list[tuple]:
    """Some columns of the data to the mobile, as the estimators see it."""
    segments = partition(exchange).segments
    data = segments.downlink & (segments.payload_len > 0)
    return list(zip(*(getattr(segments, name)[data].tolist() for name in names), strict=True))


def test_merged_packet_is_split_by_the_mss_of_both_syns():
    exchange = HANDSHAKE + "0.300 down PSH ACK seq=500 ack=300 data=4000 id=7"
    assert down(exchange, "seq", "payload_len", "ip_len", "ip_id", "tcp_flags") == [
        (500, 1460, 1500, 7, 16),
        (1960, 1460, 1500, 8, 16),
        (3420, 1080, 1120, 9, 24),
    ]


def test_options_reduce_the_payload_of_each_segment():
    stamps = "tsval=5 tsecr=9"
    exchange = f"""
        0.000 up    SYN      seq=99  mss=1460 {stamps}
        0.050 down  SYN ACK  seq=499 ack=100 mss=1460 {stamps}
        0.250 up    ACK      seq=100 ack=500 {stamps}
        0.300 down  ACK      seq=500 ack=100 data=2896 {stamps}
    """
    assert down(exchange, "seq", "payload_len", "ip_len") == [(500, 1448, 1500), (1948, 1448, 1500)]


def test_merged_packet_is_split_by_the_smaller_mss():
    """A server reached through a tunnel: its own SYN ACK says what it sends."""
    exchange = """
        0.000 up    SYN      seq=99  mss=1460
        0.050 down  SYN ACK  seq=499 ack=100 mss=1400
        0.250 up    ACK      seq=100 ack=500
        0.300 down  ACK      seq=500 ack=100 data=2800
    """
    assert down(exchange, "payload_len") == [(1400,), (1400,)]


def test_segment_size_below_the_mss_is_taken_from_unmerged_packets():
    exchange = (
        HANDSHAKE
        + """
        0.300 down  ACK  seq=500  ack=300 data=1380
        0.301 down  ACK  seq=1880 ack=300 data=4140
        0.302 down  ACK  seq=6020 ack=300 data=3000
    """
    )
    sizes = [size for (size,) in down(exchange, "payload_len")]
    assert sizes == [1380, 1380, 1380, 1380, 1380, 1380, 240]


def test_small_packets_do_not_set_the_segment_size():
    exchange = (
        HANDSHAKE
        + """
        0.300 down  ACK  seq=500 ack=300 data=100
        0.301 down  ACK  seq=600 ack=300 data=2000
    """
    )
    assert down(exchange, "payload_len") == [(100,), (1460,), (540,)]


@pytest.mark.parametrize(
    ("before", "data", "sizes"),
    [(0, 2920, [1460, 1460]), (1400, 2800, [1400, 1400]), (1400, 3000, [1400, 1400, 200])],
)
def test_without_syns_the_largest_ethernet_packet_sets_the_segment_size(before, data, sizes):
    exchange = f"""
        0.250 up    ACK  seq=100  ack=500
        0.300 down  ACK  seq=500  ack=100 data={before}
        0.301 down  ACK  seq={500 + before} ack=100 data={data}
    """
    assert [size for (size,) in down(exchange, "payload_len") if size][before > 0 :] == sizes


def test_jumbo_frames_within_the_mss_are_not_split():
    exchange = """
        0.000 up    SYN      seq=99  mss=8960
        0.050 down  SYN ACK  seq=499 ack=100 mss=8960
        0.250 up    ACK      seq=100 ack=500
        0.300 down  ACK      seq=500 ack=100 data=8960
    """
    assert down(exchange, "payload_len") == [(8960,)]


def test_payload_of_a_full_mss_beside_timestamps_is_not_split():
    """Payload as large as the MSS beside timestamps."""
    exchange = HANDSHAKE + "0.300 down ACK seq=500 ack=300 data=1460 tsval=5 tsecr=9"
    assert down(exchange, "payload_len") == [(1460,)]


def test_last_segment_has_the_fin_and_an_ip_id_of_0_stays_0():
    exchange = HANDSHAKE + "0.300 down FIN PSH ACK seq=500 ack=300 data=2000"
    assert down(exchange, "tcp_flags", "ip_id") == [(16, 0), (25, 0)]


def test_merged_uplink_packet_is_split_too():
    made = flow(HANDSHAKE + "0.300 up ACK seq=300 ack=500 data=14600")
    assert (made["packets_up"], made["ip_bytes_up"]) == (3 + 10, 44 + 40 + 240 + 10 * 1500)


def test_merged_ipv6_packet_is_split():
    ends = "server=2001:db8::1"
    exchange = f"""
        0.250 up    ACK  seq=100  ack=500 {ends}
        0.300 down  ACK  seq=500  ack=100 data=2880 {ends}
    """
    assert down(exchange, "payload_len", "ip_len") == [(1440, 1500), (1440, 1500)]


def test_flows_count_segments_and_merged_segments():
    merged = flow(
        HANDSHAKE
        + """
        0.300 down  ACK  seq=500   ack=300 data=14600
        0.301 down  ACK  seq=15100 ack=300 data=1000
        0.600 up    ACK  seq=300   ack=16100
        """
    )
    assert merged["data_packets_down"] == 11
    assert merged["packets_down"] == 12
    assert merged["ip_bytes_down"] == 44 + 10 * 1500 + 1040
    assert merged["merged_segments"] == 10
    assert (merged["max_ip_len"], merged["mss_class"]) == (1500, "high")


def test_unmerged_packets_count_no_merged_segments():
    made = flow(HANDSHAKE + "0.300 down ACK seq=500 ack=300 data=1460")
    assert made["merged_segments"] == 0


def test_lost_segment_of_a_merged_packet_is_one_loss():
    """Three segments in one packet; the mobile has the first, and by SACK the third."""
    exchange = """
        0.000 up    SYN      seq=99  mss=1000 sackok
        0.050 down  SYN ACK  seq=499 ack=100 mss=1000 sackok
        0.250 up    ACK      seq=100 ack=500
        0.300 down  ACK      seq=500 ack=100 data=3000
        0.600 up    ACK      seq=100 ack=1500
        0.700 up    ACK      seq=100 ack=1500 sack=2500-3500
        0.800 down  ACK      seq=1500 ack=100 data=1000
        1.100 up    ACK      seq=100 ack=3500
    """
    rows = tables(exchange)
    assert [(r["seq"], r["payload_len"], r["frame"]) for r in rows["losses"]] == [(1500, 1000, 3)]
    assert [(r["frame"], r["original_frame"]) for r in rows["retransmissions"]] == [(6, 3)]


def test_users_after_one_with_merged_packets_keep_their_packets():
    exchange = (
        HANDSHAKE
        + """
        0.300 down  ACK  seq=500 ack=300 data=14600
        0.350 down  UDP  data=3000
        0.400 up    SYN  seq=7 user=bert port=2000
        0.450 down  SYN ACK seq=9 ack=8 user=bert port=2000
        """
    )
    made = partition(exchange)
    assert made.packets.first.tolist() == [0, 4 + 10 + 1, 4 + 10 + 1 + 2]
    assert made.packets.downlink_bytes_before[-1] == 44 + 10 * 1500 + 3040 + 40
    assert made.connections.user.tolist() == [0, 1]


def test_implausible_mss_splits_nothing():
    exchange = HANDSHAKE.replace("mss=1460", "mss=1")
    assert down(exchange + "0.300 down ACK seq=500 ack=300 data=1460", "payload_len") == [(1460,)]


def test_impossible_packet_length_is_not_split():
    exchange = HANDSHAKE + f"0.300 down ACK seq=500 ack=300 data={2**30}"
    assert down(exchange, "payload_len") == [(2**30,)]
