"""Options, largest packet and largest window of a connection (INFOCOM II, Table I)."""

import pytest

from tests.helpers.packet_script import flow

HANDSHAKE = """
    0.0 up   SYN     seq=100 {up}
    0.1 down SYN ACK seq=300 ack=101 {down}
    0.2 up   ACK     seq=101 ack=301
"""


@pytest.mark.parametrize(
    ("up", "down", "sack"),
    [
        ("sackok", "sackok", True),
        ("sackok", "", False),
        ("", "sackok", False),
        ("", "", False),
    ],
)
def test_sack_is_permitted_where_both_syns_say_so(up, down, sack):
    assert flow(HANDSHAKE.format(up=up, down=down))["sack"] is sack


def test_sack_is_not_permitted_without_a_syn_ack():
    assert flow("0.0 up SYN sackok")["sack"] is False


def test_sack_is_null_where_the_deciding_syn_was_not_seen():
    assert (
        flow("""
        0.0 up SYN seq=100 sackok
        0.5 up ACK seq=101 ack=301
    """)["sack"]
        is None
    )


def test_sack_is_not_permitted_where_the_only_syn_seen_lacks_it():
    assert (
        flow("""
        0.0 up SYN seq=100
        0.5 up ACK seq=101 ack=301
    """)["sack"]
        is False
    )


def test_sack_of_a_connection_without_syns_is_null():
    assert flow("0.0 up ACK seq=100")["sack"] is None


@pytest.mark.parametrize(
    ("up", "down", "timestamps"),
    [
        ("tsval=5", "tsval=9", True),
        ("tsval=5", "", False),
        ("", "tsval=9", False),
        ("", "", False),
        ("tsval=0", "tsval=0", True),
    ],
)
def test_timestamps_are_in_use_where_both_directions_have_them(up, down, timestamps):
    assert flow(HANDSHAKE.format(up=up, down=down))["timestamps"] is timestamps


def test_timestamps_of_a_connection_without_syns_are_known():
    assert (
        flow("""
        0.0 up   ACK seq=100 ack=300 tsval=5
        0.1 down ACK seq=300 ack=100 tsval=9
    """)["timestamps"]
        is True
    )


@pytest.mark.parametrize(
    ("ip_len", "mss_class"),
    [
        (399, "other"),
        (400, "low"),
        (600, "low"),
        (601, "other"),
        (1399, "other"),
        (1400, "high"),
        (1600, "high"),
        (1601, "other"),
    ],
)
@pytest.mark.parametrize("way", ["up", "down"])
def test_mss_class_is_that_of_the_largest_ip_packet_of_either_direction(way, ip_len, mss_class):
    row = flow(f"""
        0.0 up   ACK seq=100 ack=300
        0.1 {way} ACK seq=500 ack=500 data={ip_len - 40}
    """)
    assert (row["max_ip_len"], row["mss_class"]) == (ip_len, mss_class)


@pytest.mark.parametrize(
    ("window", "window_class"),
    [
        (0, "low"),
        (9_999, "low"),
        (10_000, "med"),
        (20_000, "med"),
        (20_001, "high"),
    ],
)
def test_window_class_is_that_of_the_largest_window(window, window_class):
    row = flow(f"0.0 up SYN seq=100 win={window}")
    assert (row["max_window"], row["window_class"]) == (window, window_class)


def test_max_window_is_the_largest_that_the_mobile_advertised():
    assert (
        flow("""
        0.0 up   SYN     seq=100         win=5000
        0.1 down SYN ACK seq=300 ack=101 win=60000
        0.2 up   ACK     seq=101 ack=301 win=6000
        0.3 down ACK     seq=301 ack=101 win=60000
        0.4 up   ACK     seq=101 ack=301 win=4000
    """)["max_window"]
        == 6000
    )


def test_max_window_is_the_mobiles_where_the_server_initiates():
    assert (
        flow("""
        0.0 down SYN     seq=300         win=60000 ws=0
        0.1 up   SYN ACK seq=100 ack=301 win=5000  ws=2
        0.2 down ACK     seq=301 ack=101 win=60000
        0.3 up   ACK     seq=101 ack=301 win=2000
    """)["max_window"]
        == 2000 * 4
    )


@pytest.mark.parametrize(
    ("up", "down", "factor"),
    [
        ("ws=3", "ws=7", 8),
        ("ws=0", "ws=7", 1),
        ("ws=3", "", 1),  # RFC 7323, 2.2: both SYNs, or no scaling
        ("", "ws=7", 1),
        ("ws=200", "ws=0", 2**14),  # RFC 7323, 2.3: more than 14 is taken as 14
    ],
)
def test_window_is_scaled_by_the_mobiles_shift_where_both_syns_have_the_option(up, down, factor):
    row = flow(f"""
        0.0 up   SYN     seq=100         win=1000 {up}
        0.1 down SYN ACK seq=300 ack=101 {down}
        0.2 up   ACK     seq=101 ack=301 win=1000
    """)
    assert row["max_window"] == 1000 * factor


def test_window_of_a_syn_is_not_scaled():
    row = flow("""
        0.0 up   SYN     seq=100         win=50000 ws=3
        0.1 down SYN ACK seq=300 ack=101           ws=0
        0.2 up   ACK     seq=101 ack=301 win=1000
    """)
    assert row["max_window"] == 50_000


def test_max_window_is_null_where_the_scale_is_unknown():
    row = flow("""
        0.0 up   ACK seq=101 ack=301 win=1000
        0.1 down ACK seq=301 ack=101
    """)
    assert (row["max_window"], row["window_class"]) == (None, None)


def test_window_needs_no_scale_where_the_only_syn_seen_has_none():
    assert (
        flow("""
        0.0 down SYN ACK seq=300 ack=101
        0.2 up   ACK     seq=101 ack=301 win=1000
    """)["max_window"]
        == 1000
    )


def test_window_of_an_rst_does_not_count():
    assert (
        flow("""
        0.0 up   SYN     seq=100         win=1000
        0.1 down SYN ACK seq=300 ack=101
        0.2 up   RST ACK seq=101 ack=301 win=9000
    """)["max_window"]
        == 1000
    )


def test_max_window_is_null_where_the_mobile_sent_nothing():
    assert flow("0.0 down SYN seq=300 win=1000")["max_window"] is None
