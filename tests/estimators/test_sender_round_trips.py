"""Round trips through a transfer, on either side of Gi; see `replies`.

Those of `rtt_samples` are some of those that `flows` has the quantiles of: `all_trips` makes
exchanges by their round trips, so that both are known.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.helpers.packet_script import Packet, tables
from tests.helpers.replies import (
    ANSWER_US,
    BEGIN,
    FIN,
    FIRST_ACK,
    MS,
    SECOND,
    TIMEOUT_US,
    duplicates,
    flight,
    server_packet,
    stamped,
    transfer,
    windowed,
)
from tests.helpers.segments import DATA, RTT_US, acked, opened, sent

DUE = BEGIN + TIMEOUT_US
ONE_BIN = 1 / 32
"""A bin is a sixteenth of an octave; of its middle, each value in it is a 32nd away at most."""


def rows_of(lines: list[Packet], side: str) -> list[dict]:
    return [row for row in tables(lines)["rtt_samples"] if row["side"] == side]


def trips(lines: list[Packet], side: str = "access") -> list[float]:
    """A side's round trips in order of time (s)."""
    return [row["rtt"] for row in rows_of(lines, side)]


def seconds(us: int) -> float:
    return us / SECOND


# ---- on the access side ------------------------------------------------------------------------


def test_round_trip_lasts_from_data_to_its_ack():
    rows = tables(transfer(1))
    (flow,), (row,) = rows["flows"], rows["rtt_samples"]
    assert row["flow_id"] == flow["flow_id"]
    assert (row["ts"] - flow["start_ts"]).total_seconds() == seconds(FIRST_ACK)
    assert (row["side"], row["rtt"]) == ("access", seconds(RTT_US))


def test_ack_answers_the_last_segment_that_it_covers():
    """
    Gi     | d1  d2  d3               200 ms apart
    mobile |             a2      a3
    """
    lines = [*opened(), *(sent(BEGIN + n * 200 * MS, n) for n in (1, 2, 3))]
    lines += [acked(BEGIN + 900 * MS, 2), acked(BEGIN + 1700 * MS, 3)]
    assert trips(lines) == [0.5, 1.1]


@pytest.mark.parametrize(("first", "delayed"), [(1, True), (2, False)])
def test_rtt_of_an_ack_for_a_single_segment_may_be_delayed(first, delayed):
    """RFC 9293, 3.8.6.3."""
    (row, other) = rows_of(
        [*opened(), *flight(1, 3), acked(FIRST_ACK, first), acked(FIRST_ACK + SECOND, 3)], "access"
    )
    assert (row["delayed"], other["delayed"]) == (delayed, not delayed)


def test_flight_of_a_sample_includes_its_own_segment():
    """
    Gi     | d1 d2 d3             d4 d5               d4 is of 300 bytes
    mobile |            a1   a2            a4   a5
    """
    at, end = FIRST_ACK + SECOND, 500 + 3 * DATA + 300
    lines = [*opened(), *flight(1, 3), acked(FIRST_ACK, 1), acked(FIRST_ACK + 700 * MS, 2)]
    lines += [replace(sent(at, 4), data=300), replace(sent(at + MS, 5), seq=end)]
    lines.append(replace(acked(at + RTT_US, 4), ack=end))
    lines.append(replace(acked(at + 2 * SECOND, 5), ack=end + DATA))
    assert [row["flight"] for row in rows_of(lines, "access")] == [1000, 2000, 1300, 2300]


def test_retransmitted_data_has_no_round_trip():
    """Karn; nor has d3 whose ACK waited for d1' to fill the hole."""
    lines = [*opened(), *flight(1, 3), sent(DUE, 1), acked(DUE + RTT_US, 3)]
    assert trips(lines) == []
    next_at = DUE + RTT_US + ANSWER_US
    assert trips([*lines, sent(next_at, 4), acked(next_at + RTT_US, 4)]) == [seconds(RTT_US)]


