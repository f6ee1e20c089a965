"""A server's RTO over time, and spurious RTO expiries; see `replies`."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.helpers.packet_script import Packet, read, tables
from tests.helpers.replies import (
    ANSWER_US,
    BEGIN,
    FIN,
    FIRST_ACK,
    MS,
    SECOND,
    TIMEOUT_US,
    causes_and_counts,
    duplicates,
    flight,
    retransmitted,
    tables_with_settings,
    transfer,
)
from tests.helpers.segments import RTT_US, acked, opened, sent

TURN_US = RTT_US + ANSWER_US
DUE = BEGIN + TIMEOUT_US


def rtos_of(lines: list[Packet], **settings: float) -> list[float]:
    """The values of `rto_values`, in order of time (s)."""
    return [row["rto"] for row in tables_with_settings(lines, **settings)["rto_values"]]


def close(*values: float) -> object:
    """Equal to within 1/32: a row is written where the RTO changed by that much."""
    return pytest.approx(list(values), rel=1 / 32)


# ---- the first RTO -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("internet_ms", "access_ms"), [(100, 600), (100, 200), (40, 60), (300, 1700)]
)
def test_first_rto_is_three_round_trips(internet_ms, access_ms):
    """srtt + 4 rttvar, of which rttvar is half a round trip (RFC 6298, 2.2)."""
    at = internet_ms + access_ms
    lines = read(
        f"""
        0.000               up    SYN      seq=99
        {internet_ms / 1000}  down  SYN ACK  seq=499 ack=100
        {at / 1000}         up    ACK      seq=100 ack=500
        """
    )
    assert rtos_of(lines) == [pytest.approx(3 * at / 1000)]


def test_first_row_has_the_time_at_which_the_server_heard_the_ack():
    """Half of the 100 ms between Gi and the server after the ACK passed Gi at 0.7 s."""
    lines = transfer(1)
    rows = tables(lines)
    first = rows["rto_values"][0]["ts"] - rows["flows"][0]["start_ts"]
    assert first.total_seconds() == pytest.approx(0.75)
    assert rows["rto_values"][0]["flow_id"] == rows["flows"][0]["flow_id"]


TWO_SYNACKS = """
    0.000 up    SYN      seq=99           {0}
    0.100 down  SYN ACK  seq=499 ack=100  {1}
    1.100 down  SYN ACK  seq=499 ack=100  {2}
    1.700 up    ACK      seq=100 ack=500  {3}
    2.500 up    ACK      seq=100 ack=500  {3} data=200
