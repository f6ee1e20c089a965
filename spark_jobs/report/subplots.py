"""Plots side by side and one above the other, as the layout that Plotly is given.

Plotly's own make_subplots asks of each axis whether all it is told is allowed, which takes longer
than all else that the page needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

GRID = "#eeeeee"
TITLE_PX = 13


@dataclass(frozen=True)
class Subplots:
    """Rows of so many plots, numbered row by row; what a figure is figure_html by is `layout`."""

    columns: int
    layout: dict[str, Any]

    def axes(self, row: int, column: int) -> dict[str, str]:
        """Which axes a trace in a plot has; row, column: from 0."""
        n = self._number(row, column)
        return {"xaxis": f"x{n}", "yaxis": f"y{n}"}

    def set(self, row: int, column: int, x: dict[str, Any], y: dict[str, Any]) -> None:
        """What a plot's axes are told beyond where they lie."""
        n = self._number(row, column)
        self.layout[f"xaxis{n}"] |= x
        self.layout[f"yaxis{n}"] |= y

    def _number(self, row: int, column: int) -> str:
        n = row * self.columns + column + 1
        return "" if n == 1 else str(n)


def subplots(
    titles: Sequence[Sequence[str]], gap: tuple[float, float], widths: Sequence[float] = ()
) -> Subplots:
    """A plot for each title, row by row, rows equally high; gap: between columns and between rows,
    in the whole figure's width and height; widths: of the columns, in proportion."""
    rows, columns = len(titles), len(titles[0])
    room = 1 - gap[0] * (columns - 1)
    shares = list(widths) or [1.0] * columns
    wide = [room * share / sum(shares) for share in shares]
    made = Subplots(columns, {"annotations": []})
    height = (1 - gap[1] * (rows - 1)) / rows
    for row, names in enumerate(titles):
        top = 1 - row * (height + gap[1])
        for column, name in enumerate(names):
            left = sum(wide[:column]) + column * gap[0]
            x, y = made.axes(row, column).values()
            right = left + wide[column]
            made.layout[x.replace("x", "xaxis")] = {"anchor": y, "domain": [left, right]}
            made.layout[y.replace("y", "yaxis")] = {"anchor": x, "domain": [top - height, top]}
            made.layout["annotations"].append(_title(name, (left + right) / 2, top))
    return made


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
