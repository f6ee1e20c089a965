"""Marts: their counts and sums are those of the flows."""

import shutil
from bisect import bisect
from collections import Counter
from datetime import UTC, datetime, timedelta
from math import isqrt
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from conftest import DAY, NOON
from made_up import flow, publish

from schemas import (
    CHANNEL_RATES,
    FLOWS,
    LINKS,
    RETRANSMISSIONS,
    RTO_VALUES,
    SKIP_REASONS,
    STALLS,
    Table,
)
from schemas.flows import LIMITS
from spark_jobs.capture.decode import COUNTED_REASONS
from spark_jobs.figures import FOLDER
from spark_jobs.figures.mart_sql import SHARED_VIEWS, SHARED_VIEWS_FOLDER
from spark_jobs.figures.tables import MARTS
from spark_jobs.jobs.ingest import publish_network
from spark_jobs.jobs.marts import _batches, update_marts
from spark_jobs.warehouse import Warehouse


def rows(demo, query: str) -> list[tuple]:
    return demo.warehouse.connect().execute(query).fetchall()


def test_every_mart_has_its_sql_and_every_sql_its_mart():
    assert {path.parent.name for path in FOLDER.glob("*/mart.sql")} == {t.name for t in MARTS}
    assert {path.stem for path in SHARED_VIEWS_FOLDER.glob("*.sql")} == {*SHARED_VIEWS}


def test_every_counted_reason_is_documented():
    assert set(COUNTED_REASONS) <= set(SKIP_REASONS)


def test_table1_counts_the_connections_that_mobiles_opened(demo):
    query = """
        select network, sum(flows), sum(sack), sum(timestamps), sum(mss_low), sum(window_high)
        from table1_summary group by network order by network
    """
    expected = """
        select network, count(*), count(*) filter (sack), count(*) filter (timestamps),
            count(*) filter (max_ip_len between 400 and 600), count(*) filter (max_window > 20000)
        from flows where initiator = 'mobile' group by network order by network
    """
    assert rows(demo, query) == rows(demo, expected)


def test_periods_are_local_hours(demo):
    """Budapest is an hour ahead of UTC in March: 4:30, 10:30, 10:15, 10:40 UTC."""
    query = "select distinct network, hour, period from table1_summary order by all"
    assert rows(demo, query) == [
        ("aa-gprs", 5, "off_peak"),
        ("aa-gprs", 11, "peak"),
        ("bb-gprs", 11, "peak"),
        ("cc-dialup", 11, "peak"),
    ]


def test_fig03_histogram_holds_every_delay(demo):
    query = """
        select network, single, background, sum(flows), round(sum(delay_sum), 3)
        from fig03_setup_delay group by all order by all
    """
    expected = """
        select network, syn_count = 1 and synack_count = 1, setup_background, count(*),
            round(sum(setup_delay), 3)
        from flows where setup_delay is not null and initiator = 'mobile'
        group by all order by all
    """
    assert rows(demo, query) == rows(demo, expected)
    ((outside,),) = rows(
        demo,
        """
        select count(*) from fig03_setup_delay
        where delay_sum / flows < bin - 1e-9 or delay_sum / flows >= bin + 0.1 + 1e-9
    """,
    )
    assert outside == 0


def test_fig04_histogram_holds_every_rtt_sample(demo):
    query = """
        select network, period, sum(flows) filter (side = 'access'),
            sum(flows) filter (side = 'internet')
        from fig04_round_trip_time group by all order by all
    """
    expected = """
        select network,
            case when start_ts < '2004-03-02 09:00:00+00' then 'off_peak' else 'peak' end as period,
            count(rtt_access), count(rtt_internet)
        from flows where initiator = 'mobile' group by all order by all
    """
    assert rows(demo, query) == rows(demo, expected)


def test_fig05_leaves_add_up_to_the_tree(demo):
    query = "select network, sum(flows) from fig05_setup_tree group by all order by all"
    expected = """
        select network, count(*) from flows
        where setup_class is not null and initiator = 'mobile' group by all order by all
    """
    assert rows(demo, query) == rows(demo, expected)


def test_table2_counts_the_rows_of_losses(demo):
    query = """
        select network, round(sum(lost_access), 6)
        from table2_loss group by all order by all
    """
    expected = """
        select network, round(sum(probability) filter (side = 'access'), 6)
        from losses join flows using (network, date, flow_id)
        where initiator = 'mobile' and lost_access is not null and data_packets_down > 0
        group by all order by all
    """
    assert rows(demo, query) == rows(demo, expected)