@pytest.mark.parametrize(
    ("echoed", "expected"),
    [
        (BEGIN, [seconds(3 * TIMEOUT_US + RTT_US)]),
        (DUE, []),
        (BEGIN + 3 * TIMEOUT_US, [seconds(RTT_US)]),
    ],
    ids=["first", "second", "last"],
)
def test_timestamp_identifies_the_transmission_that_is_answered(echoed, expected):
    """d1 d1' d1''; of transmissions between the first and the last nothing is kept (RFC 7323,
    4)."""
    at = BEGIN + 3 * TIMEOUT_US
    lines = [*opened(), sent(BEGIN, 1), sent(DUE, 1), sent(at, 1), acked(at + RTT_US, 1)]
    assert trips(stamped(lines, _7=echoed // MS)) == expected


def test_timestamp_of_no_transmission_gives_no_round_trip():
    lines = [*opened(), sent(BEGIN, 1), sent(DUE, 1), acked(DUE + RTT_US, 1)]
    assert trips(stamped(lines, _6=77)) == []


def test_first_report_in_a_sack_block_is_an_undelayed_answer():
    """
    Gi     | d1   d2                   d2 overtakes d1 on the access side
    mobile |          a0 (d2)   a2     a2 answers d1, or not: it shows nothing about d2
    """
    lines = [*opened(sack=True), sent(BEGIN, 1), sent(BEGIN + 500 * MS, 2)]
    lines += [acked(BEGIN + 1100 * MS, 0, (2, 2)), acked(BEGIN + 1900 * MS, 2)]
    (row,) = rows_of(lines, "access")
    assert (row["rtt"], row["flight"], row["delayed"]) == (0.6, 2 * DATA, False)


def test_rtt_is_of_the_last_segment_in_the_first_sack_block():
    """
    Gi     | d1   d2   d3   d4   d5     d1, d3 are lost
    mobile |           a0 (d2)     a0 (d5 d4, d2)
    """
    lines = [*opened(sack=True), *(sent(BEGIN + k * 500 * MS, k + 1) for k in range(5))]
    lines += [acked(BEGIN + 1100 * MS, 0, (2, 2))]
    lines += [acked(BEGIN + 4000 * MS, 0, (4, 5), (2, 2))]
    assert trips(sorted(lines, key=lambda p: p.us)) == [0.6, 2.0]


def test_sack_block_of_a_retransmission_has_no_round_trip():
    """d2 is retransmitted; the block does not show which transmission it answers."""
    lines = [*opened(sack=True), sent(BEGIN, 1), sent(BEGIN + 500 * MS, 2), sent(DUE, 2)]
    assert trips([*lines, acked(DUE + RTT_US, 0, (2, 2))]) == []


def test_data_that_gi_never_saw_has_no_round_trip():
    """
    Gi     | d1 (d2) d3
    mobile |             a1   a2   a3       1 s apart
    """
    lines = [*opened(), sent(BEGIN, 1), sent(BEGIN + 2 * MS, 3)]
    lines += [acked(FIRST_ACK + n * SECOND, n + 1) for n in range(3)]
    assert trips(lines) == [seconds(RTT_US), seconds(RTT_US - 2 * MS) + 2]


def test_duplicate_ack_gives_no_round_trip():
    lines = [*opened(), *flight(1, 3), acked(FIRST_ACK, 1), *duplicates(2, FIRST_ACK + SECOND)]
    assert trips(lines) == [seconds(RTT_US)]


# ---- on the Internet side ----------------------------------------------------------------------


def answered(*after_ms: int, window: int = 65) -> list[Packet]:
    """
    Gi     | d1     d2     d3 ...
    mobile |    a1     a2

    Each segment is sent so long after the ACK of the one before it.
    """
    lines, at = [*opened(), sent(BEGIN, 1)], BEGIN
    for n, pause in enumerate(after_ms, 1):
        lines.append(acked(at + RTT_US + SECOND, n))
        at = lines[-1].us + pause * MS
        lines.append(sent(at, n + 1))
    return windowed(lines, window)


def test_data_from_an_idle_server_answers_the_ack_before_it():
    """By the first data after an ACK that came to a server at rest."""
    (row,) = rows_of(answered(120), "internet")
    assert (row["rtt"], row["flight"], row["delayed"]) == (0.12, None, False)


def test_only_the_first_data_after_an_ack_is_its_answer():
    lines = answered(100)
    lines = [*lines, sent(lines[-1].us + 10 * MS, 3)]
    assert tables(lines)["flows"][0]["rtt_internet_max"] == 0.1


@pytest.mark.parametrize(("ms", "expected"), [(200, [0.2]), (201, [])])
def test_data_later_than_a_round_trip_is_no_answer(ms, expected):
    """At once is within a round trip, 100 ms, of when the ACK is heard."""
    assert trips(answered(ms), "internet") == expected


def two_in_flight(pauses_ms: list[tuple[int, int]]) -> list[Packet]:
    """
    Gi     | d1 d2     d3     d4 ...           the mobile's window is of two segments
    mobile |       a1     a2

    By (from an ACK to the segment that it lets go, from there to the next ACK).
    """
    lines, at = [*opened(), *flight(1, 2)], FIRST_ACK
    for n, (internet, access) in enumerate(pauses_ms, 1):
        lines += [acked(at, n), sent(at + internet * MS, n + 2)]
        at += (internet + access) * MS
    return windowed([*lines, acked(at, len(pauses_ms) + 1)], 2)


@pytest.mark.parametrize("ms", [100, 340, 1700])
def test_data_that_waited_for_the_window_answers_the_ack_that_opened_it(ms):
    """The ACK let d3 go; the server had nothing else to wait for."""
    assert trips(two_in_flight([(ms, 900)]), "internet") == [seconds(ms * MS)]


def test_late_data_is_no_answer_where_the_window_was_open():
    """d3 comes 400 ms after a1: with room for 65 segments, d3 did not wait for a1."""
    assert trips(windowed(two_in_flight([(400, 900)]), 65), "internet") == []


def test_data_after_a_zero_window_answers_the_window_update():
    """
    Gi     | d1 d2                 d3        the update comes 3 s later
    mobile |       a2 (0)  a2
    """
    opens = FIRST_ACK + 3 * SECOND
    lines = [*opened(), *flight(1, 2), replace(acked(FIRST_ACK, 2), win=0), acked(opens, 2)]
    lines += [sent(opens + 130 * MS, 3), acked(opens + 130 * MS + RTT_US, 3)]
    assert trips(lines, "internet") == [0.13]


def test_continuous_data_gives_no_internet_side_rtt():
    """A segment and an ACK each 10 ms."""
    lines = opened()
    for n in range(1, 51):
        lines += [sent(BEGIN + n * 10 * MS, n), acked(BEGIN + n * 10 * MS + 30 * MS, n)]
    assert trips(windowed(sorted(lines, key=lambda p: p.us), 65), "internet") == []


def test_retransmitted_data_is_no_answer():
    """d1' comes 100 ms after the third duplicate ACK, d6 100 ms after a5."""
    lines = [*opened(), *flight(1, 5), *duplicates(3, FIRST_ACK, upto=0)]
    at = FIRST_ACK + 2 * MS + ANSWER_US
    lines += [sent(at, 1), acked(at + RTT_US, 5), sent(at + RTT_US + ANSWER_US, 6)]
    rows = rows_of(lines, "internet")
    assert [row["rtt"] for row in rows] == [seconds(ANSWER_US)]
    assert rows[0]["ts"] == tables(lines)["flows"][0]["end_ts"]


# ---- rows of rtt_samples -----------------------------------------------------------------------


def apart(ms: int, first_ms: int, second_ms: int) -> list[Packet]:
    """Two segments with these RTTs on the access side whose ACKs are so far apart."""
    lines = [*opened()]
    for n, (at, trip) in enumerate(((0, first_ms), (ms, second_ms)), 1):
        ack = FIRST_ACK + SECOND + at * MS
        lines += [sent(ack - trip * MS, n), acked(ack, n)]
    return sorted(lines, key=lambda p: p.us)


@pytest.mark.parametrize(
    ("ms", "trip_ms", "count"), [(99, 50, 1), (100, 50, 2), (599, 600, 1), (600, 600, 2)]
)
def test_access_side_has_at_most_one_row_per_round_trip_and_ten_a_second(ms, trip_ms, count):
    assert trips(apart(ms, trip_ms, trip_ms)) == [trip_ms / 1000] * count


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(50, 100, False), (50, 101, True), (100, 50, False), (101, 50, True)],
)
def test_change_by_more_than_a_factor_of_two_gets_a_row(first, second, kept):
    assert trips(apart(60, first, second)) == [first / 1000, second / 1000][: 1 + kept]


