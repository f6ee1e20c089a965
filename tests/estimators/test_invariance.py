"""A connection's row does not depend on its initial sequence numbers, on the time, or on
other users."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.exchange_scripts import exchanges
from tests.helpers.packet_script import flows, partition

PLACES_AND_TIMES = ("flow_id", "start_ts", "end_ts")


def rows(exchange, without=()):
    return [
        {name: value for name, value in row.items() if name not in without}
        for row in flows(exchange)
    ]


@settings(max_examples=150, deadline=None)
@given(exchanges(), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_initial_sequence_numbers_do_not_change_rows(exchange, up, down):
    moved = [packet.numbered(up, down) for packet in exchange]
    assert rows(moved, without=["flow_id"]) == rows(exchange, without=["flow_id"])


@pytest.mark.integration
@settings(max_examples=100, deadline=None)
@given(exchanges(), st.integers(0, 10**15))
def test_time_of_day_does_not_change_rows(exchange, us):
    moved = [packet.later(us) for packet in exchange]
    assert rows(moved, PLACES_AND_TIMES) == rows(exchange, PLACES_AND_TIMES)


@pytest.mark.integration
@settings(max_examples=100, deadline=None)
@given(exchanges(), exchanges(user="aaron"), exchanges(user="bert"))
def test_other_users_do_not_change_rows(exchange, lower, higher):
    together = [row for row in rows(lower + exchange + higher) if row["user"] == "anna"]
    assert together == rows(exchange)


@settings(max_examples=100, deadline=None)
@given(exchanges())
def test_swapping_the_directions_only_swaps_the_sides(exchange):
    """Of what both sides have."""
    other = {"up": "down", "down": "up"}
    swapped = rows([replace(packet, way=other[packet.way]) for packet in exchange])
    for row, mirror in zip(rows(exchange), swapped, strict=True):
        for name in ("packets", "ip_bytes", "payload_bytes"):
            assert row[f"{name}_up"] == mirror[f"{name}_down"]
        assert row["rtt_access"] == mirror["rtt_internet"]
        for name in (
            "setup_class",
            "setup_reset",
            "setup_delay",
            "setup_background",
            "sack",
            "timestamps",
            "syn_count",
            "synack_count",
            "max_ip_len",
            "flow_id",
        ):
            assert row[name] == mirror[name]


@settings(max_examples=100, deadline=None)
@given(exchanges(), exchanges(user="bert"))
def test_every_tcp_packet_is_counted_in_one_connection(exchange, another):
    """As one of it, or as one that it could not have sent."""
    lines = exchange + another
    tcp = [packet for packet in lines if packet.is_tcp]
    made = partition(lines)
    ours = [lines[frame] for frame in made.packets.frame[made.segments.place]]
    counted = flows(lines)
    outside = sum(row["out_of_window_up"] + row["out_of_window_down"] for row in counted)
    assert len(ours) + outside == len(tcp)
    assert sum(row["packets_up"] + row["packets_down"] for row in counted) == len(ours)
    assert sum(row["ip_bytes_up"] + row["ip_bytes_down"] for row in counted) == sum(
        packet.ip_len for packet in ours
    )
