"""Table III and Figs. 14 to 17: goodput by TCP options, and what the options themselves change.

One table and figure an access technology, a network on demand: a mean over GPRS and LTE tells which
of them has more of an option. Nor are networks of one technology added up where that turns round
what each of them shows (Simpson's paradox).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import plotly.graph_objects as go

from spark_jobs.estimators.by_user import UNKNOWN, Estimate
from spark_jobs.estimators.option_effects import (
    CONFIDENCE,
    FEWEST_GROUPS,
    Difference,
    Effect,
    Side,
    effects,
)
from spark_jobs.report import paper
from spark_jobs.report.metrics import MINUS
from spark_jobs.report.page_elements import (
    ACCESS,
    INTERVALS,
    NO_BREAK_SPACE,
    NOT_MEASURED,
    TOO_FEW,
    Section,
    NumberTable,
    figure_html,
    group,
    kilobits,
    number,
)
from spark_jobs.report.samples import are_enough, error_bars, mean, users_text, interval_text
from spark_jobs.report.selection import Selection

SAMPLE = "Single request–response connections above 32 KB without other traffic of the user. "  # noqa: RUF001
NETWORKS_DIFFER = "networks differ"
"""Instead of a mean over networks that would turn round what each of them shows."""


@dataclass(frozen=True)
class Cluster:
    """Some transfers' goodput, bit/s: mean with its interval, sample standard deviation; null where
    they are too few."""

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
"""The option that a row tells of."""
OF_EFFECTS = ("hour", "size_class", "rate_bin")
"""What effects are adjusted for, beside the options."""
PAPERS_ACCESS = "gprs"
"""What the paper's values stand beside."""


@dataclass(frozen=True)
class Figure:
    """One of Figs. 14 to 17: the option whose values stand side by side in every cluster."""

    anchor: str
    title: str
    option: str
    values: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The values' labels."""
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
ROOM = 1.6
"""How high a figure is for its highest bar."""
SHADES = ("#c2c2c2", "#868686", "#3a3a3a")
"""Of an option's values; hues are networks'."""
LABELS = {
    "window": {"low": "Wnd low", "med": "Wnd med", "high": "Wnd high"},
    "sack": {"yes": "SACK", "no": "no SACK"},
    "mss": {"low": "MSS low", "high": "MSS high"},
    "timestamps": {"yes": "TS", "no": "no TS"},
}


def sections(selection: Selection) -> list[Section]:
    """Of each access technology Table III with the adjusted effects, then a figure an option."""
    found = []
    by_access = group(_cells(selection, *OF_EFFECTS), "access")
    for (access,), cells in group(_cells(selection), "access").items():
        found += [_table(access, cells, by_access[access,])]
        found += [_figure(figure, access, cells) for figure in FIGURES]
    return found


def _cells(selection: Selection, *also: str) -> list[dict]:
    """The mart's rows with the options' values named as in option_effects; also: by which columns
    they stand apart besides network, users and options."""
    return selection.rows(f"""
        select {", ".join(("access", "network", "user_group", *also))}, mss_class as mss,
            window_class as window, if(sack, 'yes', 'no') as sack,
            if(timestamps, 'yes', 'no') as timestamps,
            sum(flows)::bigint as flows, sum(goodput_sum) as goodput_sum,
            sum(goodput_squares) as goodput_squares, sum(log_goodput_sum) as log_goodput_sum,
            coalesce(sum(flows) filter (rate_bin is not null), 0)::bigint as flows_with_rate
        from table3_clusters group by all order by all
    """)


def cluster(rows: Iterable[dict]) -> Cluster:
    """From counts, sums and sums of squares."""
    rows = list(rows)
    flows = sum(row["flows"] for row in rows)
    if not are_enough(rows):
        return Cluster(flows, UNKNOWN, None)
    average = mean(rows, "goodput_sum")
    if average.value is None:
        return Cluster(flows, UNKNOWN, None)
    spread = sum(row["goodput_squares"] for row in rows) - flows * average.value**2
    return Cluster(flows, average, sqrt(max(spread, 0) / (flows - 1)))


