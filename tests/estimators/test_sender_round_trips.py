"""Round trips through a transfer, on either side of Gi; see `replies`.

Those of `rtt_samples` are some of those that `flows` has the quantiles of: `all_trips` makes
exchanges by their round trips, so that both are known.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from packet_script import Packet, tables
from replies import (
    ANSWER_US,
    BEGIN,
    FIN,
    FIRST_ACK,
    MS,
    SECOND,
    TIMEOUT_US,
    bare,
    duplicates,
    flight,
    stamped,
    transfer,
    windowed,
)
from segments import DATA, RTT_US, acked, opened, sent

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


# ---- on the access side ---------------------------------------------------------------------------------


def test_round_trip_is_from_data_to_its_ack_and_ends_with_it():
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
def test_ack_of_one_segment_alone_may_have_waited(first, delayed):
    """RFC 9293, 3.8.6.3."""
    (row, other) = rows_of(
        [*opened(), *flight(1, 3), acked(FIRST_ACK, first), acked(FIRST_ACK + SECOND, 3)], "access"
    )
    assert (row["delayed"], other["delayed"]) == (delayed, not delayed)


def test_flight_is_what_is_not_acknowledged_its_own_included():
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


def test_data_sent_twice_has_no_round_trip():
    """Karn; nor has d3 whose ACK waited for d1' to fill the hole."""
    lines = [*opened(), *flight(1, 3), sent(DUE, 1), acked(DUE + RTT_US, 3)]
    assert trips(lines) == []
    again = DUE + RTT_US + ANSWER_US
    assert trips([*lines, sent(again, 4), acked(again + RTT_US, 4)]) == [seconds(RTT_US)]


