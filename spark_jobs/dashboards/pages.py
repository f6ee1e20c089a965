"""The dashboard: the charts of the figures, tab by tab, and the filters that the tabs share."""

from collections.abc import Iterable, Sequence

from spark_jobs.figures import parts
from spark_jobs.figures.daily_checks.dashboard import DATA_TITLES, DAYS
from spark_jobs.figures.dashboard_parts import Chart, Dashboard, DateFilter, Tab, Text, ValueFilter
from spark_jobs.figures.metrics.dashboard import FILTERS as PEAK_FILTERS
from spark_jobs.figures.names import PERIODS
from spark_jobs.figures.table1_summary.dashboard import CONNECTIONS

TABS = {
    "overview": "Overview",
    "peak": "Peak",
    "timeline": "Timeline",
    "why": "Why slow",
    "setup": "Set-up",
    "channel": "Channel",
    "transfers": "Transfers",
    "quic": "QUIC",
    "options": "Options",
}
"""Titles of the tabs by key. A figure's dashboard.py names its tab in TAB."""
OF_EVERY_ACCESS = "quic"
"""Tab that shows each network with QUIC, whatever its access technology."""
OF_ALL_HOURS = ("overview", "peak", "timeline")
"""Tabs whose charts have all hours, or hours of their own."""
MOST_COMMON_ACCESS = "access of most networks"
"""Placeholder in the assets; `load.py` replaces it by the name of that access technology."""


def _figures() -> Iterable[tuple[str, Sequence[Sequence[Chart | Text]], dict[str, str]]]:
    """Yield the tab, rows and colours of each figure."""
    for part in parts("figure", "dashboard"):
        if hasattr(part, "ROWS"):
            yield part.TAB, part.ROWS, getattr(part, "COLOURS", {})
        else:
            for figure in getattr(part, "FIGURES", None) or [part.FIGURE]:
                yield figure.tab, figure.charts, figure.colours


def _dashboard() -> Dashboard:
    figures = list(_figures())
    tabs = [
        Tab(title, key, [row for tab, rows, _ in figures if tab == key for row in rows])
        for key, title in TABS.items()
    ]
    charts = [chart for tab in tabs for chart in tab.charts]
    of_selection = [chart.title for chart in charts if chart.title not in DATA_TITLES]
    of_access = [
        chart.title
        for tab in tabs
        if tab.key != OF_EVERY_ACCESS
        for chart in tab.charts
        if chart.title in of_selection
    ]
    of_some_hours = [
        chart.title for tab in tabs if tab.key not in OF_ALL_HOURS for chart in tab.charts
    ]
    drawn = [chart.title for chart in charts if chart.one_network]
    filters: list[ValueFilter | DateFilter] = [
        DateFilter(of_selection),
        ValueFilter("country", "Country", DAYS),
        ValueFilter("access", "Access", DAYS, selected=[MOST_COMMON_ACCESS], single=True,
                    charts=of_access),
        ValueFilter("network", "Network", DAYS, narrowed_by=("country", "access")),
        ValueFilter("hours", "Peak or off-peak", CONNECTIONS,
                    selected=[label for period, (label, _) in PERIODS.items() if period != "other"],
                    charts=of_some_hours),
        ValueFilter("hour", "Local hour", CONNECTIONS, charts=of_some_hours),
        *PEAK_FILTERS,
        ValueFilter("network", "Network of charts “of one network”", DAYS, single=True,
                    narrowed_by=("country", "access", "network"), select_first=True, key="drawn",
                    charts=drawn),
    ]  # fmt: skip
    colours = {label: colour for _, _, of_charts in figures for label, colour in of_charts.items()}
    return Dashboard("giscope", "giscope", tabs, filters, colours)


DASHBOARD = _dashboard()
