"""Table III and Figs. 14 to 17: goodput by TCP options, and the effects of the options.

Each access technology has its own table and figures; the reader may select one network. A mean over
GPRS and LTE would mainly show which of them uses an option more often. Networks of one technology
are not pooled if that would reverse a difference that each of them shows (Simpson's paradox).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import plotly.graph_objects as go

from spark_jobs.estimators.option_effects import (
    MIN_GROUPS,
    Difference,
    Effect,
    Side,
    effects,
)
from spark_jobs.figures.statistics import CONFIDENCE, UNKNOWN, Estimate
from spark_jobs.report import paper
from spark_jobs.report.metrics import MINUS
from spark_jobs.report.page_elements import (
    ACCESS_NAMES,
    INTERVALS,
    NO_BREAK_SPACE,
    NOT_MEASURED,
    TOO_FEW,
    NumberTable,
    Section,
    figure_html,
    group_rows,
    kilobits,
    number,
)
from spark_jobs.report.samples import are_enough, error_bars, interval_text, mean, users_text
from spark_jobs.report.selection import Selection

SAMPLE = "Single request–response connections (no other traffic of the user) above 32 KB. "  # noqa: RUF001
NETWORKS_DIFFER = "networks differ"
"""Text instead of a mean over networks that would reverse the difference within them."""


@dataclass(frozen=True)
class Cluster:
    """Goodput of a cluster of transfers (bit/s): mean with interval, sample standard deviation.

    With too few transfers, the mean is UNKNOWN and the deviation None.
    """

    flows: int
    mean: Estimate
    deviation: float | None


Rows = Sequence[dict]
ROWS: dict[str, Callable[[dict], bool]] = {
    "MSS low": lambda row: row["mss"] == "low",
    "MSS high": lambda row: row["mss"] == "high",
    "SACK": lambda row: row["sack"] == "yes",
    "no SACK": lambda row: row["sack"] == "no",
    "timestamps": lambda row: row["timestamps"] == "yes",
    "no timestamps": lambda row: row["timestamps"] == "no",
    "window low": lambda row: row["window"] == "low",
    "window med": lambda row: row["window"] == "med",
    "window high": lambda row: row["window"] == "high",
    "overall": lambda row: True,
}


OPTION_OF = {
    name: option
    for name in ROWS
    for key, option in (
        ("MSS", "mss"),
        ("SACK", "sack"),
        ("times", "timestamps"),
        ("win", "window"),
    )
    if key in name
}
"""Option of a row of the table."""
COVARIATES = ("hour", "size_class", "rate_bin")
"""Columns that effects are adjusted for, besides the options."""
PAPER_ACCESS = "gprs"
"""Access technology of the paper's values."""


@dataclass(frozen=True)
class Figure:
    """One of Figs. 14 to 17; each cluster has a bar for each value of the option."""

    anchor: str
    title: str
    option: str
    values: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Labels of the option's values."""
        return [LABELS[self.option][value] for value in self.values]


FIGURES = (
    Figure("fig14", "Fig. 14. The effect of MSS on goodput", "mss", ("low", "high")),
    Figure("fig15", "Fig. 15. The effect of SACK on goodput", "sack", ("no", "yes")),
    Figure("fig16", "Fig. 16. The effect of timestamps on goodput", "timestamps", ("no", "yes")),
    Figure(
        "fig17",
        "Fig. 17. The effect of the receiver window on goodput",
        "window",
        ("low", "med", "high"),
    ),
)
HEADROOM = 1.6
"""Height of the axis, in heights of the highest bar."""
SHADES = ("#c2c2c2", "#868686", "#3a3a3a")
"""Greys of an option's values; hues stand for networks."""
LABELS = {
    "window": {"low": "Wnd low", "med": "Wnd med", "high": "Wnd high"},
    "sack": {"yes": "SACK", "no": "no SACK"},
    "mss": {"low": "MSS low", "high": "MSS high"},
    "timestamps": {"yes": "TS", "no": "no TS"},
}


def sections(selection: Selection) -> list[Section]:
    """Return Table III with adjusted effects, and a figure per option, by access technology."""
    result = []
    by_access = group_rows(_groups(selection, *COVARIATES), "access")
    for (access,), groups in group_rows(_groups(selection), "access").items():
        result += [_table_section(access, groups, by_access[access,])]
        result += [_figure_section(figure, access, groups) for figure in FIGURES]
    return result


