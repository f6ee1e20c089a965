"""A server of which Gi sees only a part, or packets that make no sense; see `replies`."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.exchange_scripts import exchanges
from tests.helpers.packet_script import Packet, tables
from tests.helpers.replies import (
    ANSWER_US,
    FIN,
    MS,
    SECOND,
    after_a_timeout,
    causes_and_counts,
    retransmitted,
    server_packet,
    transfer,
)
from tests.helpers.segments import DATA, RTT_US, acked, opened, sent

# ---- nothing known -----------------------------------------------------------------------------


SENDING = (
    "retransmissions",
    "rto_expiries",
    "busy",
    "rwnd_limited",
    "limited_server",
    "limited_by",
    "rtt_access_median",
)
MIDDLE = [*transfer(3)[4:], sent(5 * SECOND, 4), sent(8 * SECOND, 4), acked(9 * SECOND, 4)]
"""Seen from its middle, without a request: d1 a1 d2 a2 d3 a3 d4 d4' a4."""


def way(lines: list[Packet], *ways: str) -> list[Packet]:
    return [p for p in lines if p.way in ways]


@pytest.mark.parametrize(
    "lines",
    [
        MIDDLE,
        MIDDLE[-3:],
        way(MIDDLE, "down"),
        way(MIDDLE, "up"),
        way([*opened(), *MIDDLE], "down"),
        way([*opened(), *MIDDLE], "up"),
    ],
    ids=["middle", "end", "middle down", "middle up", "down", "up"],
)
def test_server_at_an_unknown_distance_has_only_nulls(lines):
    """An ACK without data is answered by nothing; and one direction has no round trip."""
    rows = tables(lines)
    (flow,) = rows["flows"]
    assert {flow[name] for name in SENDING} == {None}
    assert {row["cause"] for row in rows["retransmissions"]} <= {None}
    assert len(rows["retransmissions"]) == bool(way(lines, "down"))
    assert rows["rto_values"] == rows["rtt_samples"] == rows["stalls"] == []


def test_answered_request_shows_the_servers_distance():
    """The same with a request that is answered after 100 ms; d4' comes 3 s after d4."""
    request = replace(acked(5 * SECOND - ANSWER_US, 3), data=50)
    answer = [replace(p, ack=350) for p in MIDDLE[-3:-1]]
    assert causes_and_counts([*MIDDLE[:-3], request, *answer, replace(MIDDLE[-1], seq=350)]) == (
        ["rto"],
        1,
        1,
    )