def test_table2_has_the_expected_losses_of_the_internet_side(demo):
    query = (
        "select network, round(sum(lost_internet), 6) from table2_loss group by all order by all"
    )
    expected = """
        select network, round(sum(lost_internet_expected), 6) from flows
        where initiator = 'mobile' and lost_access is not null and data_packets_down > 0
        group by all order by all
    """
    assert rows(demo, query) == rows(demo, expected)


def test_fig07_holds_the_time_of_every_period(demo):
    query = "select network, round(sum(seconds), 3), sum(ip_bytes) from fig07_channel_rate"
    expected = """
        select network, round(sum(epoch(end_ts) - epoch(start_ts)), 3), sum(ip_bytes)
        from channel_rates
    """
    both = [rows(demo, f"{sql} group by all order by all") for sql in (query, expected)]
    assert both[0] == both[1]


def test_fig08_counts_each_side(demo):
    query = "select network, bottleneck, sum(flows) from fig08_bottleneck group by all order by all"
    expected = """
        select network, bottleneck, count(*) from flows
        where initiator = 'mobile' and bottleneck is not null group by all order by all
    """
    assert rows(demo, query) == rows(demo, expected)


def test_fig09_holds_every_single_transfer(demo):
    for counted, rate in (("passed", "throughput"), ("arrived", "throughput_received")):
        query = f"""
            select network, sum(flows), round(sum(throughput_sum))
            from fig09_throughput where counted = '{counted}' group by all order by all
        """
        expected = f"""
            select network, count(*), round(sum({rate})) from flows
            where initiator = 'mobile' and throughput > 0 group by all order by all
        """
        assert rows(demo, query) == rows(demo, expected)


def test_fig11_and_fig13_hold_every_large_transfer(demo):
    expected = """
        select network, count(*) from flows
        where initiator = 'mobile' and user_throughput is not null and b_tcp + b_other > 0
        group by all order by all
    """
    for mart in (
        "fig11_tcp_share",
        "fig13_user_throughput where counted = 'passed'",
        "fig13_user_throughput where counted = 'arrived'",
    ):
        query = f"select network, sum(flows) from {mart} group by all order by all"
        assert rows(demo, query) == rows(demo, expected)


def test_table3_means_are_the_flows(demo):
    query = """
        select network, mss_class, window_class, sack, timestamps, sum(flows),
            round(sum(goodput_sum) / sum(flows), 3)
        from table3_clusters group by all order by all
    """
    expected = """
        select network, mss_class, window_class, sack, timestamps, count(*), round(avg(goodput), 3)
        from flows
        where initiator = 'mobile' and single and request_response and goodput > 0
            and payload_bytes_down > 32768
        group by all order by all
    """
    assert rows(demo, query) == rows(demo, expected)


def test_marts_are_made_once(demo):
    update_marts(demo.warehouse)
    assert update_marts(demo.warehouse) == []


def test_sql_files_say_what_a_row_is():
    for path in (*FOLDER.glob("*/mart.sql"), *SHARED_VIEWS_FOLDER.glob("*.sql")):
        head = Path(path).read_text().split("select")[0]
        assert "-- One row:" in head, path


def edge(n: int | None) -> int | None:
    """Return the lower edge of the bin: 1, 2, 3-4, 5-8, 9-16, ..."""
    if n is None:
        return None
    low, high = 1, 1
    while n > high:
        low, high = high + 1, 2 * high
    return low


def test_rtt_by_flight_holds_every_rtt_sample_of_the_access_side(demo):
    query = """
        select network, hour, delayed, sum(rtt_samples), round(sum(rtt_sum), 3),
            sum(queueing_samples), round(sum(queueing_sum), 3)
        from rtt_by_flight group by all order by all
    """
    expected = """
        select network, hour(ts) + 1, delayed, count(*), round(sum(rtt), 3), count(*),
            round(sum(rtt - rtt_min), 3)
        from rtt_samples
        join flows using (network, date, flow_id)
        join links on (links.network, links.date, links.user, links.hour)
            = (flows.network, flows.date, flows.user, date_trunc('hour', ts))
        where side = 'access' group by all order by all
    """
    assert rows(demo, query) == rows(demo, expected)


def test_rtt_by_flight_has_the_bytes_in_flight_in_half_powers_of_two(demo):
    query = "select flight, sum(rtt_samples) from rtt_by_flight group by all order by all"
    sizes = rows(demo, "select flight from rtt_samples where side = 'access'")
    edges = sorted({isqrt(2**k) for k in range(60)})
    expected = Counter(edges[bisect(edges, size) - 1] for (size,) in sizes)
    assert rows(demo, query) == sorted(expected.items())


