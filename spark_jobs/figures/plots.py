"""Plots side by side in rows and columns of one Plotly figure.

They replace Plotly's make_subplots. It validates every property of each axis, which takes longer
than the rest of the page.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from spark_jobs.figures.page_elements import figure_html

TITLE_PX = 13
Y_TITLE = {
    "xanchor": "right",
    "yanchor": "middle",
    "xshift": -46,
    "textangle": -90,
    "font": {"size": TITLE_PX},
}
"""Properties of the title of the y axes, which differ from those of a plot's title."""
EDGES_PX, GAP_PX = 120, 56
"""Height of the legend with the lowest axis, and of the gap between two rows (px)."""
Trace = dict[str, Any]
Axis = Mapping[str, Any]


def line(
    name: str,
    colour: str,
    x: Sequence,
    y: Sequence,
    hover: str,
    dash: str = "solid",
    *,
    steps: bool = False,
    **more: Any,
) -> Trace:
    """Return a line, or one of steps.

    hover: Plotly's template of a point's text. more: further properties.
    """
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "name": name,
        "line": {
            "color": colour,
            "dash": dash,
            "width": 2,
            "shape": "hv" if steps else "linear",
        },
        "hovertemplate": f"{hover}<extra>{name}</extra>",
        **more,
    }


def plots_html(
    titles: Sequence[Sequence[str]],
    traces: Sequence[tuple[int, int, Trace]],
    x: Axis | Sequence[Axis],
    y: Axis | Sequence[Axis],
    label: str,
    row_px: int,
    *,
    gap: float = 0.06,
    widths: Sequence[float] = (),
    layout: Axis | None = None,
) -> Markup:
    """Return a plot for each title, row by row; without traces, nothing.

    The lowest plots have the titles of the x axes; one title of the y axes is at the left. A plot
    without traces says so. A name is in the legend once.

    traces: row and column, from 0, of the plot of each trace. x, y: properties of the axes: of all
    columns, which then have one range in common (y: in each row), or of each column. label: a
    description for readers who cannot see the figure. row_px: height of a row. gap: between columns
    as a share of the width. widths: of the columns, relative to each other; by default all are
    equal. layout: further properties of the figure.
    """
    if not traces:
        return Markup()
    rows, columns = len(titles), len(titles[0])
    height = rows * row_px + (rows - 1) * GAP_PX
    shares = list(widths) or [1.0] * columns
    shares = [(1 - gap * (columns - 1)) * share / sum(shares) for share in shares]
    parts: dict[str, Any] = {"annotations": [], **(layout or {})}
    drawn, y_title = {(row, column) for row, column, _ in traces}, ""
    for row, names in enumerate(titles):
        top = 1 - row * (row_px + GAP_PX) / height
        for column, title in enumerate(names):
            left = sum(shares[:column]) + column * gap
            right = left + shares[column]
            x_axis = dict(x if isinstance(x, Mapping) else x[column])
            y_axis = dict(y if isinstance(y, Mapping) else y[column])
            if row < rows - 1:
                x_axis.pop("title", None)
            y_title = y_axis.pop("title", {}).get("text", y_title)
            first_x = _number(0, 0 if isinstance(x, Mapping) else column, columns)
            first_y = _number(row, 0, columns)
            n = _number(row, column, columns)
            if n != first_x:
                x_axis["matches"] = f"x{first_x}"
            if isinstance(y, Mapping) and n != first_y:
                y_axis["matches"] = f"y{first_y}"
            x_axis |= {"anchor": f"y{n}", "domain": [left, right]}
            y_axis |= {"anchor": f"x{n}", "domain": [max(top - row_px / height, 0), top]}
            parts |= {f"xaxis{n}": x_axis, f"yaxis{n}": y_axis}
            none = "" if (row, column) in drawn else ": none"
            parts["annotations"].append(_title(title + none, (left + right) / 2, top))
    parts["annotations"].append(_title(y_title, 0, 0.5) | Y_TITLE)
    placed, in_legend = [], set()
    for row, column, trace in traces:
        n, name = _number(row, column, columns), trace.get("name")
        legend = {"legendgroup": name, "showlegend": name not in in_legend} if name else {}
        placed.append({**legend, **trace, "xaxis": f"x{n}", "yaxis": f"y{n}"})
        in_legend.add(name)
    return figure_html({"data": placed, "layout": parts}, label, height + EDGES_PX)


def _number(row: int, column: int, columns: int) -> str:
    """Return the number that the names of a plot's axes end with."""
    n = row * columns + column + 1
    return "" if n == 1 else str(n)


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
