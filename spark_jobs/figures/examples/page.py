"""Examples of limits and stalls: for each of them, the connection that it delayed most."""

import datetime
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from schemas import FLOWS, STALLS, Table
from spark_jobs.figures.connection_links import connection_link
from spark_jobs.figures.examples.sentences import limits_sentence, stalls_sentence
from spark_jobs.figures.limits_by_window.numbers import LIMIT_WORDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.names import PLOTS, plot_file_name, with_spaces
from spark_jobs.figures.page_elements import NumberTable, Section, group_rows
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.stalls_by_class.numbers import STALL_WORDS


@dataclass(frozen=True)
class Example:
    """An example connection.

    kind: limit or stall. cause: the limit, or the class of stalls. held_up: its total time (s).
    """

    kind: str
    cause: str
    network: str
    date: datetime.date
    flow_id: int
    held_up: float


def examples_in(selection: Selection) -> list[Example]:
    """Return an example of each limit and class of stalls, in the order of their dicts."""
    rows = selection.rows("""
        select kind, cause, network, date, flow_id, held_up from (
            select *, row_number() over (
                partition by kind, cause order by held_up desc, network, date, flow_id
            ) as place
            from examples
        )
        where place = 1
    """)
    by_cause = {(row["kind"], row["cause"]): Example(**row) for row in rows}
    causes = [("limit", name) for name in LIMIT_WORDS] + [("stall", name) for name in STALL_WORDS]
    return [by_cause[key] for key in causes if key in by_cause]


def _link(selection: Selection, example: Example) -> Markup:
    """Return a connection's ID with a link to its page, which is a file beside the report."""
    if selection.served:
        return connection_link(selection, vars(example))
    flow_id = example.flow_id
    return Markup('<a href="{}/{}">{}</a>').format(PLOTS, plot_file_name(flow_id), flow_id)


def suppressed_notes(selection: Selection, mart: Table) -> list[str]:
    """Return a note for each network whose single connections `min_users` left out of a mart."""
    suppressed = selection.rows(f"""
        select distinct network from suppressed_groups
        where mart = '{mart.name}' and suppressed > 0 order by 1
    """)
    return [
        f"{row['network']}: left out, as each row is of one user (Suppressed groups)."
        for row in suppressed
    ]


def sections(selection: Selection) -> list[Section]:
    """Return the examples, one in a row, each with a sentence and a link to its page."""
    found_examples = examples_in(selection)
    flows, stalls = (_rows(selection, table, found_examples) for table in (FLOWS, STALLS))
    found_examples = [example for example in found_examples if _key(example) in flows]
    rows = []
    for example in found_examples:
        key = _key(example)
        is_limit = example.kind == "limit"
        words = LIMIT_WORDS if is_limit else STALL_WORDS
        rows.append(
            [
                f"{with_spaces(example.cause)}: {words[example.cause]}",
                f"{example.held_up:,.1f}",
                example.network,
                Markup("<time>{}</time>").format(example.date),
                _link(selection, example),
                limits_sentence(flows[key][0]) if is_limit else stalls_sentence(stalls[key]),
            ]
        )
    headings = ("cause", "time [s]", "network", "day", "connection", "in words")
    notes = suppressed_notes(selection, mart("examples"))
    count = sum(example.kind == "limit" for example in found_examples)
    tables = [
        NumberTable(headings, some_rows, caption)
        for some_rows, caption in ((rows[:count], "Limits"), (rows[count:], "Stalls"))
        if some_rows
    ]
    return [
        Section(
            anchor="examples",
            title="Examples",
            source="Zhang et al., SIGCOMM 2002; Zhou et al., CoNEXT 2015",
            caption="For each limit and each class of stalls, the connection that it delayed most. "
            "A link opens the connection's time-sequence graph. giscope serve and giscope plot "
            "draw any other connection."
            if rows
            else "This page shows no examples."
            if notes
            else "No connection is known to have been limited or to have stalled.",
            samples=f"{len({example.flow_id for example in found_examples})} connections",
            tables=tables,
            open_tables=True,
            notes=notes,
        )
    ]


def _key(example: Example) -> tuple[str, datetime.date, int]:
    return example.network, example.date, example.flow_id


def _rows(
    selection: Selection, table: Table, examples: list[Example]
) -> dict[tuple, list[dict[str, Any]]]:
    """Return the examples' rows of a table, by network, date and flow_id."""
    days = sorted({(example.network, example.date) for example in examples})
    flow_ids = ", ".join(str(example.flow_id) for example in examples) or "null"
    rows = selection.rows(
        f"select * from ({selection.table_of_days(table, days)}) where flow_id in ({flow_ids})"
    )
    return group_rows(rows, "network", "date", "flow_id")
