"""Out-of-window segments do not change a connection's figures; segments that its ends continue
with belong to it."""

import pytest

from tests.helpers.packet_script import connections, flow, flows, read, tables
from tests.helpers.segments import acked, opened, sent

OPENED = """
    0.0 up   SYN     seq=100 win=8192
    0.1 down SYN ACK seq=300 ack=101 win=8192
    0.2 up   ACK     seq=101 ack=301
    0.3 up   ACK     seq=101 ack=301 data=200
    0.4 down ACK     seq=301 ack=301 data=1000
    0.5 up   ACK     seq=301 ack=1301
"""
FAR, THREE, CLOSE = (300, 900_000), (300, 900_000, 2_900_000_000), (300, 8300)
"""Initial sequence numbers of SYN ACKs to one SYN."""
CLOSED = """
    9.0 down FIN ACK seq=1301 ack=301
    9.1 up   FIN ACK seq=301 ack=1302
    9.2 down ACK     seq=1302 ack=302
"""


def counted(row: dict) -> tuple[int, int]:
    return row["out_of_window_up"], row["out_of_window_down"]


def other_columns(row: dict) -> dict:
    """The row without the counts of out-of-window packets."""
    return {name: value for name, value in row.items() if not name.startswith("out_of_window")}


@pytest.mark.parametrize(
    ("line", "way"),
    [
        ("1.0 down ACK seq=900000 ack=301 data=1000", 1),
        ("1.0 down ACK seq=9494 ack=301 data=1", 1),  # the first byte beyond the window's edge
        ("1.0 down ACK seq=4294000000 ack=301 data=1000", 1),
        ("1.0 down ACK seq=200 ack=301 data=50", 1),  # below the SYN ACK
        ("1.0 down FIN ACK seq=70000 ack=301", 1),
        ("1.0 up ACK seq=301 ack=1000000000", 0),
        ("1.0 up ACK seq=301 ack=2301", 0),  # within the window, never sent: the next ACK is lower
        ("1.0 up ACK seq=301 ack=300", 0),
        ("1.0 up ACK seq=90000 ack=1301 data=10", 0),
        ("1.0 down ACK seq=1301 ack=5000000", 1),
        ("1.0 up RST seq=90000", 0),
        ("1.0 down RST seq=0", 1),
        ("1.0 down RST ACK seq=2147483648 ack=301", 1),
        ("1.0 up SYN seq=5", 0),
        ("1.0 down SYN ACK seq=77777 ack=101", 1),
    ],
)
def test_out_of_window_packet_changes_nothing_but_its_count(line, way):
    later = """
        2.0 up   ACK seq=301 ack=1301 data=100
        2.1 down ACK seq=1301 ack=401 data=1000
        2.2 up   ACK seq=401 ack=2301
    """
    row = flow(OPENED + line + later)
    assert counted(row) == ((0, 1) if way else (1, 0))
    assert other_columns(row) == other_columns(flow(OPENED + later))


def test_challenge_ack_of_an_old_connection_does_not_change_the_new_one():
    """RFC 5961, 4: the mobile reuses a port whose old connection the server still holds."""
    row = flow("""
        0.0 up   SYN     seq=100
        0.1 down ACK     seq=2900000000 ack=1600000000
        0.2 up   RST     seq=1600000000
        1.0 up   SYN     seq=100
        1.1 down SYN ACK seq=300 ack=101
        1.2 up   ACK     seq=101 ack=301 data=200
        1.3 down ACK     seq=301 ack=301 data=1000
        1.4 up   ACK     seq=301 ack=1301
    """)
    assert (row["syn_count"], row["setup_class"], row["reset_by"]) == (2, "slight_problem", None)
    assert (row["acked_unseen_bytes"], row["lost_access"], row["retransmissions"]) == (0, 0, 0)
    assert counted(row) == (1, 1)


