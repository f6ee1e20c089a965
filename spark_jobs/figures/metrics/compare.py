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

from spark_jobs.base.errors import UserError
from spark_jobs.figures.dashboard_parts import literal
from spark_jobs.figures.mart_columns import common_user_group
from spark_jobs.figures.mart_sql import SMALL_VIEWS, view_statements
from spark_jobs.figures.metrics.differences import MEASURES, judged_sql
from spark_jobs.figures.metrics.labels import SHOWN_METRICS
from spark_jobs.figures.selection import Selection, ShownNetwork
from spark_jobs.figures.statistics import Difference, Interval

PERIODS = {"peak": "peak", "off-peak": "off_peak", "other": "other"}
OPTIONS = ("sack", "timestamps", "mss", "window")
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
    has no options. The mart `metrics` has no group of fewer than min_users users, but the
    connections with an option may have.
    """
    networks = compared_networks(selection.networks, first, second)
    options = first.options or second.options
    source = _measures_by_options(selection) if options else MEASURES
    metrics = [
        name for name, shown in SHOWN_METRICS.items() if not (options and shown.during_set_up)
    ]
    of_pair = literal(first.network) if first.network and second.network else "network"
    enough_users = """
        qualify count(*) over (partition by network, metric) >= (
            select coalesce(max(min_users), 0) from networks where networks.network = sums.network)
    """
    sums = " union all ".join(
        f"""select 0 as page, {of_pair} as network, '' as country, '' as access, metric,
            {subset is first} as in_first, date, measured, numerator, denominator,
            (hash(network, user_group) >> 1)::bigint as user_group
        from (
            select network, metric, user_group, max(date) as date, sum(measured) as measured,
                sum(numerator) as numerator, sum(denominator) as denominator
            from {source} where {subset.where} group by network, metric, user_group
            having sum(denominator) > 0
        ) as sums where metric in {tuple(metrics)} {enough_users if options else ""}"""
        for subset in (first, second)
    )
    rows = selection.rows(f"""
        with {judged_sql(sums)}
        select *, difference_text(compared, significant, unit, {literal(first.name)},
            {literal(second.name)}) as sentence
        from judged where firsts > 0 and seconds > 0 order by place
    """)
    return [
        Comparison(
            network,
            row["metric"],
            Difference(
                row["first"],
                row["second"],
                None if row["p"] is None else Interval(row["low"], row["high"], row["p"]),
            ),
            row["significant"],
            row["sentence"],
        )
        for network in networks
        for row in rows
        if row["network"] == network.name
    ]


def peak_comparisons(selection: Selection) -> list[Comparison]:
    """Return the comparison of peak with off-peak."""
    return selection.once("peak", lambda: comparisons(selection, PEAK, OFF_PEAK))


def compared_networks(
    networks: Sequence[ShownNetwork], first: Subset, second: Subset
) -> list[ShownNetwork]:
    """Return the networks to compare: with themselves, or the first subset's with the second's.

    Raises UserError if a subset names a network that the selection does not have.
    """
    names = {network.name for network in networks}
    for subset in (first, second):
        if subset.network is not None and subset.network not in names:
            raise UserError(f"report: nothing to show for {subset.network!r}: no marts of it")
    name = first.network or second.network
    return [network for network in networks if name in (None, network.name)]


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
