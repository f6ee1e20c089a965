"""Numbers of a figure: ratios and quantiles over a mart's rows, with intervals by user group.

A figure defines its numbers once. `Numbers.rows` returns them to the report, and
`Numbers.dataset` to a dashboard. Both run the SQL of `Numbers.sql`, which needs a connection with
the functions of `sql_functions`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas import Table
from spark_jobs.figures.dashboard_parts import Dataset, Metric, if_enough_data, literal
from spark_jobs.figures.format import PERCENT, Unit
from spark_jobs.figures.mart_columns import USER_COUNT, USER_GROUP, common_user_group, users_with
from spark_jobs.figures.names import HOURS_SQL
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.statistics import UNKNOWN, Estimate, enough_sql

FILTERS_MARK = "/* filters */"
"""Mark in a dataset's SQL, in whose place Superset writes the conditions of the page's filters.

Superset would otherwise filter the dataset's rows. That is too late: these are computed from sums
by user group, to which the filters must apply.
"""
DAY_FILTERS_MARK = "/* filters of days */"
"""Mark as FILTERS_MARK, for rows that belong to no hour: filters of hours do not apply."""
PLACE = ("network", "country", "access", "hours")
"""Columns, besides the date, by which a dataset of numbers is grouped."""
NETWORK_PROPERTIES = ("country", "access")
"""Columns that have one value for each network."""


UsersOf = Callable[[str], str]


def _one_user_with(samples: str) -> str:
    """Return SQL of the number of users with samples, in rows of one user group."""
    return f"(sum({samples}) > 0)::int"


def _if_enough(n: int, value: str) -> str:
    """Return SQL of the struct of a value without an interval; null of too few samples or users."""
    enough = enough_sql(f"sum(samples_{n})", f"sum(users_{n})")
    return (
        f"{{'value': case when {enough} then {value} end, 'low': null::double, "
        "'high': null::double}"
    )


@dataclass(frozen=True)
class Ratio:
    """A value of a figure: the sum of a numerator divided by the sum of a denominator.

    label: its name in tables and charts.
    numerator, denominator: SQL expressions of the mart's columns, which are summed.
    unit: unit in which the value is printed.
    samples: SQL expression of the number of samples, which is summed; a value of too few is not
    shown.
    kind: kind of its interval: share (the value is between 0 and 1), mean, or none.
    """

    name: str
    label: str
    numerator: str
    denominator: str = "flows"
    unit: Unit = PERCENT
    samples: str = "flows"
    kind: str = "share"

    @property
    def metric(self) -> Metric:
        """The value as a number without interval, for a chart of a dataset with the mart's rows.

        A share is a number between 0 and 1; other values are in the unit. The dataset of a mean has
        the column user_group, so that the chart leaves out the same means as a table.
        """
        scale = "" if self.unit is PERCENT else f" * {self.unit.scale}"
        value = f"sum({self.numerator}) / nullif(sum({self.denominator}), 0){scale}"
        if self.kind == "mean":
            sums = f"list({self.numerator}), list({self.denominator}), list({self.samples})"
            value = f"mean_of_rows(list(hash(network, user_group)), {sums}){scale}"
        unit = "" if self.unit is PERCENT else f" [{self.unit.name}]"
        return Metric(
            self.name,
            if_enough_data(value, self.samples),
            self.label + unit,
            ".3~p" if self.unit is PERCENT else ",.3~r",
        )

    def sums(self, n: int, users_of: UsersOf) -> list[str]:
        """Return SQL of the columns of `Numbers._user_sums`; n: place among a figure's values.

        users_of: returns SQL of the number of users with samples.
        """
        parts = {
            "numerator": self.numerator,
            "denominator": self.denominator,
            "samples": self.samples,
        }
        sums = [f"sum(({sql})::double) as {part}_{n}" for part, sql in parts.items()]
        return [*sums, f"{users_of(self.samples)} as users_{n}"]

    def estimate(self, n: int) -> str:
        """Return SQL of the struct (value, low, high) over the rows of `Numbers._user_sums`."""
        if self.kind == "none":
            return _if_enough(n, f"sum(numerator_{n}) / nullif(sum(denominator_{n}), 0)")
        # A fixed order: the last digits of sums of floats depend on it.
        lists = ", ".join(
            f"list({part}_{n} order by network, user_group)"
            for part in ("numerator", "denominator", "samples")
        )
        return f"{self.kind}_interval({lists})"


def mean(
    name: str, label: str, total: str, unit: Unit, weight: str = "flows", samples: str = "flows"
) -> Ratio:
    """Return a mean with an interval: the sum of `total` divided by that of `weight`."""
    return Ratio(name, label, total, weight, unit, samples, "mean")


@dataclass(frozen=True)
class Quantile:
    """A value of a figure: the value below which the share `level` of the samples' weight lies.

    The rows are binned samples, as of the mart distributions. The quantile of level 1 is the
    largest sample, and has no interval.
    """

    name: str
    label: str
    level: float
    unit: Unit
    kind = "quantile"

    def sums(self, n: int, users_of: UsersOf) -> list[str]:
        """Return SQL of the columns of `Numbers._user_sums`; n: place among a figure's values."""
        bins = f"[samples, weight, weighted_sum, {LOWEST}, {HIGHEST}]"
        return [
            f"list({bins}::double[]) filter (weight > 0) as bins",
            f"sum(samples) as samples_{n}",
            f"{users_of('samples')} as users_{n}",
            f"max({HIGHEST}) as maximum",
        ]

    def estimate(self, n: int) -> str:
        """Return SQL of the struct (value, low, high) over the rows of `Numbers._user_sums`."""
        if self.level == 1:
            return _if_enough(n, "max(maximum)")
        return f"quantile_interval(list(bins order by network, user_group), {self.level})"


