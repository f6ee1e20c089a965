"""A made-up month: five networks in three time zones, thirty days, from a warehouse of the shipped
captures: `python -m tests.programs.month build/demo build/month`.

Every connection of a shipped network is repeated in some local hours of each day; what is slow gets
slower and what is fast faster with the hour's load, by known factors. Dashboards and report are
tried with it.
"""

import sys
from dataclasses import dataclass
from datetime import date, timedelta
from ipaddress import ip_network
from pathlib import Path

from schemas import (
    CHANNEL_RATES,
    FLOWS,
    INGEST_LOG,
    LINKS,
    QUIC_FLOWS,
    RETRANSMISSIONS,
    RTO_VALUES,
    RTT_SAMPLES,
    STALLS,
    Table,
)
from spark_jobs.ingest.networks import publish_network
from spark_jobs.jobs.marts import update_marts
from spark_jobs.jobs.quality import check
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
from spark_jobs.warehouse.views import sql_type

FIRST, DAYS = date(2004, 3, 1), 30
REPEATED_TABLES = (
    FLOWS, QUIC_FLOWS, CHANNEL_RATES, STALLS, RTT_SAMPLES, LINKS, RETRANSMISSIONS, RTO_VALUES,
)  # fmt: skip
REPETITIONS = 3
"""Hours of a day in which a connection is repeated."""
LOAD = """[0.3, 0.2, 0.1, 0.0, 0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.0,
    0.9, 0.8, 0.7, 0.7, 0.8, 0.8, 0.9, 0.9, 0.8, 0.7, 0.6, 0.4]"""
"""The load, by local hour."""


@dataclass(frozen=True)
class MonthNetwork:
    """A network of the month: which shipped one it is made of, and how much the load is felt."""

    name: str
    country: str
    access: str
    timezone: str
    of: str
    slower: float
    faster: float = 1.0


NETWORKS = (
    MonthNetwork("aa-gprs", "AA", "gprs", "Europe/Budapest", "aa-gprs", 0.3),
    MonthNetwork("bb-gprs", "BB", "gprs", "America/Sao_Paulo", "bb-gprs", 0.5),
    MonthNetwork("cc-dialup", "CC", "dialup", "Asia/Tokyo", "cc-dialup", 0.0),
    MonthNetwork("dd-umts", "DD", "umts", "Europe/Budapest", "aa-gprs", 0.2, 10),
    MonthNetwork("ee-lte", "EE", "lte", "Asia/Tokyo", "bb-gprs", 0.1, 100),
)
TIMES = ("setup_delay", "rtt_access", "rtt_internet", "rtt_access_min")
RATES = (
    "throughput", "throughput_received", "goodput", "user_throughput", "user_throughput_received",
    "rate",
)  # fmt: skip


def main(source: Path, target: Path, days: int = DAYS) -> None:
    warehouse, sql = Warehouse(target), Warehouse(source).connect()
    known = [_network(of) for of in NETWORKS]
    shipped = Warehouse(source)
    facts_of_shipped = {
        of.of: next(iter(shipped.published_units("capture", of.of))).facts for of in NETWORKS
    }
    for network, of in zip(known, NETWORKS, strict=True):
        publish_network(warehouse, network)
        for n in range(days):
            day = FIRST + timedelta(days=n)
            with warehouse.staging() as staging:
                for table in REPEATED_TABLES:
                    rows = sql.sql(_repeated_rows(table, of, day)).to_arrow_table()
                    rows = rows.select(table.arrow.names).cast(table.arrow)
                    staging.write(table, network.name, day, "month", rows)
                warehouse.publish(
                    Unit.of_day("day", network.name, day), staging.files, {"inputs": ""}
                )
            with warehouse.staging() as staging:
                rows = sql.sql(_repeated_rows(INGEST_LOG, of, day)).to_arrow_table()
                staging.write(
                    INGEST_LOG, network.name, day, "month",
                    rows.select(INGEST_LOG.arrow.names).cast(INGEST_LOG.arrow),
                )  # fmt: skip
                unit = Unit("capture", network.name, f"{day}.pcap")
                facts = {"content": f"{of.name} {day}", "dates": [str(day)]}
                warehouse.publish(unit, staging.files, facts_of_shipped[of.of] | facts)
    check(warehouse, known)
    update_marts(warehouse)


def _network(of: MonthNetwork) -> Network:
    return Network(
        name=of.name,
        country=of.country,
        access=of.access,
        timezone=of.timezone,
        subscribers=(ip_network("10.64.0.0/14"),),
    )


