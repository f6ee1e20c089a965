"""The volume of a connection: packets, IP bytes, distinct payload."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.estimators.volumes import MAX_HOLES
from tests.helpers.packet_script import Packet, flow


def up(exchange):
    return flow(exchange)["payload_bytes_up"]


def down(exchange):
    return flow(exchange)["payload_bytes_down"]


def test_packets_and_ip_bytes_are_counted_by_direction():
    row = flow("""
        0.0 up   SYN     seq=100 mss=1460             # 20 + 20 + 4 B
        0.1 down SYN ACK seq=300 ack=101 mss=1460
        0.2 up   ACK     seq=101 ack=301 data=200
        0.3 down ACK     seq=301 ack=301 data=1000
        0.4 down ACK     seq=1301 ack=301 data=500
        0.5 up   ACK     seq=301 ack=1801
    """)
    assert (row["packets_up"], row["ip_bytes_up"]) == (3, 44 + 240 + 40)
    assert (row["packets_down"], row["ip_bytes_down"]) == (3, 44 + 1040 + 540)
    assert (row["payload_bytes_up"], row["payload_bytes_down"]) == (200, 1500)
    assert (row["data_packets_down"], row["max_ip_len"]) == (2, 1040)


def test_retransmission_is_a_packet_but_no_new_payload():
    row = flow("""
        0.0 down ACK seq=1000 data=100
        0.1 down ACK seq=1100 data=100
        0.9 down ACK seq=1000 data=100
    """)
    assert (row["data_packets_down"], row["payload_bytes_down"]) == (3, 200)
    assert row["ip_bytes_down"] == 3 * 140


def test_only_the_new_part_of_an_overlapping_segment_counts():
    assert (
        down("""
        0.0 down ACK seq=1000 data=100
        0.1 down ACK seq=1050 data=100    # 50 B are new
        0.2 down ACK seq=990  data=300    # 10 B before, 140 B after
    """)
        == 100 + 50 + 150
    )


def test_data_retransmitted_in_other_segments_is_not_new():
    assert (
        down("""
        0.0 down ACK seq=1000 data=100
        0.1 down ACK seq=1100 data=100
        0.9 down ACK seq=1050 data=100
        1.0 down ACK seq=1000 data=200
    """)
        == 200
    )


def test_data_that_the_monitor_missed_does_not_count():
    assert (
        down("""
        0.0 down ACK seq=1000 data=100
        0.1 down ACK seq=1500 data=100
    """)
        == 200
    )


def test_data_that_fills_a_hole_counts_once():
    assert (
        down("""
        0.0 down ACK seq=1000 data=100
        0.1 down ACK seq=1300 data=100
        0.2 down ACK seq=1100 data=100    # the hole's first half
        0.3 down ACK seq=1150 data=150    # 100 B of the other, over what is seen
        0.4 down ACK seq=1100 data=200
    """)
        == 400
    )


def test_segment_across_several_holes_fills_them_all():
    assert (
        down("""
        0.0 down ACK seq=1000 data=100
        0.1 down ACK seq=1200 data=100
        0.2 down ACK seq=1400 data=100
        0.3 down ACK seq=1000 data=600
    """)
        == 600
    )


def test_first_segments_may_be_reordered():
    assert (
        down("""
        0.0 down ACK seq=1200 data=100
        0.1 down ACK seq=1100 data=100
        0.2 down ACK seq=1000 data=100
        0.3 down ACK seq=1000 data=100
    """)
        == 300
    )


def test_data_before_its_synack_counts():
    assert (
        down("""
        0.0 down ACK     seq=301 data=10
        0.1 down SYN ACK seq=300
        0.2 down ACK     seq=311 data=10
    """)
        == 20
    )


def test_data_before_the_first_seen_segment_counts():
    assert (
        down("""
        0.0 up   SYN     seq=100
        0.1 down SYN ACK seq=300 ack=101
        0.2 down ACK     seq=401 ack=101 data=100
        0.3 down ACK     seq=301 ack=101 data=100
    """)
        == 200
    )


def test_sequence_numbers_may_wrap():
    assert (
        down("""
        0.0 down SYN     seq=4294967195            # 101 below 2^32
        0.2 down ACK     seq=4294967196 data=100
        0.3 down ACK     seq=100        data=100   # the segment before it is late
        0.4 down ACK     seq=0          data=100
        0.5 down ACK     seq=4294967246 data=100   # 50 B on either side of the wrap, retransmitted
    """)
        == 300
    )


def test_more_than_4_gib_of_payload_are_counted():
    step = 2**30
    segments = [
        Packet(i, "down", frozenset({"ACK"}), seq=i * step % 2**32, data=step) for i in range(9)
    ]
    assert down([*segments, segments[-1].later(1)]) == 9 * step


def test_keep_alive_is_no_new_payload():
    assert (
        up("""
        0.0 up ACK seq=101 data=10
        9.0 up ACK seq=110            # RFC 9293, 3.8.4: one below the next, empty or one byte
       19.0 up ACK seq=110 data=1
    """)
        == 10
    )


def test_keep_alive_before_any_data_is_no_payload():
    assert (
        up("""
        0.0 up   SYN     seq=100
        0.1 down SYN ACK seq=300 ack=101
        0.2 up   ACK     seq=101 ack=301
        9.0 up   ACK     seq=100 ack=301 data=1
    """)
        == 0
    )


def test_window_probe_byte_counts_once():
    assert (
        up("""
        0.0 up ACK seq=101 data=10
        1.0 up ACK seq=111 data=1
        3.0 up ACK seq=111 data=1
        9.0 up ACK seq=111 data=10
    """)
        == 20
    )


def test_text_in_an_rst_is_no_payload():
    row = flow("""
        0.0 down ACK     seq=301 data=100
        0.1 down RST ACK seq=401 data=14
    """)
    assert (row["payload_bytes_down"], row["data_packets_down"]) == (100, 1)
    assert row["ip_bytes_down"] == 140 + 54


def test_data_in_a_syn_is_payload():
    assert (
        up("""
        0.0 up SYN seq=100 data=20           # RFC 7413
        0.1 up SYN seq=100 data=20
        0.2 up ACK seq=121 data=10
    """)
        == 30
    )


def test_fin_takes_a_sequence_number_but_is_no_payload():
    assert (
        up("""
        0.0 up FIN ACK seq=101 data=10
        0.1 up ACK     seq=112
    """)
        == 10
    )


@pytest.mark.parametrize("second", [900, 4_000_000_000])
def test_data_follows_the_syn_that_was_accepted(second):
    assert (
        up(f"""
        0.0 up   SYN     seq=100
        3.0 up   SYN     seq={second}
        3.1 down SYN ACK seq=300 ack={second + 1}
        3.7 up   ACK     seq={second + 1} ack=301 data=50
    """)
        == 50
    )


def test_beyond_max_holes_the_oldest_holes_are_dropped():
    islands = [
        Packet(i, "down", frozenset({"ACK"}), seq=20 * i, data=10) for i in range(MAX_HOLES + 2)
    ]
    fillings = [Packet(p.us + 10_000, p.way, p.flags, seq=p.seq + 10, data=10) for p in islands]
    seen, filled = 10 * len(islands), 10 * len(islands)
    assert seen + 10 * MAX_HOLES <= down(islands + fillings) <= seen + filled


segments = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), min_size=1, max_size=40)


@settings(max_examples=300, deadline=None)
@given(segments, st.booleans(), st.integers(0, 2**32 - 1))
def test_distinct_payload_is_the_size_of_the_set_of_bytes(ranges, with_syn, isn):
    """ranges: (bytes after the first one, size). A set of the bytes sent is the model."""
    syn = [Packet(0, "down", frozenset({"SYN"}), seq=isn)] if with_syn else []
    data = [
        Packet(1 + i, "down", frozenset({"ACK"}), seq=(isn + 1 + low) % 2**32, data=size)
        for i, (low, size) in enumerate(ranges)
    ]
    sent = {byte for low, size in ranges for byte in range(low, low + size)}
    assert down(syn + data) == len(sent)


def test_repeated_and_overtaken_data_and_zero_windows_are_counted_apart():
    row = flow("""
        0.0 down ACK seq=1000 data=100
        0.1 down ACK seq=1300 data=100
        0.2 down ACK seq=1100 data=100         # overtaken
        0.3 down ACK seq=1150 data=100         # 50 B again, 50 B overtaken
        0.4 down ACK seq=1350 data=100         # 50 B again, 50 B ahead
        0.5 up   ACK seq=500  ack=1450 win=0
        0.6 up   RST ACK seq=500 ack=1450 win=0
    """)
    assert (row["retransmitted_bytes_down"], row["out_of_order_down"]) == (100, 2)
    assert (row["zero_windows_up"], row["zero_windows_down"]) == (1, 0)
    assert (row["retransmitted_bytes_up"], row["out_of_order_up"]) == (0, 0)


@pytest.mark.parametrize(
    ("end", "ended"),
    [
        ("", "silent"),
        ("0.5 up FIN ACK seq=201 ack=401", "fin_mobile"),
        ("0.5 down FIN ACK seq=401 ack=201", "fin_server"),
        ("0.5 down FIN ACK seq=401 ack=201\n0.6 up FIN ACK seq=201 ack=402", "fin"),
        ("0.5 down FIN ACK seq=401 ack=201\n0.6 up RST seq=201", "rst_mobile"),
        ("0.5 down RST seq=401\n0.6 up RST seq=201", "rst_server"),
        (
            "0.5 down FIN ACK seq=401 ack=201\n0.6 up FIN ACK seq=201 ack=402\n"
            "0.7 down RST seq=402",
            "fin",
        ),
    ],
)
def test_ending(end, ended):
    exchange = """
        0.0 up   SYN     seq=100 mss=1460
        0.1 down SYN ACK seq=300 ack=101 mss=1460
        0.2 up   ACK     seq=101 ack=301 data=100
        0.4 down ACK     seq=301 ack=201 data=100
    """
    assert flow(exchange + end)["ended"] == ended


@pytest.mark.parametrize(
    ("data", "delay"),
    [
        ("0.2 up ACK seq=101 ack=301 data=9\n0.7 down ACK seq=301 ack=110 data=9", 0.5),
        (
            "0.2 up ACK seq=101 ack=301 data=9\n0.6 up ACK seq=101 ack=301 data=9\n"
            "0.7 down ACK seq=301 ack=110 data=9",
            0.5,
        ),
        ("0.2 down ACK seq=301 ack=101 data=9\n0.7 up ACK seq=101 ack=310 data=9", None),
        ("0.2 up ACK seq=101 ack=301 data=9\n0.7 down ACK seq=301 ack=110", None),
        ("0.2 up ACK seq=101 ack=301\n0.7 down ACK seq=301 ack=101 data=9", None),
    ],
)
def test_time_from_the_first_request_to_the_first_byte(data, delay):
    handshake = """
        0.0 up   SYN     seq=100 mss=1460
        0.1 down SYN ACK seq=300 ack=101 mss=1460
    """
    assert flow(handshake + data)["first_byte_delay"] == delay