@dataclass(frozen=True)
class LogQuantile:
    """A quantile, without interval, of a mart's rows binned by LOG_BINS.

    weight: SQL expression of a row's weight. samples: as of a Ratio.
    """

    name: str
    label: str
    level: float
    unit: Unit
    weight: str
    samples: str
    kind = "none"

    @property
    def _bins(self) -> str:
        """Name of the column with the bins, which quantiles of one weight share."""
        return f'"bins of {self.weight}"'

    def sums(self, n: int, users_of: UsersOf) -> list[str]:
        """Return SQL of the columns of `Numbers._user_sums`; n: place among a figure's values."""
        samples = f"if(bin is null, 0, {self.samples})"
        return [
            f"list([bin, {self.weight}]::double[]) filter (bin is not null) as {self._bins}",
            f"sum({samples}) as samples_{n}",
            f"{users_of(samples)} as users_{n}",
        ]

    def estimate(self, n: int) -> str:
        """Return SQL of the struct (value, low, high) over the rows of `Numbers._user_sums`."""
        return _if_enough(n, f"log_quantile(flatten(list({self._bins})), {self.level})")


BINS = 50
"""Bins per unit of the natural logarithm in the mart distributions.

bin = floor(BINS * ln(value)).
"""
LOWEST = f"coalesce(lowest, exp(bin / {BINS}))"
HIGHEST = f"coalesce(highest, exp((bin + 1) / {BINS}))"
"""SQL of the smallest and the largest sample of a row; suppressed ones are the bin's edges."""


Value = Ratio | Quantile | LogQuantile


class Row(dict[str, Any]):
    """A row of numbers: the columns to group by, the counts, and an Estimate of each ratio."""

    def __init__(self, values: dict[str, Any], ratios: Sequence[Value]) -> None:
        found = {
            ratio.name: UNKNOWN if values[ratio.name] is None else Estimate(**values[ratio.name])
            for ratio in ratios
        }
        super().__init__({**values, **found})
        self._ratios = {ratio.name: (n, ratio) for n, ratio in enumerate(ratios)}

    def text(self, name: str) -> str:
        """Return a ratio with its interval as text."""
        place, ratio = self._ratios[name]
        return ratio.unit.estimate(self[name], bool(self[f"samples_{place}"]))

    def value_text(self, name: str) -> str:
        """Return a ratio without its interval as text."""
        place, ratio = self._ratios[name]
        return ratio.unit.estimate(Estimate(self[name].value), bool(self[f"samples_{place}"]))

    @property
    def texts(self) -> list[str]:
        """All ratios as texts."""
        return [self.text(name) for name in self._ratios]


USERS = {"users": "sum(users)::bigint"}
"""An aggregate of Numbers: the number of users."""