def test_medians_of_rtt_by_flight_are_right_to_a_few_percent(demo):
    query = """
        with bins as (
            select network, flight, bin, sum(rtt_samples) as here
            from rtt_by_flight group by all
        ), running as (
            select
                *,
                sum(here) over (partition by network, flight order by bin) - here as below,
                sum(here) over (partition by network, flight) as n
            from bins
        )
        select network, flight, exp((bin + (n / 2 - below) / here) / 10)
        from running where n >= 200 and below < n / 2 and below + here >= n / 2
        order by network, flight
    """
    truth = """
        select network, flight, median(rtt)
        from (
            select rtt_samples.* replace (
                (select max(flight) from rtt_by_flight where flight <= rtt_samples.flight)
                as flight
            )
            from rtt_samples where side = 'access'
        )
        group by all having count(*) >= 200 order by network, flight
    """
    found, expected = rows(demo, query), rows(demo, truth)
    assert len(expected) > 20
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert [row[2] for row in found] == pytest.approx([row[2] for row in expected], rel=0.05)


def test_stalls_by_class_holds_every_stall(demo):
    query = """
        select network, class, sum(stalls), round(sum(seconds), 3), sum(lost_stalls), sum(lost),
            sum(rto_stalls)
        from stalls_by_class group by all order by all
    """
    expected = """
        select network, class, count(*), round(sum(epoch(end_ts) - epoch(start_ts)), 3),
            count(lost), sum(lost), count(*) filter (slow_start)
        from stalls group by all order by all
    """
    assert rows(demo, query) == rows(demo, expected)
    ((outside,),) = rows(
        demo,
        """
        select count(*) from stalls_by_class
        where seconds / stalls not between bin - 0.001 and greatest(bin * sqrt(2), 0.1) + 0.001
    """,
    )
    assert outside == 0


def test_users_at_once_counts_the_users_who_stall_during_a_stall(demo):
    query = """
        select network, class, users_at_once, sum(stalls)
        from stalls_by_class where users_at_once is not null group by all
    """
    stalls = rows(
        demo,
        """
        select stalls.network, class, user, stalls.start_ts, stalls.end_ts
        from stalls join flows using (network, date, flow_id)
        where class not in ('data_unavailable', 'client_idle', 'zero_window')
    """,
    )
    expected = Counter()
    for network, kind, _, start, end in stalls:
        users = {
            user for at, _, user, begun, ended in stalls
            if at == network and begun < end and start < ended
        }  # fmt: skip
        expected[network, kind, edge(len(users))] += 1
    assert {row[:3]: row[3] for row in rows(demo, query)} == expected


def test_a_user_with_two_stalls_at_once_counts_once(warehouse, demo, network):
    """Five users. b stalls twice while a does, on two connections at once; c begins as a ends; d
    has nothing from its server; e and a's last stall meet across a slot."""
    noon = datetime.fromtimestamp(NOON, UTC)

    def stall(user: str, start: float, end: float, kind: str = "packet_delay") -> dict:
        return dict.fromkeys(STALLS.arrow.names) | {
            "flow_id": "abcde".index(user) if start != 4 else 9,
            "start_ts": noon + timedelta(seconds=start),
            "end_ts": noon + timedelta(seconds=end),
            "class": kind,
            "ended_by": "mobile",
            "segments": 1,
            "slow_start": user == "c",
        }

    users = dict(enumerate("abcde")) | {9: "b"}
    tables = {
        FLOWS: [flow(demo, flow_id=flow_id, user=user) for flow_id, user in users.items()],
        STALLS: [
            stall("a", 0, 10),
            stall("b", 2, 5),
            stall("b", 4, 6),
            stall("b", 7, 8),
            stall("c", 10, 11.5, "small_window"),
            stall("d", 0, 60, "data_unavailable"),
            stall("e", 19, 35, "continuous_loss"),
            stall("a", 34, 34.05),
        ],
    }
    publish_network(warehouse, network)
    publish(warehouse, network.name, DAY, tables)
    update_marts(warehouse)
    query = """
        select class, hour, bin, users_at_once, stalls, round(seconds, 3), lost_stalls, lost,
            rto_stalls
        from stalls_by_class order by all
    """
    assert warehouse.connect().sql(query).fetchall() == [
        ("continuous_loss", 13, 12.8, 2, 1, 16, 0, 0, 0),
        ("data_unavailable", 13, 51.2, None, 1, 60, 0, 0, 0),
        ("packet_delay", 13, 0, 2, 1, 0.05, 0, 0, 0),
        ("packet_delay", 13, 0.8, 2, 1, 1, 0, 0, 0),
        ("packet_delay", 13, 1.6, 2, 1, 2, 0, 0, 0),
        ("packet_delay", 13, 2.263, 2, 1, 3, 0, 0, 0),
        ("packet_delay", 13, 9.051, 2, 1, 10, 0, 0, 0),
        ("small_window", 13, 1.131, 1, 1, 1.5, 0, 0, 1),
    ]


