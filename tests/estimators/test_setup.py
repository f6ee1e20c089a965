"""Set-up delay, background, round trips and the classification tree (INFOCOM III)."""

import pytest

from tests.helpers.packet_script import flow, flows

OPTIMAL = """
    0.000 up    SYN      seq=100
    0.120 down  SYN ACK  seq=300 ack=101
    0.700 up    ACK      seq=101 ack=301
"""


def category_and_counts(exchange):
    row = flow(exchange)
    return row["setup_class"], row["syn_count"], row["synack_count"]


def delay_and_rtts(exchange):
    row = flow(exchange)
    return row["setup_delay"], row["rtt_access"], row["rtt_internet"]


# The tree, leaf by leaf (INFOCOM III.C, Fig. 5)


def test_one_syn_and_one_synack_is_optimal():
    assert category_and_counts(OPTIMAL) == ("optimal", 1, 1)


def test_syn_retransmitted_is_slight_problem():
    assert category_and_counts("""
        0.0 up   SYN     seq=100
        3.0 up   SYN     seq=100
        3.1 down SYN ACK seq=300 ack=101
        3.7 up   ACK     seq=101 ack=301
    """) == ("slight_problem", 2, 1)


def test_synack_retransmitted_by_server_is_slight_problem():
    assert category_and_counts("""
        0.0 up   SYN     seq=100
        0.1 down SYN ACK seq=300 ack=101
        3.1 down SYN ACK seq=300 ack=101
        3.7 up   ACK     seq=101 ack=301
    """) == ("slight_problem", 1, 2)


def test_synack_from_the_initiators_side_is_no_answer():
    assert category_and_counts("""
        0.0 up   SYN ACK seq=100 ack=0
        0.1 up   SYN     seq=100
        0.2 up   ACK     seq=101 ack=1
    """) == (None, 1, 0)


def test_synack_retransmitted_though_it_was_acknowledged_is_slight_problem():
    assert category_and_counts("""
        0.0 up   SYN     seq=100
        0.1 down SYN ACK seq=300 ack=101
        0.7 up   ACK     seq=101 ack=301    # lost on the Internet side
        3.1 down SYN ACK seq=300 ack=101
        3.7 up   ACK     seq=101 ack=301
    """) == ("slight_problem", 1, 2)


def test_syn_and_synack_retransmitted_is_slight_problem():
    assert category_and_counts("""
        0.0 up   SYN     seq=100
        0.1 down SYN ACK seq=300 ack=101
        3.0 up   SYN     seq=100
        3.1 down SYN ACK seq=300 ack=101
        3.7 up   ACK     seq=101 ack=301
    """) == ("slight_problem", 2, 2)


@pytest.mark.parametrize("syns", [1, 2, 4])
def test_syns_only_is_no_response(syns):
    exchange = "\n".join(f"{3 * i} up SYN seq=100" for i in range(syns))
    assert category_and_counts(exchange) == ("no_response", syns, 0)


def test_syn_that_the_mobile_aborts_is_no_response():
    assert category_and_counts("""
        0.0 up SYN seq=100
        1.0 up RST seq=101
    """) == ("no_response", 1, 0)


@pytest.mark.parametrize("syns", [1, 3])
def test_rst_to_a_syn_is_refused(syns):
    exchange = "\n".join(
        f"""
        {0.5 * i} up   SYN     seq=100
        {0.5 * i + 0.1} down RST ACK ack=101
    """
        for i in range(syns)
    )
    assert category_and_counts(exchange) == ("refused", syns, 0)


def test_refused_then_accepted_is_slight_problem():
    assert category_and_counts("""
        0.0 up   SYN     seq=100
        0.1 down RST ACK ack=101
        0.6 up   SYN     seq=100
        0.7 down SYN ACK seq=300 ack=101
        1.3 up   ACK     seq=101 ack=301
    """) == ("slight_problem", 2, 1)


def test_synack_then_silence_is_serious_problem():
    row = flow("""
        0.0 up   SYN     seq=100
        0.1 down SYN ACK seq=300 ack=101
        3.1 down SYN ACK seq=300 ack=101
    """)
    assert (row["setup_class"], row["setup_reset"]) == ("serious_problem", False)
    assert row["setup_delay"] is None


