"""Comparisons of two subsets of connections, metric by metric.

The subsets are, for example, peak and off-peak, before and after, or with and without a TCP option.
The command line describes a subset by conditions, as 'hours=peak' or 'hours=18-21,access=gprs'.
Networks are never pooled: each network is compared with itself, or, if each subset names one
network, the first with the second.
"""

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.base.errors import UserError
from spark_jobs.figures.mart_columns import common_user_group
from spark_jobs.figures.mart_sql import SMALL_VIEWS, view_statements
from spark_jobs.figures.metrics.labels import SHOWN_METRICS
from spark_jobs.figures.selection import Selection, ShownNetwork
from spark_jobs.figures.statistics import Difference, Sums, difference, significant

PERIODS = {"peak": "peak", "off-peak": "off_peak", "other": "other"}
OPTIONS = ("sack", "timestamps", "mss", "window")
MEASURES = f"(select * replace ({common_user_group('metrics')} as user_group) from metrics)"
"""The mart `metrics`, with the same kind of user groups on all days of a network."""
SUMS_COLUMNS = ("numerator", "denominator", "measured", "user_group")
KEYS = ("hours", "days", "network", "access", *OPTIONS)


@dataclass(frozen=True)
class Subset:
    """A subset of connections, selected by a condition in SQL.

    options: the condition depends on TCP options. network: the network that it names, if any.
    parts: the conditions in words.
    """

    name: str
    where: str
    options: bool = False
    network: str | None = None
    parts: tuple[str, ...] = ()


PEAK = Subset("at peak", "period = 'peak'")
OFF_PEAK = Subset("off-peak", "period = 'off_peak'")


@dataclass(frozen=True)
class Comparison:
    """A metric's difference between two subsets of a network.

    significant: the difference is beyond chance, with all comparisons on the page counted.
    """

    network: ShownNetwork
    metric: str
    difference: Difference
    significant: bool
    sentence: str


def parse_subset(text: str) -> Subset:
    """Return the Subset that 'KEY=VALUE,...' describes.

    Raises UserError if a key or a value is not known.
    """
    conditions, network, options = [], None, False
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or key not in KEYS:
            raise UserError(
                f"report: --compare {text}: {part!r} is not KEY=VALUE; keys: {', '.join(KEYS)}"
            )
        condition = CONDITIONS[key](value)
        if condition is None:
            raise UserError(
                f"report: --compare {text}: {value!r} is no value of {key}; "
                "see giscope report --help"
            )
        conditions.append(condition)
        network = value if key == "network" else network
        options |= key in OPTIONS
    parts = tuple(_words(*part.strip().split("=")) for part in text.split(","))
    return Subset(", ".join(parts), " and ".join(conditions), options, network, parts)


def _words(key: str, value: str) -> str:
    """Return a condition in words, such as 'in aa-gprs' for network=aa-gprs."""
    if key == "hours" and value in PERIODS:
        return {"peak": PEAK.name, "off-peak": OFF_PEAK.name}.get(value, "at other hours")
    words = {"network": "in {}", "hours": "at {} h", "days": "on {}", "access": "over {}"}
    return words.get(key, f"with {key}={{}}").format(value)


def parse_subsets(first: str, second: str) -> tuple[Subset, Subset]:
    """Return two Subsets, named by the conditions in which they differ.

    Raises UserError as parse_subset does.
    """
    pair = parse_subset(first), parse_subset(second)
    shared = set(pair[0].parts) & set(pair[1].parts)
    one, other = (
        replace(s, name=", ".join(p for p in s.parts if p not in shared) or s.name) for s in pair
    )
    return one, other


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


YES_OR_NO = {"yes": "true", "no": "false"}
CLASSES = {name: f"'{name}'" for name in ("low", "med", "high", "other")}
CONDITIONS: dict[str, Callable[[str], str | None]] = {
    "hours": _hours,
    "days": _days,
    "network": _name("network"),
    "access": _name("access"),
    "sack": _one_of("sack", YES_OR_NO),
    "timestamps": _one_of("timestamps", YES_OR_NO),
    "mss": _one_of("mss_class", CLASSES),
    "window": _one_of("window_class", CLASSES),
}