def at(seconds: float) -> datetime:
    """Return the time so many seconds after noon, which is 13 h in Budapest."""
    return datetime.fromtimestamp(NOON, UTC) + timedelta(seconds=seconds)


def row_of(table: Table, **values: object) -> dict:
    """Return a row, null where no value is given."""
    return dict.fromkeys(table.arrow.names) | values


@pytest.fixture
def of_a_day(warehouse, demo, network):
    """Return a function that publishes a day of made-up tables and its marts, and queries them."""

    def ask(tables: dict[Table, list[dict]], query: str) -> list[tuple]:
        publish_network(warehouse, network)
        publish(warehouse, network.name, DAY, tables)
        update_marts(warehouse)
        return warehouse.connect().sql(query).fetchall()

    return ask


def test_retransmissions_by_cause_holds_every_retransmission_of_known_connections(demo):
    causes = ("fast", "rto", "slow_start", "tlp", "synack")
    query = f"""
        select network, sack, timestamps, sum(flows), sum(data_packets),
            {", ".join(f"sum({cause})" for cause in causes)}, sum(unknown),
            sum(fast_spurious + rto_spurious + slow_start_spurious + tlp_spurious
                + unknown_spurious),
            sum(new_data_probes), sum(rto_expiries), sum(spurious_rto_expiries),
            sum(frto_rto_expiries)
        from retransmissions_by_cause group by all order by all
    """
    per_cause = ", ".join(
        f"count(*) filter (cause = '{cause}' and not new_data)" for cause in causes
    )
    expected = f"""
        with known as (
            select * from flows where initiator = 'mobile' and retransmissions is not null
        ),
        totals as (
            select network, sack, timestamps, count(*), sum(data_packets_down),
                sum(rto_expiries) as t
            from known group by all
        ),
        again as (
            select network, sack, timestamps, {per_cause}, count(*) filter (cause is null),
                count(*) filter (not needed), count(*) filter (new_data) as probes,
                count(spurious_by) as spurious, count(*) filter (spurious_rto) as frto
            from retransmissions join known using (network, date, flow_id) group by all
        )
        select totals.* exclude (t), again.* exclude (network, sack, timestamps, probes, spurious,
            frto), probes, t, spurious, frto
        from totals join again using (network, sack, timestamps) order by all
    """
    assert len(rows(demo, query)) == 12
    assert rows(demo, query) == rows(demo, expected)


def test_retransmissions_by_cause_separates_needed_from_spurious(demo, of_a_day):
    """Two connections with SACK, and one whose server's retransmissions are unknown."""

    def again(flow_id: int, cause: str | None, **values: object) -> dict:
        row = row_of(RETRANSMISSIONS, flow_id=flow_id, cause=cause, capture="c.pcap")
        return row | {"frame": 1, "ts": at(1), "new_data": False} | values

    options = {"user": "a", "sack": True, "timestamps": False}
    tables = {
        FLOWS: [
            flow(
                demo, flow_id=1, data_packets_down=10, retransmissions=4, rto_expiries=2, **options
            ),
            flow(
                demo, flow_id=2, data_packets_down=30, retransmissions=0, rto_expiries=0, **options
            ),
            flow(
                demo,
                flow_id=3,
                data_packets_down=50,
                retransmissions=None,
                rto_expiries=None,
                **options,
            ),
        ],
        RETRANSMISSIONS: [
            again(1, "rto", needed=False, spurious_rto=True, spurious_by="frto+dsack"),
            again(1, "rto", needed=True, spurious_rto=False),
            again(1, "slow_start", needed=False),
            again(1, "fast", needed=True),
            again(1, "fast"),
            again(1, "tlp", new_data=True),
            again(1, "synack"),
            again(1, None, needed=False),
            again(3, "fast", needed=False),
        ],
    }
    query = """
        select sack, timestamps, flows, data_packets, rto, rto_spurious, slow_start,
            slow_start_spurious, fast, fast_spurious, fast_undecided, tlp, synack,
            unknown, unknown_spurious, unknown_undecided,
            new_data_probes, rto_expiries, spurious_rto_expiries, frto_rto_expiries
        from retransmissions_by_cause
    """
    assert of_a_day(tables, query) == [
        (True, False, 2, 40, 2, 1, 1, 1, 2, 0, 1, 0, 1, 1, 1, 0, 1, 2, 1, 1),
    ]


