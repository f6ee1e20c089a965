"""Table III and Figs. 14 to 17: goodput by TCP options, and what the options themselves change."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

import plotly.graph_objects as go

from spark_jobs.estimators.option_effects import (
    CONFIDENCE,
    FEWEST_GROUPS,
    Difference,
    Effect,
    effects,
)
from spark_jobs.report import paper
from spark_jobs.report.parts import (
    NO_BREAK,
    NOT_MEASURED,
    Section,
    TableOfNumbers,
    drawn,
    group,
    kilobits,
    number,
)
from spark_jobs.report.selection import Selection

SAMPLE = "Single request–response connections above 32 KB without other traffic of the user. "  # noqa: RUF001
FEWEST = 5
"""Transfers below which a cluster is not drawn."""


@dataclass(frozen=True)
class Cluster:
    """Mean and standard deviation of some transfers' goodput, bit/s."""

    flows: int
    mean: float | None
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
SHADES = ("#9db8cf", "#3f78a8", "#1b3a57")
LABELS = {
    "window": {"low": "Wnd low", "med": "Wnd med", "high": "Wnd high"},
    "sack": {"yes": "SACK", "no": "no SACK"},
    "mss": {"low": "MSS low", "high": "MSS high"},
    "timestamps": {"yes": "TS", "no": "no TS"},
}


def sections(selection: Selection) -> list[Section]:
    """Table III with the adjusted effects, then a figure an option."""
    cells = _cells(selection)
    return [_table(selection, cells), *(_figure(figure, cells) for figure in FIGURES)]


def _cells(selection: Selection) -> list[dict]:
    """The mart's rows with the options' values named as in option_effects."""
    return selection.rows("""
        select network, hour, size_class, user_group, mss_class as mss, window_class as window,
            if(sack, 'yes', 'no') as sack, if(timestamps, 'yes', 'no') as timestamps,
            sum(flows)::bigint as flows, sum(goodput_sum) as goodput_sum,
            sum(goodput_squares) as goodput_squares, sum(log_goodput_sum) as log_goodput_sum
        from table3_clusters group by all order by all
    """)


def cluster(rows: Iterable[dict]) -> Cluster:
    """Mean and sample standard deviation from counts, sums and sums of squares."""
    rows = list(rows)
    flows = sum(row["flows"] for row in rows)
    if not flows:
        return Cluster(0, None, None)
    mean = sum(row["goodput_sum"] for row in rows) / flows
    if flows == 1:
        return Cluster(1, mean, None)
    spread = sum(row["goodput_squares"] for row in rows) - flows * mean**2
    return Cluster(flows, mean, sqrt(max(spread, 0) / (flows - 1)))


def _table(selection: Selection, cells: Rows) -> Section:
    found = effects(cells)
    everywhere = [
        [name, *_texts(cluster(filter(wanted, cells))), *_paper(name)]
        for name, wanted in ROWS.items()
    ]
    headings = [
        "",
        "goodput, mean",
        "standard deviation",
        "samples",
        "paper: goodput",
        "paper: samples",
    ]
    by_network = group(cells, "network")
    networks = [
        TableOfNumbers(
            headings[:4],
            [
                [name, *_texts(cluster(filter(wanted, by_network[network.name,])))]
                for name, wanted in ROWS.items()
            ],
            network.name,
        )
        for network in selection.networks
        if (network.name,) in by_network
    ]
    return Section(
        anchor="table3",
        title="Table III. Goodput by TCP options",
        source="INFOCOM 2004, Section VII",
        caption=SAMPLE + "Raw: what the clusters' geometric means differ by. Adjusted: by a "
        "regression of log goodput on all options, size of the transfer, network and hour; "
        f"{CONFIDENCE:.0%} intervals allow for transfers of one user being alike, and are given "
        f"from {FEWEST_GROUPS} groups of users on each side.",
        samples=f"{number(sum(row['flows'] for row in cells))} connections",
        tables=[
            TableOfNumbers(headings, everywhere, "all networks"),
            _effects_table(found),
            *networks,
        ],
        open_tables=True,
        notes=[*map(in_words, found), paper.OPTIONS],
    )


def _texts(found: Cluster) -> list[str]:
    return [kilobits(found.mean), kilobits(found.deviation), number(found.flows)]


