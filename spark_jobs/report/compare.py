"""Two selections beside each other, metric by metric: peak and off-peak, before and after, with an
option and without.

A half is written as 'hours=peak', or with several conditions, 'hours=18-21,access=gprs'. Networks
are never pooled: each is compared with itself, or, where the halves name one each, the one with the
other.
"""

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.errors import UserError
from spark_jobs.estimators.differences import Difference, Sums, difference, supported
from spark_jobs.marts import SHARED, SMALL, text_of
from spark_jobs.marts.functions import for_duckdb
from spark_jobs.report.metrics import SHOWN
from spark_jobs.report.selection import Selection, ShownNetwork

PERIODS = {"peak": "peak", "off-peak": "off_peak", "other": "other"}
OPTIONS = ("sack", "timestamps", "mss", "window")
KEYS = ("hours", "days", "network", "access", *OPTIONS)


@dataclass(frozen=True)
class Subset:
    """One of two selections: its name, its condition in SQL, and whether that asks for options."""

    name: str
    where: str
    options: bool = False
    network: str | None = None


PEAK = Subset("at peak", "period = 'peak'")
OFF_PEAK = Subset("off-peak", "period = 'off_peak'")


@dataclass(frozen=True)
class Comparison:
    """A metric of two halves; claimed: the difference is more than chance makes of all on the
    page."""

    network: ShownNetwork
    metric: str
    difference: Difference
    claimed: bool
    sentence: str


def parse_subset(text: str) -> Subset:
    """A Subset from 'key=value,...'; a UserError that says what is wrong with it."""
    conditions, network, options = [], None, False
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or key not in KEYS:
            raise UserError(f"report: --compare {text}: {part!r} is not {'|'.join(KEYS)}=VALUE")
        condition = CONDITIONS[key](value)
        if condition is None:
            raise UserError(f"report: --compare {text}: {value!r} is no value of {key}")
        conditions.append(condition)
        network = value if key == "network" else network
        options |= key in OPTIONS
    name = "with " + ", ".join(part.strip() for part in text.split(","))
    return Subset(name, " and ".join(conditions), options, network)


def _hours(value: str) -> str | None:
    if value in PERIODS:
        return f"period = '{PERIODS[value]}'"
    match = re.fullmatch(r"(\d{1,2})-(\d{1,2})", value)
    if not match or not 0 <= int(match[1]) < int(match[2]) <= 24:
        return None
    return f"hour >= {int(match[1])} and hour < {int(match[2])}"


def _days(value: str) -> str | None:
    first, dots, last = value.partition("..")
    try:
        days = [datetime.date.fromisoformat(day) for day in (first, last if dots else first)]
    except ValueError:
        return None
    return f"date between '{days[0]}' and '{days[1]}'"


def _name(column: str) -> Callable[[str], str | None]:
    return lambda value: f"{column} = '{value}'" if re.fullmatch(r"[\w-]+", value) else None


def _one_of(column: str, values: dict[str, str]) -> Callable[[str], str | None]:
    return lambda value: f"{column} = {values[value]}" if value in values else None


_YES_OR_NO = {"yes": "true", "no": "false"}
_CLASSES = {name: f"'{name}'" for name in ("low", "med", "high", "other")}
CONDITIONS: dict[str, Callable[[str], str | None]] = {
    "hours": _hours,
    "days": _days,
    "network": _name("network"),
    "access": _name("access"),
    "sack": _one_of("sack", _YES_OR_NO),
    "timestamps": _one_of("timestamps", _YES_OR_NO),
    "mss": _one_of("mss_class", _CLASSES),
    "window": _one_of("window_class", _CLASSES),
}