"""


def test_rto_is_three_seconds_where_the_handshake_gives_no_sample():
    """The ACK does not show which SYN ACK it acknowledges (RFC 6298, 5.7; Karn)."""
    assert rtos_of(read(TWO_SYNACKS.format("", "", "", ""))) == [3.0]


@pytest.mark.parametrize(("echoed", "round_trip"), [(100, 1.7), (1100, 0.7)])
def test_timestamp_identifies_the_synack_that_was_acknowledged(echoed, round_trip):
    """RFC 7323, 4."""
    lines = TWO_SYNACKS.format(
        "tsval=1", "tsval=100 tsecr=1", "tsval=1100 tsecr=1", f"tsval=2 tsecr={echoed}"
    )
    assert rtos_of(read(lines)) == [pytest.approx(3 * round_trip)]


@pytest.mark.parametrize("initial", [1.0, 3.0])
def test_rto_before_any_sample_is_the_networks_setting(initial):
    """A connection seen from its middle: a request is answered after 100 ms (RFC 6298, 2.1)."""
    lines = [
        replace(opened()[-1], us=0),
        sent(ANSWER_US, 1),
        sent(ANSWER_US + MS, 2),
    ]
    assert rtos_of(lines, initial_rto_s=initial) == [initial]


# ---- samples -----------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [0.2, 0.5])
def test_rto_of_a_steady_round_trip_approaches_rtt_plus_the_least_deviation(least):
    """700 ms, and the least deviation; 1.4 s at first, of which a quarter is lost each time."""
    found = rtos_of(transfer(40), min_rto_s=least)
    assert found[0] == pytest.approx(2.1)
    assert found[-1] == pytest.approx(0.7 + least, rel=1 / 32)
    assert all(later < sooner for sooner, later in pairwise(found))
    assert min(found) >= 0.7 + least


def test_rows_are_written_where_the_rto_changed_by_a_32nd():
    found = rtos_of(transfer(40))
    assert all(abs(later - sooner) > sooner / 32 for sooner, later in pairwise(found))


def test_rto_doubles_with_each_expiry():
    """RFC 6298, 5.5."""
    ats = [BEGIN + TIMEOUT_US * k for k in (1, 3, 7)]
    lines = [*opened(), sent(BEGIN, 1), *(sent(at, 1) for at in ats)]
    assert rtos_of(lines) == close(2.1, 4.2, 8.4, 16.8)


@pytest.mark.parametrize("most", [60, 120])
def test_rto_is_at_most_120_seconds(most):
    """RFC 6298, 2.5: at least 60 s; Linux: 120 s."""
    ats, wait = [BEGIN], TIMEOUT_US
    for _ in range(8):
        ats.append(ats[-1] + wait)
        wait = min(2 * wait, 120 * SECOND)
    found = rtos_of([*opened(), *(sent(at, 1) for at in ats)])
    assert found[-1] == 120.0
    assert found[-1] >= most


def once_retransmitted() -> list[Packet]:
    """d1 d1' a1, then d2 a2."""
    at = DUE + RTT_US
    lines = [*opened(), sent(BEGIN, 1), sent(DUE, 1), acked(at, 1), sent(at + ANSWER_US, 2)]
    return [*lines, acked(at + ANSWER_US + RTT_US, 2)]


def test_retransmitted_data_gives_no_sample():
    """So the doubled RTO is kept (Karn; RFC 6298, 3 and 5) until d2's 700 ms."""
    lines = once_retransmitted()
    assert rtos_of(lines[:-1]) == close(2.1, 4.2)
    assert rtos_of(lines) == close(2.1, 4.2, 2.1)


