"""The sender of an RST: an end, or a device between that forges it."""

import pytest

from tests.helpers.packet_script import flow

OPENED = """
    0.00 up   SYN     seq=100
    0.12 down SYN ACK seq=300 ack=101 ttl=52
    0.70 up   ACK     seq=101 ack=301
    0.71 up   ACK     seq=101 ack=301 data=200
"""


def by(*lines: str) -> str | None:
    return flow(OPENED + "\n".join(lines))["reset_by"]


def test_connection_without_rst_has_no_reset_by():
    assert by() is None


def test_rst_with_the_usual_ttl_is_from_its_end():
    assert by("0.9 down RST seq=301 ttl=52") == "server"
    assert by("0.9 up RST seq=301") == "mobile"


@pytest.mark.parametrize("ttl", [53, 51, 116, 243])
def test_ttl_of_another_route_or_initial_value_is_from_the_same_end(ttl):
    """52 is 12 hops below 64, as 116 below 128 and 243 below 255."""
    assert by(f"0.9 down RST seq=301 ttl={ttl}") == "server"


@pytest.mark.parametrize("ttl", [60, 64, 255, 40])
def test_ttl_of_another_distance_is_from_between(ttl):
    assert by(f"0.9 down RST seq=301 ttl={ttl} id=9") == "between"


def test_consecutive_ip_id_is_from_the_end():
    assert by("0.8 down ACK seq=301 ack=301 id=7 ttl=52", "0.9 down RST seq=301 ttl=60 id=8") == (
        "server"
    )


def test_end_that_continues_after_the_rst_did_not_send_it():
    """The server acknowledges what the mobile sent after the RST: it has sent none."""
    assert (
        by(
            "0.80 down RST seq=301 ttl=52",
            "0.81 up   ACK seq=301 ack=301 data=100",
            "0.93 down ACK seq=301 ack=401 ttl=52 data=50",
        )
        == "between"
    )


def test_data_in_flight_when_the_rst_was_sent_does_not_disprove_it():
    assert (
        by("0.80 down RST seq=401 ttl=52", "0.81 down ACK seq=301 ack=301 ttl=52 data=100")
        == "server"
    )


def test_sender_of_a_refusal_is_null():
    row = flow("""
        0.0 up   SYN     seq=100
        0.1 down RST ACK ack=101 ttl=60
    """)
    assert (row["setup_class"], row["reset_by"]) == ("refused", None)
