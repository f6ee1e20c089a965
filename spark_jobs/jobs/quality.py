"""The quality checks of a day, which decide whether its marts are published.

A verdict stands until its inputs change: new packets or other limits need a new one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from schemas import (
    FLOWS,
    INCOMPLETE_REASONS,
    INGEST_LOG,
    MAX_OPTIONS_CUT_SHARE,
    PACKETS,
    QUALITY,
    TUNNELS,
    UNREAD_REASONS,
)
from spark_jobs.capture.files import capture_day
from spark_jobs.errors import UserError
from spark_jobs.figures.tables import TABLES
from spark_jobs.networks import Network, QualityLimits
from spark_jobs.warehouse.store import Warehouse, fingerprint
from spark_jobs.warehouse.units import PublishedUnit, Unit

SQL = Path(__file__).with_suffix(".sql")
MAX_DUPLICATE_DELAY_MS = 100
"""Maximum time between a packet and its duplicate in another capture.

It is half the smallest retransmission timeout in use (Linux).
"""
MIN_RADIO_RTT_S = 0.003
"""Minimum RTT over a radio link.

The target for NR is 4 ms for each direction (3GPP TR 38.913, 7.5).
"""


@dataclass(frozen=True)
class Check:
    """One row of quality: a measured value, and the bounds that it must lie between."""

    measure: str
    value: float | None
    lowest: float | None
    highest: float | None
    finding: str

    @property
    def passed(self) -> bool:
        """Return whether the day passes. A value that could not be measured passes."""
        return self.value is None or (
            (self.lowest is None or self.value >= self.lowest)
            and (self.highest is None or self.value <= self.highest)
        )


@dataclass(frozen=True)
class Verdict:
    """The result of a day's checks.

    findings: the findings of the failed checks
    released: the reason why the day is published in spite of them
    fresh: the checks ran just now, not earlier
    """

    network: str
    date: date
    findings: tuple[str, ...]
    released: str | None = None
    fresh: bool = True

    @property
    def held(self) -> bool:
        """Return whether the day's marts stay as they are."""
        return bool(self.findings) and self.released is None


Row = Mapping[str, Any]
"""The row of quality.sql for a day, with the limit `volume_fewest_days`."""


def share(*parts: str, of: str) -> Callable[[Row], float | None]:
    """Return a function of a row: the sum of some columns as a share of another column.

    The share is None if one of them was not measured, or if the whole is 0.
    """

    def value(row: Row) -> float | None:
        measured = [row[part] for part in parts]
        return float(sum(measured)) / float(row[of]) if row[of] and None not in measured else None

    return value


def volume_ratio(row: Row) -> float | None:
    """Return the volume by the usual volume; None if there are too few earlier days."""
    is_known = row["earlier_days"] >= row["volume_fewest_days"]
    return share("volume", of="usual_volume")(row) if is_known else None


def unread_finding(row: Row, _: float | None) -> str:
    """Return the names of the captures that were not read to their end, in words."""
    return f"captures not read to their end: {', '.join(row['unread_captures']) or 'none'}"


def clock_finding(row: Row, _: float | None) -> str:
    """Return how the monitor's clock stepped back, in words."""
    return (
        f"the monitor's clock stepped back {row['clock_steps'] or 0} times, by "
        f"{row['clock_back_s'] or 0:.3f} s in all: times across a step are not known; "
        "let NTP slew the clock, so that it steps seldom"
    )


def options_finding(_: Row, cut: float | None) -> str:
    """Return the share of cut options in words, and advice if it is too large."""
    advice = (
        ": raise the snap length; 96 bytes hold all headers of IPv4 over Ethernet, 128 those of "
        "IPv6 or behind VLAN tags, 192 those in GTP-U"
    )
    is_too_large = cut is not None and cut > MAX_OPTIONS_CUT_SHARE
    return (
        f"{_percent(cut)} of the TCP packets have options that the capture cut"
        f"{advice if is_too_large else ''}"
    )


def volume_finding(row: Row, ratio: float | None) -> str:
    """Return how the volume compares with that of earlier days, in words."""
    if ratio is None:
        return "volume: too few earlier days of the same weekday to compare with"
    return (
        f"volume {ratio:.2f} times the median of {row['earlier_days']} earlier days of the same "
        "weekday"
    )


def _percent(value: float | None) -> str:
    return "unknown share" if value is None else f"{value:.2%}"


def at_most(limit: float) -> tuple[None, float]:
    """Return the bounds of a value that may be at most the limit."""
    return None, limit


def at_least(limit: float) -> tuple[float, None]:
    """Return the bounds of a value that must be at least the limit."""
    return limit, None


def within_factor(limit: float) -> tuple[float, float]:
    """Return the bounds of a ratio that may differ from 1 by a factor, up or down."""
    return 1 / limit, limit


