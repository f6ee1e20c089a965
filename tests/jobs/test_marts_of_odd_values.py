"""Marts of odd values: rates of zero, missing values, time zones of half hours, nights on which
clocks change."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import count
from math import isinf, isnan
from zoneinfo import ZoneInfo

import duckdb
import pytest
from conftest import DAY, ask

from schemas import (
    CHANNEL_RATES,
    FLOWS,
    LINKS,
    PAGES,
    QUIC_FLOWS,
    RETRANSMISSIONS,
    RTO_VALUES,
    RTT_SAMPLES,
    STALLS,
    Table,
)
from schemas.flows import LIMITS
from spark_jobs.figures.mart_sql import FUNCTIONS, GROUPS, view_statements
from spark_jobs.figures.tables import MARTS
from spark_jobs.ingest.networks import publish_network
from spark_jobs.jobs.marts import update_marts
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.made_up import flow, publish

ZONES = (
    "Asia/Kolkata", "Australia/Adelaide", "America/St_Johns", "Asia/Kathmandu",
    "Europe/Budapest", "Pacific/Tongatapu", "Pacific/Honolulu",
)  # fmt: skip
"""Half and quarter hours; UTC+13 and UTC-10; in three the clock is changed on days of CHANGES."""
CHANGES = (date(2004, 3, 28), date(2004, 4, 4), date(2004, 10, 31), DAY)


def limited(seconds: float) -> dict:
    return {f"limited_{limit}": seconds for limit in LIMITS}


CAUSES = (None, "fast", "rto", "slow_start", "synack", "tlp")
RATES = ("throughput", "throughput_received", "user_throughput", "user_throughput_received")
FULL = {
    "single": True, "request_response": True, "payload_bytes_down": 200_000, "retransmissions": 2,
    "sack": True,
}  # fmt: skip
LOST = {
    "data_packets_down": 10, "lost_access": 1, "lost_access_expected": 0.9,
    "lost_internet_expected": 0.0, "goodput": 9e3, "throughput": 1e4, "throughput_received": 9e3,
}  # fmt: skip
ODD_FLOWS = (
    {},
    FULL,
    FULL | {"mss_class": "high", "window_class": "low", "sack": True, "goodput": 8192.0},
    dict.fromkeys(RATES, 0.0) | {"goodput": 0.0},
    dict.fromkeys(RATES, 1.0) | FULL | {"goodput": 1.0, "b_tcp": 5, "b_other": 10},
    {"b_tcp": 0, "b_other": 0, "user_throughput": None, "user_throughput_received": None,
     "retransmissions": 0, "rto_expiries": 3},
    {"server": "2001:db8::1", "max_ip_len": 1500, "max_window": None, **limited(1.0),
     "retransmissions": 1, "rto_expiries": 1, "sack": None, "timestamps": None},
    {"server": "2001:db8::1", "max_ip_len": 61, "payload_bytes_down": 62, "max_window": 1 << 30,
     **limited(0.0), "parallel": 1},
    {**limited(2.0), "parallel": 8, "max_window": 0},
    {**limited(2.0), "parallel": 9, "max_window": 65_535, "delay_spikes": 3},
    {"setup_delay": 0.0, "rtt_access": 0.0, "rtt_internet": 1e-6},
    {"setup_delay": 0.3, "rtt_access": 0.29, "setup_background": False, "retransmissions": 1},
    {"setup_class": "refused", "setup_reset": None, "reset_by": "server"},
    {"initiator": "server"},
    FULL | LOST | {"bottleneck": "access"},
    FULL | LOST | {"lost_access_expected": 0.0},
    {"data_packets_down": 0},
    dict.fromkeys(
        [c.name for c in FLOWS.columns if not c.required and c.name != "initiator"]
    ),
)  # fmt: skip

QUIC = {
    "user_port": 1, "server": "192.0.2.1", "server_port": 443, "directions_seen": "both",
    "bursts": 1, "active": 0.0, "migrations": 0,
    "packets_up": 0, "packets_down": 0, "ip_bytes_up": 0, "ip_bytes_down": 0,
}  # fmt: skip


@pytest.fixture
def odd(warehouse, demo, network) -> Warehouse:
    """Make a network per time zone, each with days of odd connections, one of them without any."""
    usual = flow(demo)
    ids = count()
    for zone in ZONES:
        name = zone.rpartition("/")[2]
        publish_network(warehouse, network.model_copy(update={"name": name, "timezone": zone}))
        for day in CHANGES:
            publish(warehouse, name, day, odd_day(usual, day, ids))
        publish(warehouse, name, date(2004, 11, 5), {})
    update_marts(warehouse)
    return warehouse


def starts(day: date) -> list[datetime]:
    """Return a time every fifty minutes."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return [midnight + timedelta(minutes=50 * n) for n in range(28)]


