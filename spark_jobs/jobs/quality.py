"""The checks of a day before its marts are published, and what holds it back.

A verdict stands as long as what it was made from: new packets or other limits ask for a new one.
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
from spark_jobs.warehouse import Commit, Unit, Warehouse, fingerprint

SQL = Path(__file__).with_suffix(".sql")
COPY_MS = 100
"""A copy in another capture is no later: half the least retransmission timeout in use (Linux)."""
NEAREST_S = 0.003
"""No radio answers sooner: NR's own aim is 4 ms for each way (3GPP TR 38.913, 7.5)."""


@dataclass(frozen=True)
class Check:
    """One row of quality: what was found, and between what it had to lie."""

    measure: str
    value: float | None
    lowest: float | None
    highest: float | None
    finding: str

    @property
    def passed(self) -> bool:
        """What could not be measured holds nothing back."""
        return self.value is None or (
            (self.lowest is None or self.value >= self.lowest)
            and (self.highest is None or self.value <= self.highest)
        )


@dataclass(frozen=True)
class Verdict:
    """What the checks say of a network's day."""

    network: str
    date: date
    findings: tuple[str, ...]
    """Of the failed checks."""
    released: str | None = None
    """Why it is published in spite of them."""
    fresh: bool = True
    """Made just now, not earlier."""

    @property
    def held(self) -> bool:
        """Whether the day's marts stay as they are."""
        return bool(self.findings) and self.released is None


