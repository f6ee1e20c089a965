"""Small captures of problems from public bug reports of other tools: each has its right answer.

The kinds: RFC 5961's challenge ACKs and blind SYNs, an old connection's FIN behind a new SYN, two
SYN ACKs, options cut off by the snap length, IP fragments, a clock that steps back or forward,
SACK blocks that a firewall did not rewrite, TCP Fast Open, two taps of different clocks, a capture
that begins within a recovery, Cisco's VN-Tag, two IPv6 addresses of one mobile, one private address
in two VLANs, a connection of three days, marks of ECN.
"""

import pytest
from conftest import REPORTS, ask

from spark_jobs.ingest.job import ingest_capture
from spark_jobs.jobs.flows import publish_flows
from spark_jobs.settings.networks import Network, Subscribers
from spark_jobs.warehouse.store import Warehouse

NOTHING_LOST = {"lost_access": 0, "lost_internet": 0, "retransmissions": 0, "rto_expiries": 0}
SET_UP = {"setup_class": "optimal", "acked_unseen_bytes": 0}
EXPECTED = {
    "challenge_ack_min.pcap": [
        {"setup_class": "slight_problem", "syn_count": 2, "acked_unseen_bytes": 0}
        | {"payload_bytes_down": 1000, "reset_by": None}
        | {"out_of_window_up": 1, "out_of_window_down": 1}
        | NOTHING_LOST
    ],
    "old_fin_after_new_syn.pcap": [
        SET_UP | NOTHING_LOST | {"limited_by": "server"},
        SET_UP | NOTHING_LOST | {"limited_by": "server", "out_of_window_down": 1},
    ],
    "two_synacks.pcap": [SET_UP | NOTHING_LOST | {"payload_bytes_down": 2800, "synack_count": 1}],
    "blind_syn.pcap.gz": [SET_UP | NOTHING_LOST | {"out_of_window_up": 1}],
    "min_snap_full.pcap": [
        SET_UP | NOTHING_LOST | {"sack": True, "timestamps": True, "max_window": 128_000}
    ],
    "min_snap_54.pcap": [
        SET_UP
        | {"sack": None, "timestamps": None, "max_window": None, "window_class": None}
        | dict.fromkeys(NOTHING_LOST)
        | {"payload_bytes_down": 14_000, "throughput_received": None, "limited_by": None}
    ],
    "min_ip_fragments.pcap": [
        SET_UP | NOTHING_LOST | {"payload_bytes_down": 4200, "single": True, "packets_down": 4}
    ],
    "min_clock_back.pcap": [SET_UP | dict.fromkeys(NOTHING_LOST) | {"payload_bytes_down": 5600}],
    "clock_forward_60s.pcap.gz": [
        SET_UP
        | dict.fromkeys((*NOTHING_LOST, "throughput", "rtt_access_min", "delay_spikes"))
        | {"payload_bytes_down": 83_280}
    ]
    * 4,
    "min_sack_not_rewritten.pcap.gz": [
        SET_UP | {"lost_access": 2, "lost_internet": 0, "retransmissions": 2, "rto_expiries": 0}
    ],
    "min_sack_ok.pcap.gz": [
        SET_UP | {"lost_access": 2, "lost_internet": 0, "retransmissions": 2, "rto_expiries": 0}
    ],
    "tfo_request_in_syn.pcap.gz": [
        SET_UP | NOTHING_LOST | {"request_response": True, "payload_bytes_up": 300}
    ],
    "tfo_request_after.pcap.gz": [
        SET_UP | NOTHING_LOST | {"request_response": True, "payload_bytes_up": 300}
    ],
    "min_late_syn.pcap": [SET_UP | NOTHING_LOST | {"syn_count": 1, "setup_delay": None}],
    "starts_in_recovery.pcap.gz": [{"lost_access": None, "lost_internet": None}],
    "vlan_two_users_same_tuple.pcap.gz": [
        SET_UP | NOTHING_LOST | {"single": True, "parallel": 1, "out_of_window_down": 0}
    ]
    * 2,
    "keepalive_data_x10.pcap.gz": [NOTHING_LOST],
    "keepalive_then_fin_nosack.pcap.gz": [NOTHING_LOST],
    "ip_ids_with_udp.pcap.gz": [NOTHING_LOST],
    "ip_ids_few_elsewhere_one_loss.pcap.gz": [
        NOTHING_LOST | {"retransmissions": 1, "lost_access": 1}
    ],
    "usec_ts_idle_40min_loss.pcap.gz": [
        {"payload_bytes_down": 36_088, "lost_access": 1, "lost_internet": 0}
        | {"out_of_window_down": 0, "acked_unseen_bytes": 0}
    ],
    "replayed_60s.pcap.gz": [
        SET_UP | {"payload_bytes_down": 83_280, "lost_access": 0, "out_of_window_down": 0}
    ]
    * 2,
    "lro_clamped_no_single_ids.pcap.gz": [NOTHING_LOST | {"data_packets_down": 171}],
    "pmtu_icmp.pcap.gz": [
        {"lost_access": 10, "lost_internet": 0, "retransmissions": 11, "rto_expiries": 0}
    ],
    "nanoseconds_in_microsecond_file.pcap.gz": [SET_UP | NOTHING_LOST],
    "any_interface_3_copies_v6.pcap.gz": [
        {"setup_class": "optimal", "packets_down": 43, "lost_access": 0, "retransmissions": 0}
        | {"rto_expiries": 0}
    ],
    "ecn_marks_12.pcap.gz": [
        SET_UP
        | NOTHING_LOST
        | {"limited_by": "recovery", "ecn": "classic", "ecn_episodes_access": 5}
        | {"ecn_episodes_internet": 0, "ect_down": 0, "ce_down": 0, "marks_access": None}
    ],
    "lasts_60h.pcap.gz": [SET_UP | NOTHING_LOST | {"payload_bytes_down": 174_888}],
    "retransmission_keeps_ip_id.pcap.gz": [
        {"lost_access": 1, "retransmissions": 1, "packets_down": 24}
    ],
    "tag_vntag.pcap": [SET_UP | NOTHING_LOST | {"payload_bytes_down": 14_000}],
}
"""Expected values of each connection of a capture, in order of their beginning."""
ONE_PHONE = "one_phone_two_v6_addresses.pcap.gz"
COUNTED = {
    "min_snap_54.pcap": {"options_cut": 24},
    "min_ip_fragments.pcap": {"fragments_joined": 3},
    "any_interface_3_copies_v6.pcap.gz": {"duplicate": 134},
    "clock_forward_60s.pcap.gz": {"clock_forwards": 1, "clock_forwards_us": 60_001_000},
    "min_clock_back.pcap": {"clock_backwards": 1, "clock_backwards_us": 240_000},
}


