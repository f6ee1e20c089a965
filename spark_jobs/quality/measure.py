"""Measurement of a day's quality, by SQL over its packets, flows and captures."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from schemas import (
    FLOWS,
    INCOMPLETE_REASONS,
    INGEST_LOG,
    LEASES,
    PACKETS,
    PEAK_HOURS,
    QUIC_FLOWS,
    TUNNELS,
    UNREAD_REASONS,
)
from spark_jobs.figures.tables import TABLES
from spark_jobs.quality.checks import MAX_HOST_PORTS, MAX_HOST_TTLS, MIN_RADIO_RTT_S, Row
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.store import Warehouse

SQL = Path(__file__).with_name("quality.sql")
MAX_COPY_DELAY_MS, MAX_COPY_DELAY_WITHOUT_ID_MS = 100, 20
"""Maximum time between a packet and its copy in another capture, with an IP ID and without one.

The first is half the smallest retransmission timeout in use (Linux). Without an ID a fast
retransmission looks like a copy, and comes after one RTT, which is rarely shorter than the second.
"""
COMPARED_PACKETS = 200_000
"""Number of packets above which only a sample of them is compared with those of other captures."""


def measure(warehouse: Warehouse, network: Network, day: date) -> Row:
    """Return the values of a day that the checks need."""
    weeks = range(1, network.quality.volume_weeks + 1)
    earlier = [day - timedelta(weeks=n) for n in weeks]
    connection = warehouse.connect_to(
        {
            INGEST_LOG: warehouse.files(INGEST_LOG, network.name),
            FLOWS: warehouse.files(FLOWS, network.name, day),
            QUIC_FLOWS: warehouse.files(QUIC_FLOWS, network.name, day),
            PACKETS: warehouse.files(PACKETS, network.name, day),
            LEASES: warehouse.files(LEASES, network.name, day),
            PEAK_HOURS: warehouse.files(PEAK_HOURS, network.name, day),
            TABLES["table1_summary"]: [
                path
                for earlier_day in earlier
                for path in warehouse.files(TABLES["table1_summary"], network.name, earlier_day)
            ],
        }
    )
    answer = connection.execute(
        SQL.read_text(),
        {
            "network": network.name,
            "date": day,
            "timezone": network.timezone,
            "weeks": network.quality.volume_weeks,
            "unread_reasons": list(UNREAD_REASONS),
            "broken_off": list(INCOMPLETE_REASONS),
            "tunnels": list(TUNNELS),
            "min_radio_rtt": MIN_RADIO_RTT_S,
            "max_copy_delay_ms": MAX_COPY_DELAY_MS,
            "max_copy_delay_without_id_ms": MAX_COPY_DELAY_WITHOUT_ID_MS,
            "compared_packets": COMPARED_PACKETS,
            "max_host_ttls": MAX_HOST_TTLS,
            "max_host_ports": MAX_HOST_PORTS,
        },
    )
    [row] = answer.fetchall()
    measured = dict(zip((column[0] for column in answer.description), row, strict=True))
    return measured | {"default_hours": (network.peak_hours, network.off_peak_hours)}
