"""Causes of stalls (Zhou et al., CoNEXT 2015)."""

from spark_jobs.figures.format import PERCENT, count
from spark_jobs.figures.hours import split_by_hours
from spark_jobs.figures.numbers import Row
from spark_jobs.figures.page_elements import (
    NumberTable,
    Section,
    share_bars,
    unless_empty,
)
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.stalls_by_class.numbers import (
    NUMBERS,
    STALL_COLOURS,
    STALL_LABELS,
    STALL_WORDS,
)


def sections(selection: Selection) -> list[Section]:
    """Return the stalls by class."""
    rows = NUMBERS.rows(selection, "network", "period", "class")
    by_hours = split_by_hours(selection, rows)
    by_class = {hours.name: {row["class"]: row for row in hours.rows} for hours in by_hours}
    totals = {
        name: sum(row["seconds"] for row in members.values()) for name, members in by_class.items()
    }
    parts = {
        label: (
            STALL_COLOURS[kind],
            [
                members[kind]["seconds"] / totals[name] if kind in members and totals[name] else 0
                for name, members in by_class.items()
            ],
        )
        for kind, label in STALL_LABELS.items()
    }
    section = Section(
        anchor="stalls",
        title="Causes of stalls",
        source="Zhou et al., CoNEXT 2015",
        hours="peak and off-peak separately",
        caption="A stall is a silence of a connection that is longer than two smoothed RTTs or its "
        "RTO. The figure shows the stalled time by cause: hues for causes on the path, greys for "
        "causes at the hosts, which the operator cannot change. Other users at once: the share of "
        "stalls that overlap a stall of another user, as when a radio cell fails. This section has "
        "no confidence intervals.",
        samples=f"{count(sum(row['stalls'] for row in rows))} stalls",
        figure=share_bars(
            list(by_class),
            parts,
            "Share of the stalled time",
            "Shares of the stalled time by class, network and hours",
        ),
        tables=[
            NumberTable(
                [
                    "network",
                    "hours",
                    "cause",
                    "stalls",
                    "stalled time [min]",
                    "share of stalled time",
                    *NUMBERS.labels,
                ],
                [
                    [
                        hours.network.name,
                        hours.label,
                        f"{STALL_LABELS[kind]}: {words}",
                        *_class_cells(row, totals[hours.name]),
                    ]
                    for hours in by_hours
                    for kind, words in STALL_WORDS.items()
                    for row in hours.rows
                    if row["class"] == kind
                ],
            )
        ],
    )
    return [unless_empty(section, bool(by_class))]


def _class_cells(row: Row, total: float) -> list[str]:
    return [
        count(row["stalls"]),
        f"{row['seconds'] / 60:,.1f}",
        PERCENT.text(row["seconds"] / total if total else None),
        *row.texts,
    ]