def turned(rows: Rows, option: str) -> bool:
    """Whether two of an option's values compare otherwise over all networks than within them."""
    values = next(figure.values for figure in FIGURES if figure.option == option)
    return any(_turned(rows, option, pair) for pair in combinations(values, 2))


def _turned(rows: Rows, option: str, pair: tuple[str, str]) -> bool:
    def compared(rows: Rows) -> tuple[float, float] | None:
        """What the means differ by, and how much that weighs."""
        sides = [[row for row in rows if row[option] == value] for value in pair]
        (n, total), (m, other) = (
            (sum(row["flows"] for row in side), sum(row["goodput_sum"] for row in side))
            for side in sides
        )
        return (total / n - other / m, n * m / (n + m)) if n and m else None

    over_all = compared(rows)
    within = [found for (mine) in group(rows, "network").values() if (found := compared(mine))]
    if over_all is None:
        return False
    if not within:
        return True
    return over_all[0] * sum(difference * weight for difference, weight in within) < 0


def _table(access: str, cells: Rows, by_covariates: Rows) -> Section:
    found = effects(by_covariates)
    headings = ["", "goodput, mean", "standard deviation", "samples"]
    beside = ["paper: goodput", "paper: samples"] if access == PAPERS_ACCESS else []
    by_network = group(cells, "network")
    rows = [
        [name, *_texts(_of_access(cells, name)), *(_paper(name) if beside else [])] for name in ROWS
    ]
    networks = [
        NumberTable(
            headings,
            [[name, *_texts(cluster(filter(wanted, mine)))] for name, wanted in ROWS.items()],
            network,
        )
        for (network,), mine in by_network.items()
    ]
    rated = [row for row in cells if row["flows_with_rate"]]
    count = sum(row["flows"] for row in cells)
    return Section(
        anchor=f"table3-{access}",
        title=f"Table III. Goodput by TCP options, {ACCESS.get(access, access)}",
        source="INFOCOM 2004, Section VII",
        caption=SAMPLE + "Raw difference: of the geometric mean goodputs with and without the "
        "option, within networks. Adjusted difference: from a regression of log goodput on all "
        "options, size of the transfer, network and local hour, and on the channel rate of the "
        "user in that hour, for transfers where that is known; for windows without the channel "
        "rate, which small windows hide. The channel rate is known for "
        f"{number(sum(row['flows_with_rate'] for row in rated))} of {number(count)} connections, of "
        f"{users_text(rated)}. Effects have {100 * CONFIDENCE:.0f} % intervals and are told "
        f"from {FEWEST_GROUPS} users on each side. " + INTERVALS,
        samples=f"{number(count)} connections of {', '.join(name for (name,) in by_network)}",
        tables=[NumberTable([*headings, *beside], rows), _effects_table(found)],
        collapsed_tables=networks if len(networks) > 1 else [],
        open_tables=True,
        notes=[*map(in_words, found), *([paper.OPTIONS] if beside else [])],
    )


def _of_access(cells: Rows, name: str) -> Cluster | None:
    """A row of the table over all networks; null where they differ."""
    option = OPTION_OF.get(name)
    if option and turned(cells, option):
        return None
    return cluster(filter(ROWS[name], cells))


def _texts(found: Cluster | None) -> list[str]:
    if found is None:
        return [NETWORKS_DIFFER, NOT_MEASURED, NOT_MEASURED]
    spread = NOT_MEASURED if found.deviation is None else kilobits(found.deviation)
    return [interval_text(found.mean, kilobits, found.flows > 0), spread, number(found.flows)]


def _paper(name: str) -> list[str]:
    goodput, samples = paper.TABLE_3[name]
    return [kilobits(goodput), number(samples)]


def _effects_table(found: Sequence[Effect]) -> NumberTable:
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
            for effect in found
        ],
        "effect of each option (samples and users: with it / without)",
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