Definition = tuple[
    str,
    Callable[[Row], float | None],
    Callable[[float], tuple[float | None, float | None]] | None,
    str | Callable[[Row, float | None], str],
]
"""A check's measure, value, condition and finding.

The condition is about the limit in the networks file that has the measure's name; None: the check
only reports. A finding's text has the value as {share}, and values of the row by their names.
"""
CHECKS: tuple[Definition, ...] = (
    ("unread_captures", lambda row: len(row["unread_captures"]), at_most, unread_finding),
    ("skipped_share", share("skipped", of="frames"), at_most,
     "{share} of the frames could not be read"),
    ("duplicate_share", share("duplicates", of="frames"), None,
     "{share} of the frames are duplicates of earlier ones, and do not count"),
    ("copied_share", share("copied", of="numbered"), at_most,
     "{share} of the packets are in two captures, as if two mirrored ports were written to a file "
     "each: merge the files into one, in which duplicates are found"),
    ("clock_steps", itemgetter("clock_steps"), None, clock_finding),
    ("acked_unseen_share", share("acked_unseen_bytes", of="acked_bytes"), at_most,
     "{share} of the bytes that mobiles acknowledged were never seen: the capture dropped them"),
    ("one_way_share", share("flows_up_only", "flows_down_only", of="flows"), at_most,
     "{share} of the connections were seen in one direction only ({flows_up_only} up, "
     "{flows_down_only} down): the other direction is not mirrored, or takes another path"),
    ("losses_unknown_share", share("flows_losses_unknown", of="flows_with_data"), None,
     "{share} of the connections with data to the mobile were not seen well enough to estimate "
     "their losses: they are left out"),
    ("sending_unknown_share", share("flows_sending_unknown", of="flows_with_data"), None,
     "{share} of the connections with data to the mobile were not seen well enough to know what "
     "the server did"),
    ("split_share", share("flows_split", of="flows_with_data"), None,
     "{share} of the connections with data to the mobile are split by a performance-enhancing "
     "proxy at Gi: their access side is not known"),
    ("near_share", share("flows_too_near", of="flows_timed"), None,
     "{share} of the connections have an RTT on the access side below "
     f"{1000 * MIN_RADIO_RTT_S:g} ms, less than over any radio link: a proxy or a host at Gi "
     "answers"),
    ("merged_share", share("merged_segments", of="segments"), None,
     "{share} of the segments were merged into larger packets (LRO, GRO, TSO)"),
    ("options_cut_share", share("options_cut", of="tcp_packets"), None, options_finding),
    ("not_tcp_share", share("not_tcp_bytes", of="ip_bytes"), None,
     "{share} of the bytes were not TCP (QUIC, for example): they count as load of the link"),
    ("tunnel_share", share("tunnel_bytes", of="ip_bytes"), None,
     "{share} of the bytes were in tunnels that are not opened (IP in IP, GRE, ESP, L2TP)"),
    ("without_syn_share", share("flows_without_syn", of="flows"), at_most,
     "{share} of the connections have no SYN"),
    ("peak_flows", itemgetter("peak_flows"), at_least,
     "{peak_flows} connections in the peak hours"),
    ("volume_ratio", volume_ratio, within_factor, volume_finding),
)  # fmt: skip


def evaluate(measured: Row, limits: QualityLimits) -> list[Check]:
    """Return the checks of a day. measured: the row of quality.sql."""
    row = {**measured, "volume_fewest_days": limits.volume_fewest_days}
    return [_check(row, limits, definition) for definition in CHECKS]


def _check(row: Row, limits: QualityLimits, definition: Definition) -> Check:
    measure, value_of, condition, finding = definition
    value = value_of(row)
    lowest, highest = condition(getattr(limits, measure)) if condition else (None, None)
    if isinstance(finding, str):
        text = finding.format(share=_percent(value), **row)
    else:
        text = finding(row, value)
    return Check(measure, value, lowest, highest, text)


def check(
    warehouse: Warehouse, networks: list[Network], extra_day: date | None = None
) -> list[Verdict]:
    """Bring the verdicts of every day with flows up to date, and return them.

    extra_day: a day to check even if it has no flows
    """
    extra_days = {extra_day} if extra_day else set()
    return [
        _current_verdict(warehouse, network, day, captures)
        for network in networks
        for captures in [_captures_by_day(warehouse, network.name)]
        for day in sorted(extra_days | {day for _, day in warehouse.days("day", network.name)})
    ]