def _repeated_rows(table: Table, of: MonthNetwork, day: date) -> str:
    """Return SQL for a table's rows on a day: those with a start in REPETITIONS hours, those of
    connections with their connections, the rest moved by days."""
    columns = set(table.arrow.names)
    if table is RTT_SAMPLES:
        return f"""
            select rtt_samples.* replace (
                new_flow_id as flow_id, ts + moved as ts, rtt * slow / {of.faster} as rtt
            )
            from rtt_samples join ({_connections(of, day)}) using (flow_id)
            where network = '{of.of}' and hash(ts) % 20 = 0
        """
    if table in (RETRANSMISSIONS, RTO_VALUES, STALLS):
        times = [name for name in ("ts", "start_ts", "end_ts") if name in columns]
        changed = [f"{table.name}.{name} + moved as {name}" for name in times]
        if table is RTO_VALUES:
            changed += [f"{name} * slow / {of.faster} as {name}" for name in ("rto", "rtt")]
        return f"""
            select {table.name}.* replace (new_flow_id as flow_id, {", ".join(changed)})
            from {table.name} join ({_connections(of, day)}) using (flow_id)
            where network = '{of.of}'
        """
    if table is LINKS:
        return f"""
            with hours as (
                select distinct "user", date_trunc('hour', start_ts + moved) as new_hour
                from ({_connections(of, day)})
            )
            select links.* replace (
                new_hour as hour, rtt_min / {of.faster} as rtt_min,
                rtt_median / {of.faster} as rtt_median, rtt_max / {of.faster} as rtt_max,
                rate * {of.faster} as rate, queue_s / {of.faster} as queue_s
            )
            from links join hours using ("user") where network = '{of.of}'
            qualify row_number() over (partition by "user", new_hour order by hour) = 1
        """
    if table is QUIC_FLOWS:
        return _quic_rows(of, day)
    if "start_ts" not in columns:
        days = f"({(day - date(2004, 3, 2)).days} * interval 1 day)"
        when = [c for c in ("first_ts", "last_ts") if c in columns]
        moved = ", ".join(f"{c} + {days} as {c}" for c in when)
        return f"select * replace ({moved}) from {table.name} where network = '{of.of}'"
    start, slow = _when(of, day)
    changed = [f"{start} as start_ts", f"{start} + (end_ts - start_ts) as end_ts"]
    changed += [f"{c} * {slow} / {of.faster} as {c}" for c in TIMES if c in columns]
    changed += [f"{c} * {of.faster} / {slow} as {c}" for c in RATES if c in columns]
    if table is CHANNEL_RATES:
        changed[1] = f"{start} + (end_ts - start_ts) * ({slow} / {of.faster}) as end_ts"
    if "flow_id" in columns:
        changed.append(f"{_new_flow_id(of, day)} as flow_id")
    share = _share(day, "flow_id" if "flow_id" in columns else "start_ts")
    return f"""
        select * exclude (repetition) replace ({", ".join(changed)})
        from {table.name}, range({REPETITIONS}) as repetitions(repetition)
        where network = '{of.of}' and {share}
    """


def _connections(of: MonthNetwork, day: date) -> str:
    """Return SQL for the repetitions: the connection, its user, how far moved, how much slower."""
    start, slow = _when(of, day)
    return f"""
        select flow_id, "user", start_ts, {_new_flow_id(of, day)} as new_flow_id,
            {start} - start_ts as moved, {slow} as slow
        from flows, range({REPETITIONS}) as repetitions(repetition)
        where network = '{of.of}' and {_share(day, "flow_id")}
    """


def _quic_rows(of: MonthNetwork, day: date) -> str:
    """Return SQL for QUIC connections: a third of the repetitions as QUIC, with faster set-ups."""
    nulls = ", ".join(
        f'null::{sql_type(column.type)} as "{column.name}"'
        for column in QUIC_FLOWS.arrow
        if column.name not in FLOWS.arrow.names
    )
    return f"""
        with quic as (
            select flows.* replace (
                    new_flow_id + 1 as flow_id, flows.start_ts + moved as start_ts,
                    end_ts + moved as end_ts, setup_delay * slow / {of.faster} / 2 as setup_delay,
                    rtt_access * slow / {of.faster} as rtt_access
                ), {nulls}
            from flows join ({_connections(of, day)}) using (flow_id)
            where network = '{of.of}' and new_flow_id % 3 = 0
        )
        select * replace (
            if(
                setup_class = 'slight_problem',
                ['initial_repeated', 'retry', 'version_negotiation'][flow_id % 5 % 3 + 1],
                setup_class
            ) as setup_class,
            ['spins', 'constant', 'no_signal', null][flow_id % 4 + 1] as spin,
            if(flow_id % 4 = 0, rtt_access + rtt_internet, null) as spin_rtt_median,
            true as begin_seen, 1 as bursts, 1.0 as active, 0 as migrations
        )
        from quic where flow_id % 7 <> 0
        union all by name
        select * replace (
            null as setup_class, null as setup_delay, null as rtt_access, null as rtt_internet,
            false as begin_seen, 1 as bursts, 1.0 as active, 0 as migrations
        )
        from quic where flow_id % 7 = 0
    """


def _new_flow_id(of: MonthNetwork, day: date) -> str:
    """Return SQL for a repetition's flow_id, which no other network or day has."""
    return f"(hash(flow_id, repetition, '{of.name}', '{day}') >> 2)::bigint"


def _share(day: date, key: str) -> str:
    """Return an SQL condition: a quarter of the rows, another each day."""
    return f"hash({key}, '{day}') % 4 = 0"


def _when(of: MonthNetwork, day: date) -> tuple[str, str]:
    """Return SQL for a repetition's start and for how much slower its hour is."""
    midnight = f"timezone('{of.timezone}', timestamp '{day} 00:00:00')"
    hour = (
        f"case when repetition = 0 then 10 + hash(start_ts, '{day}') % 2 "
        f"when repetition = 1 then 3 + hash(start_ts, '{day}') % 4 "
        f"else hash(start_ts, '{day}', repetition) % 24 end"
    )
    into = "(extract(minute from start_ts) * interval 1 minute)"
    start = f"({midnight} + ({hour})::bigint * interval 1 hour + {into})"
    return start, f"(1 + {of.slower} * {LOAD}[({hour})::int + 1])"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