def _paper(name: str) -> list[str]:
    goodput, samples = paper.TABLE_3[name]
    return [kilobits(goodput), number(samples)]


def _effects_table(found: Sequence[Effect]) -> TableOfNumbers:
    headings = [
        "option",
        "samples",
        "raw difference",
        "raw interval",
        "adjusted difference",
        "adjusted interval",
    ]
    return TableOfNumbers(
        headings,
        [
            [
                effect.contrast.name,
                " / ".join(number(count) for count in effect.transfers),
                _share(effect.raw.estimate),
                _interval(effect.raw),
                _share(effect.adjusted.estimate),
                _interval(effect.adjusted),
            ]
            for effect in found
        ],
        "effect of each option",
    )


def _share(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{100 * value:+.1f}{NO_BREAK}%"


def _interval(difference: Difference) -> str:
    if difference.low is None:
        return NOT_MEASURED
    return f"{_share(difference.low)} to {_share(difference.high)}"


def in_words(effect: Effect) -> str:
    """What the data support."""
    name, raw, adjusted = effect.contrast.name, effect.raw, effect.adjusted
    if 0 in effect.transfers:
        return f"{name}: no samples to compare."
    if adjusted.estimate is None:
        return (
            f"{name}: {_share(raw.estimate)} as measured, but this option always comes with "
            "another, so its own effect cannot be told."
        )
    if adjusted.low is None:
        return (
            f"{name}: {_share(adjusted.estimate)} after adjustment, from too few groups of users "
            f"({min(effect.groups)}) to say how sure that is."
        )
    if adjusted.supported:
        verdict = "the data support a " + ("gain" if adjusted.estimate > 0 else "loss")
    else:
        verdict = "the data do not tell a difference from none"
        if raw.supported:
            verdict += ": what the raw difference shows goes with the other options, size or place"
    return (
        f"{name}: {_share(adjusted.estimate)} ({_interval(adjusted)}) after adjustment, "
        f"{_share(raw.estimate)} before; {verdict}."
    )


def _figure(figure: Figure, cells: Rows) -> Section:
    others = [option for option in LABELS if option != figure.option]
    clusters = [
        (", ".join(LABELS[o][v] for o, v in zip(others, key, strict=True)), rows)
        for key, rows in sorted(group(cells, *others).items())
        if all(v in LABELS[o] for o, v in zip(others, key, strict=True))
    ]
    clusters.append(("overall", list(cells)))
    found = {
        label: [cluster(r for r in rows if r[figure.option] == value) for value in figure.values]
        for label, rows in clusters
    }
    shown = {k: v for k, v in found.items() if sum(c.flows >= FEWEST for c in v) >= 2}
    drawing = go.Figure()
    for place, name in enumerate(figure.names):
        column = [bars[place] if bars[place].flows >= FEWEST else None for bars in shown.values()]
        drawing.add_trace(
            go.Bar(
                x=list(shown),
                y=[c and c.mean and c.mean / 1000 for c in column],
                name=name,
                marker={"color": SHADES[place]},
                error_y={
                    "type": "data",
                    "thickness": 1,
                    "width": 3,
                    "array": [c and c.deviation and c.deviation / 1000 for c in column],
                },
                customdata=[c and c.flows for c in column],
                hovertemplate="%{x}: %{y:.1f} kbit/s, %{customdata} samples<extra>"
                + name
                + "</extra>",
            )
        )
    drawing.update_yaxes(title_text="Goodput [kbit/s]", rangemode="tozero")
    drawing.update_xaxes(tickangle=-35, automargin=True)
    headings = [
        "cluster",
        *(f"{name}: {what}" for name in figure.names for what in ("mean", "deviation", "samples")),
    ]
    return Section(
        anchor=figure.anchor,
        title=figure.title,
        source="INFOCOM 2004, Section VII",
        caption=SAMPLE + "Bars: mean; ranges: standard deviation (not confidence intervals), as in "
        f"the paper. Clusters with at least {FEWEST} transfers on two sides are drawn.",
        samples=f"{number(sum(row['flows'] for row in cells))} connections",
        figure=drawn(drawing, figure.title, 520),
        tables=[
            TableOfNumbers(
                headings,
                [
                    [label, *(text for bar in bars for text in _texts(bar))]
                    for label, bars in found.items()
                ],
            )
        ],
    )