@pytest.mark.parametrize(
    ("echoed", "told"),
    [
        (BEGIN, [seconds(3 * TIMEOUT_US + RTT_US)]),
        (DUE, []),
        (BEGIN + 3 * TIMEOUT_US, [seconds(RTT_US)]),
    ],
    ids=["first", "second", "last"],
)
def test_timestamp_tells_which_copy_is_answered(echoed, told):
    """d1 d1' d1''; of copies between the first and the last nothing is kept (RFC 7323, 4)."""
    at = BEGIN + 3 * TIMEOUT_US
    lines = [*opened(), sent(BEGIN, 1), sent(DUE, 1), sent(at, 1), acked(at + RTT_US, 1)]
    assert trips(stamped(lines, _7=echoed // MS)) == told


def test_timestamp_of_data_that_was_not_sent_tells_nothing():
    lines = [*opened(), sent(BEGIN, 1), sent(DUE, 1), acked(DUE + RTT_US, 1)]
    assert trips(stamped(lines, _6=77)) == []


def test_sack_block_answers_what_it_reports_first_and_at_once():
    """
    Gi     | d1   d2                   d2 overtakes d1 on the access side
    mobile |          a0 (d2)   a2     a2 answers d1, or not: it tells nothing of d2
    """
    lines = [*opened(sack=True), sent(BEGIN, 1), sent(BEGIN + 500 * MS, 2)]
    lines += [acked(BEGIN + 1100 * MS, 0, (2, 2)), acked(BEGIN + 1900 * MS, 2)]
    (row,) = rows_of(lines, "access")
    assert (row["rtt"], row["flight"], row["delayed"]) == (0.6, 2 * DATA, False)


def test_first_sack_block_has_what_the_ack_answers():
    """
    Gi     | d1   d2   d3   d4   d5     d1, d3 are lost
    mobile |           a0 (d2)     a0 (d5 d4, d2)
    """
    lines = [*opened(sack=True), *(sent(BEGIN + k * 500 * MS, k + 1) for k in range(5))]
    lines += [acked(BEGIN + 1100 * MS, 0, (2, 2))]
    lines += [acked(BEGIN + 4000 * MS, 0, (4, 5), (2, 2))]
    assert trips(sorted(lines, key=lambda p: p.us)) == [0.6, 2.0]


def test_sack_block_of_a_retransmission_has_no_round_trip():
    """d2 is sent twice; the block does not tell which copy it answers."""
    lines = [*opened(sack=True), sent(BEGIN, 1), sent(BEGIN + 500 * MS, 2), sent(DUE, 2)]
    assert trips([*lines, acked(DUE + RTT_US, 0, (2, 2))]) == []


def test_data_that_gi_has_not_seen_has_no_round_trip():
    """
    Gi     | d1 (d2) d3
    mobile |             a1   a2   a3       1 s apart
    """
    lines = [*opened(), sent(BEGIN, 1), sent(BEGIN + 2 * MS, 3)]
    lines += [acked(FIRST_ACK + n * SECOND, n + 1) for n in range(3)]
    assert trips(lines) == [seconds(RTT_US), seconds(RTT_US - 2 * MS) + 2]


def test_duplicate_ack_ends_no_round_trip():
    lines = [*opened(), *flight(1, 3), acked(FIRST_ACK, 1), *duplicates(2, FIRST_ACK + SECOND)]
    assert trips(lines) == [seconds(RTT_US)]


# ---- on the Internet side ---------------------------------------------------------------------------------


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


def test_server_that_waits_answers_at_once():
    """By the first data after an ACK that came to a server at rest."""
    (row,) = rows_of(answered(120), "internet")
    assert (row["rtt"], row["flight"], row["delayed"]) == (0.12, None, False)


def test_first_data_alone_is_the_answer():
    lines = answered(100)
    lines = [*lines, sent(lines[-1].us + 10 * MS, 3)]
    assert tables(lines)["flows"][0]["rtt_internet_max"] == 0.1


@pytest.mark.parametrize(("ms", "told"), [(200, [0.2]), (201, [])])
def test_what_comes_later_than_an_answer_had_to_be_made_first(ms, told):
    """At once is within a round trip, 100 ms, of when the ACK is heard."""
    assert trips(answered(ms), "internet") == told


def two_under_way(pauses_ms: list[tuple[int, int]]) -> list[Packet]:
    """
    Gi     | d1 d2     d3     d4 ...           the mobile's window is of two segments
    mobile |       a1     a2

    By (from an ACK to the segment that it lets go, from there to the next ACK).
    """
    lines, at = [*opened(), *flight(1, 2)], FIRST_ACK
    for n, (before, behind) in enumerate(pauses_ms, 1):
        lines += [acked(at, n), sent(at + before * MS, n + 2)]
        at += (before + behind) * MS
    return windowed([*lines, acked(at, len(pauses_ms) + 1)], 2)


@pytest.mark.parametrize("ms", [100, 340, 1700])
def test_window_that_opens_is_answered_whenever_that_is(ms):
    """The ACK let d3 go, and no more was asked of the server."""
    assert trips(two_under_way([(ms, 900)]), "internet") == [seconds(ms * MS)]


def test_window_that_was_open_before_lets_nothing_go():
    """d3 comes 400 ms after a1: with room for 65 segments, it was not that which it waited for."""
    assert trips(windowed(two_under_way([(400, 900)]), 65), "internet") == []


def test_closed_window_that_opens_lets_data_go():
    """
    Gi     | d1 d2                 d3        the update comes 3 s later
    mobile |       a2 (0)  a2
    """
    opens = FIRST_ACK + 3 * SECOND
    lines = [*opened(), *flight(1, 2), replace(acked(FIRST_ACK, 2), win=0), acked(opens, 2)]
    lines += [sent(opens + 130 * MS, 3), acked(opens + 130 * MS + RTT_US, 3)]
    assert trips(lines, "internet") == [0.13]


def test_server_that_is_kept_busy_waits_for_no_ack():
    """A segment and an ACK each 10 ms."""
    lines = opened()
    for n in range(1, 51):
        lines += [sent(BEGIN + n * 10 * MS, n), acked(BEGIN + n * 10 * MS + 30 * MS, n)]
    assert trips(windowed(sorted(lines, key=lambda p: p.us), 65), "internet") == []


def test_data_sent_again_is_no_answer():
    """d1' comes 100 ms after the third duplicate ACK, d6 100 ms after a5."""
    lines = [*opened(), *flight(1, 5), *duplicates(3, FIRST_ACK, upto=0)]
    at = FIRST_ACK + 2 * MS + ANSWER_US
    lines += [sent(at, 1), acked(at + RTT_US, 5), sent(at + RTT_US + ANSWER_US, 6)]
    rows = rows_of(lines, "internet")
    assert [row["rtt"] for row in rows] == [seconds(ANSWER_US)]
    assert rows[0]["ts"] == tables(lines)["flows"][0]["end_ts"]


# ---- what is written down ----------------------------------------------------------------------


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
def test_behind_gi_one_in_a_round_trip_is_written_and_ten_a_second(ms, trip_ms, count):
    assert trips(apart(ms, trip_ms, trip_ms)) == [trip_ms / 1000] * count


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(50, 100, False), (50, 101, True), (100, 50, False), (101, 50, True)],
)
def test_change_by_more_than_a_factor_of_two_is_written(first, second, kept):
    assert trips(apart(60, first, second)) == [first / 1000, second / 1000][: 1 + kept]