def _groups(selection: Selection, *extra_columns: str) -> list[dict]:
    """Return the mart's rows with the options' values named as in option_effects.

    The rows are grouped by network, user group, options and `extra_columns`.
    """
    return selection.rows(f"""
        select {", ".join(("access", "network", "user_group", *extra_columns))}, mss_class as mss,
            window_class as window, if(sack, 'yes', 'no') as sack,
            if(timestamps, 'yes', 'no') as timestamps,
            sum(flows)::bigint as flows, sum(goodput_sum) as goodput_sum,
            sum(goodput_squares) as goodput_squares, sum(log_goodput_sum) as log_goodput_sum,
            coalesce(sum(flows) filter (rate_bin is not null), 0)::bigint as flows_with_rate
        from table3_clusters group by all order by all
    """)


def cluster(rows: Iterable[dict]) -> Cluster:
    """Return the cluster of rows with counts, sums and sums of squares."""
    rows = list(rows)
    flows = sum(row["flows"] for row in rows)
    if not are_enough(rows):
        return Cluster(flows, UNKNOWN, None)
    average = mean(rows, "goodput_sum")
    if average.value is None:
        return Cluster(flows, UNKNOWN, None)
    spread = sum(row["goodput_squares"] for row in rows) - flows * average.value**2
    return Cluster(flows, average, sqrt(max(spread, 0) / (flows - 1)))


def pooling_reverses(rows: Rows, option: str) -> bool:
    """Return whether pooling networks reverses the order of two of an option's values."""
    values = next(figure.values for figure in FIGURES if figure.option == option)
    return any(_pair_reverses(rows, option, pair) for pair in combinations(values, 2))


def _pair_reverses(rows: Rows, option: str, pair: tuple[str, str]) -> bool:
    def difference_and_weight(rows: Rows) -> tuple[float, float] | None:
        """Return the difference of the two means and its weight; None without rows of both."""
        sides = [[row for row in rows if row[option] == value] for value in pair]
        (n, first_sum), (m, second_sum) = (
            (sum(row["flows"] for row in side), sum(row["goodput_sum"] for row in side))
            for side in sides
        )
        return (first_sum / n - second_sum / m, n * m / (n + m)) if n and m else None

    pooled = difference_and_weight(rows)
    within = [
        result
        for members in group_rows(rows, "network").values()
        if (result := difference_and_weight(members))
    ]
    if pooled is None:
        return False
    if not within:
        return True
    return pooled[0] * sum(difference * weight for difference, weight in within) < 0


def _table_section(access: str, groups: Rows, groups_by_covariates: Rows) -> Section:
    option_effects = effects(groups_by_covariates)
    headings = ["", "goodput, mean", "standard deviation", "samples"]
    paper_headings = ["paper: goodput", "paper: samples"] if access == PAPER_ACCESS else []
    by_network = group_rows(groups, "network")
    rows = [
        [
            name,
            *_texts(_pooled_cluster(groups, name)),
            *(_paper_texts(name) if paper_headings else []),
        ]
        for name in ROWS
    ]
    networks = [
        NumberTable(
            headings,
            [[name, *_texts(cluster(filter(wanted, members)))] for name, wanted in ROWS.items()],
            network,
        )
        for (network,), members in by_network.items()
    ]
    with_rate = [row for row in groups if row["flows_with_rate"]]
    count = sum(row["flows"] for row in groups)
    return Section(
        anchor=f"table3-{access}",
        title=f"Table III. Goodput by TCP options, {ACCESS_NAMES.get(access, access)}",
        source="INFOCOM 2004, Section VII",
        caption=SAMPLE
        + "Raw difference: geometric mean goodput with the option against that without, "
        "within networks. Adjusted difference: from a regression of log goodput on all options, "
        "transfer size, network, local hour, and the user's channel rate in that hour, for "
        "transfers with a known channel rate. For windows, the regression leaves out the channel "
        "rate, as small windows hide it. The channel rate is known for "
        f"{number(sum(row['flows_with_rate'] for row in with_rate))} of {number(count)} "
        f"connections of {users_text(with_rate)}. Effects have {100 * CONFIDENCE:.0f} % intervals "
        f"and need at least {MIN_GROUPS} users on each side. " + INTERVALS,
        samples=f"{number(count)} connections of {', '.join(name for (name,) in by_network)}",
        tables=[NumberTable([*headings, *paper_headings], rows), _effects_table(option_effects)],
        collapsed_tables=networks if len(networks) > 1 else [],
        open_tables=True,
        notes=[*map(effect_sentence, option_effects), *([paper.OPTIONS] if paper_headings else [])],
    )


def _pooled_cluster(groups: Rows, name: str) -> Cluster | None:
    """Return a row's cluster over all networks; None if pooling would reverse a difference."""
    option = OPTION_OF.get(name)
    if option and pooling_reverses(groups, option):
        return None
    return cluster(filter(ROWS[name], groups))


