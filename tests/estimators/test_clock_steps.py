"""Connections in which the monitor's clock stepped: what is computed from times is null, and
is not used for their user; counts stay."""

import pytest

from tests.helpers.packet_script import flows, partition, tables


def transfer(port: int, begin: float = 0.0, rtt: float = 0.1, steps_from: int = 99) -> str:
    """A handshake, a request and eight segments, each acknowledged; packets from `steps_from` on
    come after a step."""
    lines = [
        (0.0, "up", "SYN seq=0"),
        (0.05, "down", "SYN ACK seq=0 ack=1"),
        (0.05 + rtt, "up", "ACK seq=1 ack=1"),
        (0.06 + rtt, "up", "ACK seq=1 ack=1 data=100"),
    ]
    for k in range(8):
        at = 0.3 + k * (rtt + 0.1)
        lines.append((at, "down", f"ACK seq={1 + 1000 * k} ack=101 data=1000"))
        lines.append((at + rtt, "up", f"ACK seq=101 ack={1001 + 1000 * k}"))
    return "\n".join(
        f"{begin + at:.3f} {way} {what} port={port} steps={int(i >= steps_from)}"
        for i, (at, way, what) in enumerate(lines)
    )


def test_round_trips_across_a_step_do_not_enter_the_users_base_rtt():
    """The second connection's are 1 ms, by times across a step."""
    [flow, stepped] = flows(transfer(1) + "\n" + transfer(2, 10, 0.001, steps_from=6))
    assert flow["rtt_access_min"] == pytest.approx(0.1)
    assert stepped["rtt_access_min"] is None
    made = partition(transfer(1) + "\n" + transfer(2, 10, 0.001, steps_from=6))
    assert made.base_rtt_us.tolist() == [100_000]
    assert partition(transfer(1) + "\n" + transfer(2, 10, 0.001)).base_rtt_us.tolist() == [1000]


def test_links_use_only_connections_without_a_step():
    """The first one's SYN ACK and eight segments, each acknowledged after 0.1 s."""
    script = transfer(1) + "\n" + transfer(2, 10, 0.001, steps_from=6)
    [link] = partition(script).links
    assert (link["rtt_samples"], link["rtt_min"]) == (9, pytest.approx(0.1))


@pytest.mark.parametrize(("packet", "known"), [(1, False), (2, False), (3, True), (6, True)])
def test_set_up_delay_is_known_where_the_step_came_later(packet, known):
    [flow] = flows(transfer(1, steps_from=packet))
    assert flow["setup_class"] == "optimal"
    found = {name: flow[name] is not None for name in ("setup_delay", "rtt_access", "rtt_internet")}
    assert found == dict.fromkeys(found, known)


def test_connection_wholly_after_a_step_is_like_any_other():
    assert flows(transfer(1, steps_from=0)) == flows(transfer(1))


def test_counts_stay_and_what_is_computed_from_times_is_null():
    [plain], [stepped] = flows(transfer(1)), flows(transfer(1, steps_from=8))
    lacks = {name for name, value in plain.items() if value is not None and stepped[name] is None}
    assert {
        "lost_access",
        "lost_internet",
        "retransmissions",
        "rto_expiries",
        "rtt_access_min",
    } <= lacks
    assert all(stepped[name] == value for name, value in plain.items() if name not in lacks)
    assert stepped["payload_bytes_down"] == 8000
    assert not {name for name in lacks if name.startswith(("packets_", "payload_", "ip_bytes_"))}


def test_other_tables_have_no_timed_rows_of_a_connection_with_a_step():
    """A segment is retransmitted, with a second's silence before."""
    retransmitted = "\n9.000 down ACK seq=8001 ack=101 data=1000 port=1 steps={0}"
    retransmitted += "\n10.000 down ACK seq=8001 ack=101 data=1000 port=1 steps={0}"
    retransmitted += "\n10.100 up ACK seq=101 ack=9001 port=1 steps={0}"
    plain = tables(transfer(1) + retransmitted.format(0))
    stepped = tables(transfer(1, steps_from=8) + retransmitted.format(1))
    timed = ("losses", "rtt_samples", "rto_values", "stalls", "links")
    assert all(plain[name] for name in timed)
    assert not any(stepped[name] for name in timed)
    assert [row["cause"] for row in plain["retransmissions"]] == ["rto"]
    assert [row["cause"] for row in stepped["retransmissions"]] in ([], [None])
    assert {row["rate_share"] for row in stepped["pages"]} == {None}
