"""Table III and Figs. 14 to 17: goodput by TCP options, and the effects of the options.

Each access technology has its own table and figures; the reader may select one network. A mean over
GPRS and LTE would mainly show which of them uses an option more often. Networks of one technology
are not pooled if that would reverse a difference that each of them shows (Simpson's paradox).
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

from spark_jobs.figures.format import KBITS, NOT_MEASURED, count
from spark_jobs.figures.names import access_name
from spark_jobs.figures.page_elements import (
    NumberTable,
    Section,
    error_bars,
    figure_html,
    group_rows,
)
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.table3_clusters.clusters import Cluster, Goodputs, goodputs
from spark_jobs.figures.table3_clusters.numbers import (
    COUNTS,
    EFFECT_HEADINGS,
    EFFECTS_CAPTION,
    EFFECTS_SQL,
    EFFECTS_TITLE,
    LABELS,
    OPTION_COLOURS,
    OPTION_FIGURES,
    OTHER_MSS,
    TABLE_ROWS,
    OptionFigure,
)

PAPER = {
    "MSS low": (20048.52, 17_901),
    "MSS high": (24936.86, 100_654),
    "SACK": (25425.25, 59_750),
    "no SACK": (23136.50, 64_957),
    "TS": (25342.24, 17_739),
    "no TS": (24049.16, 106_968),
    "Wnd low": (22542.80, 42_754),
    "Wnd med": (25723.40, 44_726),
    "Wnd high": (24383.82, 37_227),
    "overall": (24233.09, 124_707),
}
"""By cluster: mean goodput (bit/s) and samples."""
PAPER_ACCESS = "gprs"
"""Access technology of the paper's values."""
PAPER_EFFECTS = (
    "The paper (Section VII): a large MSS gains 15 to 20 %, SACK about 10 %, timestamps 2 to 3 % "
    "(with contradicting results in single clusters), a medium window about 10 % overall. The "
    "paper warns that the clustering variables are not independent of each other."
)
SAMPLE = (
    "Single request–response connections (no other traffic of the user) "  # noqa: RUF001
    "above 32 KiB of distinct payload. "
)
HEADROOM = 1.6
"""Height of the axis, in heights of the highest bar."""
Rows = Sequence[dict]


def sections(selection: Selection) -> list[Section]:
    """Return Table III with adjusted effects, and a figure per option, by access technology."""
    result, effects = [], option_effects(selection)
    for access, found in goodputs(selection).items():
        result += [_table_section(access, found, effects[access])]
        result += [_figure_section(figure, access, found) for figure in OPTION_FIGURES]
    return result


def option_effects(selection: Selection) -> dict[str, Rows]:
    """Return the effects of the options by access technology."""

    def compute() -> dict[str, Rows]:
        rows = selection.rows(f"from ({EFFECTS_SQL}) order by access, place")
        return {access: members for (access,), members in group_rows(rows, "access").items()}

    return selection.once("effects", compute)


def _table_section(access: str, found: Goodputs, effects: Rows) -> Section:
    headings = ["", "goodput, mean", "standard deviation", "connections", COUNTS["rated"][0]]
    of_paper = access == PAPER_ACCESS
    rows = [
        [
            label,
            *_cells(found.over_networks(_values(option, label), option)),
            *(_paper_texts(label) if of_paper else []),
        ]
        for option, label in TABLE_ROWS
    ]
    networks = [
        NumberTable(
            headings,
            [
                [label, *_cells(found.of_network(network, _values(option, label)))]
                for option, label in TABLE_ROWS
            ],
            network,
        )
        for network in found.by_network
    ]
    flows = found.over_networks({}).flows
    return Section(
        anchor=f"table3-{access}",
        title=f"Table III. Goodput by TCP options, {access_name(access)}",
        source="INFOCOM 2004, Section VII",
        caption=SAMPLE
        + f"{OTHER_MSS}: neither low nor high; a class of its own in the regression. "
        + EFFECTS_CAPTION,
        samples=f"{count(flows)} connections of {', '.join(found.by_network)}",
        tables=[
            _effects_table(effects),
            NumberTable([*headings, *(PAPER_HEADINGS if of_paper else [])], rows, "Mean goodput"),
        ],
        collapsed_tables=networks if len(networks) > 1 else [],
        open_tables=True,
        notes=[PAPER_EFFECTS] if of_paper else [],
    )


PAPER_HEADINGS = ("paper: goodput", "paper: connections")


def _values(option: str, label: str) -> dict[str, str | None]:
    return {option: None if label == OTHER_MSS else label} if option else {}