@pytest.mark.parametrize("way", ["up", "down"])
def test_late_fin_of_an_old_connection_does_not_change_the_new_one(way):
    old = "20.05 " + (
        "down FIN ACK seq=1301 ack=301" if way == "down" else "up FIN ACK seq=301 ack=1301"
    )
    new = """
        20.0 up   SYN     seq=500100 win=8192
        20.1 down SYN ACK seq=700300 ack=500101 win=8192
        20.2 up   ACK     seq=500101 ack=700301
        20.3 up   ACK     seq=500101 ack=700301 data=200
        20.4 down ACK     seq=700301 ack=500301 data=1000
        20.5 up   ACK     seq=500301 ack=701301
    """
    first, second = flows(OPENED + CLOSED + new + old)
    undisturbed = flow(new)
    assert counted(second) == ((0, 1) if way == "down" else (1, 0))
    for name in (
        "lost_access",
        "retransmissions",
        "rto_expiries",
        "limited_by",
        "setup_class",
        "end_ts",
    ):
        assert second[name] == undisturbed[name], name
    assert first["reset_by"] is None


@pytest.mark.parametrize(
    ("isns", "taken"),
    [(isns, isn) for isns in (FAR, THREE, CLOSE) for isn in isns],
)
def test_of_several_syn_acks_the_one_that_the_ends_continue_with_counts(isns, taken):
    answers = "".join(f"0.1{k} down SYN ACK seq={isn} ack=101\n" for k, isn in enumerate(isns))
    row = flow(f"""
        0.0  up   SYN     seq=100
        {answers}
        0.2  up   ACK     seq=101 ack={taken + 1}
        0.3  up   ACK     seq=101 ack={taken + 1} data=200
        0.4  down ACK     seq={taken + 1} ack=301 data=1000
        0.5  up   ACK     seq=301 ack={taken + 1001}
    """)
    assert (row["setup_class"], row["synack_count"]) == ("optimal", 1)
    assert (row["payload_bytes_down"], row["acked_unseen_bytes"]) == (1000, 0)
    assert (row["lost_access"], row["retransmissions"], row["rto_expiries"]) == (0, 0, 0)
    assert counted(row) == (0, len(isns) - 1)


def test_set_up_continues_after_the_mobile_resets_a_second_syn_ack():
    row = flow("""
        0.0  up   SYN     seq=100
        0.10 down SYN ACK seq=300 ack=101
        0.11 down SYN ACK seq=900000 ack=101
        0.20 up   RST     seq=101
        0.21 up   ACK     seq=101 ack=301
        0.3  up   ACK     seq=101 ack=301 data=200
        0.4  down ACK     seq=301 ack=301 data=1000
        0.5  up   ACK     seq=301 ack=1301
    """)
    assert (row["setup_class"], row["setup_reset"]) == ("optimal", None)


@pytest.mark.parametrize("taken", [0, 1])
def test_of_two_answered_syns_the_one_that_its_sender_continues_with_counts(taken):
    isn, answer = ((100, 300), (700_000, 900_000))[taken]
    row = flow(f"""
        0.00 up   SYN     seq=100
        0.02 up   SYN     seq=700000
        0.10 down SYN ACK seq=300 ack=101
        0.12 down SYN ACK seq=900000 ack=700001
        0.2  up   ACK     seq={isn + 1} ack={answer + 1} data=200
        0.4  down ACK     seq={answer + 1} ack={isn + 201} data=1000
        0.5  up   ACK     seq={isn + 201} ack={answer + 1001}
    """)
    assert (row["acked_unseen_bytes"], row["payload_bytes_down"], row["lost_access"]) == (
        0,
        1000,
        0,
    )
    assert row["payload_bytes_up"] == 200


LATER = """
    2.0 up   ACK seq=301 ack=1301 data=100
    2.1 down ACK seq=1301 ack=401 data=1000
    2.2 up   ACK seq=401 ack=2301
"""


@pytest.mark.parametrize(
    "isns", [(5000,), (300,), (301,), (5000, 9_000_000), tuple(range(500, 520))]
)
def test_unanswered_blind_syns_open_no_connection(isns):
    """Even where their number is the next one, or lies in the window."""
    blind = "".join(f"1.{k:02} up SYN seq={isn}\n" for k, isn in enumerate(isns))
    (row,) = flows(OPENED + blind + LATER)
    assert counted(row) == (len(isns), 0)
    assert other_columns(row) == other_columns(flow(OPENED + LATER))


def test_blind_syn_ack_with_the_next_number_is_out_of_window():
    row = flow(OPENED + "1.0 down SYN ACK seq=1300 ack=301" + LATER)
    assert (counted(row), row["payload_bytes_down"]) == ((0, 1), 2000)


