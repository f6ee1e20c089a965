"""The quality job: it checks days, and so decides whether their marts are published.

A verdict stands until its inputs change: new packets or other limits need a new one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import date
from typing import NamedTuple

import pyarrow as pa

from schemas import FLOWS, PACKETS, PEAK_HOURS, QUALITY
from schemas.quality import FAILED
from spark_jobs.base.errors import WITHHELD, UserError, withheld
from spark_jobs.ingest.files import capture_day
from spark_jobs.jobs.hours import update_hours
from spark_jobs.quality.checks import PEAK_FLOWS, Check, evaluate
from spark_jobs.quality.measure import measure
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.facts import CaptureFacts, DayFacts, MadeFacts, QualityFacts
from spark_jobs.warehouse.steps import Step
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import PublishedUnit, Unit, fingerprint


class DayInputs(NamedTuple):
    """Inputs of a day's verdict, beside its flows.

    captures: (name, content, packets) of each capture that has its packets or is in its folder
    in_flows: number of the day's TCP packets that are in connections, of whatever day
    """

    captures: tuple[tuple[str, str, int], ...] = ()
    in_flows: int = 0


Inputs = dict[date, DayInputs]


@dataclass(frozen=True)
class Verdict:
    """The result of a day's checks.

    findings: the findings of the failed checks
    remark: what is unusual about the day, though it passes
    released: the reason why the day is published in spite of them
    fresh: the checks ran just now, not earlier
    """

    network: str
    date: date
    findings: list[str]
    released: str | None = None
    fresh: bool = False
    remark: str | None = None

    @property
    def held(self) -> bool:
        """Return whether the day's marts stay as they are."""
        return bool(self.findings) and self.released is None


def check(
    warehouse: Warehouse, networks: list[Network], extra_day: date | None = None
) -> list[Verdict]:
    """Bring the verdicts of every day with flows up to date, and return them.

    extra_day: a day to check even if it has no flows. A day that cannot be checked has no verdict.
    """
    update_hours(warehouse, networks)
    extra_days = {extra_day} if extra_day else set()
    return [
        verdict
        for network in networks
        for verdict in _check_days(
            warehouse, network, extra_days | {day for _, day in warehouse.days("day", network.name)}
        )
    ]


def _check_days(warehouse: Warehouse, network: Network, days: Iterable[date]) -> list[Verdict]:
    """Bring the verdicts of some days up to date, and return them."""
    of_day = _inputs_by_day(warehouse, network.name)
    limits = [network.quality.model_dump(), network.sets_peak_hours, network.timezone]
    units = [_unit(network.name, day) for day in sorted(days)]
    data = {unit: _data_hash(warehouse, network.name, unit.day, of_day) for unit in units}
    failed: set[Unit] = set()
    fresh: set[Unit] = set()

    def make(stale: dict[Unit, str]) -> None:
        failed.update(stale)
        for unit, inputs in stale.items():
            with withheld(f"checks of {network.name} on {unit.day}"):
                in_flows = of_day.get(unit.day, DayInputs()).in_flows
                checks = _checks(warehouse, network, unit.day, in_flows)
                _publish_checks(
                    warehouse, unit, checks, QualityFacts(inputs=inputs, data=data[unit])
                )
                failed.discard(unit)
                fresh.add(unit)

    inputs = {
        unit: fingerprint(
            data[unit], limits, warehouse.content_hashes(PEAK_HOURS, network.name, unit.day)
        )
        for unit in units
        if not (_data_purged(warehouse, network.name, unit.day) and warehouse.published(unit))
    }
    Step(inputs, make).bring_up_to_date(warehouse)
    return [
        _verdict_from(published, fresh=unit in fresh)
        for unit in units
        if unit not in failed and (published := warehouse.published(unit))
    ]


def _checks(warehouse: Warehouse, network: Network, day: date, in_flows: int) -> list[Check]:
    """Return the checks of a day. in_flows: see DayInputs."""
    if failed := _failed(warehouse, network.name, day):
        return [Check(FAILED, 1, None, 0, f"{WITHHELD}{failed}")]
    measured = {**measure(warehouse, network, day), "tcp_in_flows": in_flows}
    return evaluate(measured, network.quality, network.sets_peak_hours)


