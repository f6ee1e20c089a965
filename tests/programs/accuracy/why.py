"""Compares a lab capture's estimates of what the servers' TCP did with what their kernel
reported."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pandas as pd
import pyarrow.csv

from schemas import FLOWS, RETRANSMISSIONS, RTO_VALUES
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.store import Warehouse
from tests.programs.accuracy.lab import job_tables, stream


@dataclass(frozen=True)
class Share:
    """The number of values that are as near the truth as asked, of how many; the share asked
    for."""

    near: int
    of: int
    least: float

    @property
    def value(self) -> float:
        """The share, 0 to 1; NaN of none."""
        return self.near / self.of if self.of else float("nan")

    @property
    def kept(self) -> bool:
        return not self.value < self.least

    @property
    def asked(self) -> str:
        return f"≥ {100 * self.least:.0f} %"


@dataclass(frozen=True)
class Total:
    """A sum, ours and true, in the same unit; how far apart they may be, as a part of the truth or
    in that unit, whichever is more."""

    ours: float
    truth: float
    relative: float
    absolute: float = 0

    @property
    def kept(self) -> bool:
        return abs(self.ours - self.truth) <= max(self.relative * self.truth, self.absolute)

    @property
    def asked(self) -> str:
        return f"± {100 * self.relative:.0f} %" + (
            f" or {self.absolute:.0f}" if self.absolute else ""
        )


@dataclass(frozen=True)
class Median:
    """The median of relative errors, 0.01 being 1 %, and what it should be at most; NaN of none."""

    value: float
    most: float

    @property
    def kept(self) -> bool:
        return not self.value > self.most

    @property
    def asked(self) -> str:
        return f"≤ {100 * self.most:.0f} %"


Figure = Share | Total | Median
Figures = dict[str, Figure]


@dataclass(frozen=True)
class Why:
    """One capture: the connections that the kernel reported, those of them found in `flows`, and of
    these the ones that it reported to their end; what is measured of them, by name; what is
    measured of all connections against the host's counters, empty without these."""

    reported: int
    matched: int
    ended: int
    of_connections: Figures
    of_host: Figures


def measure(
    capture: Path, sender: Path, kernel: Path | None, network: Network, counts_setup: bool = True
) -> Why:
    """Measures a capture. capture: the pcap; sender: the lab's sender.csv, of all connections in
    the capture; kernel: its kernel_srv.json; counts_setup: whether the sender counts
    retransmissions of a SYN or a SYN ACK."""
    with TemporaryDirectory() as folder, duckdb.connect() as db:
        warehouse = Warehouse(Path(folder))
        result = ingest_capture(warehouse, network, capture)
        assert result.error is None, result.error
        tables = job_tables(warehouse, network)
        for table in (FLOWS, RETRANSMISSIONS, RTO_VALUES):
            db.register(table.name, tables[table.name])
        db.register("sender", pyarrow.csv.read_csv(stream(sender)))
        reported, matched = match(db)
        ended = ended_connections(db, counts_setup)
        return Why(
            reported=reported,
            matched=matched,
            ended=len(ended),
            of_connections=retransmissions(ended)
            | timeouts(ended)
            | rto(rto_while_in_flight(db))
            | time(ended)
            | congestion_window(ended),
            of_host={} if kernel is None else causes(db, json.loads(kernel.read_text())),
        )


