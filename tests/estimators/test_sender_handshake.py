"""SYN ACKs that a server retransmits, and why; see `replies`."""

import pytest

from tests.helpers.packet_script import Packet, read
from tests.helpers.replies import causes_and_counts, retransmitted

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


def test_second_synack_answers_a_retransmitted_syn():
    """
    Gi     | SYN SYNACK       SYN SYNACK
    at (s) | 0   0.1          1   1.1
    """
    lines = handshake("SYN 0", "SYNACK 0.1", "SYN 1", "SYNACK 1.1")
    assert causes_and_counts(lines) == (["synack"], 1, 0)


@pytest.mark.parametrize(
    ("retransmissions", "times"), [(["SYNACK 1.1"], 1), (["SYNACK 1.1", "SYNACK 3.1"], 2)]
)
def test_synack_after_a_second_of_silence_is_an_rto_retransmission(retransmissions, times):
    """RFC 6298, 2.1 and 5.5: after 1 s, and 2 s after that."""
    lines = handshake("SYN 0", "SYNACK 0.1", *retransmissions)
    assert causes_and_counts(lines) == (["synack"] * times, times, times)


@pytest.mark.parametrize("syn", ["SYN 1.070", "SYN 1.030"])
def test_rto_expiry_and_a_retransmitted_syn_at_nearly_the_same_time(syn):
    """Two SYN ACKs for one retransmitted SYN: one of them follows an RTO expiry. It may pass Gi
    sooner than an answer can, or just when the SYN may have been heard."""
    answer = f"SYNACK {float(syn.split()[1]) + 0.1}"
    lines = handshake("SYN 0", "SYNACK 0.1", syn, "SYNACK 1.1", answer)
    assert causes_and_counts(lines) == (["synack", "synack"], 2, 1)


def test_single_synack_slightly_too_soon_for_an_answer_is_an_answer():
    """It passes Gi 70 ms after the SYN; a retransmission at the RTO expiry would have been followed
    by an answer."""
    lines = handshake("SYN 0", "SYNACK 0.1", "SYN 1.030", "SYNACK 1.1")
    assert causes_and_counts(lines) == (["synack"], 1, 0)


def test_first_synack_may_answer_a_retransmitted_syn():
    """The first SYN was lost before the server."""
    assert causes_and_counts(handshake("SYN 0", "SYN 1", "SYNACK 1.1")) == ([], 0, 0)


def test_synack_that_gi_never_saw_is_inferred_from_an_rto_retransmission():
    """
    Gi     | SYN (SYNACK)       SYNACK       the server is 100 ms away
    at (s) | 0                  1.1
    """
    assert causes_and_counts(handshake("SYN 0", "SYNACK 1.1")) == (["synack"], 1, 1)


def test_synack_that_gi_never_saw_is_inferred_from_an_early_rto_expiry():
    """
    Gi     | SYN (SYNACK)  SYN SYNACK     SYNACK'      an answer does not restart the RTO
    at (s) | 0             0.6 0.7        1.1
    """
    lines = handshake("SYN 0", "SYN 0.6", "SYNACK 0.7", "SYNACK 1.1")
    assert causes_and_counts(lines) == (["synack"], 2, 1)


def test_initial_rto_is_the_networks_setting():
    """With 3 s (RFC 1122) a SYN ACK after 1 s is not the second."""
    lines = handshake("SYN 0", "SYNACK 1.1")
    assert causes_and_counts(lines, initial_rto_s=3.0) == ([], 0, 0)


def test_retransmitted_synack_has_null_needed():
    (row,) = retransmitted(handshake("SYN 0", "SYNACK 0.1", "SYNACK 1.1"))
    assert (row["needed"], row["new_data"]) == (None, False)
    assert (row["spurious_rto"], row["spurious_by"]) == (None, None)


def test_syn_of_an_initiating_server_is_retransmitted_by_its_timer():
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
    assert causes_and_counts(lines) == (["rto"], 1, 1)
