"""All dashboards: the charts of the figures, page by page, and the pages' filters."""

from collections.abc import Sequence
from dataclasses import replace

from spark_jobs.figures import parts
from spark_jobs.figures.daily_checks.dashboard import FRESHNESS_TITLE, HELD_DAYS_TITLE
from spark_jobs.figures.dashboard_parts import Chart, Dashboard, DateFilter, Text, ValueFilter
from spark_jobs.figures.metrics.dashboard import FILTERS as PEAK_FILTERS
from spark_jobs.figures.names import PERIODS
from spark_jobs.figures.table1_summary.dashboard import CONNECTIONS

COUNTRY, NETWORKS, HOUR, HOURS = (
    ValueFilter("country", "Country", CONNECTIONS),
    ValueFilter("network", "Network", CONNECTIONS, narrowed_by=("country", "access")),
    ValueFilter("hour", "Local hour", CONNECTIONS),
    ValueFilter("hours", "Peak or off-peak", CONNECTIONS),
)
ACCESS = ValueFilter("access", "Access", CONNECTIONS)
DRAWN = ValueFilter(
    "network",
    "Network of charts “of one network”",
    CONNECTIONS,
    narrowed_by=("country", "access", "network"),
    single=True,
    select_first=True,
    key="drawn",
)
"""Filter of the charts that show one network at a time."""
MOST_COMMON_ACCESS = "access of most networks"
"""Placeholder in the assets; `load.py` replaces it by the name of that access technology."""
FILTERS = (
    COUNTRY,
    replace(ACCESS, selected=(MOST_COMMON_ACCESS,), single=True),
    NETWORKS,
    DateFilter(),
    replace(HOURS, selected=[label for label, _ in PERIODS.values()][:-1]),
    HOUR,
)
"""Filters of pages that show one access technology, at peak and off-peak if the days have them."""
OVERVIEW_FILTERS = (
    COUNTRY,
    ACCESS,
    NETWORKS,
    DateFilter(excluded_charts=[HELD_DAYS_TITLE, FRESHNESS_TITLE]),
    HOURS,
    HOUR,
)
PAGES: dict[str, tuple[str, Sequence[ValueFilter | DateFilter]]] = {
    "giscope-peak": ("Peak against off-peak", PEAK_FILTERS),
    "giscope-overview": ("Overview", OVERVIEW_FILTERS),
    "giscope-why": ("Why slow", FILTERS),
    "giscope-setup": ("Set-up and delay", FILTERS),
    "giscope-channel": ("Channel and loss", FILTERS),
    "giscope-transfers": ("Transfers", FILTERS),
    "giscope-options": ("Options", FILTERS),
}
"""By address: title and filters. A figure's dashboard.py names its page in PAGE."""


def _links(slug: str) -> Text:
    """Return the links from a dashboard to the others."""
    return Text(
        " · ".join(
            f"**{title}**" if other == slug else f"[{title}](/superset/dashboard/{other}/)"
            for other, (title, _) in PAGES.items()
        ),
        height=6,
    )


def _dashboard(slug: str) -> Dashboard:
    title, filters = PAGES[slug]
    rows: list[Sequence[Chart | Text]] = [[_links(slug)]]
    colours: dict[str, str] = {}
    for part in parts("figure", "dashboard"):
        if hasattr(part, "ROWS"):
            found = [(part.PAGE, part.ROWS, getattr(part, "COLOURS", {}))]
        else:
            figures = getattr(part, "FIGURES", None) or [part.FIGURE]
            found = [(figure.page, figure.charts, figure.colours) for figure in figures]
        for on_page, charts, of_charts in found:
            if on_page == slug:
                rows += charts
                colours |= of_charts
    page = Dashboard(title, slug, rows, filters, colours)
    drawn = [chart.title for chart in page.charts if chart.one_network]
    return replace(page, filters=[*filters, replace(DRAWN, charts=drawn)]) if drawn else page


DASHBOARDS = tuple(map(_dashboard, PAGES))