def _cells(cluster: Cluster) -> list[str]:
    return [*cluster.texts, NOT_MEASURED if cluster.networks_differ else count(cluster.rated)]


def _paper_texts(label: str) -> list[str]:
    goodput, samples = PAPER.get(label, (None, None))
    return [KBITS.text(goodput), count(samples)]


def _effects_table(effects: Rows) -> NumberTable:
    return NumberTable(
        list(EFFECT_HEADINGS.values()),
        [[effect[name] for name in EFFECT_HEADINGS] for effect in effects],
        EFFECTS_TITLE,
    )


def _figure_section(figure: OptionFigure, access: str, found: Goodputs) -> Section:
    views = {access: _clusters(figure, found)}
    if len(found.by_network) > 1:
        views |= {name: _clusters(figure, found, name) for name in found.by_network}
    traces: list[dict[str, Any]] = []
    for view, clusters in views.items():
        shown = {k: v for k, v in clusters.items() if sum(_has_mean(c) for c in v) >= 2}
        for place, name in enumerate(figure.names):
            bars = {k: v[place] for k, v in shown.items() if _has_mean(v[place])}
            means = [bar.mean for bar in bars.values()]
            of_value = {
                "type": "bar",
                "x": list(bars),
                "y": [(estimate.value or 0) / 1000 for estimate in means],
                "name": name,
                "visible": view == access,
                "marker": {"color": OPTION_COLOURS[name]},
                "error_y": error_bars(means, 1000),
                "customdata": [bar.flows for bar in bars.values()],
                "hovertemplate": "%{x}: %{y:.1f} kbit/s, %{customdata} connections<extra>"
                + name
                + "</extra>",
            }
            traces.append(of_value)
    highest = max((y for trace in traces for y in trace["y"]), default=1)
    layout = {
        "updatemenus": [_menu(list(views), len(figure.names))] if len(views) > 1 else [],
        "xaxis": {"tickangle": -35, "automargin": True},
        "yaxis": {"title": {"text": "Goodput [kbit/s]"}, "range": [0, HEADROOM * highest]},
    }
    headings = [
        "cluster",
        *(
            f"{name}: {value}"
            for name in figure.names
            for value in ("mean", "deviation", "connections")
        ),
    ]
    tables = [
        NumberTable(
            headings,
            [[label, *(text for bar in bars for text in bar.texts)] for label, bars in v.items()],
            view,
        )
        for view, v in views.items()
    ]
    return Section(
        anchor=f"{figure.anchor}-{access}",
        title=f"{figure.title}, {access_name(access)}",
        source="INFOCOM 2004, Section VII",
        caption=SAMPLE
        + "Bars: mean. Ranges: its interval, cut if few users make it long. (The paper's "
        "ranges are standard deviations; the table of numbers has them.) The figure shows clusters "
        f"with enough transfers on two sides, over all {access_name(access)} networks "
        "unless pooling reverses the difference within them.",
        samples=f"{count(found.over_networks({}).flows)} connections",
        figure=figure_html(
            {"data": traces, "layout": layout}, f"{figure.title}, {access_name(access)}", 520
        ),
        tables=tables,
    )


def _clusters(figure: OptionFigure, found: Goodputs, network: str = "") -> dict[str, list[Cluster]]:
    """Return by the other options' values, and overall, a cluster per value of the figure's option.

    network: the only network; empty: over all networks.
    """
    others = [option for option in LABELS if option != figure.option]
    cells = {
        ", ".join(labels): dict(zip(others, labels, strict=True))
        for labels in sorted(product(*(LABELS[option].values() for option in others)))
    }
    clusters = {
        name: [
            found.of_network(network, {**values, figure.option: label})
            if network
            else found.over_networks({**values, figure.option: label}, figure.option)
            for label in figure.names
        ]
        for name, values in {**cells, "overall": {}}.items()
    }
    return {
        name: bars
        for name, bars in clusters.items()
        if any(bar.flows or bar.networks_differ for bar in bars)
    }


def _has_mean(goodput: Cluster) -> bool:
    return goodput.mean.value is not None


def _menu(views: Sequence[str], traces: int) -> dict[str, Any]:
    """Return a menu to select all networks, or one; traces: of each view."""
    return {
        "x": 1,
        "xanchor": "right",
        "y": 1.12,
        "yanchor": "top",
        "buttons": [
            {
                "label": view,
                "method": "update",
                "args": [{"visible": [view == other for other in views for _ in range(traces)]}],
            }
            for view in views
        ],
    }
