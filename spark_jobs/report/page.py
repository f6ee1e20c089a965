"""The report's page: the paper's tables and figures, with all networks side by side.

Each figure's page.py has `sections`, which returns its sections for a Selection.
"""

from collections.abc import Callable
from pathlib import Path

import plotly.io as pio
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from spark_jobs.base.errors import WITHHELD, in_a_line, withhold
from spark_jobs.figures import parts
from spark_jobs.figures.captures.page import sections as captures
from spark_jobs.figures.metrics.compare import Subset
from spark_jobs.figures.metrics.page import comparison_section
from spark_jobs.figures.names import ACCESS_NAMES
from spark_jobs.figures.page_elements import TEMPLATE, Section
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.suppressed_groups.page import sections as suppressed_groups
from spark_jobs.report.templates import compressed, templates

pio.templates.default = None  # each page holds TEMPLATE once

Subsets = tuple[Subset, Subset]


def _sections(selection: Selection, subsets: Subsets | None) -> list[Section]:
    """Return the sections; one that cannot be made has a line that says why."""
    makers: list[tuple[str, Callable[[Selection], list[Section]]]] = (
        [
            ("comparison", lambda chosen: [comparison_section(chosen, *subsets)]),
            ("suppressed_groups", suppressed_groups),
            ("captures", captures),
        ]
        if subsets
        else [
            (part.__name__.split(".")[-2], shown.sections)
            for part in parts("figure", "page")
            for shown in getattr(part, "FIGURES", [getattr(part, "FIGURE", part)])
        ]
    )
    sections = []
    for name, sections_of in makers:
        try:
            sections += sections_of(selection)
        except Exception as error:
            reason = in_a_line(error)
            withhold(f"section {name} of the report", reason)
            notes = [f"{WITHHELD}{reason}"]
            sections.append(Section(name, name, "", "", "", notes=notes, hours=""))
    return sections


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
