"""The quality checks of a day, which decide whether its marts are published.

A verdict stands until its inputs change: new packets or other limits need a new one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import date, timedelta
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
    TABLES,
    TUNNELS,
    UNREAD_REASONS,
)
from spark_jobs.capture.files import capture_day
from spark_jobs.errors import UserError
from spark_jobs.networks import Network, QualityLimits
from spark_jobs.warehouse import PublishedUnit, Unit, Warehouse, fingerprint

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


def evaluate(measured: dict[str, Any], limits: QualityLimits) -> list[Check]:
    """Return the checks of a day. measured: the row of quality.sql."""
    unread = measured["unread_captures"]
    skipped = _ratio(measured["skipped"], measured["frames"])
    duplicates = _ratio(measured["duplicates"], measured["frames"])
    copied = _ratio(measured["copied"], measured["numbered"])
    unseen = _ratio(measured["acked_unseen_bytes"], measured["acked_bytes"])
    one_way = _ratio(measured["flows_up_only"] + measured["flows_down_only"], measured["flows"])
    with_data = measured["flows_with_data"]
    losses_unknown = _ratio(measured["flows_losses_unknown"], with_data)
    sending_unknown = _ratio(measured["flows_sending_unknown"], with_data)
    split = _ratio(measured["flows_split"], with_data)
    too_near = _ratio(measured["flows_too_near"], measured["flows_timed"])
    merged = _ratio(measured["merged_segments"], measured["segments"])
    options_cut = _ratio(measured["options_cut"], measured["tcp_packets"])
    not_tcp = _ratio(measured["not_tcp_bytes"], measured["ip_bytes"])
    tunnelled = _ratio(measured["tunnel_bytes"], measured["ip_bytes"])
    without_syn = _ratio(measured["flows_without_syn"], measured["flows"])
    volume = _ratio(measured["volume"], measured["usual_volume"])
    if measured["earlier_days"] < limits.volume_fewest_days:
        volume = None
    return [
        Check(
            "unread_captures",
            len(unread),
            None,
            limits.unread_captures,
            f"captures not read to their end: {', '.join(unread) or 'none'}",
        ),
        Check(
            "skipped_share",
            skipped,
            None,
            limits.skipped_share,
            f"{_percent(skipped)} of the frames could not be read",
        ),
        Check(
            "duplicate_share",
            duplicates,
            None,
            None,
            f"{_percent(duplicates)} of the frames are duplicates of earlier ones, and do not "
            "count",
        ),
        Check(
            "copied_share",
            copied,
            None,
            limits.copied_share,
            f"{_percent(copied)} of the packets are in two captures, as if two mirrored ports were "
            "written to a file each: merge the files into one, in which duplicates are found",
        ),
        Check(
            "clock_steps",
            measured["clock_steps"],
            None,
            None,
            f"the monitor's clock stepped back {measured['clock_steps'] or 0} times, by "
            f"{measured['clock_back_s'] or 0:.3f} s in all: times across a step are not known; "
            "let NTP slew the clock, so that it steps seldom",
        ),
        Check(
            "acked_unseen_share",
            unseen,
            None,
            limits.acked_unseen_share,
            f"{_percent(unseen)} of the bytes that mobiles acknowledged were never seen: "
            "the capture dropped them",
        ),
        Check(
            "one_way_share",
            one_way,
            None,
            limits.one_way_share,
            f"{_percent(one_way)} of the connections were seen in one direction only "
            f"({measured['flows_up_only']} up, {measured['flows_down_only']} down): the other "
            "direction is not mirrored, or takes another path",
        ),
        Check(
            "losses_unknown_share",
            losses_unknown,
            None,
            None,
            f"{_percent(losses_unknown)} of the connections with data to the mobile were not seen "
            "well enough to estimate their losses: they are left out",
        ),
        Check(
            "sending_unknown_share",
            sending_unknown,
            None,
            None,
            f"{_percent(sending_unknown)} of the connections with data to the mobile were not seen "
            "well enough to know what the server did",
        ),
        Check(
            "split_share",
            split,
            None,
            None,
            f"{_percent(split)} of the connections with data to the mobile are split by a "
            "performance-enhancing proxy at Gi: their access side is not known",
        ),
        Check(
            "near_share",
            too_near,
            None,
            None,
            f"{_percent(too_near)} of the connections have an RTT on the access side below "
            f"{1000 * MIN_RADIO_RTT_S:g} ms, less than over any radio link: a proxy or a host at "
            "Gi answers",
        ),
        Check(
            "merged_share",
            merged,
            None,
            None,
            f"{_percent(merged)} of the segments were merged into larger packets (LRO, GRO, TSO)",
        ),
        Check(
            "options_cut_share",
            options_cut,
            None,
            None,
            f"{_percent(options_cut)} of the TCP packets have options that the capture cut"
            f"{_snap_length_advice(options_cut)}",
        ),
        Check(
            "not_tcp_share",
            not_tcp,
            None,
            None,
            f"{_percent(not_tcp)} of the bytes were not TCP (QUIC, for example): they count as "
            "load of the link",
        ),
        Check(
            "tunnel_share",
            tunnelled,
            None,
            None,
            f"{_percent(tunnelled)} of the bytes were in tunnels that are not opened (IP in IP, "
            "GRE, ESP, L2TP)",
        ),
        Check(
            "without_syn_share",
            without_syn,
            None,
            limits.without_syn_share,
            f"{_percent(without_syn)} of the connections have no SYN",
        ),
        Check(
            "peak_flows",
            measured["peak_flows"],
            limits.peak_flows,
            None,
            f"{measured['peak_flows']} connections in the peak hours",
        ),
        Check(
            "volume_ratio",
            volume,
            1 / limits.volume_ratio,
            limits.volume_ratio,
            "volume: too few earlier days of the same weekday to compare with"
            if volume is None
            else f"volume {volume:.2f} times the median of {measured['earlier_days']} earlier days "
            "of the same weekday",
        ),
    ]


def _ratio(part: float | None, whole: float | None) -> float | None:
    return float(part) / float(whole) if part is not None and whole else None


def _snap_length_advice(share: float | None) -> str:
    """Return the advice to add if the captures cut too large a share of the options."""
    if share is None or share <= MAX_OPTIONS_CUT_SHARE:
        return ""
    return (
        ": raise the snap length; 96 bytes hold all headers of IPv4 over Ethernet, 128 those of "
        "IPv6 or behind VLAN tags, 192 those in GTP-U"
    )


def _percent(share: float | None) -> str:
    return "unknown share" if share is None else f"{share:.2%}"


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
