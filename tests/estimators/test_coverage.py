"""A direction that the monitor did not see is told from a peer that does not answer."""

import pytest
from exchange import flow

ONE_WAY = {
    "handshake goes on: there was a SYN ACK": (
        "up",
        """
        0.000 up    SYN      seq=99
        0.200 up    ACK      seq=100 ack=500
        """,
    ),
    "ACKs advance": (
        "up",
        """
        0.000 up    ACK      seq=100 ack=500
        0.200 up    ACK      seq=100 ack=2500
        """,
    ),
    "SYN ACK, then data: there was an ACK": (
        "down",
        """
        0.000 down  SYN ACK  seq=499 ack=100
        0.900 down  ACK      seq=500 ack=200 data=1000
        """,
    ),
    "more than a window of data": (
        "down",
        """
        0.000 down  ACK      seq=500    ack=100 data=1000
        0.900 down  ACK      seq=70500  ack=100 data=1000
        """,
    ),
}
NOT_ANSWERED = {
    "SYNs": """
        0.000 up    SYN      seq=99
        1.000 up    SYN      seq=99
        """,
    "SYN ACKs to a forged address": """
        0.000 down  SYN ACK  seq=499 ack=100
        1.000 down  SYN ACK  seq=499 ack=100
        2.000 down  RST      seq=500
        """,
    "keep-alives of a mobile whose server is gone": """
        0.000 up    ACK      seq=99 ack=500
        60.00 up    ACK      seq=99 ack=500
        """,
    "data sent again to a mobile that is gone": """
        0.000 down  ACK      seq=500 ack=100 data=1000
        1.000 down  ACK      seq=500 ack=100 data=1000
        """,
    "both": """
        0.000 up    SYN      seq=99
        0.100 down  SYN ACK  seq=499 ack=100
        0.200 up    ACK      seq=100 ack=500
        """,
}


@pytest.mark.parametrize(("seen", "exchange"), ONE_WAY.values(), ids=ONE_WAY)
def test_direction_that_must_have_been_there_was_not_seen(seen, exchange):
    found = flow(exchange)
    assert found["seen"] == seen
    of_both = ("lost_access", "lost_internet", "timestamps", "single", "parallel")
    assert {found[name] for name in of_both} == {None}


@pytest.mark.parametrize("exchange", NOT_ANSWERED.values(), ids=NOT_ANSWERED)
def test_peer_that_does_not_answer_is_none(exchange):
    assert flow(exchange)["seen"] == "both"


def test_bytes_that_only_acks_tell_of_were_not_seen():
    found = flow(
        """
        0.000 up    SYN      seq=99
        0.200 up    ACK      seq=100 ack=500
        0.900 up    ACK      seq=100 ack=3500
        """
    )
    assert found["acked_unseen_bytes"] == 3000


@pytest.mark.parametrize(("unseen", "known"), [(1000, False), (0, True)])
def test_losses_are_not_known_where_more_than_a_hundredth_was_missed(unseen, known):
    """Fifty segments, the last of which the monitor misses or sees."""
    lines = ["0.0 up SYN seq=99", "0.1 down SYN ACK seq=499 ack=100", "0.3 up ACK seq=100 ack=500"]
    for i in range(50 - unseen // 1000):
        lines.append(f"{i + 1} down ACK seq={500 + 1000 * i} ack=100 data=1000")
        lines.append(f"{i + 1}.5 up ACK seq=100 ack={1500 + 1000 * i}")
    lines.append("60 up ACK seq=100 ack=50500")
    found = flow("\n".join(lines))
    assert found["acked_unseen_bytes"] == unseen
    told = [found[name] is not None for name in ("lost_access", "lost_internet", "goodput")]
    assert told == [known] * 3
