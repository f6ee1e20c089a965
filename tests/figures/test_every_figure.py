"""Every figure: the report, the dashboards and an independent computation agree, on the shipped
captures and on a made-up month of five networks in three time zones.

All numbers and intervals against NumPy, from the marts; the charts against the numbers; labels and
colours. test_figures_against_tables.py compares each figure with the tables.
"""

import re
from dataclasses import replace
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from report_and_dashboards import (
    CHARTS,
    ReportAndDashboards,
    chart_keys,
    chart_named,
)
from test_report import shows
from written_out import written_out

from spark_jobs.dashboards.assets import assets
from spark_jobs.dashboards.pages import DASHBOARDS
from spark_jobs.figures import parts
from spark_jobs.figures.colours import SERIES_COLOURS
from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.distributions.mart import MART as DISTRIBUTIONS
from spark_jobs.figures.fig03_setup_delay.numbers import CATEGORIES
from spark_jobs.figures.fig10_throughput_by_loss.numbers import NUMBERS as BY_LOSS
from spark_jobs.figures.fig13_user_throughput.numbers import LEVELS
from spark_jobs.figures.format import KBITS, SECONDS, Unit
from spark_jobs.figures.limits_by_window.numbers import MSS_CLASS, WINDOWS
from spark_jobs.figures.numbers import Numbers, mean
from spark_jobs.figures.page_load_time.numbers import NUMBERS as PAGE_LOADS
from spark_jobs.figures.quic_beside_tcp.numbers import NUMBERS as QUIC
from spark_jobs.figures.quic_beside_tcp.numbers import SHARES
from spark_jobs.figures.rtt_by_flight.numbers import NUMBERS as RTTS
from spark_jobs.figures.table2_loss.numbers import NUMBERS as LOSSES
from spark_jobs.figures.table3_clusters.dashboard import BY_VALUE
from spark_jobs.figures.table3_clusters.numbers import EFFECT_HEADINGS, FIGURES, OPTION_LABELS
from spark_jobs.figures.table3_clusters.numbers import NUMBERS as GOODPUTS
from spark_jobs.figures.table3_clusters.option_effects import CONTRASTS

# ---- numbers against NumPy ----------------------------------------------------------------------

ENDS = ("value", "low", "high")
Cells = dict[tuple, dict]


def key_of(row: dict, by: tuple[str, ...]) -> tuple:
    return tuple(None if pd.isna(row[name]) else row[name] for name in by)


def cells_of(pages: ReportAndDashboards, numbers: Numbers, by: tuple[str, ...]) -> Cells:
    """Return the cells that are written out, by their values in the columns `by`."""
    rows = written_out(pages.selection.connection, numbers, by).to_dict("records")
    return {key_of(row, by): row for row in rows}


def says(text: str, cell: dict, name: str, unit: Unit) -> bool:
    """Return whether a text shows a ratio's value and interval, rounded to the text's digits."""
    ends = [cell[name, end] for end in ENDS if not np.isnan(cell[name, end])]
    if not ends:
        return text == ("too few" if cell[name, "samples"] else "\N{EN DASH}")
    texts = re.split(r" \(| … ", text.replace("\N{NO-BREAK SPACE}", " ").removesuffix(")"))
    return len(texts) == len(ends) and all(
        shows(shown, unit.scale * end) for shown, end in zip(texts, ends, strict=True)
    )


def has_counts(row: dict, cell: dict, numbers: Numbers) -> bool:
    return [row[n] for n in numbers.counts] == pytest.approx([cell[n] for n in numbers.counts])


def test_every_value_and_interval_is_the_one_written_out(pages):
    """Also those that a page shows by SQL of its own."""
    asked = {numbers.sql(*by): (numbers, by) for numbers, by, text in pages.uses if not text}
    for part in (part for name in ("numbers", "page", "dashboard") for part in parts(name)):
        for numbers in (found for found in vars(part).values() if isinstance(found, Numbers)):
            asked[numbers.sql("network", "hours")] = numbers, ("network", "hours")
    for numbers, by in asked.values():
        cells = cells_of(pages, numbers, by)
        for row in numbers.rows(pages.selection, *by):
            cell = cells.pop(key_of(row, by))
            assert has_counts(row, cell, numbers)
            for ratio in numbers.ratios:
                found = [getattr(row[ratio.name], end) for end in ENDS]
                found = [np.nan if end is None else end for end in found]
                expected = [cell[ratio.name, end] for end in ENDS]
                where = numbers.mart.name, ratio.name, key_of(row, by)
                assert found == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True), where
                assert says(row.text(ratio.name), cell, ratio.name, ratio.unit), where
        assert not cells