@pytest.mark.parametrize(
    ("echoed", "expected"), [(True, (["rto"], 1, 1)), (False, ([None], None, None))]
)
def test_echoed_timestamps_show_the_servers_distance(echoed, expected):
    """d2 echoes what a1 brought (RFC 7323); nothing else is answered: the server never acknowledges
    what the mobile sent before a1."""
    lines = [replace(p, tsval=p.us // MS, tsecr=1) for p in MIDDLE]
    lines = [replace(p, ack=250) if p.way == "down" else p for p in lines]
    if echoed:
        lines[2] = replace(lines[2], tsecr=lines[1].tsval)
    assert causes_and_counts(lines) == expected


# ---- whatever comes ----------------------------------------------------------------------------

WHOLE = after_a_timeout(sack=True)[0]
AT = WHOLE[-1].us + SECOND
SENSELESS = {
    "sequence jump up": [sent(AT, 2**30 // DATA), acked(AT + RTT_US, 2**30 // DATA)],
    "sequence jump down": [replace(sent(AT, 1), seq=(500 - 2**30) % 2**32)],
    "jumps to and fro": [sent(AT + k, (k % 2) * 2**30 // DATA + k + 1) for k in range(200)],
    "ACK of data never sent": [acked(AT, 2**30 // DATA), acked(AT + 1, 900_000)],
    "holes": [sent(AT + k, 5 + 2 * k) for k in range(3000)],
    "holes of any size": [sent(AT + k, 5 + k * k) for k in range(1, 1400)],
    "blocks of nothing": [
        replace(acked(AT, 4), sack=f"{a}-{b}")
        for a, b in ((0, 0), (9000, 8000), (2**31, 2**31 + 1), (500, 2**32 - 1), (4500, 4501))
    ],
    "blocks of holes": [
        *(sent(AT + k, 5 + 2 * k) for k in range(500)),
        *(acked(AT + SECOND + k, 4, (5 + 2 * k, 5 + 2 * k), (6, 2000)) for k in range(500)),
    ],
    "no data, no end": [server_packet(AT + k, 4500, flags=FIN) for k in range(300)],
    "SYNs": [replace(p, us=AT + k) for k in range(300) for p in opened()[:2]],
}


@pytest.mark.parametrize("name", SENSELESS)
def test_senseless_packets_change_nothing_before_them(name):
    """Nor do they stop the calculation; where most of what was acknowledged was never seen, the
    server's figures are null."""
    rows = tables([*WHOLE, *SENSELESS[name]])
    found = rows["flows"][0]
    unknown = found["acked_unseen_bytes"] > found["payload_bytes_down"]
    before = [(row["ts"], None if unknown else row["cause"]) for row in retransmitted(WHOLE)]
    after = [(row["ts"], row["cause"]) for row in rows["retransmissions"]]
    assert after[: len(before)] == before
    assert found["rto_expiries"] is None if unknown else found["rto_expiries"] >= 1


def rows_without_keys(lines: list[Packet], user: str = "anna") -> tuple[list, ...]:
    """All columns of a user's rows but the keys."""
    rows = tables(lines)
    ids = [row["flow_id"] for row in rows["flows"] if row["user"] == user]
    return tuple(
        [
            {name: row[name] for name in row if name not in ("flow_id", *without)}
            for row in rows[table]
            if row["flow_id"] in ids
        ]
        for table, without in (
            ("flows", ()),
            ("rto_values", ()),
            ("rtt_samples", ()),
            ("stalls", ()),
            ("retransmissions", ("frame", "original_frame")),
        )
    )


@pytest.mark.parametrize("sack", [False, True])
@pytest.mark.parametrize("down", [-500, -1700, -4000, 2**31])
def test_wrapping_sequence_numbers_change_nothing(sack, down):
    lines, _ = after_a_timeout(sack)
    assert rows_without_keys(
        [p.numbered(2**32 - 150, down % 2**32) for p in lines]
    ) == rows_without_keys(lines)


def test_other_users_change_nothing():
    lines, _ = after_a_timeout(True)
    others = [replace(p.later(3 * MS), user=user) for p in lines for user in ("aaron", "bert")]
    assert rows_without_keys([*lines, *others]) == rows_without_keys(lines)


@settings(max_examples=60, deadline=None)
@given(exchanges(), exchanges(user="bert"), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_sequence_numbers_and_other_users_change_no_rows_of_random_packets(
    exchange, others, up, down
):
    moved = [packet.numbered(up, down) for packet in exchange]
    assert rows_without_keys(others + moved) == rows_without_keys(exchange)


@settings(max_examples=60, deadline=None)
@given(exchanges())
def test_counts_of_random_packets_are_consistent(exchange):
    """`rwnd_limited` is a part of `busy`; each retransmission that Gi saw is counted."""
    rows = tables(exchange)
    for flow in rows["flows"]:
        mine = [r for r in rows["retransmissions"] if r["flow_id"] == flow["flow_id"]]
        if flow["retransmissions"] is None:
            assert {r["cause"] for r in mine} <= {None}
            continue
        assert 0 <= flow["rwnd_limited"] <= flow["busy"]
        seen = [r for r in mine if r["cause"] not in (None, "probe", "keepalive")]
        assert flow["retransmissions"] >= sum(not r["new_data"] for r in seen)
        assert flow["rto_expiries"] >= sum(r["cause"] == "rto" for r in mine)