def stamped(lines: list[Packet], echoed: int) -> list[Packet]:
    """With timestamps in ms; the last line echoes one of these."""
    made = [replace(p, tsval=p.us // MS + 1, tsecr=1) for p in lines]
    return [*made[:-1], replace(made[-1], tsecr=echoed // MS + 1)]


def test_timestamps_identify_the_transmission_that_gives_the_sample():
    """d1' took 700 ms; d1 took 2.8 s, 2.1 s more than the mean: srtt is then 0.7 + 2.1 / 8, the
    deviation 1.4 + 2.1 - 1.4 / 4 (as it counts in the RTO, four times: RFC 6298, 2.3)."""
    lines = once_retransmitted()[:-2]
    assert rtos_of(stamped(lines, DUE)) == close(2.1, 4.2, 2.1)
    long = [*lines[:-1], acked(DUE + 2 * RTT_US, 1)]
    error = 2.8 + 0.6 - 0.7
    expected = 0.7 + error / 8 + 1.4 + error - 1.4 / 4
    assert rtos_of(stamped(long, BEGIN)) == close(2.1, 4.2, expected)


# ---- the RTO's rule ---------------------------------------------------------------------------


def by_rfc(samples: list[float]) -> float:
    """The RTO after samples (RFC 6298, 2), without its least."""
    srtt, rttvar = samples[0], samples[0] / 2
    for sample in samples[1:]:
        rttvar += (abs(srtt - sample) - rttvar) / 4
        srtt += (sample - srtt) / 8
    return srtt + 4 * rttvar


def by_linux(samples: list[float], least: float = 0.2) -> float:
    """The RTO after samples of which each is of a round trip of its own (tcp_rtt_estimator)."""
    srtt, deviation = samples[0], 2 * samples[0]
    rttvar = most = max(deviation, least)
    for sample in samples[1:]:
        error = sample - srtt
        srtt += error / 8
        change = abs(error) - deviation / 4
        deviation += change / 8 if error < 0 < change else change
        most = max(most, deviation)
        rttvar = max(rttvar, most)
        rttvar -= (rttvar - most) / 4
        most = least
    return srtt + rttvar


def measured(samples: list[float], *waits: float) -> list[Packet]:
    """A handshake of 700 ms; a segment at a time whose round trips are these (s); one more,
    retransmitted after each wait (s)."""
    lines, at = opened(), BEGIN
    for n, sample in enumerate(samples, 1):
        lines += [sent(at, n), acked(at + round(sample * SECOND) - ANSWER_US, n)]
        at += round(sample * SECOND) + 300 * MS
    last = len(samples) + 1
    lines.append(sent(at, last))
    for wait in waits:
        at += round(wait * SECOND)
        lines.append(sent(at, last))
    return [*lines, acked(at + RTT_US, last)]


STEADY, SHAKY, FALLING = [0.7] * 24, [0.695, 0.705] * 12, [*[0.7] * 12, 0.3, 0.3]


@pytest.mark.parametrize("samples", [STEADY, FALLING, SHAKY], ids=["steady", "falling", "shaky"])
@pytest.mark.parametrize(("expected", "rule"), [(by_rfc, "rfc6298"), (by_linux, "linux")])
def test_rule_is_inferred_from_when_the_rto_expires(samples, expected, rule):
    """The two differ by more than 20 % here; a row has what was expected, and then twice that."""
    known = [0.7, *samples]
    ratio = by_linux(known) / by_rfc(known)
    assert max(ratio, 1 / ratio) > 1.22
    wait = expected(known)
    rows = tables(measured(samples, wait))["rto_values"]
    assert {row["rule"] for row in rows} == {rule}
    assert [row["rto"] for row in rows[-2:]] == close(wait, 2 * wait)


def test_rule_is_linux_where_no_rto_expires():
    rows = tables(transfer(5))["rto_values"]
    assert {row["rule"] for row in rows} == {"linux"}


@pytest.mark.parametrize("least", [0.2, 1.0])
def test_rfc6298_has_a_least_rto(least):
    """RFC 6298, (2.4). 700 ms is below 1 s, which Linux would add to the round trip."""
    wait = max(by_rfc([0.7, *STEADY]), least)
    rows = tables_with_settings(measured(STEADY, wait), min_rto_s=least)["rto_values"]
    assert {row["rule"] for row in rows} == {"rfc6298"}
    assert rows[-1]["rto"] == pytest.approx(2 * wait, rel=1 / 32)


def test_rows_show_whether_the_rto_was_backed_off():
    """An RTO that expires twice, the second time after twice as long."""
    wait = by_linux([0.7, *FALLING])
    rows = tables(measured(FALLING, wait, 2 * wait))["rto_values"]
    assert [row["rto"] for row in rows[-3:]] == close(wait, 2 * wait, 4 * wait)
    assert [row["backed_off"] for row in rows] == [False] * (len(rows) - 2) + [True, True]


# ---- spurious RTO expiries ---------------------------------------------------------------------


def verdicts(lines: list[Packet]) -> list[tuple[str, bool | None, str | None]]:
    """(cause, spurious_rto, spurious_by) of each retransmission."""
    rows = tables(lines)["retransmissions"]
    return [(row["cause"], row["spurious_rto"], row["spurious_by"]) for row in rows]


def stalled(*acks: Packet) -> list[Packet]:
    """
    Gi     | d1 d2 d3                d1'            the link stood still; no SACK
    mobile |                            a.. a..     in the ACKs' own time
    """
    return [*opened(), *flight(1, 3), sent(DUE, 1), *acks]


def probed(*acks: Packet) -> list[Packet]:
    """
    Gi     | d1 d2 d3       d3'        d1'          the same with SACK: a loss probe
    mobile |                              a.. a..
    """
    at = probe_at()
    return [*opened(sack=True), *flight(1, 3), sent(at, 3), sent(at + TIMEOUT_US, 1), *acks]


def probe_at() -> int:
    return BEGIN + 2 * MS + 2 * TURN_US


SOON = DUE + 30 * MS
SOON_SACK = probe_at() + TIMEOUT_US + 30 * MS


def test_f_rto_needs_two_acks_without_sack():
    """a1 covers what was retransmitted; a2 what was not, before new data can have arrived (RFC
    5682, 2.1)."""
    lines = stalled(acked(SOON, 1), acked(SOON + 40 * MS, 2), acked(SOON + 80 * MS, 3))
    assert verdicts(lines) == [("rto", True, "frto")]


def test_ack_that_also_covers_the_retransmission_is_no_proof_without_sack():
    """a3 at once: d1' may have filled the only hole (Linux, tcp_clean_rtx_queue)."""
    assert verdicts(stalled(acked(SOON, 3))) == [("rto", False, None)]


def test_ack_that_also_covers_the_retransmission_is_proof_with_sack():
    """d2 would have been reported before, had only d1 been lost (RFC 5682, 3.1)."""
    assert verdicts(probed(acked(SOON_SACK, 2)))[-1] == ("rto", True, "frto")


def test_sack_block_of_data_sent_only_before_the_rto_expiry_is_proof():
    """d2 arrives after d1' (RFC 5682, 3.1)."""
    assert verdicts(probed(acked(SOON_SACK, 0, (2, 2))))[-1] == ("rto", True, "frto")


def test_sack_block_of_data_that_the_loss_probe_retransmitted_is_no_proof():
    """d3 or d3'."""
    assert verdicts(probed(acked(SOON_SACK, 0, (3, 3))))[-1] == ("rto", False, None)


@pytest.mark.parametrize("sack", [False, True])
def test_rto_expiry_for_lost_data_is_not_spurious(sack):
    """a1 a round trip after d1'; d2' and d3' in answer, a3 a round trip later."""
    make, at = (probed, SOON_SACK) if sack else (stalled, SOON)
    at += RTT_US - 30 * MS
    answer = at + ANSWER_US
    lines = make(acked(at, 1), sent(answer, 2), sent(answer + MS, 3), acked(answer + RTT_US, 3))
    rto = [verdict for verdict in verdicts(lines) if verdict[0] == "rto"]
    assert rto == [("rto", False, None)]


@pytest.mark.parametrize(
    ("echoed", "verdict"), [(BEGIN, (False, "eifel")), (DUE, (False, None))], ids=["d1", "d1'"]
)
def test_echoed_timestamp_older_than_the_retransmission_is_proof(echoed, verdict):
    """Eifel (RFC 3522); `spurious_rto` is F-RTO's."""
    assert verdicts(stamped(stalled(acked(SOON, 3)), echoed)) == [("rto", *verdict)]


def test_two_proofs_are_both_reported():
    """a1 echoes d1 (RFC 3522), a2 covers what was sent once (RFC 5682)."""
    first = stamped(stalled(acked(SOON, 1)), BEGIN)
    second = stamped([acked(SOON + 40 * MS, 2)], BEGIN)
    assert verdicts([*first, *second]) == [("rto", True, "frto+eifel")]


def test_d_sack_of_an_rto_retransmission_is_proof():
    """d1 and d1' arrive (RFC 3708). a3 proves nothing, as d2 was retransmitted, too."""
    at = probe_at()
    lines = [*opened(sack=True), *flight(1, 2), sent(at - MS, 2), sent(at - MS + TIMEOUT_US, 1)]
    lines += [acked(SOON_SACK, 1), acked(SOON_SACK + MS, 2)]
    assert verdicts(lines)[-1] == ("rto", False, None)
    lines.append(acked(at + TIMEOUT_US + RTT_US, 2, (1, 1)))
    assert verdicts(lines)[-1] == ("rto", False, "dsack")


def test_d_sack_of_other_data_is_no_proof():
    """d2' of the probe came twice."""
    at = probe_at()
    lines = [*opened(sack=True), *flight(1, 2), sent(at - MS, 2), sent(at - MS + TIMEOUT_US, 1)]
    lines += [acked(SOON_SACK, 1), acked(SOON_SACK + MS, 2)]
    lines.append(acked(at + TIMEOUT_US + RTT_US, 2, (2, 2)))
    assert verdicts(lines)[-1] == ("rto", False, None)


def test_only_rto_retransmissions_have_a_verdict():
    """d2' was spurious, as a D-SACK shows, but no RTO had expired."""
    at = FIRST_ACK + 3 * MS + ANSWER_US
    lines = [*opened(sack=True), *flight(1, 5), acked(FIRST_ACK, 1)]
    lines += duplicates(3, FIRST_ACK + MS, sack=True)
    lines += [sent(at, 2), acked(at + 50 * MS, 5), acked(at + RTT_US, 5, (2, 2))]
    assert verdicts(lines) == [("fast", None, None)]


def test_first_retransmission_of_a_backed_off_rto_has_the_verdict():
    """d1'' after the backed-off RTO; then the link continues (RFC 5682, 2.1)."""
    second_expiry = DUE + 2 * TIMEOUT_US
    acks = [
        acked(second_expiry + 30 * MS, 1),
        acked(second_expiry + 70 * MS, 2),
        acked(second_expiry + 110 * MS, 3),
    ]
    lines = stalled(sent(second_expiry, 1), *acks)
    assert verdicts(lines) == [("rto", True, "frto"), ("rto", False, None)]


def test_loss_after_a_spurious_rto_expiry_is_retransmitted_fast():
    """
    Gi     | d1 d2 d3    d1'         d4 ... d8           d5'
    mobile |                a1 a2 a3        a4 a4 a4 a4      a8
    """
    lines = stalled(acked(SOON, 1), acked(SOON + 40 * MS, 2), acked(SOON + 80 * MS, 3))
    at = SOON + 80 * MS + ANSWER_US
    lines += [acked(DUE + RTT_US, 3), *flight(4, 8, at), acked(at + RTT_US, 4)]
    lines += duplicates(3, at + RTT_US + MS, upto=4)
    at += RTT_US + 3 * MS + ANSWER_US
    lines += [sent(at, 5), acked(at + RTT_US, 8)]
    assert causes_and_counts(sorted(lines, key=lambda p: p.us)) == (["rto", "fast"], 2, 1)


@pytest.mark.parametrize("fin", [0, 1], ids=["BSD", "Linux"])
def test_sack_block_may_end_before_a_fin(fin):
    """d3, which ends with a FIN, was reported before the RTO expired, so its ACK proves nothing.

    Gi     | d1 d2 d3+FIN          d1'    d2'       d1 and d2 were lost
    mobile |               a0 (d3)     a1     a3
    """
    end = replace(sent(BEGIN + 2 * MS, 3), flags=FIN)
    block = f"2500-{3500 + fin}"
    lines = [*opened(True), *flight(1, 2), end, replace(acked(FIRST_ACK, 0), sack=block)]
    at = BEGIN + 10 * SECOND
    lines += [sent(at, 1), replace(acked(at + RTT_US, 1), sack=block)]
    lines += [sent(at + RTT_US + ANSWER_US, 2)]
    lines += [replace(acked(at + 2 * RTT_US + ANSWER_US, 3), ack=3501)]
    assert {row["spurious_by"] for row in retransmitted(lines)} == {None}