def judge(measured: dict[str, Any], limits: QualityLimits) -> list[Check]:
    """The checks of a day; measured: the row of quality.sql."""
    unread = measured["unread_captures"]
    skipped = _share(measured["skipped"], measured["frames"])
    duplicates = _share(measured["duplicates"], measured["frames"])
    copied = _share(measured["copied"], measured["numbered"])
    unseen = _share(measured["acked_unseen_bytes"], measured["acked_bytes"])
    one_way = _share(measured["flows_up_only"] + measured["flows_down_only"], measured["flows"])
    with_data = measured["flows_with_data"]
    losses_unknown = _share(measured["flows_losses_unknown"], with_data)
    sending_unknown = _share(measured["flows_sending_unknown"], with_data)
    split = _share(measured["flows_split"], with_data)
    near = _share(measured["flows_too_near"], measured["flows_timed"])
    merged = _share(measured["merged_segments"], measured["segments"])
    cut = _share(measured["options_cut"], measured["tcp_packets"])
    not_tcp = _share(measured["not_tcp_bytes"], measured["ip_bytes"])
    tunnelled = _share(measured["tunnel_bytes"], measured["ip_bytes"])
    without_syn = _share(measured["flows_without_syn"], measured["flows"])
    volume = _share(measured["volume"], measured["usual_volume"])
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
            f"{_percent(duplicates)} of the frames were captured before; the first ones count",
        ),
        Check(
            "copied_share",
            copied,
            None,
            limits.copied_share,
            f"{_percent(copied)} of the packets lie in two captures: two mirrored ports that were "
            "written to a file each; merge these files into one, in which copies are found",
        ),
        Check(
            "clock_steps",
            measured["clock_steps"],
            None,
            None,
            f"the monitor's clock stepped back {measured['clock_steps'] or 0} times, by "
            f"{measured['clock_back_s'] or 0:.3f} s in all: times across a step are not known; a "
            "clock that is slewed (NTP) steps seldom",
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
            f"{_percent(one_way)} of the connections seen in one direction only "
            f"({measured['flows_up_only']} up, {measured['flows_down_only']} down): the other one "
            "is not mirrored, or takes another way",
        ),
        Check(
            "losses_unknown_share",
            losses_unknown,
            None,
            None,
            f"{_percent(losses_unknown)} of the connections with data to the mobile were not seen "
            "well enough to know what they lost: they are left out",
        ),
        Check(
            "sending_unknown_share",
            sending_unknown,
            None,
            None,
            f"{_percent(sending_unknown)} of them not well enough to know what the server did",
        ),
        Check(
            "split_share",
            split,
            None,
            None,
            f"{_percent(split)} of them are answered by something at Gi in the mobile's name "
            "(a performance-enhancing proxy): their access side is not known",
        ),
        Check(
            "near_share",
            near,
            None,
            None,
            f"{_percent(near)} of the connections with an RTT on the access side below "
            f"{1000 * NEAREST_S:g} ms: nearer than a radio, so a proxy or a host at Gi answers",
        ),
        Check(
            "merged_share",
            merged,
            None,
            None,
            f"{_percent(merged)} of the segments came merged into larger packets (LRO, GRO, TSO)",
        ),
        Check(
            "options_cut_share",
            cut,
            None,
            None,
            f"{_percent(cut)} of the TCP packets have options that the capture cut{_advice(cut)}",
        ),
        Check(
            "not_tcp_share",
            not_tcp,
            None,
            None,
            f"{_percent(not_tcp)} of the bytes were not TCP, QUIC among them: load of the link",
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
            f"{_percent(without_syn)} of the connections without a SYN",
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


def _share(part: float | None, whole: float | None) -> float | None:
    return float(part) / float(whole) if part is not None and whole else None


def _advice(cut: float | None) -> str:
    """What is to be done where so large a share of the options was cut."""
    if cut is None or cut <= MAX_OPTIONS_CUT_SHARE:
        return ""
    return (
        ": raise the snap length; 96 bytes hold all headers of IPv4 over Ethernet, 128 those of "
        "IPv6 or behind VLAN tags, 192 those in GTP-U"
    )


def _percent(share: float | None) -> str:
    return "unknown share" if share is None else f"{share:.2%}"


def check(warehouse: Warehouse, networks: list[Network], also: date | None = None) -> list[Verdict]:
    """Bring the verdicts of every day with flows up to date, and of `also`, with or without."""
    asked = {also} if also else set()
    return [
        _verdict(warehouse, network, day, captures)
        for network in networks
        for captures in [_captures(warehouse, network.name)]
        for day in sorted(asked | {day for _, day in warehouse.days("day", network.name)})
    ]


def release(warehouse: Warehouse, network: Network, day: date, reason: str) -> None:
    """Let a day that is held be published as it is now."""
    from spark_jobs.warehouse.files import read_rows

    captures = _captures(warehouse, network.name)
    verdict = _verdict(warehouse, network, day, captures)
    if not verdict.held:
        raise UserError(f"{warehouse.root}: {network.name} {day} is not held back")
    rows = read_rows(QUALITY, warehouse.files(QUALITY, network.name, day))
    released = rows.set_column(
        rows.schema.get_field_index("released"), "released", pa.array([reason] * len(rows))
    )
    data = _data(warehouse, network.name, day, captures)
    facts = {"findings": verdict.findings, "released": reason, "data": data}
    _publish(warehouse, network, day, released, facts)


def verdict_of(warehouse: Warehouse, network: str, day: date) -> Verdict | None:
    """The last verdict on the day, if the packets behind it are those that there are now."""
    commit = warehouse.commit(_unit(network, day))
    captures = _captures(warehouse, network)
    same = commit and commit.facts["data"] == _data(warehouse, network, day, captures)
    return _from(commit) if commit and (same or _is_over(warehouse, network, day)) else None


def _is_over(warehouse: Warehouse, network: str, day: date) -> bool:
    """Whether something that it was checked by was removed since: its verdict stays."""
    return day < warehouse.purged(network, PACKETS, FLOWS)


def _unit(network: str, day: date) -> Unit:
    return Unit.of_day("quality", network, day)


def _from(commit: Commit) -> Verdict:
    findings, released = commit.facts["findings"], commit.facts["released"]
    return Verdict(commit.unit.network, commit.unit.day, tuple(findings), released, fresh=False)


Captures = dict[str, list[tuple[str, str, int]]]
"""By day: name, content and packets of each capture of it, or in its folder."""


def _captures(warehouse: Warehouse, network: str) -> Captures:
    found: Captures = defaultdict(list)
    for commit in warehouse.commits("capture", network):
        folder = capture_day(commit.unit.name)
        facts = (commit.unit.name, commit.facts["content"], commit.facts["packets"])
        for day in {*commit.facts["dates"], *([folder.isoformat()] if folder else [])}:
            found[day].append(facts)
    return found


def _data(warehouse: Warehouse, network: str, day: date, captures: Captures) -> str:
    """The data that a verdict is about, as a hash: the day's flows and what was read for them."""
    flows = warehouse.contents(FLOWS, network, day)
    return fingerprint(flows, captures.get(day.isoformat(), []))


def _limits(network: Network) -> list[Any]:
    return [network.quality.model_dump(), list(network.peak_hours), network.timezone]


def _verdict(warehouse: Warehouse, network: Network, day: date, captures: Captures) -> Verdict:
    commit = warehouse.commit(_unit(network.name, day))
    data = _data(warehouse, network.name, day, captures)
    same = commit and (commit.facts["data"], commit.facts["limits"]) == (data, _limits(network))
    if commit and (_is_over(warehouse, network.name, day) or (same and warehouse.is_whole(commit))):
        return _from(commit)
    checks = judge(_measure(warehouse, network, day), network.quality)
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
                for other in earlier
                for path in warehouse.files(TABLES["table1_summary"], network.name, other)
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
            "nearest": NEAREST_S,
            "copy_ms": COPY_MS,
        },
    )
    [row] = answer.fetchall()
    return dict(zip((column[0] for column in answer.description), row, strict=True))


def _publish(
    warehouse: Warehouse, network: Network, day: date, rows: pa.Table, facts: dict[str, Any]
) -> None:
    with warehouse.staging() as staging:
        staging.write(QUALITY, network.name, day, "checks", rows)
        facts = {"limits": _limits(network)} | facts
        warehouse.publish(_unit(network.name, day), staging.files, facts)