@pytest.mark.parametrize("rst", ["up RST seq=101", "down RST seq=301"])
def test_synack_then_rst_is_serious_problem_ended_by_reset(rst):
    row = flow(f"""
        0.0 up   SYN     seq=100
        0.1 down SYN ACK seq=300 ack=101
        0.8 {rst}
    """)
    assert (row["setup_class"], row["setup_reset"]) == ("serious_problem", True)
    assert row["setup_delay"] is None


def test_rst_after_the_setup_does_not_change_its_category():
    row = flow(OPTIMAL + "0.9 up RST seq=101")
    assert (row["setup_class"], row["setup_reset"]) == ("optimal", None)


def test_ack_of_an_older_number_does_not_end_the_setup():
    assert category_and_counts("""
        0.0 up   SYN     seq=100
        0.1 down SYN ACK seq=300 ack=101
        0.2 up   ACK     seq=101 ack=300
    """) == ("serious_problem", 1, 1)


# Handshakes that were not seen whole


@pytest.mark.parametrize(
    "exchange",
    [
        "0.0 up SYN seq=100 \n 0.7 up ACK seq=101 ack=301",
        "0.0 up SYN seq=100 \n 0.7 up ACK seq=101 ack=301 data=5 \n 1.0 up FIN ACK seq=106 ack=400",
        "0.1 down SYN ACK seq=300 ack=101",
        "0.1 down SYN ACK seq=300 ack=101 \n 0.9 down ACK seq=301 ack=101 data=5",
        "0.0 down SYN seq=300 \n 0.3 down ACK seq=301 ack=101",
        "0.0 up ACK seq=101 ack=301 \n 0.2 down ACK seq=301 ack=102",
        "0.0 up RST seq=101",
    ],
    ids=[
        "up only",
        "up only, data",
        "down only",
        "down only, data",
        "down only, called",
        "partial",
        "only an RST",
    ],
)
def test_partly_seen_handshake_has_no_category_and_no_times(exchange):
    row = flow(exchange)
    assert row["setup_class"] is None
    assert row["setup_reset"] is None
    assert delay_and_rtts(exchange) == (None, None, None)


def test_connection_without_syns_has_no_initiator_and_no_background():
    row = flow("0.0 up ACK seq=101 ack=301")
    assert (row["initiator"], row["setup_background"]) == ("unknown", None)
    assert (row["syn_count"], row["synack_count"]) == (0, 0)


# Delay and round trips (INFOCOM III.A, III.B)


def test_setup_delay_lasts_from_the_first_syn_to_the_first_ack():
    assert delay_and_rtts(OPTIMAL)[0] == 0.7
    assert (
        delay_and_rtts("""
        0.0 up   SYN     seq=100
        3.0 up   SYN     seq=100
        3.1 down SYN ACK seq=300 ack=101
        3.2 down SYN ACK seq=300 ack=101
        3.7 up   ACK     seq=101 ack=301
        3.8 up   ACK     seq=101 ack=301
    """)[0]
        == 3.7
    )


@pytest.mark.parametrize(
    "last",
    [
        "ACK seq=101 ack=301 data=200",
        "FIN ACK seq=101 ack=301",
        "PSH ACK seq=101 ack=302",
    ],
)
def test_data_or_fin_that_acknowledges_the_synack_ends_the_setup(last):
    row = flow(OPTIMAL.replace("ACK      seq=101 ack=301", last))
    assert (row["setup_class"], row["setup_delay"]) == ("optimal", 0.7)


def test_setup_gives_an_rtt_on_each_side():
    _, access, internet = delay_and_rtts(OPTIMAL)
    assert (access, internet) == (0.58, 0.12)


def test_sides_of_the_rtts_swap_where_the_server_initiates():
    row = flow("""
        0.000 down SYN     seq=300
        0.580 up   SYN ACK seq=100 ack=301
        0.700 down ACK     seq=301 ack=101
    """)
    assert (row["initiator"], row["setup_class"]) == ("server", "optimal")
    assert (row["rtt_access"], row["rtt_internet"], row["setup_delay"]) == (0.58, 0.12, 0.7)


def test_mobile_may_refuse_a_server():
    row = flow("""
        0.0 down SYN     seq=300
        0.6 up   RST ACK ack=301
    """)
    assert (row["initiator"], row["setup_class"]) == ("server", "refused")


