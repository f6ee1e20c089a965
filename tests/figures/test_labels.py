"""Labels, counts and colours of the report and of the dashboards are the same, on the shipped
captures and on a made-up month of five networks in three time zones."""

import re
from dataclasses import replace

import pytest

from spark_jobs.dashboards.assets import assets
from spark_jobs.dashboards.pages import DASHBOARD
from spark_jobs.figures import parts
from spark_jobs.figures.colours import SERIES_COLOURS
from spark_jobs.figures.fig08_bottleneck.figure import FIGURE as FIG_8
from spark_jobs.figures.fig10_throughput_by_loss.figure import FIGURE as FIG_10
from spark_jobs.figures.numbers import Numbers
from spark_jobs.figures.table3_clusters.numbers import (
    EFFECT_HEADINGS,
    OPTION_FIGURES,
    OPTION_LABELS,
)
from spark_jobs.figures.table3_clusters.numbers import NUMBERS as GOODPUTS
from spark_jobs.figures.table3_clusters.option_effects import CONTRASTS
from tests.helpers.report_and_dashboards import (
    chart_named,
)


def of_clusters(option: str) -> Numbers:
    """Return goodput by an option's value and cluster of the other options."""
    others = " || ', ' || ".join(sql for name, sql in OPTION_LABELS.items() if name != option)
    source = f"(select *, unnest([{others}, 'overall']) as cluster from {GOODPUTS.mart.name})"
    label = OPTION_LABELS[option]
    return replace(
        GOODPUTS,
        source=source,
        dimensions={**GOODPUTS.dimensions, "cluster_flows": "cluster", "value": label},
        where=f"({GOODPUTS.where}) and {label} is not null and cluster is not null",
    )


COUNTS = r" \(n = .*\)$"
"""Counts after the name of a cluster."""


@pytest.mark.parametrize("figure", OPTION_FIGURES, ids=lambda figure: figure.anchor)
def test_clusters_have_the_counts_of_their_transfers(pages, figure):
    answer = pages.answer(chart_named(figure.title))
    names = [answer["cluster_flows"].str.replace(COUNTS, "", regex=True)]
    counts = dict(zip(*names, answer["cluster_flows"].str.extract(r"n = (.*)\)$")[0], strict=True))
    rows = of_clusters(figure.option).rows(pages.selection, "cluster_flows", "hours", "value")
    for cluster, texts in counts.items():
        flows = {
            row["value"]: row["flows"]
            for row in rows
            if f"{row['cluster_flows']}, {row['hours']}" == cluster
        }
        assert flows
        assert texts == " / ".join(f"{flows.get(name, 0):,.0f}" for name in figure.names)


def test_effects_of_options_are_those_of_the_report(pages):
    shown = pages.answer(chart_named("Effects of TCP options"))
    assert shown["comparison"].nunique() == len(CONTRASTS)
    for row in shown.to_dict("records"):
        printed = pages.page.rows[f"table3-{row['access']}"]
        texts = [row[name].replace("\N{NO-BREAK SPACE}", " ") for name in EFFECT_HEADINGS]
        assert texts in printed


LABELS = (
    ("Fig. 3. Share of set-ups", "category"), ("Fig. 5. Connection set-up cat", "area"),
    ("Fig. 7. Traffic with a known", "window"), (f"{FIG_8.title}: s", "part"),
    (f"{FIG_10.title}: g", "loss"), ("Fig. 13. Mean user throughput by", "level"),
    ("Table III. Goodput by TCP options, by", "value"),
    *((figure.title, "cluster_flows") for figure in OPTION_FIGURES),
    ("Limits of transfers: s", "part"), ("Retransmissions by cause and", "options"),
    ("RTO by TCP options, peak", "options"), ("Causes of stalls: s", "class"),
    ("Interruptions of the link", "interruption"), ("Interruptions of the link", "ended_by"),
    ("Differences beyond chance", "title"),
)  # fmt: skip
"""Charts by the beginning of their titles, and columns whose values are on the report, too."""
COLOURED = {
    "fig08_bottleneck": ("fig08",),
    "limits_by_window": ("limits", "windows"),
    "stalls_by_class": ("stalls",),
    "table3_clusters": tuple(figure.anchor for figure in OPTION_FIGURES),
}
"""Figures that have colours of their own, and beginnings of their sections of the report."""


def colour_of(trace: dict) -> str:
    return trace.get("marker", {}).get("color") or trace["line"]["color"]


def test_labels_are_those_of_the_report(pages):
    cells = {cell.strip() for rows in pages.page.rows.values() for row in rows for cell in row}
    printed = {text for cell in cells for text in (cell, *cell.split(": ", 1))}
    for title, column in LABELS:
        for label in pages.answer(chart_named(title))[column].unique():
            label = re.sub(COUNTS, "", label)
            if column == "cluster_flows":
                label = re.sub(", (peak|off-peak|other)$", "", label)
            assert {label, label.split(": ")[-1]} & printed, (title, label)


def test_networks_have_one_colour_everywhere(pages):
    """Off-peak it is paler on the dashboards. The first ten networks differ."""
    networks = {network.name: network.colour for network in pages.selection.networks}
    traces = [trace for plots in pages.plots.values() for plot in plots for trace in plot["data"]]
    for name, colour in networks.items():
        of_network = [trace for trace in traces if (trace.get("name") or "").startswith(name)]
        assert {colour_of(trace) for trace in of_network} == {colour}
    for number, colour in enumerate(networks.values(), 1):
        assert SERIES_COLOURS[f"network {number}"] == SERIES_COLOURS[f"network {number}, peak"]
        assert SERIES_COLOURS[f"network {number}"] == colour
    assert len(SERIES_COLOURS) == 10 * len(["", "peak", "off-peak", "all hours", "other"])
    assert len(set(SERIES_COLOURS.values())) == 10 * len(["peak", "off-peak", "all hours", "other"])


@pytest.mark.parametrize("folder", COLOURED)
def test_labels_have_the_colours_of_the_report(pages, folder):
    colours = DASHBOARD.colours
    drawn = {
        (trace["name"].split(" segments, ")[0], colour_of(trace))
        for section, plots in pages.plots.items()
        if section.split("-")[0] in COLOURED[folder]
        for plot in plots
        for trace in plot["data"]
    }
    assert len(drawn) >= 3
    assert drawn <= {(label.removesuffix(", peak"), colour) for label, colour in colours.items()}


def test_labels_of_a_dashboard_have_one_colour_each(pages):
    colours = assets()[f"dashboards/{DASHBOARD.slug}.yaml"]["metadata"]["label_colors"]
    for part in parts("dashboard"):
        of_figure = getattr(part, "COLOURS", {})
        assert {label: colours[label] for label in of_figure} == of_figure
    for chart in (chart for chart in DASHBOARD.charts if "color_scheme" in chart.form_data):
        columns = chart.form_data["groupby"]
        rows = pages.answer(chart)[columns].dropna()
        for label in set(map(", ".join, rows.itertuples(index=False))):
            for number, network in enumerate(pages.networks, 1):
                label = re.sub(rf"^{network}\b", f"network {number}", label)
            assert label in colours, (chart.title, label)