def test_rto_by_options_holds_every_rto_value(demo):
    query = """
        select network, sack, timestamps, backed_off, sum(changes)
        from rto_by_options where measure = 'rto' group by all order by all
    """
    expected = """
        select network, sack, timestamps, backed_off, count(*)
        from rto_values join flows using (network, date, flow_id) group by all order by all
    """
    assert len(rows(demo, query)) == 24
    assert rows(demo, query) == rows(demo, expected)
    ratios = """
        select network, sum(changes), round(sum(seconds), 3)
        from rto_by_options where measure = 'rto_by_rtt' group by all order by all
    """
    expected = """
        select rto_values.network, count(*), round(sum(duration), 3)
        from rto_values join flows using (network, date, flow_id)
        where rtt + rtt_internet_min > 0 group by all order by all
    """
    assert rows(demo, ratios) == rows(demo, expected)
    ((outside,),) = rows(
        demo,
        """
        select count(*) from rto_by_options
        where seconds > 0 and weighted_sum / seconds
            not between exp(bin / 10) - 1e-6 and exp((bin + 1) / 10) + 1e-6
    """,
    )
    assert outside == 0


def test_rto_by_options_has_each_rto_by_the_rtt_before_it(demo, of_a_day):
    """4 s for 10 s while the RTT is 0.9 + 0.1 s; 8 s, backed off, for 5 s while it is 3.9 + 0.1 s;
    then 3 s to the end. Before the first RTT sample no ratio."""
    rto_value = row_of(RTO_VALUES, flow_id=1, rule="linux", backed_off=False)
    usual = flow(demo, flow_id=1, rtt_internet_min=0.1, sack=False, timestamps=True)
    tables = {
        FLOWS: [usual | {"start_ts": at(-2), "end_ts": at(20)}],
        RTO_VALUES: [
            rto_value | {"ts": at(-1), "rto": 1.0, "duration": 1.0},
            rto_value | {"ts": at(0), "rto": 4.0, "duration": 10.0, "rtt": 0.9},
            rto_value | {"ts": at(10), "rto": 8.0, "duration": 5.0, "rtt": 3.9, "backed_off": True},
            rto_value | {"ts": at(15), "rto": 3.0, "duration": 5.0, "rtt": 3.9},
        ],
    }
    query = """
        select measure, sack, timestamps, backed_off, hour, bin, changes, seconds, weighted_sum
        from rto_by_options order by measure, bin
    """
    assert of_a_day(tables, query) == [
        ("rto", False, True, False, 12, 0, 1, 1, 1),
        ("rto", False, True, False, 13, 10, 1, 5, 15),
        ("rto", False, True, False, 13, 13, 1, 10, 40),
        ("rto", False, True, True, 13, 20, 1, 5, 40),
        ("rto_by_rtt", False, True, False, 13, -3, 1, 5, 3.75),
        ("rto_by_rtt", False, True, True, 13, 6, 1, 5, 10),
        ("rto_by_rtt", False, True, False, 13, 13, 1, 10, 40),
    ]


def test_recovery_by_restart_holds_every_stall_with_data_in_flight(demo):
    query = """
        select network, interruption, ended_by, slow_start, sum(stalls),
            coalesce(sum(stalls) filter (bin is not null), 0), round(sum(seconds), 3),
            round(sum(recovery_sum), 3), sum(segments), sum(lost)
        from recovery_by_restart group by all order by all
    """
    expected = """
        select network, interruption, ended_by, slow_start, count(*), count(recovery),
            round(sum(epoch(end_ts) - epoch(start_ts)), 3), round(coalesce(sum(recovery), 0), 3),
            sum(segments), coalesce(sum(lost), 0)
        from stalls where segments > 0 group by all order by all
    """
    assert len(rows(demo, query)) >= 8
    assert rows(demo, query) == rows(demo, expected)


