"""The page: the paper's tables and figures, networks side by side.

A figure is a module with a function that takes a Selection and gives a Section, or several; it is
listed in SECTIONS.
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
    stalls,
    table1,
    table2,
    table3,
    throughput,
    timers,
)
from spark_jobs.report.compare import Subset
from spark_jobs.report.page_elements import ACCESS, TEMPLATE, Section, compressed, templates
from spark_jobs.report.selection import Selection

SECTIONS = (
    peak.sections,
    quality.state,
    quality.small_groups,
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
    timers.sections,
    stalls.sections,
    examples.section,
    quality.section,
)

pio.templates.default = None  # TEMPLATE is the page's

Subsets = tuple[Subset, Subset]


def _sections(selection: Selection, halves: Subsets | None) -> list[Section]:
    if halves:
        return [
            peak.comparison(selection, *halves),
            *quality.small_groups(selection),
            quality.section(selection),
        ]
    made = [make(selection) for make in SECTIONS]
    return [s for part in made for s in (part if isinstance(part, list) else [part])]


def page(selection: Selection, halves: Subsets | None = None) -> str:
    """The whole page; halves: of it, only these two beside each other."""
    template = templates().get_template("page.html.jinja")
    return template.render(
        selection=selection,
        sections=_sections(selection, halves),
        plotly=compressed(get_plotlyjs()),
        access=ACCESS,
        template=Markup(TEMPLATE),
        scripts=Markup((Path(__file__).parent / "page.js").read_text(encoding="utf-8")),
    )
