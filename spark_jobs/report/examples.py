"""For each limit, and each class of stalls, the connection that it held up the longest."""

import datetime
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from schemas import FLOWS, MARTS, STALLS, SUPPRESSED_GROUPS, Table
from spark_jobs.report import PLOTS, plot_file_name
from spark_jobs.report.page_elements import Section, NumberTable, group_rows
from spark_jobs.report.selection import Selection, select
from spark_jobs.report.stall_sections import CLASSES
from spark_jobs.report.why import LIMITS, limits_sentence, stalls_sentence
from spark_jobs.warehouse import Warehouse
from spark_jobs.warehouse.views import rows_of

NEEDED = [
    *(mart for mart in MARTS if mart.name in ("table1_summary", "examples")),
    SUPPRESSED_GROUPS,
]
"""What tells the examples, and which days there are."""


@dataclass(frozen=True)
class Example:
    """A connection: what it shows, of `kind` limit or stall, and for how long (s)."""

    kind: str
    cause: str
    network: str
    date: datetime.date
    flow_id: int
    held_up: float


def examples(
    warehouse: Warehouse,
    networks: list[str] | None = None,
    since: datetime.date | None = None,
    until: datetime.date | None = None,
) -> list[Example]:
    """Those of a report on some networks and days; see select."""
    return examples_in(select(warehouse, networks, since, until, NEEDED))


def examples_in(selection: Selection) -> list[Example]:
    """One of each limit and each class of stalls, in the order of LIMITS and CLASSES."""
    rows = selection.rows("""
        select kind, cause, network, date, flow_id, held_up from (
            select *, row_number() over (
                partition by kind, cause order by held_up desc, network, date, flow_id
            ) as place
            from examples
        )
        where place = 1
    """)
    found = {(row["kind"], row["cause"]): Example(**row) for row in rows}
    wanted = [("limit", name) for name in LIMITS] + [("stall", name) for name in CLASSES]
    return [found[key] for key in wanted if key in found]


def link(flow_id: int) -> Markup:
    """A connection's page, from the report's."""
    return Markup('<a href="{}/{}">{}</a>').format(PLOTS, plot_file_name(flow_id), flow_id)


def section(selection: Selection) -> Section:
    """One connection a row, with its sentence and a link to its page."""
    told = examples_in(selection)
    flows, stalls = (_rows(selection, table, told) for table in (FLOWS, STALLS))
    told = [example for example in told if _key(example) in flows]
    rows = []
    for example in told:
        key = _key(example)
        of_limit = example.kind == "limit"
        words = LIMITS[example.cause] if of_limit else CLASSES[example.cause][0]
        rows.append(
            [
                f"{example.cause.replace('_', ' ')}: {words}",
                f"{example.held_up:,.1f}",
                example.network,
                Markup("<time>{}</time>").format(example.date),
                link(example.flow_id),
                limits_sentence(flows[key][0]) if of_limit else stalls_sentence(stalls[key]),
            ]
        )
    headings = ("held up by", "s", "network", "day", "connection", "in words")
    kept_back = selection.rows("""
        select distinct network from suppressed_groups where mart = 'examples' and suppressed > 0 order by 1
    """)
    count = sum(example.kind == "limit" for example in told)
    tables = [
        NumberTable(headings, part, caption)
        for part, caption in ((rows[:count], "Limits"), (rows[count:], "Stalls"))
        if part
    ]
    return Section(
        anchor="examples",
        title="Examples",
        source="Zhang et al., SIGCOMM 2002; Zhou et al., CoNEXT 2015",
        caption="Of each limit, and of each class of stalls, the connection that it held up the "
        "longest. Each opens as a time-sequence graph; giscope plot draws any other."
        if rows
        else "None is shown."
        if kept_back
        else "No connection is known to have been limited or to have stalled.",
        samples=f"{len({example.flow_id for example in told})} connections",
        tables=tables,
        open_tables=True,
        notes=[
            f"{row['network']}: each is of one user, and left out (Small groups)."
            for row in kept_back
        ],
    )


def _key(example: Example) -> tuple[str, datetime.date, int]:
    return example.network, example.date, example.flow_id


def _rows(
    selection: Selection, table: Table, examples: list[Example]
) -> dict[tuple, list[dict[str, Any]]]:
    """The examples' rows of a table, by network, date and flow_id."""
    days = sorted({(example.network, example.date) for example in examples})
    paths = [path for day in days for path in selection.warehouse.files(table, *day)]
    flow_ids = ", ".join(str(example.flow_id) for example in examples) or "null"
    rows = selection.rows(f"select * from ({rows_of(table, paths)}) where flow_id in ({flow_ids})")
    return group_rows(rows, "network", "date", "flow_id")