def comparisons(selection: Selection, first: Subset, second: Subset) -> list[Comparison]:
    """Return the comparison of every metric for each network that has both subsets.

    If a subset depends on options, the metrics of the set-up are left out: a set-up that failed
    has no options.
    """
    options = first.options or second.options
    source = _measures_by_options(selection) if options else MEASURES
    min_users = _min_users(selection) if options else {}
    first_sums, second_sums = (
        _sums(selection, source, subset.where, min_users) for subset in (first, second)
    )
    differences = [
        (one, metric, difference(first_sums[one.name, metric], second_sums[other.name, metric]))
        for one, other in network_pairs(selection.networks, first, second)
        for metric, shown in SHOWN_METRICS.items()
        if not (options and shown.during_set_up)
        if (one.name, metric) in first_sums and (other.name, metric) in second_sums
    ]
    are_significant = significant([value for _, _, value in differences])
    return [
        Comparison(
            network,
            metric,
            value,
            is_significant,
            SHOWN_METRICS[metric].unit.sentence(value, is_significant, first.name, second.name),
        )
        for (network, metric, value), is_significant in zip(
            differences, are_significant, strict=True
        )
    ]


def peak_comparisons(selection: Selection) -> list[Comparison]:
    """Return the comparison of peak with off-peak."""
    return selection.once("peak", lambda: comparisons(selection, PEAK, OFF_PEAK))


def network_pairs(
    networks: Sequence[ShownNetwork], first: Subset, second: Subset
) -> list[tuple[ShownNetwork, ShownNetwork]]:
    """Return the pairs of networks to compare.

    Raises UserError if a subset names a network that the selection does not have.
    """
    by_name = {network.name: network for network in networks}
    for subset in (first, second):
        if subset.network is not None and subset.network not in by_name:
            raise UserError(f"report: nothing to show for {subset.network!r}: no marts of it")
    if first.network and second.network:
        return [(by_name[first.network], by_name[second.network])]
    name = first.network or second.network
    return [(network, network) for network in networks if name in (None, network.name)]


def _measures_by_options(selection: Selection) -> str:
    """Return a subquery like MEASURES, with a row for each connection and its options."""
    for statement in view_statements(stored=SMALL_VIEWS):
        selection.connection.execute(statement)
    names = ", ".join(f"'{network.name}'" for network in selection.networks)
    return f"""(
        select metric_terms.* replace ({common_user_group("user_days")} as user_group),
            network, date, country, access, hour, period, 1 as measured
        from metric_terms
        join local_hours on local_hours.local_hour = metric_terms.local_hour
        where network in ({names})
            and date between '{selection.first_day}' and '{selection.last_day}'
    )"""


def _min_users(selection: Selection) -> dict[str, int]:
    """Return each network's min_users.

    The mart `metrics` has no group of fewer users, but the connections may have.
    """
    rows = selection.rows("select network, coalesce(min_users, 0) as min_users from networks")
    return {row["network"]: row["min_users"] for row in rows}


def _sums(
    selection: Selection, source: str, where: str, min_users: dict[str, int]
) -> dict[tuple[str, str], Sums]:
    """Return the Sums of each network and metric that have at least the network's min_users.

    Labels of user groups contain the network's name: group 5 of one network has other users than
    group 5 of another.
    """
    return {
        (network, metric): replace(
            sums, group=np.array([f"{network} {number}" for number in sums.group.tolist()])
        )
        for (network, metric), sums in sums_by(selection, source, where)
        if len(sums.group) >= min_users.get(network, 0)
    }


def sums_by(
    selection: Selection,
    source: str,
    where: str = "true",
    keys: Sequence[str] = ("network", "metric"),
) -> list[tuple[tuple, Sums]]:
    """Return (values of the keys, Sums) of the source's rows that meet a condition.

    source: a table, view or subquery with the columns of MEASURES. User groups keep their
    numbers of the source (`user_group`), so that a network's group has one number in all subsets.
    """
    answer = selection.connection.sql(f"""
        select {", ".join(keys)}, user_group, sum(measured)::double as measured,
            sum(numerator) as numerator, sum(denominator) as denominator
        from {source} where {where} group by all
        having sum(denominator) > 0 order by {", ".join(keys)}
    """).fetchnumpy()
    labels = list(zip(*(answer[key].tolist() for key in keys), strict=True))
    starts = [n for n, label in enumerate(labels) if n == 0 or label != labels[n - 1]]
    ends = [*starts, len(labels)][1:]
    return [
        (
            labels[start],
            Sums(*(answer[column][start:end] for column in SUMS_COLUMNS)),
        )
        for start, end in zip(starts, ends, strict=True)
    ]