def comparisons(selection: Selection, first: Subset, second: Subset) -> list[Comparison]:
    """Every metric of each network that has both halves; by options, those of connections that
    agreed on them: a set-up that failed has none."""
    options = first.options or second.options
    source = _by_options(selection) if options else "metrics"
    least = _least_users(selection) if options else {}
    ours, theirs = (_sums(selection, source, half.where, least) for half in (first, second))
    found = [
        (left, metric, difference(ours[left.name, metric], theirs[right.name, metric]))
        for left, right in pairs(selection.networks, first, second)
        for metric, shown in SHOWN.items()
        if not (options and shown.of_set_up)
        if (left.name, metric) in ours and (right.name, metric) in theirs
    ]
    claimed = supported([told for _, _, told in found])
    return [
        Comparison(
            network,
            metric,
            told,
            claim,
            SHOWN[metric].sentence(told, claim, first.name, second.name),
        )
        for (network, metric, told), claim in zip(found, claimed, strict=True)
    ]


def pairs(
    networks: Sequence[ShownNetwork], first: Subset, second: Subset
) -> list[tuple[ShownNetwork, ShownNetwork]]:
    """Which networks are compared with which."""
    by_name = {network.name: network for network in networks}
    for half in (first, second):
        if half.network is not None and half.network not in by_name:
            raise UserError(f"report: nothing to show for {half.network!r}")
    if first.network and second.network:
        return [(by_name[first.network], by_name[second.network])]
    one = first.network or second.network
    return [(network, network) for network in networks if one in (None, network.name)]


def _by_options(selection: Selection) -> str:
    """A view like the mart `metrics`, with the options of each connection, from all connections."""
    for statement in for_duckdb():
        selection.connection.execute(statement)
    for name in SHARED:
        kind = "table" if name in SMALL else "view"
        selection.connection.execute(f"create or replace temp {kind} {name} as {text_of(name)}")
    names = ", ".join(f"'{network.name}'" for network in selection.networks)
    return f"""(
        select measures.*, network, date, country, access, hour, period, 1 as measured
        from measures
        join local_hours on local_hours.local_hour = measures.local_hour
        where network in ({names})
            and date between '{selection.first_day}' and '{selection.last_day}'
    )"""


def _least_users(selection: Selection) -> dict[str, int]:
    """The min_users of each network: the mart `metrics` has no cell of fewer, connections may."""
    rows = selection.rows("select network, coalesce(min_users, 0) as least from networks")
    return {row["network"]: row["least"] for row in rows}


def _sums(
    selection: Selection, source: str, where: str, least: dict[str, int]
) -> dict[tuple[str, str], Sums]:
    """The Sums of each network and metric, but those of fewer users than is the network's least.
    Groups are labelled with their network: number 5 of one network has other users than number 5 of
    another."""
    return {
        (network, metric): replace(
            sums, group=np.array([f"{network} {number}" for number in sums.group.tolist()])
        )
        for (network, metric), sums in by(selection, source, where)
        if len(sums.group) >= least.get(network, 0)
    }


def by(
    selection: Selection,
    source: str,
    where: str = "true",
    keys: Sequence[str] = ("network", "metric"),
) -> list[tuple[tuple, Sums]]:
    """(values of the keys, Sums) of what a condition selects; groups have the numbers that the
    source gives them (`user_group`), so that a network's group has the same in every selection."""
    answer = selection.connection.sql(f"""
        select {", ".join(keys)}, user_group, sum(measured)::bigint as measured, sum(numerator) as numerator,
            sum(denominator) as denominator
        from {source} where {where} group by all having sum(denominator) > 0 order by {", ".join(keys)}
    """).fetchnumpy()
    labels = list(zip(*(answer[key].tolist() for key in keys), strict=True))
    starts = [n for n, label in enumerate(labels) if n == 0 or label != labels[n - 1]]
    ends = [*starts, len(labels)][1:]
    return [
        (
            labels[start],
            Sums(
                answer["user_group"][start:end],
                answer["numerator"][start:end],
                answer["denominator"][start:end],
                int(answer["measured"][start:end].sum()),
            ),
        )
        for start, end in zip(starts, ends, strict=True)
    ]
