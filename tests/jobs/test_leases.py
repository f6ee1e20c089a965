"""RADIUS accounting to leases, and an address's packets to the subscribers that had it."""

from datetime import UTC, datetime

import pytest
from conftest import DAY, NOON, ask
from scapy.layers.inet import IP, TCP, UDP

import spark_jobs.ingest.job as ingest_job
import spark_jobs.ingest.leases as leases_job
import spark_jobs.jobs.flows as flows_job
from spark_jobs.jobs import quality
from tests.helpers.accounting_messages import (
    ADDRESS,
    HOUR,
    ON,
    START,
    STOP,
    UPDATE,
    message,
    put,
    put_log,
)
from tests.helpers.capture_files import Frame, pcap
from tests.helpers.stale_days import stale_days
from tests.helpers.zeek_logs import site_log

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def network(plain_network):
    """Use a network with plain names: leases show the subscriber."""
    return plain_network


def leases(warehouse) -> list[tuple[str, float, float]]:
    """Return (subscriber, from, until) of each lease, in hours from noon."""

    def hours(time: datetime) -> float:
        return (time - datetime.fromtimestamp(NOON, UTC)).total_seconds() / HOUR

    found = ask(
        warehouse, "select subscriber, start_ts, end_ts from leases order by start_ts, subscriber"
    )
    return [(who, hours(start), hours(end)) for who, start, end in found.fetchall()]


def test_lease_lasts_from_start_to_stop(warehouse, network):
    put(warehouse, network, message(NOON, START, "a"), message(NOON + 2 * HOUR, STOP, "a"))
    assert leases(warehouse) == [("a", 0, 2)]


def test_delayed_message_counts_from_when_it_happened(warehouse, network):
    stop = message(NOON + 2 * HOUR, STOP, "a", delay="3600")
    put(warehouse, network, message(NOON, START, "a"), stop)
    assert leases(warehouse) == [("a", 0, 1)]


def test_start_is_inferred_from_a_single_stops_session_time(warehouse, network):
    put(warehouse, network, message(NOON, STOP, "a", session_time="7200"))
    assert leases(warehouse) == [("a", -2, 0)]


def test_lease_without_a_stop_ends_when_the_next_begins(warehouse, network):
    put(
        warehouse,
        network,
        message(NOON, START, "a"),
        message(NOON + HOUR, START, "b"),
        message(NOON + 2 * HOUR, STOP, "b"),
    )
    assert leases(warehouse) == [("a", 0, 1), ("b", 1, 2)]


def test_lease_without_stop_or_successor_ends_a_day_after_its_last_message(warehouse, network):
    put(warehouse, network, message(NOON, START, "a"), message(NOON + 6 * HOUR, UPDATE, "a"))
    assert leases(warehouse) == [("a", 0, 12), ("a", 12, 30)]


@pytest.mark.parametrize("pseudonyms", ["keyed", "none"])
def test_sessions_have_keys_that_match_across_midnight(warehouse, network, pseudonyms):
    """Two sessions of a subscriber at the same time, in periods of a day; one lacks an ID."""
    other = "10.64.0.77"
    keyed = {"pseudonyms": pseudonyms, "key_period": "day" if pseudonyms == "keyed" else None}
    night, ids = NOON + 11 * HOUR, ("00101-a-1", "00101-a-2")
    put(
        warehouse,
        network.model_copy(update=keyed),
        message(night, START, "00101-a", ids[0]),
        message(night, START, "00101-a", ids[1], address=other),
        message(night + 2 * HOUR, STOP, "00101-a", ids[0]),
        message(night + 3 * HOUR, STOP, "00101-a", ids[1], address=other),
        message(night, UPDATE, "b", address="10.64.0.78", session="-"),
    )
    assert sorted(end - 11 for _, _, end in leases(warehouse)) == [1, 1, 1, 2, 3, 24]
    found = ask(warehouse, "select session, subscriber, date from accounting").fetchall()
    sessions = {session for session, *_ in found if session}
    assert len(found) == 5
    if pseudonyms == "none":
        assert sessions == {*ids}
    else:
        assert len(sessions) == 4
        assert not any("00101" in text for row in found for text in row[:2] if text)


