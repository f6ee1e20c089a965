"""Packets are assigned to connections. Packets are numbered by their line, from 0."""

from tests.helpers.packet_script import NOON, connections, flow, flows, partition


def test_both_directions_with_the_same_addresses_and_ports_are_one_connection():
    assert connections("""
        0.0 up    SYN      seq=100
        0.1 down  SYN ACK  seq=300 ack=101
        0.2 up    ACK      seq=101 ack=301
    """) == [[0, 1, 2]]


def test_another_user_port_server_or_server_port_is_another_connection():
    assert connections("""
        0.0 up SYN seq=100
        0.1 up SYN seq=100 port=1025
        0.2 up SYN seq=100 server=mail
        0.3 up SYN seq=100 server_port=81
        0.4 up SYN seq=100 user=bert
    """) == [[0], [1], [2], [3], [4]]


def test_connections_are_numbered_by_user_then_by_first_packet():
    assert connections("""
        0.0 up SYN seq=100 user=bert
        0.1 up SYN seq=100 port=2000
        0.2 up SYN seq=100 port=1000
        0.3 up ACK seq=101 port=2000
    """) == [[1, 3], [2], [0]]


def test_other_protocols_belong_to_no_connection():
    assert connections("""
        0.0 up UDP
        0.1 up SYN seq=100
        0.2 up UDP
    """) == [[1]]


def test_retransmitted_syn_belongs_to_the_same_attempt():
    assert connections("""
         0.0 up SYN seq=100
         3.0 up SYN seq=100
         9.0 up SYN seq=100
        93.0 up SYN seq=100     # after more than the minute in which TIME-WAIT ends
    """) == [[0, 1, 2, 3]]


def test_syn_with_another_sequence_number_during_setup_is_the_same_attempt():
    assert connections("""
        0.0 up   SYN     seq=100
        3.0 up   SYN     seq=900
        3.5 down SYN ACK seq=300 ack=901
        4.0 up   ACK     seq=901 ack=301
    """) == [[0, 1, 2, 3]]


def test_syn_after_fin_reuses_the_port_for_another_connection():
    assert connections("""
        0.0 up   SYN     seq=100
        0.1 down SYN ACK seq=300 ack=101
        0.2 up   FIN ACK seq=101 ack=301
        0.3 down FIN ACK seq=301 ack=102
        0.4 up   ACK     seq=102 ack=302
        0.5 up   SYN     seq=900
        0.6 down SYN ACK seq=700 ack=901
    """) == [[0, 1, 2, 3, 4], [5, 6]]


def test_syn_with_another_number_after_rst_is_another_connection():
    assert connections("""
        0.0 up   SYN     seq=100
        0.1 down RST ACK ack=101
        0.2 up   SYN     seq=900
    """) == [[0, 1], [2]]


def test_retransmitted_syn_after_rst_belongs_to_the_same_attempt():
    assert connections("""
        0.0 up   SYN     seq=100
        0.1 down RST ACK ack=101
        0.6 up   SYN     seq=100
        0.7 down RST ACK ack=101
    """) == [[0, 1, 2, 3]]


def test_syn_after_data_is_another_connection_though_no_end_was_seen():
    assert connections("""
        0.0 up   SYN     seq=100
        0.1 down SYN ACK seq=300 ack=101
        0.2 up   ACK     seq=101 ack=301 data=10
        9.0 up   SYN     seq=900
    """) == [[0, 1, 2], [3]]


def test_syn_after_more_than_a_minute_of_silence_is_another_connection():
    assert connections("""
          0.0 up SYN seq=100
         60.0 up SYN seq=900      # just a minute: still the attempt
        120.000001 up SYN seq=500
    """) == [[0, 1], [2]]


def test_late_packets_of_a_closed_connection_belong_to_it():
    assert connections("""
         0.0 up   SYN     seq=100
         0.1 up   RST     seq=101
        70.0 down SYN ACK seq=300 ack=101
    """) == [[0, 1, 2]]


def test_packets_without_a_syn_are_one_partial_connection():
    exchange = """
        0.0 down ACK seq=5000 ack=70 data=100
        0.1 up   ACK seq=70   ack=5100
    """
    assert connections(exchange) == [[0, 1]]
    assert flow(exchange)["initiator"] == "unknown"


def test_syn_after_a_partial_connection_that_carried_data_begins_another():
    assert connections("""
        0.0 down ACK seq=5000 ack=70 data=100
        0.1 up   ACK seq=70   ack=5100
        1.0 up   SYN seq=100
    """) == [[0, 1], [2]]


def test_connection_may_be_idle_for_2_h_4_min():
    assert connections("""
           0.0      up   SYN seq=100
        7440.0      up   ACK seq=101
        14880.0     down ACK seq=301 ack=101
        22320.000001 down ACK seq=301 ack=101
    """) == [[0, 1, 2], [3]]


def test_syn_with_the_old_sequence_number_after_2_h_4_min_begins_another():
    assert connections("""
           0.0      up SYN seq=100
        7440.000001 up SYN seq=100
    """) == [[0], [1]]


def test_connection_continues_when_sequence_numbers_wrap():
    assert connections("""
        0.0 up SYN seq=4294967295
        0.1 up ACK seq=0 data=10
        0.2 up ACK seq=10 data=10
    """) == [[0, 1, 2]]


def test_connections_between_the_same_ends_have_their_own_ids_and_times():
    first, second = flows("""
        0.0 up   SYN     seq=100
        0.5 down RST ACK ack=101
        2.0 up   SYN     seq=900
        2.5 down RST ACK ack=901
    """)
    assert first["flow_id"] != second["flow_id"]
    assert (second["start_ts"] - first["start_ts"]).total_seconds() == 2.0
    assert (first["end_ts"] - first["start_ts"]).total_seconds() == 0.5


def test_connection_may_continue_for_2_h_4_min_after_a_fin():
    """An end that has sent its FIN may receive for as long as it likes (RFC 9293, 3.6)."""
    fin, idle = "0.0 up FIN ACK seq=101 ack=301", 7_440_000_000
    assert partition(fin).users_after(NOON + idle) == {"anna"}
    assert not partition(fin).users_after(NOON + idle + 1)
    assert not partition(fin, span=(NOON + 1, NOON + 2)).users_after(NOON + 1)