def test_recovery_by_restart_has_the_time_of_recovery_in_bins(demo, of_a_day):
    """Two flushes that took 20 and 21 s to recover from; one that was never recovered from; a
    silence with nothing in flight."""
    stall = row_of(STALLS, flow_id=1, interruption="flush", ended_by="server", segments=12)
    stall |= {"start_ts": at(0), "end_ts": at(8), "slow_start": True, "class": "continuous_loss"}
    tables = {
        FLOWS: [flow(demo, flow_id=1)],
        STALLS: [
            stall | {"recovery": 20.5, "lost": 9},
            stall | {"recovery": 21.5, "lost": 8},
            stall | {"recovery": None, "lost": None},
            stall | {"segments": 0, "recovery": 8.0},
        ],
    }
    query = """
        select hour, interruption, ended_by, slow_start, bin, stalls, seconds, recovery_sum,
            segments, lost
        from recovery_by_restart order by bin
    """
    assert of_a_day(tables, query) == [
        (13, "flush", "server", True, 30, 2, 16, 42, 24, 17),
        (13, "flush", "server", True, None, 1, 8, 0, 12, 0),
    ]


def test_largest_rtt_by_user_counts_a_user_in_each_hour(demo, of_a_day):
    """Two users in the hour from 13 h, one of them in the next; of a third nothing is known."""
    link = row_of(LINKS, hour=at(0), rtt_samples=9)
    tables = {
        FLOWS: [flow(demo)],
        LINKS: [
            link | {"user": "a", "rtt_min": 0.5, "rtt_max": 10.5, "queue_s": 12.5},
            link | {"user": "b", "rtt_min": 0.7, "rtt_max": 10.7},
            link | {"user": "c"},
            link | {"user": "a", "rtt_min": 0.5, "rtt_max": 1.0, "hour": at(3600)},
        ],
    }
    query = """
        select hour, bin, queue_bin, links, rtt_max_sum, rtt_min_sum, queue_sum,
            bit_count(user_groups)
        from largest_rtt_by_user order by all
    """
    assert of_a_day(tables, query) == [
        (13, 23, 25, 1, 10.5, 0.5, 12.5, 1),
        (13, 23, None, 1, 10.7, 0.7, 0, 1),
        (14, 0, None, 1, 1.0, 0.5, 0, 1),
    ]
    period = "select period, samples from distributions where measure = 'rtt_max' order by all"
    assert sum(samples for _, samples in of_a_day(tables, period)) == 3


def test_limits_by_window_holds_every_connection_of_known_limits(demo):
    limits = [f"limited_{limit}" for limit in LIMITS]
    held_up = ", ".join(f"round(sum({limit}), 3)" for limit in limits)
    query = f"""
        select network, sum(flows), {held_up},
            {", ".join(f"sum(flows_{limit})" for limit in LIMITS)},
            sum(throughput_flows), round(sum(throughput_sum)),
            sum(user_throughput_flows), round(sum(user_throughput_sum)), sum(ip_bytes_down)
        from limits_by_window group by all order by all
    """
    by = ", ".join(f"count(*) filter (limited_by = '{limit}')" for limit in LIMITS)
    expected = f"""
        select network, count(*), {held_up}, {by},
            count(throughput), round(sum(throughput)),
            count(user_throughput), round(sum(user_throughput)), sum(ip_bytes_down)
        from flows where initiator = 'mobile' and limited_server is not null
        group by all order by all
    """
    assert rows(demo, query) == rows(demo, expected)