def in_words(effect: Effect) -> str:
    """What the data support."""
    name, raw, adjusted = effect.contrast.name, effect.raw, effect.adjusted
    fewest = min(side.users for side in effect.adjusted_sides)
    if fewest < FEWEST_GROUPS:
        known = " whose channel's rate is known" if effect.contrast.at_rate else ""
        return f"{name}: {TOO_FEW} users{known} on one side ({fewest}) to tell."
    if adjusted.low is None:
        return f"{name}: comes always with another option or place, so its own effect is not told."
    if adjusted.supported:
        verdict = "the data support a " + ("gain" if (adjusted.estimate or 0) > 0 else "loss")
    else:
        verdict = "no difference beyond chance"
        if raw.supported:
            verdict += "; the raw one comes with channel rate, other options, size, network or hour"
    return (
        f"{name}: {_share(adjusted.estimate)} ({_interval(adjusted)}) after adjustment, "
        f"{_share(raw.estimate)} before; {verdict}."
    )


def _figure(figure: Figure, access: str, cells: Rows) -> Section:
    by_network = group(cells, "network")
    views = {access: _clusters(figure, cells)}
    if len(by_network) > 1:
        views |= {name: _clusters(figure, mine) for (name,), mine in by_network.items()}
    drawing = go.Figure()
    for view, found in views.items():
        shown = {k: v for k, v in found.items() if sum(_is_told(c) for c in v) >= 2}
        for place, name in enumerate(figure.names):
            column = {k: v[place] for k, v in shown.items() if _is_told(v[place])}
            means = [one.mean for one in column.values() if one]
            drawing.add_trace(
                go.Bar(
                    x=list(column),
                    y=[(one.value or 0) / 1000 for one in means],
                    name=name,
                    visible=view == access,
                    marker={"color": SHADES[place]},
                    error_y=error_bars(means, 1000),
                    customdata=[one.flows for one in column.values() if one],
                    hovertemplate="%{x}: %{y:.1f} kbit/s, %{customdata} samples<extra>"
                    + name
                    + "</extra>",
                )
            )
    if len(views) > 1:
        _choice(drawing, list(views), len(figure.names))
    highest = max((y for trace in drawing.data for y in trace.y), default=1)
    drawing.update_yaxes(title_text="Goodput [kbit/s]", range=[0, ROOM * highest])
    drawing.update_xaxes(tickangle=-35, automargin=True)
    headings = [
        "cluster",
        *(f"{name}: {what}" for name in figure.names for what in ("mean", "deviation", "samples")),
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
        title=f"{figure.title}, {ACCESS.get(access, access)}",
        source="INFOCOM 2004, Section VII",
        caption=SAMPLE + "Bars: mean; ranges: its interval (the paper's ranges are standard "
        "deviations, which the numbers have), cut where few users leave it long. Clusters with two "
        f"sides of enough transfers are figure_html, over all {ACCESS.get(access, access)} networks "
        "unless that turns round what each of them shows. " + INTERVALS,
        samples=f"{number(sum(row['flows'] for row in cells))} connections",
        figure=figure_html(drawing, f"{figure.title}, {ACCESS.get(access, access)}", 520),
        tables=tables,
    )


def _clusters(figure: Figure, cells: Rows) -> dict[str, list[Cluster | None]]:
    """By the other options' values, and over all of them: a cluster for each value of the figure's
    option; null where the networks differ."""
    others = [option for option in LABELS if option != figure.option]
    members = {
        ", ".join(LABELS[o][v] for o, v in zip(others, key, strict=True)): rows
        for key, rows in sorted(group(cells, *others).items())
        if all(v in LABELS[o] for o, v in zip(others, key, strict=True))
    }
    members["overall"] = list(cells)
    return {
        label: [
            None if differ else cluster(r for r in rows if r[figure.option] == value)
            for value in figure.values
        ]
        for label, rows in members.items()
        for differ in [turned(rows, figure.option)]
    }


def _is_told(found: Cluster | None) -> bool:
    return found is not None and found.mean.value is not None


def _choice(drawing: go.Figure, views: Sequence[str], traces: int) -> None:
    """A menu to choose all networks, or one."""
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