def test_every_text_on_a_dashboard_is_of_the_value_and_interval_written_out(pages):
    asked = {numbers.sql(*by, text=True): (numbers, by) for numbers, by, text in pages.uses if text}
    assert len(asked) >= 8
    for sql, (numbers, by) in asked.items():
        cells = cells_of(pages, numbers, by)
        for row in pages.selection.rows(sql):
            cell = cells.pop(key_of(row, by))
            assert has_counts(row, cell, numbers)
            for ratio in numbers.ratios:
                assert says(row[ratio.name], cell, ratio.name, ratio.unit), (numbers.mart.name, row)
        assert not cells


# ---- charts against numbers ---------------------------------------------------------------------

SERIES = "network || ' ' || hours"
SEGMENT = f"{MSS_CLASS} || ', ' || hours"
CATEGORY_NAMES = {
    ("single" if single else "repeated") + (" background" if background else ""): label
    for label, (single, background) in CATEGORIES.items()
    if single is not None
}  # fmt: skip


def of_distributions(name: str, measure: str, unit: Unit, column: str, labels: dict) -> Numbers:
    """Return the means of a measure of the mart distributions, as the report takes them."""
    ratio = mean(name, "", "weighted_sum", unit, "weight", "samples")
    names = {str(category): label for category, label in labels.items()}
    dimensions = {"series": SERIES, column: label_sql("category", names)}
    return Numbers(DISTRIBUTIONS, [ratio], dimensions, f"measure = '{measure}'", {})


def with_columns(numbers: Numbers, where: str = "true", **columns: str) -> Numbers:
    """Return the numbers of rows that meet a condition, with further columns to group by."""
    dimensions = {**numbers.dimensions, **columns}
    return replace(numbers, dimensions=dimensions, where=f"({numbers.where}) and {where}")


def of_clusters(option: str) -> Numbers:
    """Return goodput by an option's value and cluster of the other options.

    A chart's `cluster_flows` is the cluster, and counts that another test compares.
    """
    others = " || ', ' || ".join(sql for name, sql in OPTION_LABELS.items() if name != option)
    source = f"(select *, unnest([{others}, 'overall']) as cluster from {GOODPUTS.mart.name})"
    label = OPTION_LABELS[option]
    return with_columns(
        replace(GOODPUTS, source=source), f"{label} is not null and cluster is not null",
        cluster_flows="cluster", value=label, value_hours=f"{label} || ', ' || hours",
    )  # fmt: skip


COUNTS = r" \(n = .*\)$"
"""Counts after the name of a cluster."""
OF_CHARTS = {
    "Table II. Loss on the access side by local hour": LOSSES,
    "Fig. 3. Mean set-up delay by component": of_distributions(
        "mean_delay", "setup_delay", SECONDS, "category", CATEGORY_NAMES
    ),
    "Fig. 10. Average throughput by packet loss": with_columns(BY_LOSS, series=SERIES),
    "Fig. 10. Average throughput of bytes": with_columns(BY_LOSS, series=SERIES),
    "Fig. 10. Average goodput": with_columns(BY_LOSS, series=SERIES),
    "Fig. 13. Mean user throughput by": of_distributions(
        "user_throughput", "user_throughput", KBITS, "level", LEVELS
    ),
    "Fig. 13. Mean user throughput of bytes": of_distributions(
        "user_throughput", "user_throughput_received", KBITS, "level", LEVELS
    ),
    "Pages: mean load time by local hour": with_columns(PAGE_LOADS),
    "Pages: mean load time by connections": with_columns(PAGE_LOADS, series=SERIES),
    "Table III. Goodput by TCP options, by": with_columns(BY_VALUE, series=SERIES, value="option"),
    **{figure.title: of_clusters(figure.option) for figure in FIGURES},
    "User throughput by window and MSS, one": with_columns(
        WINDOWS, "parallel = 1", segment=SEGMENT
    ),
    "User throughput by window and MSS, sev": with_columns(
        WINDOWS, "parallel > 1", segment=SEGMENT
    ),
    "QUIC's share of IP bytes to the mobile": with_columns(SHARES),
    "QUIC beside TCP: mean set-up delay": with_columns(QUIC, series=SERIES),
    "Mean RTT on the access side by bytes in flight": with_columns(RTTS, series=SERIES),
    "Mean queueing (RTT above": with_columns(RTTS, series=SERIES),
}
"""The numbers that each chart of a Ratio's metric shows, by the beginning of its title."""


