"""SYN ACKs that a server retransmits, and why; see `replies`."""

import pytest
from packet_script import Packet, read
from replies import did, retransmitted

REQUEST = """
    {0:.3f} up    ACK      seq=100 ack=500
    {1:.3f} up    ACK      seq=100 ack=500 data=200
    {2:.3f} down  ACK      seq=500 ack=300 data=1000
    {3:.3f} up    ACK      seq=300 ack=1500
"""


def handshake(*lines: str, then: float = 0.6) -> list[Packet]:
    """SYN 0.0 SYN_ACK 0.1 ...; `then` after the last one the handshake ends, and a request is
    answered after 100 ms."""
    script = "".join(
        f"{at} up SYN seq=99\n" if name == "SYN" else f"{at} down SYN ACK seq=499 ack=100\n"
        for name, at in (line.split() for line in lines)
    )
    end = float(lines[-1].split()[1]) + then
    return read(script + REQUEST.format(end, end + 0.2, end + 0.3, end + 0.9))


def test_synack_answers_a_syn_that_came_again():
    """
    Gi     | SYN SYNACK       SYN SYNACK
    at (s) | 0   0.1          1   1.1
    """
    lines = handshake("SYN 0", "SYNACK 0.1", "SYN 1", "SYNACK 1.1")
    assert did(lines) == (["synack"], 1, 0)


@pytest.mark.parametrize(
    ("again", "times"), [(["SYNACK 1.1"], 1), (["SYNACK 1.1", "SYNACK 3.1"], 2)]
)
def test_synack_after_a_second_of_silence_is_the_timers(again, times):
    """RFC 6298, 2.1 and 5.5: after 1 s, and 2 s after that."""
    lines = handshake("SYN 0", "SYNACK 0.1", *again)
    assert did(lines) == (["synack"] * times, times, times)


@pytest.mark.parametrize("syn", ["SYN 1.070", "SYN 1.030"])
def test_timer_and_a_syn_at_nearly_the_same_time(syn):
    """Two SYN ACKs for one SYN that came again: one of them is the timer's. It may pass Gi sooner
    than an answer can, or just when the SYN may have been heard."""
    answer = f"SYNACK {float(syn.split()[1]) + 0.1}"
    lines = handshake("SYN 0", "SYNACK 0.1", syn, "SYNACK 1.1", answer)
    assert did(lines) == (["synack", "synack"], 2, 1)


def test_single_synack_a_little_too_soon_for_an_answer_is_one():
    """It passes Gi 70 ms after the SYN; the timer's would have been followed by an answer."""
    lines = handshake("SYN 0", "SYNACK 0.1", "SYN 1.030", "SYNACK 1.1")
    assert did(lines) == (["synack"], 1, 0)


def test_first_synack_may_answer_the_second_syn():
    """The first SYN was lost before the server."""
    assert did(handshake("SYN 0", "SYN 1", "SYNACK 1.1")) == ([], 0, 0)


def test_synack_that_gi_never_saw_is_told_by_the_timers():
    """
    Gi     | SYN (SYNACK)       SYNACK       the server is 100 ms away
    at (s) | 0                  1.1
    """
    assert did(handshake("SYN 0", "SYNACK 1.1")) == (["synack"], 1, 1)


def test_synack_that_gi_never_saw_is_told_by_a_timer_that_came_too_soon():
    """
    Gi     | SYN (SYNACK)  SYN SYNACK     SYNACK'      the timer is not set anew by an answer
    at (s) | 0             0.6 0.7        1.1
    """
    lines = handshake("SYN 0", "SYN 0.6", "SYNACK 0.7", "SYNACK 1.1")
    assert did(lines) == (["synack"], 2, 1)


def test_first_timeout_before_a_sample_is_the_networks():
    """With 3 s (RFC 1122) a SYN ACK after 1 s is not the second."""
    lines = handshake("SYN 0", "SYNACK 1.1")
    assert did(lines, initial_rto_s=3.0) == ([], 0, 0)


def test_synack_again_has_no_data_to_be_needed():
    (row,) = retransmitted(handshake("SYN 0", "SYNACK 0.1", "SYNACK 1.1"))
    assert (row["needed"], row["new_data"]) == (None, False)
    assert (row["spurious_rto"], row["spurious_by"]) == (None, None)


def test_syn_of_a_server_that_calls_is_sent_again_by_its_timer():
    lines = read(
        """
        0.000 down SYN      seq=499
        1.000 down SYN      seq=499
        1.600 up   SYN ACK  seq=99  ack=500
        1.700 down ACK      seq=500 ack=100
        2.400 up   ACK      seq=100 ack=500 data=200
        2.500 down ACK      seq=500 ack=300 data=1000
        3.100 up   ACK      seq=300 ack=1500
        """
    )
    assert did(lines) == (["rto"], 1, 1)