def read(warehouse: Warehouse, network: Network, name: str) -> dict[str, int]:
    """Ingest a capture and make its flows; returns what was counted beside its packets."""
    result = ingest_capture(warehouse, network, REPORTS / name)
    assert result.error is None
    publish_flows(warehouse, [(network, day) for day in result.dates])
    warehouse.update_views()
    return result.facts.skipped


def rows(warehouse: Warehouse, query: str) -> list[dict]:
    return ask(warehouse, query).to_arrow_table().to_pylist()


@pytest.mark.parametrize("name", EXPECTED)
def test_reported_captures_have_their_right_answers(warehouse, network, in_this_process, name):
    subscribers = tuple(Subscribers(prefix=p) for p in ("10.64.0.0/14", "2001:db8:64::/48"))
    network = network.model_copy(update={"subscribers": subscribers})
    assert read(warehouse, network, name) == COUNTED.get(name, {})
    flows = rows(warehouse, "from flows order by start_ts")
    assert len(flows) == len(EXPECTED[name])
    for flow, right in zip(flows, EXPECTED[name], strict=True):
        assert {column: flow[column] for column in right} == right


@pytest.mark.parametrize("name", ["min_sack_not_rewritten.pcap.gz", "min_sack_ok.pcap.gz"])
def test_retransmissions_are_needed_whatever_sack_blocks_a_firewall_leaves(
    warehouse, network, in_this_process, name
):
    read(warehouse, network, name)
    assert [row["needed"] for row in rows(warehouse, "from retransmissions")] == [True, True]


@pytest.mark.parametrize("name", ["tfo_request_in_syn.pcap.gz", "tfo_request_after.pcap.gz"])
def test_throughput_is_the_same_wherever_the_request_is(warehouse, network, in_this_process, name):
    read(warehouse, network, name)
    [flow] = rows(warehouse, "from flows")
    assert flow["throughput"] == pytest.approx(2.909e6, rel=1e-3)


@pytest.mark.parametrize(("bits", "users"), [(None, 1), (128, 2)])
def test_two_addresses_of_a_mobile_are_one_user(warehouse, network, in_this_process, bits, users):
    """If each address were a user, each would seem to be alone, at half the link's rate."""
    subscribers = (Subscribers(prefix="2001:db8:64::/48", user=bits),)
    read(warehouse, network.model_copy(update={"subscribers": subscribers}), ONE_PHONE)
    flows = rows(warehouse, "from flows")
    assert len({flow["user"] for flow in flows}) == users
    assert [flow["single"] for flow in flows] == [users == 2] * 2
    assert max(flow["parallel"] for flow in flows) == 3 - users
    assert max(flow["user_throughput"] for flow in flows) == pytest.approx(9e6 / users, rel=0.2)


def test_every_reported_capture_has_an_expected_answer():
    found = {path.name for path in REPORTS.iterdir() if path.is_file()}
    assert found == {*EXPECTED, ONE_PHONE}
