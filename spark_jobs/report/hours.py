"""Networks' peak and off-peak hours beside each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.report.fig04 import PERIODS
from spark_jobs.report.subplots import Subplots, subplots
from spark_jobs.report.page_elements import group
from spark_jobs.report.selection import Selection, ShownNetwork


@dataclass(frozen=True)
class Hours:
    """A network's peak or off-peak hours, how their lines are figure_html, and rows of a mart."""

    network: ShownNetwork
    period: str
    label: str
    dash: str
    rows: list[dict[str, Any]]

    @property
    def name(self) -> str:
        """What a line or bar of them is called."""
        return f"{self.network.name} {self.label}"


def split_by_hours(selection: Selection, rows: Sequence[dict[str, Any]]) -> list[Hours]:
    """The rows by network and hours: peak, off-peak; the other hours where there is neither."""
    groups = group(rows, "network", "period")
    found = []
    for network in selection.networks:
        mine = {period: groups.get((network.name, period), []) for period in PERIODS}
        if mine["peak"] or mine["off_peak"]:
            del mine["other"]
        found += [
            Hours(network, period, *PERIODS[period], members)
            for period, members in mine.items()
            if members
        ]
    return found


@dataclass(frozen=True)
class Grid:
    """A plot for each network, a row, and its hours, a column."""

    names: list[str]
    labels: list[str]
    plots: Subplots

    @classmethod
    def of(cls, by_hours: Sequence[Hours], gap: float) -> "Grid":
        """gap: between the columns, in the figure's width."""
        names = list(dict.fromkeys(hours.network.name for hours in by_hours))
        labels = list(dict.fromkeys(hours.label for hours in by_hours))
        there = {hours.name for hours in by_hours}
        titles = [
            [
                f"{name} {label}" + ("" if f"{name} {label}" in there else ": none")
                for label in labels
            ]
            for name in names
        ]
        return cls(names, labels, subplots(titles, (gap, min(0.12, 0.5 / len(names)))))

    def axes(self, hours: Hours) -> dict[str, str]:
        """Those of the plot of these hours."""
        return self.plots.axes(self.names.index(hours.network.name), self.labels.index(hours.label))

    def set(self, x: dict[str, Any], y: dict[str, Any]) -> None:
        """What all axes are told. All go from left to right, and a network's up, as far; titles
        stand at the figure's left and lower edge."""
        for row in range(len(self.names)):
            first = self.plots.axes(row, 0)["yaxis"]
            for column in range(len(self.labels)):
                across, up = dict(x), dict(y)
                if row < len(self.names) - 1:
                    del across["title"]
                if column > 0:
                    del up["title"]
                    up["matches"] = first
                if (row, column) != (0, 0):
                    across["matches"] = "x"
                self.plots.set(row, column, across, up)
