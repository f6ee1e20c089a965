"""The report's page: the paper's tables and figures, with all networks side by side.

Each function in SECTIONS takes a Selection and returns one Section or several.
"""

from pathlib import Path

import plotly.io as pio
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from spark_jobs.report import (
    examples,
    fig03,
    fig04,
    fig05,
    fig07,
    fig08,
    fig10,
    limits,
    peak,
    quality,
    queueing,
    retransmissions,
    stall_sections,
    table1,
    table2,
    table3,
    throughput,
)
from spark_jobs.report.compare import Subset
from spark_jobs.report.page_elements import ACCESS_NAMES, TEMPLATE, Section, compressed, templates
from spark_jobs.report.selection import Selection

SECTIONS = (
    peak.sections,
    quality.daily_checks,
    quality.suppressed_groups,
    table1.section,
    fig03.section,
    fig04.section,
    fig05.section,
    fig07.sections,
    table2.section,
    fig08.section,
    throughput.throughput,
    fig10.section,
    throughput.tcp_share,
    throughput.user_throughput,
    table3.sections,
    limits.sections,
    queueing.sections,
    retransmissions.sections,
    stall_sections.sections,
    examples.section,
    quality.captures,
)

pio.templates.default = None  # each page holds TEMPLATE once

Subsets = tuple[Subset, Subset]


def _sections(selection: Selection, subsets: Subsets | None) -> list[Section]:
    if subsets:
        return [
            peak.comparison_section(selection, *subsets),
            *quality.suppressed_groups(selection),
            quality.captures(selection),
        ]
    results = [make(selection) for make in SECTIONS]
    return [s for result in results for s in (result if isinstance(result, list) else [result])]


def page(selection: Selection, subsets: Subsets | None = None) -> str:
    """Return the page as HTML; if `subsets` is given, the page only compares these two."""
    template = templates().get_template("page.html.jinja")
    return template.render(
        selection=selection,
        sections=_sections(selection, subsets),
        plotly=compressed(get_plotlyjs()),
        access_names=ACCESS_NAMES,
        template=Markup(TEMPLATE),
        scripts=Markup((Path(__file__).parent / "page.js").read_text(encoding="utf-8")),
    )