def test_limits_by_window_are_by_mss_window_and_parallel_connections(demo):
    query = "select network, mss, window_segments, parallel, sum(flows) from limits_by_window"
    expected = Counter()
    for name, length, server, payload, window, parallel in rows(
        demo,
        """
        select network, max_ip_len, server, payload_bytes_down, max_window, parallel
        from flows where initiator = 'mobile' and limited_server is not null
    """,
    ):
        mss = segments = None
        if payload > length:
            mss = length - (60 if ":" in server else 40)
            if window is not None:
                count = (2 * window + mss) // (2 * mss)
                segments = count and 1 << (count.bit_length() - 1)
        expected[name, mss and mss // 100 * 100, segments, edge(parallel)] += 1
    found = {row[:4]: row[4] for row in rows(demo, f"{query} group by all")}
    assert found == expected


def test_mss_of_limits_by_window_is_what_the_syns_agreed_on(demo):
    query = """
        select network, mss, sum(flows) from limits_by_window where mss is not null group by all
    """
    agreed = """
        with options as (
            select network, user, user_port, server, min(mss) // 100 * 100 as agreed
            from packets where mss is not null group by all
        )
        select network, agreed, count(*)
        from flows join options using (network, user, user_port, server)
        where initiator = 'mobile' and limited_server is not null
            and payload_bytes_down > max_ip_len
        group by all
    """
    found, expected = (Counter({row[:2]: row[2] for row in rows(demo, q)}) for q in (query, agreed))
    assert (found - expected).total() + (expected - found).total() < 0.02 * expected.total()


def parquet(demo, table: Table, columns: list[str]) -> pd.DataFrame:
    """Return a table's rows, read from its files."""
    return pd.concat(
        pd.read_parquet(path, columns=columns, partitioning=None).assign(
            network=path.parent.parent.name.removeprefix("network=")
        )
        for path in demo.warehouse.files(table)
    )


MARTS_WITH_USERS = [
    mart.name
    for mart in MARTS
    if {"user_group", "user_groups"} & set(mart.arrow.names)
    and not {"category", "rate_bin"} & set(mart.arrow.names)
]


@pytest.mark.parametrize("mart", MARTS_WITH_USERS)
def test_user_groups_are_at_most_the_users_and_hardly_fewer(demo, mart):
    """48 users are in about 34 of 64 user groups; at other times fewer users are there."""
    [columns] = [table.arrow.names for table in MARTS if table.name == mart]
    groups = (
        "count(distinct user_group)"
        if "user_group" in columns
        else "bit_count(bit_or(user_groups))"
    )
    for _, count in rows(demo, f"select network, {groups} from {mart} group by network"):
        assert 20 <= count <= 48


def test_distributions_hold_every_sample_and_its_value(demo):
    names = ["setup_delay", "rtt_access", "rtt_internet", "throughput", "throughput_received",
             "user_throughput", "user_throughput_received"]  # fmt: skip
    flows = parquet(demo, FLOWS, ["initiator", *names])
    flows = flows[flows["initiator"] == "mobile"]
    periods = parquet(demo, CHANNEL_RATES, ["start_ts", "end_ts", "rate"])
    found = {
        row[:2]: row[2:]
        for row in rows(
            demo,
            """
        select network, measure, sum(samples), sum(weight), sum(weighted_sum)
        from distributions group by all
    """,
        )
    }
    for network, mine in flows.groupby("network"):
        for name in names:
            values = mine[name].dropna()
            expected = (len(values), len(values), values.sum())
            assert found[network, name] == pytest.approx(expected), name
    for network, mine in periods.groupby("network"):
        seconds = (mine["end_ts"] - mine["start_ts"]).dt.total_seconds()
        expected = (len(mine), seconds.sum(), (seconds * mine["rate"]).sum())
        assert found[network, "channel_rate"] == pytest.approx(expected)


def test_distributions_bins_are_of_two_percent(demo):
    ((outside,),) = rows(
        demo,
        """
        select count(*) from distributions
        where weighted_sum / weight < exp(bin / 50.0) * (1 - 1e-9)
            or weighted_sum / weight > exp((bin + 1) / 50.0) * (1 + 1e-9)
    """,
    )
    assert outside == 0


def test_rated_transfers_are_those_with_a_period(demo):
    flows = parquet(demo, FLOWS, ["flow_id", "initiator", "payload_bytes_down", "ip_bytes_down"])
    flows = flows[(flows["initiator"] == "mobile") & (flows["payload_bytes_down"] > 102400)]
    rated = flows["flow_id"].isin(set(parquet(demo, CHANNEL_RATES, ["flow_id"])["flow_id"]))
    found = rows(
        demo,
        """
        select network, sum(flows), sum(flows_with_rate), sum(ip_bytes), sum(ip_bytes_with_rate)
        from channel_rate_coverage group by all
    """,
    )
    for network, *counted in found:
        mine = flows["network"] == network
        bytes_down = flows["ip_bytes_down"]
        assert counted == [
            mine.sum(),
            (mine & rated).sum(),
            bytes_down[mine].sum(),
            bytes_down[mine & rated].sum(),
        ]


def test_fig05_shows_who_ended_a_set_up(demo):
    query = """
        select network, setup_class, reset_by, sum(flows) from fig05_setup_tree
        where setup_class in ('refused', 'serious_problem') group by all
    """
    flows = parquet(demo, FLOWS, ["initiator", "setup_class", "setup_reset", "reset_by"])
    flows = flows[flows["initiator"] == "mobile"]
    ended = (flows["setup_class"] == "refused") | (flows["setup_reset"] == True)  # noqa: E712
    reset_by = flows["reset_by"].astype(object).where(ended & flows["reset_by"].notna(), None)
    wanted = flows["setup_class"].isin(["refused", "serious_problem"])
    columns = zip(flows["network"], flows["setup_class"], reset_by, strict=True)
    expected = Counter(row for row, keep in zip(columns, wanted, strict=True) if keep)
    assert {row[:3]: row[3] for row in rows(demo, query)} == expected


def batches(warehouse: Warehouse, days: list, workers: int = 1) -> list[list]:
    return [batch.days for batch in _batches(warehouse, days, workers)]


def test_days_are_made_together_as_far_as_they_fit(demo, monkeypatch):
    days = demo.warehouse.days("day")
    assert len(days) == 3
    assert batches(demo.warehouse, days) == [days]
    monkeypatch.setattr("spark_jobs.jobs.marts.MAX_BATCH_BYTES", 1)
    assert batches(demo.warehouse, days) == [[day] for day in days]
    assert batches(demo.warehouse, []) == []


def test_tasks_share_the_days_evenly(demo, monkeypatch):
    first, second, third = days = demo.warehouse.days("day")
    assert batches(demo.warehouse, days, 2) == [[first, second], [third]]
    assert batches(demo.warehouse, days, 8) == [[first], [second], [third]]
    monkeypatch.setattr("spark_jobs.jobs.marts.MAX_BATCH_DAYS", 2)
    assert batches(demo.warehouse, days, 1) == [[first, second], [third]]


def test_marts_have_the_same_bytes_for_any_number_of_tasks(demo, tmp_path, monkeypatch):
    shutil.copytree(demo.warehouse.root, tmp_path / "w")
    warehouse = Warehouse(tmp_path / "w")
    days = warehouse.days("day")

    def contents() -> list:
        return [warehouse.content_hashes(table, *day) for table in MARTS for day in days]

    before = contents()
    for tasks in (1, 3):
        monkeypatch.setattr("spark_jobs.jobs.marts.SQL_AND_GROUPS", [f"as {tasks} make them"])
        monkeypatch.setattr("spark_jobs.jobs.marts.parallel_tasks", lambda n=tasks: n)
        assert update_marts(warehouse) == days
        assert contents() == before


def test_a_failed_batch_leaves_the_others_whole(demo, tmp_path, monkeypatch):
    """A day's file is broken: it keeps the marts it had, and the next run makes them."""
    shutil.copytree(demo.warehouse.root, tmp_path / "w")
    warehouse = Warehouse(tmp_path / "w")
    days = warehouse.days("day")
    monkeypatch.setattr("spark_jobs.jobs.marts.parallel_tasks", lambda: 3)
    monkeypatch.setattr("spark_jobs.jobs.marts.SQL_AND_GROUPS", ["again"])
    [broken] = warehouse.files(RTO_VALUES, *days[0])
    kept = broken.read_bytes()
    broken.write_bytes(b"PAR1")
    with pytest.raises(duckdb.Error):
        update_marts(warehouse)
    broken.write_bytes(kept)
    assert days[0] in update_marts(warehouse)
    assert update_marts(warehouse) == []


def test_examples_are_the_connections_limited_the_longest(demo):
    query = "select network, hour, cause, held_up from examples where kind = '{}' order by all"
    expected = """
        select network, hour(timezone('Europe/Budapest', start_ts)), limited_by, max({most})
        from flows where limited_by is not null and initiator = 'mobile' group by all order by all
    """
    times = ", ".join(f"limited_{limit}" for limit in LIMITS)
    assert rows(demo, query.format("limit")) == rows(
        demo, expected.format(most=f"greatest({times})")
    )
    stalled = """
        select network, hour, class, max(seconds) from (
            select flows.network, hour(timezone('Europe/Budapest', flows.start_ts)) as hour, class,
                flow_id, sum(epoch_us(stalls.end_ts) - epoch_us(stalls.start_ts)) / 1e6 as seconds
            from stalls join flows using (network, date, flow_id)
            where initiator = 'mobile' group by all
        ) group by all order by all
    """
    assert rows(demo, query.format("stall")) == rows(demo, stalled)
    unknown = "select * from examples anti join flows using (network, date, flow_id)"
    assert rows(demo, unknown) == []


def test_of_equal_examples_the_first_is_named(warehouse, demo, network):
    """Three connections of an hour, limited for 3, 5 and 5 s."""
    limited = dict.fromkeys((f"limited_{limit}" for limit in LIMITS), 0.0)
    made = [
        flow(demo, flow_id=number, limited_by="server", **limited | {"limited_server": seconds})
        for number, seconds in ((1, 3.0), (9, 5.0), (4, 5.0))
    ]
    publish_network(warehouse, network)
    publish(warehouse, network.name, DAY, {FLOWS: made})
    update_marts(warehouse)
    found = warehouse.connect().execute("select cause, flow_id, held_up from examples").fetchall()
    assert found == [("server", 4, 5.0)]