def odd_flow(n: int) -> dict:
    return ODD_FLOWS[n % len(ODD_FLOWS)]


def odd_day(usual: dict, day: date, ids: Iterator[int]) -> dict[Table, list[dict]]:
    """Return a day's tables of odd connections; ids: those of the connections."""
    flows, rates, stalls, trips, links, retransmissions, rto_values = [], [], [], [], [], [], []
    pages, quic = [], []
    for n, start in enumerate(starts(day)):
        end = start + timedelta(microseconds=800_000 << n % 8)
        user = f"10.0.0.{n % 19}"  # of all days so many that their numbers pass 2^31
        flow_id = next(ids)
        when = {"flow_id": flow_id, "start_ts": start, "end_ts": end}
        flows.append(usual | odd_flow(n) | when | {"user": user, "link": user})
        if n % 3:
            row = dict.fromkeys(CHANNEL_RATES.arrow.names) | when
            rates.append(row | {"user": user, "rate": 2.0**n * (n != 4), "ip_bytes": n})
        pages.append(
            {"user": user, "start_ts": start, "end_ts": end, "connections": n,
             "quic_connections": n % 2, "parallel": n % 12 + 1, "ip_bytes": n % 3,
             "payload_bytes": 0, "rate_share": None}
        )  # fmt: skip
        row = dict.fromkeys(QUIC_FLOWS.arrow.names) | QUIC | when
        quic.append(
            row
            | {
                "user": user,
                "link": user,
                "begin_seen": n % 3 > 0,
                "ip_bytes_down": (0, 1, 1 << n)[n % 3],
            }
            | {"setup_class": (None, "optimal")[n % 2], "setup_delay": (None, 0.0, 2.0**n)[n % 3]}
            | {"spin": (None, "spins", "constant")[n % 3], "spin_rtt_median": (None, 0.1)[n % 2]}
        )
        row = dict.fromkeys(STALLS.arrow.names) | when
        kind = ("packet_delay", "data_unavailable", "continuous_loss")[n % 3]
        long = {"end_ts": start + timedelta(minutes=49 * (n % 4), microseconds=n)}
        stalls.append(
            row
            | {"class": kind, "ended_by": "mobile", "segments": n % 3, "slow_start": n % 2 == 0}
            | {"recovery": (None, 0.0, 2.0**n)[n % 3], "interruption": (None, "pause")[n % 2]}
            | long
        )
        row = dict.fromkeys(RTT_SAMPLES.arrow.names) | {"flow_id": flow_id, "ts": end}
        for flight in (1, 2, 4, 2896, 2897, 1 << n):
            delayed = n % 2 == 0
            trips.append(
                row | {"side": "access", "flight": flight, "rtt": n / 10, "delayed": delayed}
            )
        row = dict.fromkeys(RETRANSMISSIONS.arrow.names) | {"flow_id": flow_id, "ts": end}
        row |= {
            "frame": n,
            "capture": "c.pcap",
            "cause": CAUSES[n % len(CAUSES)],
            "new_data": n % 12 == 5,
        }
        retransmissions.append(
            row | {"needed": (None, False, True)[n % 3], "spurious_rto": n % 4 == 0}
        )
        for k in range(n % 4):
            at = end + timedelta(seconds=(k - 1) * n)
            row = {"flow_id": flow_id, "ts": at, "rto": 2.0 ** (k - n), "rule": "linux"}
            row |= {"duration": 1.5 * k, "rtt": None if k == 0 else 0.25 * n}
            rto_values.append(row | {"backed_off": k > 1})
        if n % 2:
            row = dict.fromkeys(LINKS.arrow.names) | {
                "user": user,
                "link": user,
                "rtt_min": 0.01,
                "rtt_max": (None, 0.0, 10.0)[n % 3],
                "queue_s": (0.0, None, None, 4.0)[n % 4],
                "rtt_samples": 1,
            }
            links.append(row | {"hour": end.replace(minute=0, second=0, microsecond=0)})
    return {
        FLOWS: flows,
        CHANNEL_RATES: rates,
        STALLS: stalls,
        RTT_SAMPLES: trips,
        LINKS: links,
        PAGES: pages,
        QUIC_FLOWS: quic,
        RETRANSMISSIONS: retransmissions,
        RTO_VALUES: rto_values,
    }