@pytest.mark.parametrize(
    "second",
    [
        "0.05 up SYN seq=100",
        "0.2 down SYN ACK seq=300 ack=101",
    ],
)
def test_second_syn_or_synack_leaves_no_rtts(second):
    assert delay_and_rtts(OPTIMAL + second)[1:] == (None, None)


def test_handshake_that_was_not_completed_gives_no_round_trip():
    assert delay_and_rtts("""
        0.00 up   SYN     seq=100
        0.12 down SYN ACK seq=300 ack=101
    """) == (None, None, None)


def test_timestamps_identify_the_syn_and_the_syn_ack_that_were_answered():
    """Both came twice; the second SYN ACK was answered, the first one answers the second SYN."""
    assert delay_and_rtts("""
        0.000 up   SYN     seq=100 tsval=1000 tsecr=0
        1.000 up   SYN     seq=100 tsval=2000 tsecr=0
        1.120 down SYN ACK seq=300 ack=101 tsval=77 tsecr=2000
        2.120 down SYN ACK seq=300 ack=101 tsval=1077 tsecr=2000
        2.700 up   ACK     seq=101 ack=301 tsval=3700 tsecr=1077
    """) == (2.7, 0.58, 0.12)


def test_timestamp_of_two_syns_gives_no_rtt():
    """A clock of 0.5 s; the SYN was retransmitted sooner."""
    _, _, internet = delay_and_rtts("""
        0.000 up   SYN     seq=100 tsval=2 tsecr=0
        0.400 up   SYN     seq=100 tsval=2 tsecr=0
        0.520 down SYN ACK seq=300 ack=101 tsval=77 tsecr=2
        1.000 up   ACK     seq=101 ack=301 tsval=4 tsecr=77
    """)
    assert internet is None


# Reasons for retransmitted SYNs


def reason_of_repeat(exchange, least=0.6):
    """`setup_retransmission`, of a user whose least RTT on the access side another connection
    shows."""
    other = f"""
        900.0 up   SYN     seq=100 port=9
        900.1 down SYN ACK seq=300 ack=101 port=9
        {900.1 + least} up ACK seq=101 ack=301 port=9
        901.0 down ACK seq=301 ack=101 data=10 port=9
        {901 + least} up ACK seq=101 ack=311 port=9
    """
    return flows(exchange + other)[0]["setup_retransmission"]


def test_syn_ack_retransmitted_before_the_first_could_be_answered_is_premature():
    """A round trip of 1.1 s on the access side; the server's RTO is 1 s."""
    assert (
        reason_of_repeat(
            """
        0.0 up   SYN     seq=100
        0.1 down SYN ACK seq=300 ack=101
        1.1 down SYN ACK seq=300 ack=101
        1.2 up   ACK     seq=101 ack=301
    """,
            least=1.0,
        )
        == "premature"
    )


def test_syn_retransmitted_while_its_answer_is_in_flight_is_premature():
    """The mobile's RTO is 1 s; the server answers the second SYN, too."""
    assert (
        reason_of_repeat("""
        0.0 up   SYN     seq=100
        0.6 down SYN ACK seq=300 ack=101
        1.0 up   SYN     seq=100
        1.4 up   ACK     seq=101 ack=301
        1.6 down SYN ACK seq=300 ack=101
    """)
        == "premature"
    )


def test_syn_of_which_only_the_retransmission_is_answered_was_lost():
    assert (
        reason_of_repeat("""
        0.0 up   SYN     seq=100 tsval=1000 tsecr=0
        1.0 up   SYN     seq=100 tsval=2000 tsecr=0
        1.1 down SYN ACK seq=300 ack=101 tsval=77 tsecr=2000
        1.7 up   ACK     seq=101 ack=301 tsval=2700 tsecr=77
    """)
        == "lost"
    )


def test_syn_ack_of_which_only_the_retransmission_is_answered_was_lost():
    assert (
        reason_of_repeat("""
        0.0 up   SYN     seq=100 tsval=1000 tsecr=0
        0.1 down SYN ACK seq=300 ack=101 tsval=77 tsecr=1000
        1.1 down SYN ACK seq=300 ack=101 tsval=1077 tsecr=1000
        1.7 up   ACK     seq=101 ack=301 tsval=2700 tsecr=1077
    """)
        == "lost"
    )