def test_old_packets_of_both_ends_within_a_connection_are_out_of_window():
    """Data and its ACKs with far numbers; then the ends continue where they were."""
    old = "".join(
        f"1.{2 * k:02} down ACK seq={2_000_000_000 + 1000 * k} ack=2000000000 data=1000\n"
        f"1.{2 * k + 1:02} up ACK seq=2000000000 ack={2_000_001_000 + 1000 * k}\n"
        for k in range(5)
    )
    row = flow(OPENED + old + LATER)
    assert counted(row) == (5, 5)
    assert other_columns(row) == other_columns(flow(OPENED + LATER))


def test_old_segment_and_its_ack_within_a_set_up_are_out_of_window():
    row = flow("""
        0.00 up   SYN     seq=100
        0.05 down ACK     seq=2000000000 ack=1500000000 data=1000
        0.06 up   ACK     seq=1500000000 ack=2000001000
        0.10 down SYN ACK seq=300 ack=101
        0.2  up   ACK     seq=101 ack=301
        0.3  up   ACK     seq=101 ack=301 data=200
        0.4  down ACK     seq=301 ack=301 data=1000
        0.5  up   ACK     seq=301 ack=1301
    """)
    assert (row["setup_class"], counted(row)) == ("optimal", (1, 1))
    assert (row["payload_bytes_down"], row["acked_unseen_bytes"]) == (1000, 0)


@pytest.mark.parametrize("ack", [500, 1_900_000_000, 3_000_000_000])
def test_first_packet_of_a_connection_seen_from_its_middle_may_be_out_of_window(ack):
    later = "".join(
        f"1.{2 * k:02} down ACK seq={301 + 1000 * k} ack=500 data=1000\n"
        f"1.{2 * k + 1:02} up ACK seq=500 ack={1301 + 1000 * k}\n"
        for k in range(10)
    )
    row = flow(f"0.9 down ACK seq=2000000000 ack={ack} data=1000\n" + later)
    assert (counted(row), row["payload_bytes_down"]) == ((0, 1), 10_000)
    assert row["acked_unseen_bytes"] == 0


@pytest.mark.parametrize(
    ("line", "way"),
    [
        ("9.5 up ACK seq=302 ack=1303", 0),
        ("9.5 up ACK seq=302 ack=5000", 0),
        ("9.5 down ACK seq=1302 ack=303", 1),
        ("9.5 down ACK seq=1302 ack=302 data=500", 1),
        ("9.5 up ACK seq=302 ack=1302 data=10", 0),
    ],
)
def test_packet_beyond_a_fin_is_out_of_window(line, way):
    row = flow(OPENED + CLOSED + line)
    assert counted(row) == ((0, 1) if way else (1, 0))
    assert other_columns(row) == other_columns(flow(OPENED + CLOSED))


def test_transfer_continues_after_a_challenge_ack_to_a_blind_syn():
    assert connections(
        OPENED
        + """
        1.0 up   SYN seq=5000
        1.1 down ACK seq=1301 ack=301
        2.0 down ACK seq=1301 ack=301 data=1000
        2.1 up   ACK seq=301  ack=2301
        """
    ) == [[0, 1, 2, 3, 4, 5, 7, 8, 9]]


def test_syn_answered_only_by_a_challenge_ack_opens_no_connection():
    assert len(flows(OPENED + "1.0 up SYN seq=5000\n 1.1 down ACK seq=1301 ack=301")) == 1


def test_port_reopened_after_a_challenge_ack_is_another_connection():
    old, new = connections(
        OPENED
        + """
        61.0 up   SYN seq=5000
        61.1 down ACK seq=1301 ack=301
        61.2 up   RST seq=301
        62.0 up   SYN seq=5000
        62.1 down SYN ACK seq=9300 ack=5001
        62.2 up   ACK seq=5001 ack=9301
        """
    )
    assert (old, new) == ([0, 1, 2, 3, 4, 5], [6, 9, 10, 11])


def test_connection_continues_across_a_gap_of_the_capture():
    """Both directions are missing for 5 MB; then both continue."""
    row = flow(
        OPENED
        + """
        5.0 down ACK seq=5001301 ack=1301 data=1000
        5.1 up   ACK seq=1301 ack=5002301
        5.2 down ACK seq=5002301 ack=1301 data=1000
        5.3 up   ACK seq=1301 ack=5003301
        """
    )
    assert counted(row) == (0, 0)
    assert (row["payload_bytes_down"], row["acked_unseen_bytes"]) == (3000, 5_000_000)