@pytest.mark.parametrize(("ms", "count"), [(999, 3), (1000, 5)])
def test_before_gi_one_a_second_is_written(ms, count):
    """d1 a1 d2 ... a5 d6: five answers of 100 ms."""
    lines = opened()
    for n in range(6):
        at = BEGIN + n * ms * MS
        lines += [sent(at, n + 1), acked(at + (ms - 100) * MS, n + 1)]
    assert trips(windowed(lines, 65), "internet") == [0.1] * count


@pytest.mark.parametrize(("every_ms", "trip_ms", "rows"), [(10, 30, 10), (100, 600, 10)])
def test_of_a_steady_transfer_each_row_is_a_tenth_of_a_second_or_a_round_trip_after_the_last(
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
    before = np.clip(rng.lognormal(5.2, 0.8, count), 100, 5000)
    behind = np.clip(rng.lognormal(6.0, 1.2, count), 1, 9000)
    pauses = list(zip(before.astype(int).tolist(), behind.astype(int).tolist(), strict=True))
    lines = two_under_way(pauses)
    sent_at = [p.us for p in lines if p.way == "down" and p.data]
    acked_at = [p.us for p in lines if p.way == "up"][-count - 1 :]
    access = [(ack, ack - data) for data, ack in zip(sent_at, acked_at, strict=False)]
    internet = [(data, data - ack) for data, ack in zip(sent_at[2:], acked_at, strict=False)]
    return lines, {"access": access, "internet": internet}


@pytest.mark.parametrize("side", ["access", "internet"])
@pytest.mark.parametrize("count", [1, 2, 3, 19, 20, 21, 300])
def test_quantiles_are_of_all_round_trips_to_a_bin(count, side):
    """Of n, the median is the (n / 2)th and the 95th percentile the (0.95 n)th, rounded up."""
    lines, made = all_trips(count, seed=count)
    (flow,) = tables(lines)["flows"]
    true = [seconds(rtt) for _, rtt in made[side]]
    for name, share in (("median", 0.5), ("p95", 0.95)):
        expected = np.quantile(true, share, method="inverted_cdf")
        assert flow[f"rtt_{side}_{name}"] == pytest.approx(expected, rel=ONE_BIN)
    assert flow[f"rtt_{side}_max"] == pytest.approx(max(true))
    if side == "internet":
        assert flow["rtt_internet_min"] == pytest.approx(min(true))


@pytest.mark.parametrize(("side", "least_us"), [("access", 100 * MS), ("internet", SECOND)])
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_some_of_all_and_those_left_out_are_near_one_in_time_and_value(
    side, least_us, seed
):
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
    assert {flow[f"rtt_{side}_{name}"] for name in ("median", "p95", "max")} == {None}


def test_each_connection_has_its_own():
    """A second connection of the user begins when the first is over."""
    first, second = two_under_way([(300, 2400)] * 3), transfer(3)
    lines = [*first, *(replace(p.later(60 * SECOND), port=2000) for p in second)]
    one, other = tables(lines)["flows"]
    assert (one["rtt_access_max"], one["rtt_internet_max"]) == (2.4 + 0.3 + 2.4, 0.3)
    assert (other["rtt_access_max"], other["rtt_internet_max"]) == (0.6, None)
    assert other["rtt_access_p95"] == pytest.approx(0.6, rel=ONE_BIN)


def test_ack_of_data_and_a_bare_fin_answers_the_fin():
    """The ACK of d2 waits for the FIN, 2 s later: no round trip of 2.6 s."""
    lines = transfer(2)
    at = lines[-1].us + SECOND
    lines += [sent(at, 3), bare(at + 2 * SECOND, 500 + 3 * DATA, flags=FIN)]
    lines += [replace(acked(at + 2 * SECOND + RTT_US, 3), ack=501 + 3 * DATA)]
    (row,) = tables(lines)["flows"]
    assert row["rtt_access_max"] == pytest.approx(RTT_US / SECOND, rel=0.03)
