"""Marts: their counts and sums are those of the flows."""

import shutil
from bisect import bisect
from collections import Counter
from math import isqrt
from pathlib import Path

import pandas as pd
import pytest
from conftest import ask

from schemas import (
    CHANNEL_RATES,
    FLOWS,
    RTO_VALUES,
    SKIP_REASONS,
    Table,
)
from schemas.flows import LIMITS
from spark_jobs import errors
from spark_jobs.capture.decode import COUNTED_REASONS
from spark_jobs.figures import FOLDER
from spark_jobs.figures.mart_columns import USER_COUNT, USER_GROUP
from spark_jobs.figures.mart_sql import SHARED_VIEWS, SHARED_VIEWS_FOLDER
from spark_jobs.figures.tables import MARTS
from spark_jobs.jobs.marts import _batches, update_marts
from spark_jobs.warehouse.store import Warehouse


def rows(demo, query: str) -> list[tuple]:
    return ask(demo.warehouse, query).fetchall()


def test_every_mart_has_its_sql_and_every_sql_its_mart():
    assert {path.parent.name for path in FOLDER.glob("*/mart.sql")} == {t.name for t in MARTS}
    assert {path.stem for path in SHARED_VIEWS_FOLDER.glob("*.sql")} == {*SHARED_VIEWS}


def test_every_counted_reason_is_documented():
    assert set(COUNTED_REASONS) <= set(SKIP_REASONS)


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
def test_users_are_counted(demo, mart):
    """A network has 48 users. At most marts' times and events fewer are there."""
    [table] = [table for table in MARTS if table.name == mart]
    count = "count(distinct user_group)" if USER_GROUP in table.columns else USER_COUNT
    for _, users in rows(demo, f"select network, {count} from {mart} group by network"):
        assert users == 48 if mart == "table1_summary" else 20 <= users <= 48


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
    marts = {mart.name: warehouse.files(mart, *days[0]) for mart in MARTS}
    update_marts(warehouse)
    assert {mart.name: warehouse.files(mart, *days[0]) for mart in MARTS} == marts
    line = errors.withheld_lines[-1]
    assert line.startswith(f"withheld: all marts of {days[0][0]} on {days[0][1]}: ")
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