def test_acknowledged_data_beyond_a_window_whose_update_is_missing_counts():
    row = flow(
        OPENED
        + """
        1.0 down ACK seq=1301 ack=301 data=8192
        1.1 down ACK seq=9493 ack=301 data=1000
        1.2 up   ACK seq=301 ack=10493
        """
    )
    assert (counted(row), row["acked_unseen_bytes"]) == ((0, 0), 0)


def test_connection_with_one_direction_continues_across_gaps():
    down = [line for line in read(OPENED) if line.way == "down"]
    row = flow([*down, *read("2.0 down ACK seq=500000 ack=301 data=1000")])
    assert (counted(row), row["packets_down"]) == ((0, 0), 3)


def test_syn_stamped_after_its_syn_ack_belongs_to_its_connection():
    """Two taps whose clocks differ: the ISN shows whose SYN it is."""
    row = flow("""
        0.00 down SYN ACK seq=300 ack=101
        0.02 up   SYN     seq=100
        0.10 up   ACK     seq=101 ack=301
        0.20 up   ACK     seq=101 ack=301 data=200
        0.25 down ACK     seq=301 ack=301 data=1000
        0.40 up   ACK     seq=301 ack=1301
    """)
    assert (row["setup_class"], row["initiator"], row["setup_delay"]) == ("optimal", "mobile", None)
    assert (row["rtt_access"], row["rtt_internet"], row["payload_bytes_down"]) == (None, None, 1000)


STAMPED = """
    0.0 up   SYN     seq=100 tsval=5000 tsecr=0
    0.1 down SYN ACK seq=300 ack=101 tsval=90000 tsecr=5000
    0.2 up   ACK     seq=101 ack=301 tsval=5200 tsecr=90000
    0.3 up   ACK     seq=101 ack=301 data=200 tsval=5300 tsecr=90000
    0.4 down ACK     seq=301 ack=301 data=1000 tsval=90300 tsecr=5300
    0.5 up   ACK     seq=301 ack=1301 tsval=5500 tsecr=90300
"""


@pytest.mark.parametrize("seq", [1301, 301, 2000])
def test_segment_with_a_timestamp_older_than_the_connection_is_out_of_window(seq):
    """RFC 7323, 5: its timestamp is older than the SYN ACK's."""
    later = """
        2.0 down ACK seq=1301 ack=301 data=1000 tsval=92000 tsecr=5500
        2.1 up   ACK seq=301 ack=2301 tsval=7100 tsecr=92000
    """
    old = f"1.0 down ACK seq={seq} ack=301 data=500 tsval=80000 tsecr=1000"
    row = flow(STAMPED + old + later)
    assert counted(row) == (0, 1)
    assert other_columns(row) == other_columns(flow(STAMPED + later))


def test_server_whose_timestamps_differ_from_its_syn_proxys_is_in_window():
    """What it sends is acknowledged."""
    later = """
        2.0 down ACK seq=1301 ack=301 data=1000 tsval=100 tsecr=5500
        2.1 up   ACK seq=301 ack=2301 tsval=7100 tsecr=100
    """
    row = flow(STAMPED + later)
    assert (counted(row), row["payload_bytes_down"]) == ((0, 0), 2000)


def test_windows_are_scaled_where_both_syns_say_so():
    scaled = OPENED.replace("win=8192", "win=8192 ws=7")
    lines = scaled + "1.0 down ACK seq=900000 ack=301 data=1000\n 1.1 up ACK seq=301 ack=1301"
    assert counted(flow(lines)) == (0, 0)
    assert counted(flow(lines.replace(" ws=7", "", 1))) == (0, 1)


SHIFT = 1_000_000