@dataclass(frozen=True)
class Numbers:
    """The numbers of a figure.

    mart: table whose rows are summed. Ratios with intervals need its column user_group.
    ratios: the values.
    dimensions: SQL expressions, by name, of columns to group by that the mart does not have.
    where: condition on the mart's rows.
    counts: sums that are shown beside the values: label and SQL expression by name. Dashboards
    leave out those without a label.
    aggregates: SQL expressions, by name, of further columns over the sums of the user groups.
    source: SQL of a subquery that is read instead of the mart.
    """

    mart: Table
    ratios: Sequence[Value]
    dimensions: Mapping[str, str] = field(default_factory=dict)
    where: str = "true"
    counts: Mapping[str, tuple[str, str]] = field(
        default_factory=lambda: {"flows": ("connections", "flows")}
    )
    aggregates: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    def __getitem__(self, name: str) -> Ratio:
        """Return the ratio of this name."""
        return next(ratio for ratio in self.shares if ratio.name == name)

    @property
    def shares(self) -> list[Ratio]:
        """The ratios without the quantiles."""
        return [ratio for ratio in self.ratios if isinstance(ratio, Ratio)]

    @property
    def labels(self) -> list[str]:
        """The labels of the ratios."""
        return [ratio.label for ratio in self.ratios]

    def sql(self, *by: str, text: bool = False) -> str:
        """Return SQL with a row for each value of the columns `by`.

        A row has these columns, the last date, the counts, and each ratio: as a struct (value, low,
        high) with the number of samples, or as a text if `text` is true.
        """
        ratios = [
            f"estimate_text({ratio.estimate(n)}, {literal(ratio.unit.name)}, sum(samples_{n}))"
            if text
            else ratio.estimate(n)
            for n, ratio in enumerate(self.ratios)
        ]
        properties = [name for name in NETWORK_PROPERTIES if name in by and "network" in by]
        keys = [f'"{name}"' for name in by if name not in properties]
        columns = [
            *keys,
            *(f"any_value({name}) as {name}" for name in properties),
            "max(day) as date",
            *(f'sum("{name}") as "{name}"' for name in self.counts),
            *(f'{sql} as "{name}"' for name, sql in self.aggregates.items()),
            *(f'{sql} as "{ratio.name}"' for sql, ratio in zip(ratios, self.ratios, strict=True)),
            *(f"sum(samples_{n}) as samples_{n}" for n in range(0 if text else len(self.ratios))),
        ]
        grouping = f"group by {', '.join(keys)}" if keys else ""
        return f"select {', '.join(columns)} from ({self._user_sums(by)}) {grouping}"

    def _user_sums(self, by: Sequence[str]) -> str:
        """Return SQL of the sums by network, the columns `by`, and user group if the mart has it.

        The column `users` is the number of users in a row, or a lower bound (see USER_COUNT).
        """
        keys = [
            f'{self.dimensions.get(name, name)} as "{name}"' for name in by if name != "network"
        ]
        rows = f"""(
            select * from (select *, {HOURS_SQL} as hours from {self.source or self.mart.name})
            where ({self.where}) {FILTERS_MARK}
        )"""
        grouped, users, users_of = ["network", *keys], f"{USER_COUNT} as users", users_with
        if USER_GROUP.name in self.mart.arrow.names:
            grouped, users = [*grouped, f"{common_user_group(rows)} as user_group"], "1 as users"
            users_of = _one_user_with
        sums = [
            *(f'sum({sql}) as "{name}"' for name, (_, sql) in self.counts.items()),
            *dict.fromkeys(
                sql for n, ratio in enumerate(self.ratios) for sql in ratio.sums(n, users_of)
            ),
        ]
        return f"""
            select {", ".join([*grouped, users, "max(date) as day", *sums])}
            from {rows} group by all
        """

    def rows(self, selection: Selection, *by: str) -> list[Row]:
        """Return a selection's numbers, with a row for each value of the columns `by`."""
        order = ", ".join(f'"{name}"' for name in by) or "all"
        return [
            Row(row, self.ratios) for row in selection.rows(f"{self.sql(*by)} order by {order}")
        ]

    def bins(self, selection: Selection, *by: str, of_users: bool = True) -> list[dict[str, Any]]:
        """Return the binned samples, summed by the columns `by` and bin; of_users: and by user."""
        keys = ", ".join(f'{self.dimensions.get(name, name)} as "{name}"' for name in by)
        rows = (
            f"(select * from {self.source or self.mart.name} where ({self.where}) and weight > 0)"
        )
        return selection.rows(f"""
            select {keys}, bin, {common_user_group(rows) if of_users else "0"} as user_group,
                sum(samples)::bigint as samples, sum(weight) as weight,
                sum(weighted_sum) as weighted_sum, min({LOWEST}) as lowest,
                max({HIGHEST}) as highest
            from {rows} group by all order by all
        """)

    def dataset(self, name: str, *by: str) -> Dataset:
        """Return a dashboard's dataset of the numbers as texts, by PLACE and the columns `by`."""
        return Dataset(
            name,
            self.sql(*PLACE, *by, text=True),
            [
                *(
                    Metric(key, f'max("{key}")', label, ",.0f")
                    for key, (label, _) in self.counts.items()
                    if label
                ),
                *(Metric(r.name, f'max("{r.name}")', r.label, "") for r in self.ratios),
            ],
        )