def test_every_ratio_in_a_chart_is_that_of_the_numbers(pages):
    """A chart over several networks may leave out more: it may count users of two as one."""
    found = set()
    for chart in CHARTS:
        names = [m.name for m in chart.dataset.metrics if m in pages.ratios]
        names = [name for name in names if name in chart.form_data.get("metrics", [])]
        if not names:
            continue
        [title] = [title for title in OF_CHARTS if chart.title.startswith(title)]
        found.add(title)
        numbers, keys = OF_CHARTS[title], tuple(chart_keys(chart))
        cells = {key_of(row, keys): row for row in numbers.rows(pages.selection, *keys)}
        answer = pages.answer(chart).replace({"cluster_flows": COUNTS}, "", regex=True)
        for row in answer.to_dict("records"):
            for name in names:
                expected, unit = cells[key_of(row, keys)][name].value, numbers[name].unit
                if expected is None or (np.isnan(row[name]) and "network" not in row):
                    assert np.isnan(row[name]), (title, row)
                else:
                    scale = 1 if unit.name == "%" else unit.scale
                    assert row[name] == pytest.approx(scale * expected, rel=1e-9), (title, row)
    assert found == set(OF_CHARTS)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.anchor)
def test_clusters_have_the_counts_of_their_transfers(pages, figure):
    answer = pages.answer(chart_named(figure.title))
    names = [answer["cluster_flows"].str.replace(COUNTS, "", regex=True)]
    counts = dict(zip(*names, answer["cluster_flows"].str.extract(r"n = (.*)\)$")[0], strict=True))
    rows = of_clusters(figure.option).rows(pages.selection, "cluster_flows", "value")
    for cluster, texts in counts.items():
        flows = {row["value"]: row["flows"] for row in rows if row["cluster_flows"] == cluster}
        assert texts == " / ".join(f"{flows.get(name, 0):,.0f}" for name in figure.names)


def test_effects_of_options_are_those_of_the_report(pages):
    shown = pages.answer(chart_named("Effects of TCP options"))
    assert shown["comparison"].nunique() == len(CONTRASTS)
    for row in shown.to_dict("records"):
        printed = pages.page.rows[f"table3-{row['access']}"]
        texts = [row[name].replace("\N{NO-BREAK SPACE}", " ") for name in EFFECT_HEADINGS]
        assert texts in printed


# ---- labels and colours -------------------------------------------------------------------------

LABELS = (
    ("Fig. 3. Share of set-ups", "category"), ("Fig. 5. Connection set-up cat", "area"),
    ("Fig. 7. Connections above", "window"), ("Fig. 8. Where", "side"),
    ("Fig. 10. Average goodput", "loss"), ("Fig. 13. Mean user throughput by", "level"),
    ("Table III. Goodput by TCP options, by", "value"),
    *((figure.title, "cluster_flows") for figure in FIGURES),
    ("Limits of transfers", "limited_by"), ("Retransmissions and RTO", "options"),
    ("RTO by TCP options, peak", "series"), ("Causes of stalls", "class"),
    ("Recovery after stalls", "interruption"), ("Recovery after stalls", "ended_by"),
    ("Differences beyond chance", "title"),
)  # fmt: skip
"""Charts by the beginning of their titles, and columns whose values are on the report, too."""
COLOURED = {
    "fig08_bottleneck": ("fig08",),
    "limits_by_window": ("limits", "windows"),
    "stalls_by_class": ("stalls",),
    "table3_clusters": tuple(figure.anchor for figure in FIGURES),
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
            assert {label, label.split(": ")[-1]} & printed, (title, label)


def test_networks_have_one_colour_everywhere(pages):
    """Off-peak it is paler on the dashboards. The first ten networks differ."""
    networks = {network.name: network.colour for network in pages.selection.networks}
    traces = [trace for plots in pages.plots.values() for plot in plots for trace in plot["data"]]
    for name, colour in networks.items():
        of_network = [trace for trace in traces if (trace.get("name") or "").startswith(name)]
        assert {colour_of(trace) for trace in of_network} == {colour}
    for number, colour in enumerate(networks.values(), 1):
        assert SERIES_COLOURS[f"network {number}"] == SERIES_COLOURS[f"network {number} peak"]
        assert SERIES_COLOURS[f"network {number}"] == colour
    assert len(SERIES_COLOURS) == 10 * len(["", "peak", "off-peak", "other"])
    assert len(set(SERIES_COLOURS.values())) == 10 * len(["peak", "off-peak", "other"])


@pytest.mark.parametrize("folder", COLOURED)
def test_labels_have_the_colours_of_the_report(pages, folder):
    colours = import_module(f"spark_jobs.figures.{folder}.dashboard").COLOURS
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
    files = assets()
    for page in DASHBOARDS:
        colours = files[f"dashboards/{page.slug}.yaml"]["metadata"]["label_colors"]
        for part in (part for part in parts("dashboard") if page.slug == part.PAGE):
            of_figure = getattr(part, "COLOURS", {})
            assert {label: colours[label] for label in of_figure} == of_figure
        for chart in (chart for chart in page.charts if "color_scheme" in chart.form_data):
            [column] = chart.form_data["groupby"]
            for label in pages.answer(chart)[column].dropna().unique():
                for number, network in enumerate(pages.networks, 1):
                    label = re.sub(rf"^{network}\b", f"network {number}", label)
                assert label in colours, (chart.title, label)