def release(warehouse: Warehouse, network: Network, day: date, reason: str) -> None:
    """Let a held day be published as it is now."""
    from spark_jobs.warehouse.files import read_rows

    captures = _captures_by_day(warehouse, network.name)
    verdict = _current_verdict(warehouse, network, day, captures)
    if not verdict.held:
        raise UserError(f"{warehouse.root}: {network.name} {day} is not held back")
    rows = read_rows(QUALITY, warehouse.files(QUALITY, network.name, day))
    released = rows.set_column(
        rows.schema.get_field_index("released"), "released", pa.array([reason] * len(rows))
    )
    data = _data_hash(warehouse, network.name, day, captures)
    facts = {"findings": verdict.findings, "released": reason, "data": data}
    _publish(warehouse, network, day, released, facts)


def verdict_of(warehouse: Warehouse, network: str, day: date) -> Verdict | None:
    """Return the last verdict on the day, if its packets have not changed since."""
    commit = warehouse.published(_unit(network, day))
    captures = _captures_by_day(warehouse, network)
    is_current = commit and commit.facts["data"] == _data_hash(warehouse, network, day, captures)
    return (
        _verdict_from(commit)
        if commit and (is_current or _data_purged(warehouse, network, day))
        else None
    )


def _data_purged(warehouse: Warehouse, network: str, day: date) -> bool:
    """Return whether data that the day was checked by was purged since.

    If so, the day's verdict stays.
    """
    return day < warehouse.purged_before(network, PACKETS, FLOWS)


def _unit(network: str, day: date) -> Unit:
    return Unit.of_day("quality", network, day)


def _verdict_from(commit: PublishedUnit) -> Verdict:
    findings, released = commit.facts["findings"], commit.facts["released"]
    return Verdict(commit.unit.network, commit.unit.day, tuple(findings), released, fresh=False)


Captures = dict[str, list[tuple[str, str, int]]]
"""By day, (name, content, packets) of each capture that has its packets or is in its folder."""


def _captures_by_day(warehouse: Warehouse, network: str) -> Captures:
    by_day: Captures = defaultdict(list)
    for commit in warehouse.published_units("capture", network):
        folder = capture_day(commit.unit.name)
        facts = (commit.unit.name, commit.facts["content"], commit.facts["packets"])
        for day in {*commit.facts["dates"], *([folder.isoformat()] if folder else [])}:
            by_day[day].append(facts)
    return by_day


def _data_hash(warehouse: Warehouse, network: str, day: date, captures: Captures) -> str:
    """Return a hash of the data that a verdict is about: the day's flows and captures."""
    flows = warehouse.content_hashes(FLOWS, network, day)
    return fingerprint(flows, captures.get(day.isoformat(), []))


def _limits_used(network: Network) -> list[Any]:
    return [network.quality.model_dump(), list(network.peak_hours), network.timezone]


def _current_verdict(
    warehouse: Warehouse, network: Network, day: date, captures: Captures
) -> Verdict:
    commit = warehouse.published(_unit(network.name, day))
    data = _data_hash(warehouse, network.name, day, captures)
    is_current = commit and (commit.facts["data"], commit.facts["limits"]) == (
        data,
        _limits_used(network),
    )
    if commit and (
        _data_purged(warehouse, network.name, day) or (is_current and warehouse.is_intact(commit))
    ):
        return _verdict_from(commit)
    checks = evaluate(_measure(warehouse, network, day), network.quality)
    rows = [asdict(check) | {"passed": check.passed, "released": None} for check in checks]
    findings = [check.finding for check in checks if not check.passed]
    facts = {"findings": findings, "released": None, "data": data}
    _publish(warehouse, network, day, pa.Table.from_pylist(rows, QUALITY.arrow), facts)
    return Verdict(network.name, day, tuple(findings))


def _measure(warehouse: Warehouse, network: Network, day: date) -> dict[str, Any]:
    weeks = range(1, network.quality.volume_weeks + 1)
    earlier = [day - timedelta(weeks=n) for n in weeks]
    connection = warehouse.connect_to(
        {
            INGEST_LOG: warehouse.files(INGEST_LOG, network.name),
            FLOWS: warehouse.files(FLOWS, network.name, day),
            PACKETS: warehouse.files(PACKETS, network.name, day),
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
            "peak_from": network.peak_hours[0],
            "peak_until": network.peak_hours[1],
            "weeks": network.quality.volume_weeks,
            "unread_reasons": list(UNREAD_REASONS),
            "broken_off": list(INCOMPLETE_REASONS),
            "tunnels": list(TUNNELS),
            "min_radio_rtt": MIN_RADIO_RTT_S,
            "max_duplicate_delay_ms": MAX_DUPLICATE_DELAY_MS,
        },
    )
    [row] = answer.fetchall()
    return dict(zip((column[0] for column in answer.description), row, strict=True))


def _publish(
    warehouse: Warehouse, network: Network, day: date, rows: pa.Table, facts: dict[str, Any]
) -> None:
    with warehouse.staging() as staging:
        staging.write(QUALITY, network.name, day, "checks", rows)
        facts = {"limits": _limits_used(network)} | facts
        warehouse.publish(_unit(network.name, day), staging.files, facts)