@pytest.mark.parametrize(
    "exchange",
    [
        OPTIMAL,
        """
        0.0 up   SYN     seq=100
        1.0 up   SYN     seq=100
        1.1 down SYN ACK seq=300 ack=101
        1.7 up   ACK     seq=101 ack=301
    """,
        OPTIMAL + "1.5 down SYN ACK seq=300 ack=101",
    ],
    ids=["nothing retransmitted", "of either SYN", "a server that waits for data"],
)
def test_reason_of_a_retransmitted_syn_may_be_unknown(exchange):
    assert reason_of_repeat(exchange) is None


@pytest.mark.parametrize(("us", "shorter"), [(2_999_999, True), (3_000_000, False)])
def test_rtts_of_3_s_and_more_are_left_out(us, shorter):
    slow = us / 1e6
    internet = delay_and_rtts(f"""
        0.0 up SYN seq=100
        {slow} down SYN ACK seq=300 ack=101
        {slow + 0.1:.6f} up ACK seq=101 ack=301
    """)
    access = delay_and_rtts(f"""
        0.0 up SYN seq=100
        0.1 down SYN ACK seq=300 ack=101
        {slow + 0.1:.6f} up ACK seq=101 ack=301
    """)
    assert internet[2] == access[1] == (slow if shorter else None)
    assert internet[1] == access[2] == 0.1
    assert internet[0] is not None


# Background (INFOCOM III.A)


def with_other(line):
    """Returns `setup_background` of a set-up from 10.0 to 10.7, given another packet of some
    kind."""
    exchange = f"""
        10.000 up   SYN     seq=100
        10.120 down SYN ACK seq=300 ack=101
        10.700 up   ACK     seq=101 ack=301
        {line}
    """
    (row,) = (row for row in flows(exchange) if (row["user"], row["user_port"]) == ("anna", 1024))
    assert (row["rtt_access"] is None) == row["setup_background"]
    return row["setup_background"]


def test_silence_means_no_background():
    assert with_other("") is False


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("4.999999", False),
        ("5.000000", False),  # a silence of at least 5 s
        ("5.000001", True),
        ("9.999999", True),
        ("10.000000", True),
        ("10.400000", True),
        ("10.700000", True),
        ("10.700001", False),
    ],
)
@pytest.mark.parametrize(
    "what",
    [
        "up UDP port=53",
        "down UDP port=53 data=900",
        "down ACK port=1025 seq=7 data=5",
    ],
)
def test_background_is_5_s_before_the_first_syn_until_the_first_ack(time, expected, what):
    assert with_other(f"{time} {what}") is expected


def test_another_users_packets_are_no_background():
    assert with_other("9.9 up UDP port=53 user=bert") is False


def test_an_older_connection_of_the_same_ends_is_background():
    older, newer = flows("""
        0.0 up   SYN     seq=900
        0.1 down RST ACK ack=901
        2.0 up   SYN     seq=100
        2.1 down RST ACK ack=101
    """)
    assert (older["setup_background"], newer["setup_background"]) == (False, True)


def test_retransmitted_syns_are_no_background():
    assert (
        flow("""
        0.0 up   SYN     seq=100
        3.0 up   SYN     seq=100
        3.1 down SYN ACK seq=300 ack=101
        3.7 up   ACK     seq=101 ack=301
    """)["setup_background"]
        is False
    )


def test_failed_setup_has_background_until_its_last_packet():
    failed = """
        0.0 up SYN seq=100
        3.0 up SYN seq=100
    """
    assert flows(failed + "2.0 up UDP")[0]["setup_background"] is True
    assert flows(failed + "3.1 up UDP")[0]["setup_background"] is False


def test_a_synack_after_the_first_ack_does_not_prolong_the_setup():
    assert (
        flows("""
        0.0 up   SYN     seq=100
        0.1 down SYN ACK seq=300 ack=101
        0.7 up   ACK     seq=101 ack=301
        2.0 up   UDP
        3.1 down SYN ACK seq=300 ack=101
    """)[0]["setup_background"]
        is False
    )