def test_restarted_access_server_ends_its_leases(warehouse, network):
    put(warehouse, network, message(NOON, START, "a"), message(NOON + HOUR, ON, ""))
    assert leases(warehouse) == [("a", 0, 1)]


def test_of_overlapping_leases_the_later_one_holds(warehouse, network):
    put(
        warehouse,
        network,
        message(NOON, START, "a"),
        message(NOON + HOUR, START, "b"),
        message(NOON + 2 * HOUR, STOP, "a"),
        message(NOON + 3 * HOUR, STOP, "b"),
    )
    assert leases(warehouse) == [("a", 0, 1), ("b", 1, 3)]


def test_lease_across_midnight_and_files_has_a_part_in_each_day(warehouse, network):
    put(warehouse, network, message(NOON, START, "a"), name="1.log")
    put(warehouse, network, message(NOON + 14 * HOUR, STOP, "a"), name="2.log")
    assert leases(warehouse) == [("a", 0, 12), ("a", 12, 14)]


def test_authentication_log_begins_leases(warehouse, network):
    rows = [
        {
            "ts": f"{NOON + i * HOUR}.0",
            "username": who,
            "framed_addr": ADDRESS,
            "result": result,
            "id.orig_h": "192.0.2.1",
        }
        for i, (who, result) in enumerate([("a", "success"), ("b", "failed"), ("c", "success")])
    ]
    result = put_log(warehouse, network, site_log("radius", rows), "radius.log")
    assert result.facts.skipped == {"other_status": 1}
    assert leases(warehouse)[0] == ("a", 0, 2)
    assert {who for who, *_ in leases(warehouse)} == {"a", "c"}


def test_messages_that_are_no_lease_are_counted(warehouse, network):
    result = put(
        warehouse,
        network,
        message(NOON, START, "a"),
        message(NOON, START, "b", address="-"),
        message(NOON, START, "c", address="192.0.2.9"),
        message(NOON, "9", "d"),
        message(NOON, "x", "e"),
    )
    assert result.facts.skipped == {
        "no_lease": 1,
        "not_subscriber": 1,
        "other_status": 1,
        "malformed_line": 1,
    }
    assert result.facts.rows == 1


def datagram(at_s: float) -> Frame:
    return Frame(
        bytes(IP(src="198.51.100.9", dst=ADDRESS) / UDP(sport=53, dport=53)), int(at_s * 1e6)
    )


def up(at_s: float, flags: str, seq: int, ack: int = 0, port: int = 1000) -> Frame:
    data = IP(src=ADDRESS, dst="198.51.100.1") / TCP(
        sport=port, dport=80, flags=flags, seq=seq, ack=ack
    )
    return Frame(bytes(data), int(at_s * 1e6))


def capture(warehouse, network, *frames: Frame) -> None:
    path = warehouse.root.parent / "a.pcap"
    path.write_bytes(pcap(sorted(frames, key=lambda frame: frame.ts)))
    assert ingest_job.ingest_capture(warehouse, network, path).error is None


def users(warehouse, network) -> list[str]:
    """Return the users of the day's flows, in the order of their starts."""
    flows_job.publish_flows(warehouse, [(network, DAY)])
    found = ask(warehouse, 'select "user" from flows order by start_ts, user_port')
    return [user for (user,) in found.fetchall()]


def test_without_leases_the_user_is_the_address(warehouse, network):
    capture(warehouse, network, up(NOON, "S", 1))
    assert users(warehouse, network) == [ADDRESS]


def test_address_given_to_another_subscriber_is_another_user(warehouse, network):
    """The same ports before and after: two connections, though the second has no SYN."""
    capture(warehouse, network, up(NOON, "S", 1), up(NOON + HOUR + 10, "A", 2))
    put(
        warehouse,
        network,
        message(NOON - HOUR, START, "a"),
        message(NOON + HOUR, STOP, "a"),
        message(NOON + HOUR + 5, START, "b"),
    )
    assert users(warehouse, network) == ["a", "b"]