def release(warehouse: Warehouse, network: Network, day: date, reason: str) -> None:
    """Let a held day be published as it is now."""
    from spark_jobs.warehouse.files import read_rows

    if failed := _failed(warehouse, network.name, day):
        raise UserError(
            f"{warehouse.root}: {network.name} {day} has nothing new to publish: {failed}; the "
            "next giscope run or giscope flows tries again"
        )
    verdicts = _check_days(warehouse, network, [day])
    published = warehouse.published(_unit(network.name, day))
    if not published or not verdicts or not verdicts[0].held:
        raise UserError(f"{warehouse.root}: {network.name} {day} is not held back")
    rows = read_rows(QUALITY, warehouse.unit_files(published, QUALITY))
    released = rows.set_column(
        rows.schema.get_field_index("released"), "released", pa.array([reason] * len(rows))
    )
    _publish(
        warehouse, published.unit, released, QualityFacts.of(published).replace(released=reason)
    )


def verdict_of(warehouse: Warehouse, network: str, day: date) -> Verdict | None:
    """Return the last verdict on the day, if its packets have not changed since."""
    published = warehouse.published(_unit(network, day))
    if not published:
        return None
    data = _data_hash(warehouse, network, day, _inputs_by_day(warehouse, network))
    is_current = QualityFacts.of(published).data == data or _data_purged(warehouse, network, day)
    return _verdict_from(published) if is_current else None


def _failed(warehouse: Warehouse, network: str, day: date) -> str | None:
    """Return why the day's leases or flows could not be made, if so; flows read the leases."""
    leases = warehouse.published(Unit.of_day("leases", network, day))
    flows = warehouse.published(Unit.of_day("day", network, day))
    if leases and (reason := MadeFacts.of(leases).failed):
        return f"leases: {reason}"
    return f"flows: {reason}" if flows and (reason := DayFacts.of(flows).failed) else None


def _verdict_from(published: PublishedUnit, fresh: bool = False) -> Verdict:
    facts, unit = QualityFacts.of(published), published.unit
    return Verdict(unit.network, unit.day, facts.findings, facts.released, fresh, facts.remark)


def _publish_checks(
    warehouse: Warehouse, unit: Unit, checks: list[Check], facts: QualityFacts
) -> None:
    rows = [asdict(check) | {"passed": check.passed, "released": None} for check in checks]
    findings = [check.finding for check in checks if not check.passed]
    table = pa.Table.from_pylist(rows, QUALITY.arrow)
    remark = next((c.finding for c in checks if c.measure == PEAK_FLOWS and not c.value), None)
    _publish(warehouse, unit, table, facts.replace(findings=findings, remark=remark))


def _publish(warehouse: Warehouse, unit: Unit, rows: pa.Table, facts: QualityFacts) -> None:
    with warehouse.staging() as staging:
        staging.write(QUALITY, unit.network, unit.day, "checks", rows)
        warehouse.publish(unit, staging.files, facts)


def _data_purged(warehouse: Warehouse, network: str, day: date) -> bool:
    """Return whether data that the day was checked by was purged since.

    If so, the day's verdict stays.
    """
    return day < warehouse.purged_before(network, PACKETS, FLOWS)


def _unit(network: str, day: date) -> Unit:
    return Unit.of_day("quality", network, day)


def _inputs_by_day(warehouse: Warehouse, network: str) -> Inputs:
    in_flows: Counter[date] = Counter()
    for unit in warehouse.published_units("day", network):
        facts = DayFacts.of(unit)
        for text, count in (*facts.packets.items(), *facts.packets_going_on.items()):
            in_flows[date.fromisoformat(text)] += count
    captures: dict[date, list[tuple[str, str, int]]] = defaultdict(list)
    for published in warehouse.published_units("capture", network):
        name, of_capture = published.unit.name, CaptureFacts.of(published)
        folder = capture_day(name)
        for day in {*of_capture.dates, *([folder] if folder else [])}:
            captures[day].append((name, of_capture.content, of_capture.packets))
    return {
        day: DayInputs(tuple(captures.get(day, ())), in_flows[day])
        for day in {*captures, *in_flows}
    }


def _data_hash(warehouse: Warehouse, network: str, day: date, inputs: Inputs) -> str:
    """Return a hash of the data that a verdict is about: the day's flows and captures."""
    failed = _failed(warehouse, network, day)
    hashes = warehouse.content_hashes(FLOWS, network, day)
    found = inputs.get(day, DayInputs())
    return fingerprint(hashes, *found, *([failed] if failed else []))
