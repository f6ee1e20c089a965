"""The first section of the report: five sentences, each with a link to the section behind it."""

from markupsafe import Markup

from spark_jobs.figures.numbers import DAY_FILTERS_MARK
from spark_jobs.figures.page_elements import Section
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.summary.numbers import (
    AT_PEAK,
    DATA,
    LONGEST_LIMITS,
    LOSSES_BY_SIDE,
    OPTIONS,
)
from spark_jobs.figures.table3_clusters.page import option_effects


def sections(selection: Selection) -> list[Section]:
    """Return the summary."""
    sentences = (
        ("compare", "At peak", _sentence(selection, AT_PEAK)),
        ("table2", "Losses", _sentence(selection, LOSSES_BY_SIDE)),
        ("limits", "Limits", _sentence(selection, LONGEST_LIMITS)),
        (_options_anchor(selection), "Options", _sentence(selection, OPTIONS)),
        ("state", "Data", _sentence(selection, DATA)),
    )
    count = len(selection.networks)
    networks = "the network" if count == 1 else f"the {count} networks"
    return [
        Section(
            anchor="summary",
            title="Summary",
            source=f"What a reader should know about {networks}; each link opens the section "
            "behind its sentence.",
            caption="At peak: the differences from off-peak that are beyond chance and mean most "
            "to users, as off-peak value → peak value. Losses: shares of the data packets. Limits: "
            "what held transfers back for the longest time. Options: effects on goodput that are "
            "beyond chance, after adjustment. Data: what is missing.",
            samples="",
            hours="",
            notes=[
                Markup('<a href="#{}">{}</a>: {}').format(anchor, title, sentence)
                for anchor, title, sentence in sentences
            ],
        )
    ]


def _sentence(selection: Selection, sql: str) -> str:
    names = ", ".join(f"'{network.name}'" for network in selection.networks)
    [row] = selection.rows(sql.replace(DAY_FILTERS_MARK, f"and network in ({names})"))
    return row["sentence"]


def _options_anchor(selection: Selection) -> str:
    """Return the anchor of the first Table III, or of the summary if there is none."""
    return next((f"table3-{access}" for access in option_effects(selection)), "summary")
