"""Table III and Figs. 14 to 17: goodput by TCP options, and the effects of the options.

Each access technology has its own table and figures; the reader may select one network. A mean over
GPRS and LTE would mainly show which of them uses an option more often. Networks of one technology
are not pooled if that would reverse a difference that each of them shows (Simpson's paradox).
"""

from collections.abc import Sequence
from itertools import product

import plotly.graph_objects as go

from spark_jobs.figures.format import INTERVALS, KBITS, PERCENT, TOO_FEW, count
from spark_jobs.figures.mart_columns import common_user_group
from spark_jobs.figures.names import access_name
from spark_jobs.figures.page_elements import (
    NumberTable,
    Section,
    error_bars,
    figure_html,
    group_rows,
)
from spark_jobs.figures.samples import users_text
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.statistics import CONFIDENCE, Estimate
from spark_jobs.figures.table3_clusters.clusters import Cluster, Goodputs, goodputs
from spark_jobs.figures.table3_clusters.numbers import FIGURES, LABELS, OPTION_COLOURS, Figure
from spark_jobs.figures.table3_clusters.option_effects import (
    MIN_GROUPS,
    Difference,
    Effect,
    Side,
    effects,
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
SAMPLE = "Single request–response connections (no other traffic of the user) above 32 KiB. "  # noqa: RUF001
HEADROOM = 1.6
"""Height of the axis, in heights of the highest bar."""
TABLE_ROWS = [
    *(
        (option, LABELS[option][value])
        for option, values in (
            ("mss", ("low", "high")),
            ("sack", ("yes", "no")),
            ("timestamps", ("yes", "no")),
            ("window", ("low", "med", "high")),
        )
        for value in values
    ),
    ("", "overall"),
]
"""Rows of Table III: option and label."""
Rows = Sequence[dict]


def sections(selection: Selection) -> list[Section]:
    """Return Table III with adjusted effects, and a figure per option, by access technology."""
    result = []
    groups, of_access = _groups(selection), adjusted_effects(selection)
    for access, found in goodputs(selection).items():
        result += [_table_section(access, found, groups[access], of_access[access])]
        result += [_figure_section(figure, access, found) for figure in FIGURES]
    return result


def adjusted_effects(selection: Selection) -> dict[str, list[Effect]]:
    """Return the effects of the options by access technology."""
    return selection.once(
        "effects",
        lambda: {access: effects(rows) for access, rows in _groups(selection).items()},
    )


def _groups(selection: Selection) -> dict[str, Rows]:
    """Return the mart's rows by access technology, with options' values as in option_effects."""

    def compute() -> dict[str, Rows]:
        rows = selection.rows(f"""
            select access, network, {common_user_group("table3_clusters")} as user_group, hour,
                size_class, rate_bin, mss_class as mss,
                window_class as window, if(sack, 'yes', 'no') as sack,
                if(timestamps, 'yes', 'no') as timestamps,
                sum(flows)::bigint as flows, sum(log_goodput_sum) as log_goodput_sum,
                coalesce(sum(flows) filter (rate_bin is not null), 0)::bigint as flows_with_rate
            from table3_clusters group by all order by all
        """)
        return {access: members for (access,), members in group_rows(rows, "access").items()}

    return selection.once("table3_clusters", compute)


def _table_section(
    access: str, found: Goodputs, groups: Rows, option_effects: list[Effect]
) -> Section:
    headings = ["", "goodput, mean", "standard deviation", "connections"]
    of_paper = access == PAPER_ACCESS
    rows = [
        [
            label,
            *found.over_networks(_values(option, label), option).texts,
            *(_paper_texts(label) if of_paper else []),
        ]
        for option, label in TABLE_ROWS
    ]
    networks = [
        NumberTable(
            headings,
            [
                [label, *found.of_network(network, _values(option, label)).texts]
                for option, label in TABLE_ROWS
            ],
            network,
        )
        for network in found.by_network
    ]
    with_rate = [row for row in groups if row["flows_with_rate"]]
    flows = found.over_networks({}).flows
    return Section(
        anchor=f"table3-{access}",
        title=f"Table III. Goodput by TCP options, {access_name(access)}",
        source="INFOCOM 2004, Section VII",
        caption=SAMPLE
        + "Raw difference: geometric mean goodput with the option against that without, "
        "within networks. Adjusted difference: from a regression of log goodput on all options, "
        "transfer size, network, local hour, and the user's channel rate in that hour, for "
        "transfers with a known channel rate. For windows, the regression leaves out the channel "
        "rate, as small windows hide it. The channel rate is known for "
        f"{count(sum(row['flows_with_rate'] for row in with_rate))} of {count(flows)} "
        f"connections of {users_text(with_rate)}. Effects have {100 * CONFIDENCE:.0f} % intervals "
        f"and need at least {MIN_GROUPS} users on each side. " + INTERVALS,
        samples=f"{count(flows)} connections of {', '.join(found.by_network)}",
        tables=[
            NumberTable([*headings, *(PAPER_HEADINGS if of_paper else [])], rows),
            _effects_table(option_effects),
        ],
        collapsed_tables=networks if len(networks) > 1 else [],
        open_tables=True,
        notes=[*map(effect_sentence, option_effects), *([PAPER_EFFECTS] if of_paper else [])],
    )


PAPER_HEADINGS = ("paper: goodput", "paper: connections")


def _values(option: str, label: str) -> dict[str, str]:
    return {option: label} if option else {}


def _paper_texts(label: str) -> list[str]:
    goodput, samples = PAPER[label]
    return [KBITS.text(goodput), count(samples)]


def _effects_table(option_effects: Sequence[Effect]) -> NumberTable:
    headings = [
        "option",
        "connections",
        "users",
        "raw difference",
        "adjusted: connections",
        "users",
        "adjusted difference",
    ]
    return NumberTable(
        headings,
        [
            [
                effect.contrast.name,
                *_sides(effect.sides),
                _difference(effect.raw),
                *_sides(effect.adjusted_sides),
                _difference(effect.adjusted),
            ]
            for effect in option_effects
        ],
        "Effect of each option (connections and users: with / without the option)",
    )


def _sides(sides: tuple[Side, Side]) -> list[str]:
    return [
        " / ".join(count(side.transfers) for side in sides),
        " / ".join(count(side.users) for side in sides),
    ]


def _difference(difference: Difference) -> str:
    return PERCENT.signed(Estimate(difference.estimate, difference.low, difference.high))


def effect_sentence(effect: Effect) -> str:
    """Return an option's effect, and whether it is beyond chance, in one sentence."""
    name, raw, adjusted = effect.contrast.name, effect.raw, effect.adjusted
    min_users = min(side.users for side in effect.adjusted_sides)
    if min_users < MIN_GROUPS:
        condition = " with a known channel rate" if effect.contrast.adjusts_rate else ""
        return f"{name}: {TOO_FEW} users{condition} on one side ({min_users})."
    if adjusted.low is None:
        return (
            f"{name}: always occurs with another option or network, so its own effect is unknown."
        )
    if adjusted.supported:
        verdict = "the data support a " + ("gain" if (adjusted.estimate or 0) > 0 else "loss")
    else:
        verdict = "no difference beyond chance"
        if raw.supported:
            verdict += (
                "; channel rate, other options, size, network or hour explain the raw difference"
            )
    return (
        f"{name}: {_difference(adjusted)} after adjustment, {_difference(raw)} before; {verdict}."
    )


def _figure_section(figure: Figure, access: str, found: Goodputs) -> Section:
    views = {access: _clusters(figure, found)}
    if len(found.by_network) > 1:
        views |= {name: _clusters(figure, found, name) for name in found.by_network}
    drawing = go.Figure()
    for view, clusters in views.items():
        shown = {k: v for k, v in clusters.items() if sum(_has_mean(c) for c in v) >= 2}
        for place, name in enumerate(figure.names):
            bars = {k: v[place] for k, v in shown.items() if _has_mean(v[place])}
            means = [bar.mean for bar in bars.values()]
            drawing.add_trace(
                go.Bar(
                    x=list(bars),
                    y=[(estimate.value or 0) / 1000 for estimate in means],
                    name=name,
                    visible=view == access,
                    marker={"color": OPTION_COLOURS[name]},
                    error_y=error_bars(means, 1000),
                    customdata=[bar.flows for bar in bars.values()],
                    hovertemplate="%{x}: %{y:.1f} kbit/s, %{customdata} connections<extra>"
                    + name
                    + "</extra>",
                )
            )
    if len(views) > 1:
        _add_menu(drawing, list(views), len(figure.names))
    highest = max((y for trace in drawing.data for y in trace.y), default=1)
    drawing.update_yaxes(title_text="Goodput [kbit/s]", range=[0, HEADROOM * highest])
    drawing.update_xaxes(tickangle=-35, automargin=True)
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
        "unless pooling reverses the difference within them. " + INTERVALS,
        samples=f"{count(found.over_networks({}).flows)} connections",
        figure=figure_html(drawing, f"{figure.title}, {access_name(access)}", 520),
        tables=tables,
    )


def _clusters(figure: Figure, found: Goodputs, network: str = "") -> dict[str, list[Cluster]]:
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


def _add_menu(drawing: go.Figure, views: Sequence[str], traces: int) -> None:
    """Add a menu to select all networks, or one."""
    drawing.update_layout(
        updatemenus=[
            {
                "x": 1,
                "xanchor": "right",
                "y": 1.12,
                "yanchor": "top",
                "buttons": [
                    {
                        "label": view,
                        "method": "update",
                        "args": [{"visible": [view == other for other in views
                                              for _ in range(traces)]}],
                    }
                    for view in views
                ],
            }
        ]
    )  # fmt: skip
