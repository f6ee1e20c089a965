"""Layouts for Plotly figures with several plots in rows and columns.

They replace Plotly's make_subplots. It validates every property of each axis, which takes longer
than the rest of the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

GRID = "#eeeeee"
TITLE_PX = 13


@dataclass(frozen=True)
class Subplots:
    """Plots in rows of `columns` each; `layout` is the layout of the Plotly figure."""

    columns: int
    layout: dict[str, Any]

    def axes(self, row: int, column: int) -> dict[str, str]:
        """Return a trace's properties that place it in a plot; row, column: from 0."""
        n = self._number(row, column)
        return {"xaxis": f"x{n}", "yaxis": f"y{n}"}

    def set_axes(self, row: int, column: int, x: dict[str, Any], y: dict[str, Any]) -> None:
        """Add properties to a plot's axes; row, column: from 0."""
        n = self._number(row, column)
        self.layout[f"xaxis{n}"] |= x
        self.layout[f"yaxis{n}"] |= y

    def _number(self, row: int, column: int) -> str:
        n = row * self.columns + column + 1
        return "" if n == 1 else str(n)


def subplots(
    titles: Sequence[Sequence[str]], gap: tuple[float, float], widths: Sequence[float] = ()
) -> Subplots:
    """Return a plot for each title, row by row; all rows have the same height.

    gap: between columns and between rows, as shares of the figure's width and height. widths: of
    the columns, relative to each other; by default all are equal.
    """
    rows, columns = len(titles), len(titles[0])
    plots_width = 1 - gap[0] * (columns - 1)
    shares = list(widths) or [1.0] * columns
    column_widths = [plots_width * share / sum(shares) for share in shares]
    plots = Subplots(columns, {"annotations": []})
    height = (1 - gap[1] * (rows - 1)) / rows
    for row, names in enumerate(titles):
        top = 1 - row * (height + gap[1])
        for column, name in enumerate(names):
            left = sum(column_widths[:column]) + column * gap[0]
            x, y = plots.axes(row, column).values()
            right = left + column_widths[column]
            plots.layout[x.replace("x", "xaxis")] = {"anchor": y, "domain": [left, right]}
            plots.layout[y.replace("y", "yaxis")] = {"anchor": x, "domain": [top - height, top]}
            plots.layout["annotations"].append(_title(name, (left + right) / 2, top))
    return plots


def _title(text: str, x: float, y: float) -> dict[str, Any]:
    return {
        "text": text,
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "center",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": TITLE_PX},
    }