def test_every_mart_of_odd_values_is_made_of_numbers(odd):
    connection = odd.connect()
    for mart in MARTS:
        rows = connection.sql(f"from {mart.name}").to_arrow_table().to_pylist()
        assert rows, mart.name
        values = [value for row in rows for value in row.values() if isinstance(value, float)]
        assert not any(isnan(value) or isinf(value) for value in values), mart.name


def test_hours_are_local_hours(odd):
    """Python's zoneinfo gives the same hours."""
    query = "select network, date, hour, sum(flows) from table1_summary group by all"
    found = {row[:3]: row[3] for row in ask(odd, query).fetchall()}
    expected = Counter()
    for zone in ZONES:
        for day in CHANGES:
            for n, start in enumerate(starts(day)):
                if odd_flow(n).get("initiator", "mobile") == "mobile":
                    hour = start.astimezone(ZoneInfo(zone)).hour
                    expected[zone.rpartition("/")[2], day, hour] += 1
    assert found == expected


def test_each_row_that_marts_count_gets_one_local_hour(odd):
    """Also at the ends of a network's dates, and on nights when clocks change."""
    pairs = (
        ("located_connections", FLOWS),
        ("located_links", LINKS),
        ("rate_periods", CHANNEL_RATES),
    )
    connection = odd.connect()
    for statement in view_statements(stored=()):
        connection.execute(statement)
    for view, table in pairs:
        found, there = (
            connection.execute(f"select count(*) from {name}").fetchone()
            for name in (view, table.name)
        )
        assert found == there != (0,), view
    counted = "select sum(flows) from quic_beside_tcp where measure = 'connection'"
    protocols = {"protocol = 'TCP'": "flows where initiator = 'mobile'",
                 "protocol = 'QUIC'": "quic_flows where begin_seen",
                 "protocol = 'partial'": "quic_flows where not begin_seen"}  # fmt: skip
    for protocol, rows in protocols.items():
        found, there = (
            connection.execute(query).fetchone()
            for query in (f"{counted} and {protocol}", f"select count(*) from {rows}")
        )
        assert found == there != (0,), protocol


def test_users_fall_evenly_into_the_user_groups():
    """Each user group has 1000 of 64 000 users, within five standard deviations."""
    users = "select concat('10.0.', i // 256, '.', i % 256) as key from range(64000) t(i)"
    query = f"select {FUNCTIONS['user_group(key)']} from ({users})"
    sizes = Counter(number for (number,) in duckdb.sql(query).fetchall())
    assert sorted(sizes) == list(range(GROUPS))
    assert all(abs(size - 1000) < 5 * 1000**0.5 for size in sizes.values())
