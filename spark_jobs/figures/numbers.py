"""Numbers of a figure: ratios of sums over a mart's rows, with intervals by user group.

A figure defines its numbers once. The report takes them by `Numbers.rows`, a dashboard by
`Numbers.dataset`, and both run the SQL of `Numbers.sql`. The connection needs the functions of
`sql_functions`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas import Table
from spark_jobs.figures.dashboard_parts import Dataset, Metric, if_enough_data, literal
from spark_jobs.figures.format import PERCENT, Unit
from spark_jobs.figures.names import HOURS_SQL
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.statistics import MIN_SAMPLES, MIN_USERS, UNKNOWN, Estimate

FILTERS_MARK = "/* filters */"
"""Mark in a dataset's SQL that becomes the conditions of the page's filters, each with `and`.

Intervals need sums by user group. So a page's filters must apply before these sums, not to the
dataset's rows.
"""
PLACE = ("network", "country", "access", "hours")
"""Columns of every dataset of a dashboard, besides the date."""
NETWORK_PROPERTIES = ("country", "access")
"""Columns with one value for each network: rows grouped by network need no grouping by these."""


@dataclass(frozen=True)
class Ratio:
    """A value of a figure: the sum of a numerator divided by the sum of a denominator.

    label: name of the value in tables and charts.
    numerator, denominator: SQL of a row of the mart.
    unit: in which the value is printed.
    samples: SQL of the number of samples of a row; too few are not shown.
    kind: of interval: share (of a value between 0 and 1), mean, or none.
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
        """The value in a chart of the mart's rows, as a number: a share, or in the unit."""
        scale = "" if self.unit is PERCENT else f" * {self.unit.scale}"
        value = f"sum({self.numerator}) / nullif(sum({self.denominator}), 0){scale}"
        unit = "" if self.unit is PERCENT else f" [{self.unit.name}]"
        return Metric(
            self.name,
            if_enough_data(value, self.samples),
            self.label + unit,
            ".1%" if self.unit is PERCENT else ",.3~r",
        )

    def _aggregate(self, place: int) -> str:
        """Return SQL of the struct (value, low, high) from the sums of user groups."""
        if self.kind == "none":
            return (
                f"{{'value': case when sum(samples_{place}) >= {MIN_SAMPLES} and "
                f"sum(users) >= {MIN_USERS} then sum(numerator_{place}) / "
                f"nullif(sum(denominator_{place}), 0) end, "
                "'low': null::double, 'high': null::double}"
            )
        lists = ", ".join(
            f"list({part}_{place})" for part in ("numerator", "denominator", "samples")
        )
        return f"{self.kind}_interval({lists})"


def mean(
    name: str, label: str, total: str, unit: Unit, weight: str = "flows", samples: str = "flows"
) -> Ratio:
    """Return a mean with an interval: the sum of `total` over that of `weight`."""
    return Ratio(name, label, total, weight, unit, samples, "mean")


class Row(dict[str, Any]):
    """A row of numbers: the columns that it is grouped by, the counts, and an Estimate a ratio."""

    def __init__(self, values: dict[str, Any], ratios: Sequence[Ratio]) -> None:
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


@dataclass(frozen=True)
class Numbers:
    """The numbers of a figure.

    mart: with a column user_group if the ratios have intervals.
    ratios: the values.
    dimensions: columns to group by, besides those of PLACE and the mart's, as SQL of a row.
    where: condition on the mart's rows.
    counts: sums beside the values: label and SQL of the mart's row by name. Dashboards leave out
    those without a label.
    aggregates: further columns by name, as SQL over the sums of user groups.
    source: SQL to read instead of the mart.
    """

    mart: Table
    ratios: Sequence[Ratio]
    dimensions: Mapping[str, str] = field(default_factory=dict)
    where: str = "true"
    counts: Mapping[str, tuple[str, str]] = field(
        default_factory=lambda: {"flows": ("connections", "flows")}
    )
    aggregates: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    def __getitem__(self, name: str) -> Ratio:
        """Return the ratio of this name."""
        return next(ratio for ratio in self.ratios if ratio.name == name)

    @property
    def labels(self) -> list[str]:
        """The labels of the ratios."""
        return [ratio.label for ratio in self.ratios]

    def sql(self, *by: str, text: bool = False) -> str:
        """Return SQL with a row for each value of the columns `by`.

        A row has the last date, the counts, and each ratio: as a struct (value, low, high) with the
        number of samples, or as `text`.
        """
        ratios = [
            f"estimate_text({ratio._aggregate(n)}, {literal(ratio.unit.name)}, sum(samples_{n}))"
            if text
            else f"{ratio._aggregate(n)}"
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
        """Return SQL of the sums of each user group, or of all users if the mart has none."""
        keys = [
            f'{self.dimensions.get(name, name)} as "{name}"' for name in by if name != "network"
        ]
        names = {column.name for column in self.mart.columns}
        users = "1 as users" if "user_group" in names else "bit_count(bit_or(user_groups)) as users"
        grouped = ["network", *keys, *(["user_group"] if "user_group" in names else [])]
        sums = [
            *(f'sum({sql}) as "{name}"' for name, (_, sql) in self.counts.items()),
            *(
                f"sum(({sql})::double) as {part}_{n}"
                for n, ratio in enumerate(self.ratios)
                for part, sql in (
                    ("numerator", ratio.numerator),
                    ("denominator", ratio.denominator),
                    ("samples", ratio.samples),
                )
            ),
        ]
        return f"""
            select {", ".join([*grouped, users, "max(date) as day", *sums])}
            from (select *, {HOURS_SQL} as hours from {self.source or self.mart.name})
            where ({self.where}) {FILTERS_MARK} group by all
        """

    def rows(self, selection: Selection, *by: str) -> list[Row]:
        """Return a selection's numbers, with a row for each value of the columns `by`."""
        order = ", ".join(f'"{name}"' for name in by) or "all"
        return [
            Row(row, self.ratios) for row in selection.rows(f"{self.sql(*by)} order by {order}")
        ]

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
