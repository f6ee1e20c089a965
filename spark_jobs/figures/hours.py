"""Peak and off-peak hours of each network, as groups of a mart's rows and as a grid of plots."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from spark_jobs.figures.names import PERIODS
from spark_jobs.figures.page_elements import group_rows
from spark_jobs.figures.selection import Selection, ShownNetwork

RowT = TypeVar("RowT", bound=dict[str, Any])


@dataclass(frozen=True)
class Hours(Generic[RowT]):
    """A network's peak, off-peak or other hours, with a mart's rows of them.

    label: in words. dash: Plotly's dash style of their lines.
    """

    network: ShownNetwork
    period: str
    label: str
    dash: str
    rows: list[RowT]

    @property
    def name(self) -> str:
        """Name of the lines and bars of these hours."""
        return f"{self.network.name} {self.label}".rstrip()


def split_by_hours(selection: Selection, rows: Sequence[RowT]) -> list[Hours[RowT]]:
    """Return the rows by network and period.

    A network's other hours are included only if all its rows are of them.
    """
    groups = group_rows(rows, "network", "period")
    by_hours = []
    for network in selection.networks:
        by_period = {period: groups.get((network.name, period), []) for period in PERIODS}
        if any(by_period[period] for period in PERIODS if period != "other"):
            del by_period["other"]
        by_hours += [
            Hours(network, period, *PERIODS[period], members)
            for period, members in by_period.items()
            if members
        ]
    return by_hours


def grid_of(by_hours: Sequence[Hours]) -> tuple[list[list[str]], dict[str, tuple[int, int]]]:
    """Return the titles of a grid of plots, and the row and column of each of the hours by name.

    A row is a network, and a column is a period.
    """
    names = list(dict.fromkeys(hours.network.name for hours in by_hours))
    labels = list(dict.fromkeys(hours.label for hours in by_hours))
    places = {
        hours.name: (names.index(hours.network.name), labels.index(hours.label))
        for hours in by_hours
    }
    return [[f"{name} {label}" for label in labels] for name in names], places