def test_traffic_of_the_previous_lease_is_no_background_traffic(warehouse, network):
    frames = [datagram(NOON - 2), up(NOON, "S", 1)]
    frames.append(
        Frame(
            bytes(
                IP(src="198.51.100.1", dst=ADDRESS)
                / TCP(sport=80, dport=1000, flags="SA", seq=9, ack=2)
            ),
            int((NOON + 0.1) * 1e6),
        )
    )
    capture(warehouse, network, *frames, up(NOON + 1, "A", 2, 10))
    flows_job.publish_flows(warehouse, [(network, DAY)])
    background = "select setup_background from flows"
    assert ask(warehouse, background).fetchall() == [(True,)]
    put(warehouse, network, message(NOON - HOUR, START, "a"), message(NOON - 1.5, START, "b"))
    flows_job.publish_flows(warehouse, [(network, DAY)])
    assert ask(warehouse, background).fetchall() == [(False,)]


def test_packets_just_before_a_leases_first_message_belong_to_it(warehouse, network):
    capture(warehouse, network, up(NOON - 0.5, "S", 1), up(NOON - 5, "S", 1, port=1001))
    put(warehouse, network, message(NOON, START, "a"))
    assert users(warehouse, network) == [ADDRESS, "a"]


def test_packets_long_after_a_lease_have_the_address_as_user(warehouse, network):
    capture(warehouse, network, up(NOON + 30, "S", 1), up(NOON + HOUR, "S", 1, port=1001))
    put(warehouse, network, message(NOON - HOUR, START, "a"), message(NOON, STOP, "a"))
    assert users(warehouse, network) == ["a", ADDRESS]


def test_late_lease_makes_the_day_stale_and_only_its_days(warehouse, network):
    capture(warehouse, network, up(NOON, "S", 1))
    assert users(warehouse, network) == [ADDRESS]
    assert (network, DAY) not in stale_days(warehouse, [network])
    far = message(NOON + 5 * 24 * HOUR, STOP, "b", session_time="60")
    put(warehouse, network, far, name="far.log")
    assert (network, DAY) not in stale_days(warehouse, [network])
    put(warehouse, network, message(NOON + HOUR, STOP, "a", session_time="7200"), name="late.log")
    assert (network, DAY) in stale_days(warehouse, [network])
    assert users(warehouse, network) == ["a"]


def test_subscriber_with_two_addresses_is_one_user(warehouse, network):
    other = "10.64.0.77"
    frame = Frame(
        bytes(IP(src=other, dst="198.51.100.1") / TCP(sport=1000, dport=80, flags="S", seq=1)),
        int((NOON + 1) * 1e6),
    )
    capture(warehouse, network, up(NOON, "S", 1), frame)
    put(
        warehouse,
        network,
        message(NOON - 60, START, "a", "s1"),
        message(NOON - 60, START, "a", "s2", address=other),
    )
    assert users(warehouse, network) == ["a", "a"]


def test_a_day_whose_leases_fail_is_held_until_they_are_made(warehouse, network, monkeypatch):
    """Its packets may belong to other subscribers than those of the last leases."""

    def fail(paths, names):
        raise ValueError(f"no lease of {ADDRESS}")

    with monkeypatch.context() as patch:
        patch.setattr(leases_job, "_day_leases", fail)
        put(warehouse, network, message(NOON, START, "a"), message(NOON + HOUR, STOP, "a"))
        verdicts = {verdict.date: verdict for verdict in quality.check(warehouse, [network], DAY)}
    [finding] = verdicts[DAY].findings
    assert finding.startswith("withheld: leases: ValueError: no lease of (spark_jobs/")
    assert leases(warehouse) == []
    leases_job.update_leases(warehouse, [network])
    assert leases(warehouse) == [("a", 0, 1)]
    [verdict] = [v for v in quality.check(warehouse, [network], DAY) if v.date == DAY]
    assert not any("withheld" in finding for finding in verdict.findings)