def blocks(shift: int) -> list[dict]:
    """d2 and d5 are lost and retransmitted; blocks with numbers that are higher by `shift`."""
    step, lines = 700_000, opened(True)
    reported = {3: [(3, 3)], 4: [(3, 4)], 6: [(6, 6), (3, 4)], 7: [(6, 7), (3, 4)]}
    moved = SHIFT // 1000 if shift else 0
    at = 1_000_000
    for number in range(1, 8):
        lines.append(sent(at + number * 10_000, number))
        if number not in (2, 5):
            there = [(a + moved, b + moved) for a, b in reported.get(number, [])]
            lines.append(acked(at + number * 10_000 + step, 1, *there))
    retransmitted_at = at + 2_000_000
    lines += [
        sent(retransmitted_at, 2),
        acked(retransmitted_at + step, 4, *[(6 + moved, 7 + moved)]),
    ]
    lines += [
        sent(retransmitted_at + step + 10_000, 5),
        acked(retransmitted_at + 2 * step + 10_000, 7),
    ]
    rows = tables(lines)
    return [
        {
            "lost": [row["frame"] for row in rows["losses"]],
            "needed": [row["needed"] for row in rows["retransmissions"]],
        }
    ]


def test_sack_blocks_of_data_that_was_never_sent_are_ignored():
    """RFC 2018: a firewall changes SEQ and ACK, and not SACK."""
    assert blocks(SHIFT) == blocks(0)
    assert blocks(0)[0]["needed"] == [True, True]


@pytest.mark.parametrize("answered", [False, True], ids=["request", "request and response"])
def test_data_in_the_syn_is_the_request(answered):
    """TCP Fast Open (RFC 7413)."""
    length = 500 if answered else 0
    row = flow(f"""
        0.0 up   SYN     seq=100 data=200 server_port=80
        0.1 down SYN ACK seq=300 ack=301 data={length}
        0.2 up   ACK     seq=301 ack={301 + length}
        0.3 down ACK     seq={301 + length} ack=301 data=1000
        0.4 down ACK     seq={1301 + length} ack=301 data=1000
        0.6 up   ACK     seq=301 ack={1301 + length}
        0.7 up   ACK     seq=301 ack={2301 + length}
    """)
    assert (row["request_response"], row["payload_bytes_up"]) == (True, 200)
    assert row["payload_bytes_down"] == 2000 + length
    assert row["goodput"] == pytest.approx(8 * 2000 / 0.5 if answered else 8 * 1000 / 0.1)


def test_retransmitted_data_of_a_syn_counts_once():
    row = flow("""
        0.0 up   SYN     seq=100 data=200
        0.1 down SYN ACK seq=300 ack=101
        0.2 up   ACK     seq=101 ack=301 data=200
        0.4 down ACK     seq=301 ack=301 data=1000
        0.5 up   ACK     seq=301 ack=1301
    """)
    assert (row["request_response"], row["payload_bytes_up"], counted(row)) == (True, 200, (0, 0))


def test_simultaneous_open_has_no_retransmissions():
    """RFC 9293, 3.5: each end answers the other's SYN with a SYN ACK of its own number."""
    row = flow("""
        0.00 up   SYN     seq=100
        0.01 down SYN     seq=300
        0.30 down SYN ACK seq=300 ack=101
        0.31 up   SYN ACK seq=100 ack=301
        0.40 up   ACK     seq=101 ack=301 data=200
        0.60 down ACK     seq=301 ack=301 data=1000
        0.70 up   ACK     seq=301 ack=1301
    """)
    assert (row["retransmissions"], row["rto_expiries"], row["setup_class"]) == (0, 0, "optimal")
    assert counted(row) == (0, 0)


def test_retransmissions_after_reneging_were_needed():
    """RFC 2018, 8: d1 is lost; the mobile reports d2 and d3, and reneges on them."""
    lines = [*opened(True), *(sent(1_000_000 + n, n) for n in (1, 2, 3))]
    lines += [acked(1_700_000, 0, (2, 2)), acked(1_700_001, 0, (2, 3))]
    for n in (1, 2, 3):
        at = 3_000_000 + n * 1_000_000
        lines += [sent(at, n), acked(at + 700_000, n)]
    rows = tables(lines)["retransmissions"]
    assert [row["needed"] for row in rows] == [True, True, True]


def test_losses_are_null_where_the_capture_begins_within_a_recovery():
    lines = [sent(0, 5), sent(1, 6), acked(700_000, 3), sent(800_000, 4), acked(1_500_000, 6)]
    assert flow(lines)["lost_access"] is None
    lines = [acked(0, 3, (5, 6)), sent(100_000, 4), acked(800_000, 6)]
    assert flow(lines)["lost_access"] is None
    lines = [sent(0, 5), acked(700_000, 5), sent(800_000, 6), acked(1_500_000, 6)]
    assert flow(lines)["lost_access"] == 0