@pytest.mark.parametrize(("ms", "count"), [(999, 3), (1000, 5)])
def test_internet_side_has_at_most_one_row_a_second(ms, count):
    """d1 a1 d2 ... a5 d6: five answers of 100 ms."""
    lines = opened()
    for n in range(6):
        at = BEGIN + n * ms * MS
        lines += [sent(at, n + 1), acked(at + (ms - 100) * MS, n + 1)]
    assert trips(windowed(lines, 65), "internet") == [0.1] * count


@pytest.mark.parametrize(("every_ms", "trip_ms", "rows"), [(10, 30, 10), (100, 600, 10)])
def test_rows_of_a_steady_transfer_are_a_tenth_of_a_second_or_a_round_trip_apart(
    every_ms, trip_ms, rows
):
    """Ten samples or six for each row."""
    count = rows * max(100, trip_ms) // every_ms
    lines = opened()
    for n in range(1, count + 1):
        at = BEGIN + n * every_ms * MS
        lines += [sent(at, n), acked(at + trip_ms * MS, n)]
    found = trips(windowed(sorted(lines, key=lambda p: p.us), 65))
    assert found == [trip_ms / 1000] * rows


# ---- quantiles ---------------------------------------------------------------------------------


def all_trips(count: int, seed: int) -> tuple[list[Packet], dict[str, list[tuple[int, int]]]]:
    """A transfer of two segments in flight, and all its round trips by side: when each ended and
    how long it took (µs)."""
    rng = np.random.default_rng(seed)
    on_internet = np.clip(rng.lognormal(5.2, 0.8, count), 100, 5000)
    on_access = np.clip(rng.lognormal(6.0, 1.2, count), 1, 9000)
    pauses = list(
        zip(on_internet.astype(int).tolist(), on_access.astype(int).tolist(), strict=True)
    )
    lines = two_in_flight(pauses)
    sent_at = [p.us for p in lines if p.way == "down" and p.data]
    acked_at = [p.us for p in lines if p.way == "up"][-count - 1 :]
    access = [(ack, ack - data) for data, ack in zip(sent_at, acked_at, strict=False)]
    internet = [(data, data - ack) for data, ack in zip(sent_at[2:], acked_at, strict=False)]
    return lines, {"access": access, "internet": internet}