def match(db: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Makes the table `kernel_rows`: the sender's rows, with the flow_id of their connection, null
    where `flows` lacks it. Returns the number of connections reported, and of those found. Where
    ports were reused a connection begins after another's last row, and is the flow that starts
    nearest in time."""
    db.execute("""
        create table kernel_rows as
        with numbered as (
            select *, sum(last) over (
                partition by "user", sport, server, port order by t, last
            ) - last as nth
            from sender
        ),
        connections as (
            select "user", sport, server, port, nth, min(t) as begin from numbered group by all
        ),
        found as (
            select connections.*,
                arg_min(flow_id, abs(epoch(start_ts) - begin)) as flow_id
            from connections left join flows
                on flows."user" = connections."user" and flows.user_port = connections.sport
                and flows.server = connections.server and flows.server_port = connections.port
            group by all
        )
        select * from numbered join found using ("user", sport, server, port, nth)
    """)
    counts = db.sql("""
        select count(*), count(flow_id)
        from (select distinct "user", sport, server, port, nth, flow_id from kernel_rows)
    """).fetchall()
    return counts[0]


def ended_connections(db: duckdb.DuckDBPyConnection, counts_setup: bool = True) -> pd.DataFrame:
    """Returns a row for each connection that the kernel reported to its end: the estimates beside
    its last row (true_...), times in s; caused: the number of its rows in table retransmissions
    that have a cause, without new data. counts_setup: see `measure`."""
    repeated = "greatest(if(initiator = 'server', syn_count, synack_count) - 1, 0)"
    setup = 0 if counts_setup else repeated
    return db.sql(f"""
        with with_cause as (
            select flow_id, count(*) as caused from retransmissions
            where cause is not null and not new_data group by flow_id
        )
        select retransmissions - {setup} as retransmissions,
            rto_expiries - {setup} as rto_expiries, busy, flows.rwnd_limited,
            coalesce(caused, 0) - {setup} as caused, total_retrans as true_retransmissions,
            total_rto as true_timeouts, busy_time / 1e6 as true_busy,
            kernel_rows.rwnd_limited / 1e6 as true_rwnd_limited
        from kernel_rows join flows using (flow_id) left join with_cause using (flow_id)
        where last = 1
    """).df()


def rto_while_in_flight(db: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Returns a row for each time at which the kernel reported a connection with data in flight:
    the RTO by the last row of rto_values until then, NaN without one, and its own (true_rto), s."""
    return db.sql("""
        select rto_values.rto, kernel_rows.rto / 1e6 as true_rto
        from kernel_rows asof left join rto_values
            on kernel_rows.flow_id = rto_values.flow_id and kernel_rows.t >= epoch(rto_values.ts)
        where last = 0 and unacked > 0 and kernel_rows.flow_id is not null
    """).df()


def near(ours: pd.Series, truth: pd.Series, tolerance: pd.Series | float, least: float) -> Share:
    """Returns the share within the tolerance, in their unit; without an estimate (NaN), none is."""
    return Share(int(((ours - truth).abs() <= tolerance).sum()), len(truth), least)


def retransmissions(ended: pd.DataFrame) -> Figures:
    """Compares the numbers of retransmissions."""
    truth = ended.true_retransmissions
    return {
        "retransmissions: equal": near(ended.retransmissions, truth, 0, 0.98),
        "retransmissions: sum": Total(ended.retransmissions.sum(), truth.sum(), 0.01),
        "retransmissions with a cause: sum": Total(ended.caused.sum(), truth.sum(), 0.02, 10),
    }


def timeouts(ended: pd.DataFrame) -> Figures:
    """Compares the numbers of RTO expiries."""
    truth = ended.true_timeouts
    return {
        "timeouts: equal": near(ended.rto_expiries, truth, 0, 0.95),
        "timeouts: sum": Total(ended.rto_expiries.sum(), truth.sum(), 0.05, 10),
    }


def rto(running: pd.DataFrame) -> Figures:
    """Compares the RTO at the times of the kernel's rows; a missing estimate has an infinite
    error."""
    error = (running.rto / running.true_rto - 1).abs().fillna(float("inf"))
    return {
        "rto: median error": Median(float(error.median()), 0.05),
        "rto: within 25 %": Share(int((error <= 0.25).sum()), len(error), 0.90),
    }


def time(ended: pd.DataFrame) -> Figures:
    """Compares the times in which there was something to send, and only the window held it back, s;
    shares of
    the connections that were busy for more than 5 s."""
    long = ended[ended.true_busy > 5]
    return {
        "busy: within 5 % or 0.3 s": near(
            long.busy, long.true_busy, (0.05 * long.true_busy).clip(lower=0.3), 0.98
        ),
        "rwnd_limited: within 10 % of busy": near(
            long.rwnd_limited, long.true_rwnd_limited, 0.1 * long.true_busy, 0.95
        ),
        "rwnd_limited: sum, s": Total(
            ended.rwnd_limited.sum(), ended.true_rwnd_limited.sum(), 0.05
        ),
    }


def congestion_window(ended: pd.DataFrame) -> Figures:
    """Compares the share of all busy time in which the congestion window, and not the receiver's,
    held the sender back, in points."""
    sums = ended.sum()
    ours = 1 - sums.rwnd_limited / sums.busy
    truth = 1 - sums.true_rwnd_limited / sums.true_busy
    return {"congestion window's share, points": Total(100 * ours, 100 * truth, 0, 10)}


def causes(db: duckdb.DuckDBPyConnection, counters: Mapping[str, int]) -> Figures:
    """Compares all connections, by cause, with the host's counters; a counter that is 0 is not
    among them. Probes with new data count as the kernel counts them: all."""
    rows = dict(db.sql("select cause, count(*) from retransmissions group by cause").fetchall())
    sums = db.sql("""
        select (select coalesce(sum(rto_expiries), 0) from flows),
            (select count(*) from retransmissions where spurious_rto)
    """).fetchall()
    expiries, spurious = sums[0]

    def beside(ours: int, counter: str, relative: float = 0.05, absolute: int = 10) -> Total:
        return Total(int(ours), counters.get(f"TcpExt{counter}", 0), relative, absolute)

    return {
        "timeouts, SYN ACKs' too": beside(expiries, "TCPTimeouts"),
        "fast": beside(rows.get("fast", 0), "TCPFastRetrans"),
        "slow_start": beside(rows.get("slow_start", 0), "TCPSlowStartRetrans"),
        "tlp": beside(rows.get("tlp", 0), "TCPLossProbes"),
        "synack": beside(rows.get("synack", 0), "TCPSynRetrans"),
        "spurious_rto": beside(spurious, "TCPSpuriousRTOs", 0.1, 5),
    }
