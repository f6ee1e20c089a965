"""Peak and off-peak hours of each network, as groups of a mart's rows and as a grid of plots."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from spark_jobs.figures.names import PERIODS
from spark_jobs.figures.page_elements import group_rows
from spark_jobs.figures.selection import Selection, ShownNetwork
from spark_jobs.figures.subplots import Subplots, subplots

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

    A network's other hours are included only if it has neither peak nor off-peak rows.
    """
    groups = group_rows(rows, "network", "period")
    by_hours = []
    for network in selection.networks:
        by_period = {period: groups.get((network.name, period), []) for period in PERIODS}
        if by_period["peak"] or by_period["off_peak"]:
            del by_period["other"]
        by_hours += [
            Hours(network, period, *PERIODS[period], members)
            for period, members in by_period.items()
            if members
        ]
    return by_hours


@dataclass(frozen=True)
class Grid:
    """A grid of plots: a row for each network, a column for each period."""

    names: list[str]
    labels: list[str]
    plots: Subplots

    @classmethod
    def of_hours(cls, by_hours: Sequence[Hours], gap: float) -> "Grid":
        """Return the grid for these hours; gap: between columns, as a share of the width."""
        names = list(dict.fromkeys(hours.network.name for hours in by_hours))
        labels = list(dict.fromkeys(hours.label for hours in by_hours))
        with_data = {hours.name for hours in by_hours}
        titles = [
            [
                f"{name} {label}" + ("" if f"{name} {label}" in with_data else ": none")
                for label in labels
            ]
            for name in names
        ]
        return cls(names, labels, subplots(titles, (gap, min(0.12, 0.5 / len(names)))))

    def axes(self, hours: Hours) -> dict[str, str]:
        """Return a trace's properties that place it in the plot of these hours."""
        return self.plots.axes(self.names.index(hours.network.name), self.labels.index(hours.label))

    def set_axes(self, x: dict[str, Any], y: dict[str, Any]) -> None:
        """Add properties to the axes of all plots.

        All x axes have one range; the y axes of a network have one range. Only the plots at the
        left and lower edges keep the axis titles.
        """
        for row in range(len(self.names)):
            first = self.plots.axes(row, 0)["yaxis"]
            for column in range(len(self.labels)):
                x_axis, y_axis = dict(x), dict(y)
                if row < len(self.names) - 1:
                    del x_axis["title"]
                if column > 0:
                    del y_axis["title"]
                    y_axis["matches"] = first
                if (row, column) != (0, 0):
                    x_axis["matches"] = "x"
                self.plots.set_axes(row, column, x_axis, y_axis)