def _texts(goodput: Cluster | None) -> list[str]:
    if goodput is None:
        return [NETWORKS_DIFFER, NOT_MEASURED, NOT_MEASURED]
    spread = NOT_MEASURED if goodput.deviation is None else kilobits(goodput.deviation)
    return [interval_text(goodput.mean, kilobits, goodput.flows > 0), spread, number(goodput.flows)]


def _paper_texts(name: str) -> list[str]:
    goodput, samples = paper.TABLE_3[name]
    return [kilobits(goodput), number(samples)]


def _effects_table(option_effects: Sequence[Effect]) -> NumberTable:
    headings = [
        "option",
        "samples",
        "users",
        "raw difference",
        "adjusted: samples",
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
        "Effect of each option (samples and users: with / without the option)",
    )


def _sides(sides: tuple[Side, Side]) -> list[str]:
    return [
        " / ".join(number(side.transfers) for side in sides),
        " / ".join(number(side.users) for side in sides),
    ]


def _difference(difference: Difference) -> str:
    if difference.low is None:
        return NOT_MEASURED
    return f"{_share(difference.estimate)} ({_interval(difference)})"


def _share(value: float | None) -> str:
    if value is None:
        return NOT_MEASURED
    return f"{100 * value:+.1f}{NO_BREAK_SPACE}%".replace("-", MINUS)


def _interval(difference: Difference) -> str:
    if difference.low is None:
        return NOT_MEASURED
    return f"{_share(difference.low)} to {_share(difference.high)}"


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
        f"{name}: {_share(adjusted.estimate)} ({_interval(adjusted)}) after adjustment, "
        f"{_share(raw.estimate)} before; {verdict}."
    )


def _figure_section(figure: Figure, access: str, groups: Rows) -> Section:
    by_network = group_rows(groups, "network")
    views = {access: _clusters(figure, groups)}
    if len(by_network) > 1:
        views |= {name: _clusters(figure, members) for (name,), members in by_network.items()}
    drawing = go.Figure()
    for view, clusters in views.items():
        shown = {k: v for k, v in clusters.items() if sum(_has_mean(c) for c in v) >= 2}
        for place, name in enumerate(figure.names):
            bars = {k: v[place] for k, v in shown.items() if _has_mean(v[place])}
            means = [bar.mean for bar in bars.values() if bar]
            drawing.add_trace(
                go.Bar(
                    x=list(bars),
                    y=[(estimate.value or 0) / 1000 for estimate in means],
                    name=name,
                    visible=view == access,
                    marker={"color": SHADES[place]},
                    error_y=error_bars(means, 1000),
                    customdata=[bar.flows for bar in bars.values() if bar],
                    hovertemplate="%{x}: %{y:.1f} kbit/s, %{customdata} samples<extra>"
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
            for value in ("mean", "deviation", "samples")
        ),
    ]
    tables = [
        NumberTable(
            headings,
            [[label, *(text for bar in bars for text in _texts(bar))] for label, bars in v.items()],
            view,
        )
        for view, v in views.items()
    ]
    return Section(
        anchor=f"{figure.anchor}-{access}",
        title=f"{figure.title}, {ACCESS_NAMES.get(access, access)}",
        source="INFOCOM 2004, Section VII",
        caption=SAMPLE
        + "Bars: mean. Ranges: its interval, cut if few users make it long. (The paper's "
        "ranges are standard deviations; the table of numbers has them.) The figure shows clusters "
        f"with enough transfers on two sides, over all {ACCESS_NAMES.get(access, access)} networks "
        "unless pooling reverses the difference within them. " + INTERVALS,
        samples=f"{number(sum(row['flows'] for row in groups))} connections",
        figure=figure_html(drawing, f"{figure.title}, {ACCESS_NAMES.get(access, access)}", 520),
        tables=tables,
    )


def _clusters(figure: Figure, groups: Rows) -> dict[str, list[Cluster | None]]:
    """Return by the other options' values, and overall, a cluster per value of the figure's option.

    A cluster is None if pooling networks would reverse the difference.
    """
    others = [option for option in LABELS if option != figure.option]
    members = {
        ", ".join(LABELS[o][v] for o, v in zip(others, key, strict=True)): rows
        for key, rows in sorted(group_rows(groups, *others).items())
        if all(v in LABELS[o] for o, v in zip(others, key, strict=True))
    }
    members["overall"] = list(groups)
    return {
        label: [
            None if reversed_by_pooling else cluster(r for r in rows if r[figure.option] == value)
            for value in figure.values
        ]
        for label, rows in members.items()
        for reversed_by_pooling in [pooling_reverses(rows, figure.option)]
    }


def _has_mean(goodput: Cluster | None) -> bool:
    return goodput is not None and goodput.mean.value is not None


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
