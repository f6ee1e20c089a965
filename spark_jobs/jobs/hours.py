"""The peak and off-peak hours of each day: those of the networks file, or of the traffic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any

import pyarrow as pa

from schemas import FLOWS, PEAK_HOURS, QUIC_FLOWS
from spark_jobs.settings.networks import BUSIEST, Network, hours_within
from spark_jobs.warehouse.facts import MadeFacts
from spark_jobs.warehouse.files import read_rows
from spark_jobs.warehouse.steps import Step
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit, fingerprint

EARLIER_DAYS, FEWEST_EARLIER_DAYS = 28, 7
"""Number of earlier days in which the busiest hours are looked for, and the minimum with flows."""
PEAK_LENGTH, OFF_PEAK_LENGTH = 2, 4
"""Numbers of hours of the busiest and the quietest part of a day, as in the paper."""
BY_HOUR = """
    select date, hour(timezone($timezone, start_ts)) as hour, sum(connections), sum(bytes)
    from (
        select date, start_ts, 1 as connections, ip_bytes_up + ip_bytes_down as bytes from flows
        union all
        select date, start_ts, 0, ip_bytes_up + ip_bytes_down from quic_flows
    )
    group by all
"""
Volumes = Mapping[date, Mapping[int, tuple[int, int]]]
"""By day and local hour: TCP connections that start, and the bytes of TCP and QUIC ones."""
Hours = tuple[int, int] | None


def update_hours(warehouse: Warehouse, networks: Iterable[Network]) -> None:
    """Bring the hours of every day with flows up to date."""
    for network in networks:
        purged_before = warehouse.purged_before(network.name, FLOWS, PEAK_HOURS)
        inputs = {
            Unit.of_day("hours", network.name, day): _inputs_hash(warehouse, network, day)
            for _, day in warehouse.days("day", network.name)
            if day >= purged_before
        }

        def make(stale: dict[Unit, str], network: Network = network) -> None:
            _make(warehouse, network, stale)

        Step(inputs, make).bring_up_to_date(warehouse)


def _inputs_hash(warehouse: Warehouse, network: Network, day: date) -> str:
    """Return a hash of what a day's hours depend on. The busiest hours stay once they are found."""
    if network.peak_hours is None:
        return fingerprint(BUSIEST, network.timezone)
    hours = [list(network.peak_hours), list(network.off_peak_hours), network.timezone]
    if network.sets_peak_hours:
        return fingerprint(hours)
    return fingerprint(hours, warehouse.content_hashes(FLOWS, network.name, day))


def _make(warehouse: Warehouse, network: Network, stale: dict[Unit, str]) -> None:
    """Publish the hours of some days of a network."""
    days = {unit.day for unit in stale}
    volumes: Volumes = {}
    if not network.sets_peak_hours:
        volumes = _volumes(warehouse, network, days)
    for unit, inputs in stale.items():
        row = _kept_row(warehouse, network, unit)
        if row is None:
            set_by, hours = _hours_of(network, unit.day, volumes)
            names = ("peak_from", "peak_until", "off_peak_from", "off_peak_until")
            row = dict(zip(names, hours, strict=True)) | {"set_by": set_by}
        with warehouse.staging() as staging:
            rows = pa.Table.from_pylist([row], PEAK_HOURS.arrow)
            staging.write(PEAK_HOURS, network.name, unit.day, "hours", rows)
            warehouse.publish(unit, staging.files, MadeFacts(inputs=inputs))


def _kept_row(warehouse: Warehouse, network: Network, unit: Unit) -> dict[str, Any] | None:
    """Return the day's row if it has the busiest hours already, and a lost catalog forgot them."""
    published = warehouse.published(unit)
    is_unknown = published and not MadeFacts.of(published).inputs
    if not published or not is_unknown or network.peak_hours or not warehouse.is_intact(published):
        return None
    [row] = read_rows(PEAK_HOURS, warehouse.unit_files(published, PEAK_HOURS)).to_pylist()
    return row if row["set_by"] == "traffic" else None


def _volumes(warehouse: Warehouse, network: Network, days: Iterable[date]) -> Volumes:
    """Return the volumes of some days, and of the EARLIER_DAYS of each if they are needed."""
    before = EARLIER_DAYS if network.peak_hours is None else 0
    wanted = {day - timedelta(days=n) for day in days for n in range(before + 1)}
    with_flows = wanted & {day for _, day in warehouse.days("day", network.name)}
    files = {
        table: [path for day in with_flows for path in warehouse.files(table, network.name, day)]
        for table in (FLOWS, QUIC_FLOWS)
    }
    volumes: dict[date, dict[int, tuple[int, int]]] = defaultdict(dict)
    with warehouse.connect_to(files) as connection:
        found = connection.execute(BY_HOUR, {"timezone": network.timezone}).fetchall()
    for day, hour, connections, size in found:
        volumes[day][hour] = int(connections), int(size)
    return volumes


def _hours_of(
    network: Network, day: date, volumes: Volumes
) -> tuple[str, tuple[int | None, int | None, int | None, int | None]]:
    """Return what sets the hours of a day, and the hours in the order of the columns."""
    if network.peak_hours is None:
        peak, off_peak = _busiest_and_quietest(day, volumes)
        return "traffic", (*(peak or (None, None)), *(off_peak or (None, None)))
    hours = (*network.peak_hours, *network.off_peak_hours)
    if network.sets_peak_hours:
        return "file", hours
    both = hours_within(network.peak_hours) | hours_within(network.off_peak_hours)
    by_hour = volumes.get(day, {})
    is_seen = any(connections for hour, (connections, _) in by_hour.items() if hour in both)
    return "default", hours if is_seen else (None, None, None, None)


def _busiest_and_quietest(day: date, volumes: Volumes) -> tuple[Hours, Hours]:
    """Return the busiest and the quietest consecutive hours of the earlier days, which are apart.

    They are None if there are too few days. Hours without traffic were not captured.
    """
    earlier = [day - timedelta(days=n) for n in range(1, EARLIER_DAYS + 1)]
    seen = [volumes[other] for other in earlier if volumes.get(other)]
    if len(seen) < FEWEST_EARLIER_DAYS:
        return None, None
    sizes = [sum(by_hour.get(hour, (0, 0))[1] for by_hour in seen) for hour in range(24)]

    def spans(length: int, without: set[int]) -> list[tuple[int, tuple[int, int]]]:
        """Return the bytes and hours of each span of hours with traffic."""
        found = []
        for first in range(24):
            hours = (first, first + length if first + length <= 24 else first + length - 24)
            within = hours_within(hours)
            if all(sizes[hour] for hour in within) and not within & without:
                found.append((sum(sizes[hour] for hour in within), hours))
        return found

    peak = max(spans(PEAK_LENGTH, set()), key=lambda span: (span[0], -span[1][0]), default=None)
    if not peak:
        return None, None
    off_peak = min(spans(OFF_PEAK_LENGTH, hours_within(peak[1])), default=None)
    return peak[1], off_peak[1] if off_peak else None