@pytest.mark.parametrize("side", ["access", "internet"])
@pytest.mark.parametrize("count", [1, 2, 3, 19, 20, 21, 300])
def test_quantiles_are_those_of_all_round_trips_to_within_a_bin(count, side):
    """Of n, the median is the (n / 2)th and the 95th percentile the (0.95 n)th, rounded up."""
    lines, made = all_trips(count, seed=count)
    (flow,) = tables(lines)["flows"]
    true = [seconds(rtt) for _, rtt in made[side]]
    for name, share in (("median", 0.5), ("p95", 0.95)):
        expected = np.quantile(true, share, method="inverted_cdf")
        assert flow[f"rtt_{side}_{name}"] == pytest.approx(expected, rel=ONE_BIN)
    assert flow[f"rtt_{side}_max"] == pytest.approx(max(true))
    assert flow[f"rtt_{side}_samples"] == len(true)
    assert flow[f"rtt_{side}_mean"] == pytest.approx(np.mean(true))
    spread = np.std(true, ddof=1) if len(true) > 1 else None
    assert flow[f"rtt_{side}_sd"] == (spread and pytest.approx(spread))
    if side == "internet":
        assert flow["rtt_internet_min"] == pytest.approx(min(true))


@pytest.mark.parametrize(("side", "least_us"), [("access", 100 * MS), ("internet", SECOND)])
@pytest.mark.parametrize("seed", range(3))
def test_each_omitted_round_trip_is_close_to_a_row_in_time_and_value(side, least_us, seed):
    lines, made = all_trips(200, seed)
    rows = tables(lines)
    begin = rows["flows"][0]["start_ts"]
    written = [
        (round((row["ts"] - begin).total_seconds() * SECOND), round(row["rtt"] * SECOND))
        for row in rows["rtt_samples"]
        if row["side"] == side
    ]

    def is_new(last: tuple[int, int], sample: tuple[int, int]) -> bool:
        (at, rtt), (last_at, last_rtt) = sample, last
        return at - last_at >= max(least_us, rtt) or max(rtt, last_rtt) > 2 * min(rtt, last_rtt)

    assert written[0] == made[side][0]
    assert set(written) <= set(made[side])
    assert 10 < len(written) < 200
    assert all(is_new(last, row) for last, row in pairwise(written))
    for sample in set(made[side]) - set(written):
        assert not is_new(max(row for row in written if row < sample), sample)


@pytest.mark.parametrize("side", ["access", "internet"])
def test_connection_without_round_trips_has_no_quantiles(side):
    (flow,) = tables(opened())["flows"]
    assert {flow[f"rtt_{side}_{name}"] for name in ("median", "p95", "max", "mean", "sd")} == {None}
    assert flow[f"rtt_{side}_samples"] == 0


def test_each_connection_has_its_own_round_trips():
    """A second connection of the user begins when the first is over."""
    first, second = two_in_flight([(300, 2400)] * 3), transfer(3)
    lines = [*first, *(replace(p.later(60 * SECOND), port=2000) for p in second)]
    one, other = tables(lines)["flows"]
    assert (one["rtt_access_max"], one["rtt_internet_max"]) == (2.4 + 0.3 + 2.4, 0.3)
    assert (other["rtt_access_max"], other["rtt_internet_max"]) == (0.6, None)
    assert other["rtt_access_p95"] == pytest.approx(0.6, rel=ONE_BIN)


def test_ack_of_data_and_a_fin_answers_the_fin():
    """The ACK of d2 waits for the FIN, 2 s later: no round trip of 2.6 s."""
    lines = transfer(2)
    at = lines[-1].us + SECOND
    lines += [sent(at, 3), server_packet(at + 2 * SECOND, 500 + 3 * DATA, flags=FIN)]
    lines += [replace(acked(at + 2 * SECOND + RTT_US, 3), ack=501 + 3 * DATA)]
    (row,) = tables(lines)["flows"]
    assert row["rtt_access_max"] == pytest.approx(RTT_US / SECOND, rel=0.03)
