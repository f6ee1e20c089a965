"""The data dictionary, which `giscope schema` prints from the schemas."""

import textwrap
from collections.abc import Iterable, Sequence

from schemas import FROM_ZEEK_LOGS, INGEST_LOG, SKIP_REASONS, Table
from spark_jobs.base.errors import UserError
from spark_jobs.figures.tables import MARTS, SUPPRESSED_GROUPS, TABLES

HEADINGS = ("column", "type", "unit", "null", "meaning", "source")
REASONS = "ingest_log.skipped: reasons"
TEXT_WIDTH, INDENT = 100, 6 * " "
PREFACE = """\
# The tables

Every table and column, as `giscope schema --format markdown` prints them; do not edit this page. A
value that could not be measured is null; where *null* is empty, a column always has a value. How a
value is estimated: [method.md](method.md); questions to the tables: [queries.md](queries.md).

Each table with the column `date`, except `quality`, has a second view with the prefix `published_`,
such as `published_flows`. It leaves out the rows of [held days](operations.md#a-held-day).
"""


def text(name: str | None) -> str:
    """Return one table's columns, or every table's, for the terminal."""
    parts = []
    for table in _chosen(name):
        parts.append(textwrap.fill(f"{table.name}: one row is {table.row}", TEXT_WIDTH))
        for column, type_, unit, may_be_null, meaning, source in _rows(table):
            facts = [type_, unit, "may be null" if may_be_null else ""]
            parts.append(f"  {column}: {', '.join(filter(None, facts))}")
            parts.append(_indented(meaning + (f" [{source}]" if source else "")))
        if table is INGEST_LOG:
            parts += ["", REASONS]
            parts += [_indented(f"{reason}: {meaning}") for reason, meaning in SKIP_REASONS.items()]
        parts.append("")
    return "\n".join(parts)


def _indented(sentence: str) -> str:
    return textwrap.fill(sentence, TEXT_WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)


def markdown(name: str | None) -> str:
    """Return one table's columns as Markdown, or a page with all tables and contents."""
    tables = _chosen(name)
    sections = [_section(table) for table in tables]
    if name is None:
        sections.insert(0, PREFACE + "\n" + _contents(tables))
    return "\n".join(sections)


def _chosen(name: str | None) -> list[Table]:
    if name is not None and name not in TABLES:
        raise UserError(f"schema: no table {name!r}; there are {', '.join(TABLES)}")
    return [table for table in TABLES.values() if name in (None, table.name)]


def _rows(table: Table) -> list[Sequence[str]]:
    """Return a table's columns as rows under HEADINGS."""
    return [
        (
            column.name,
            column.stored_type,
            column.unit,
            "" if column.required else "yes",
            column.meaning,
            column.source,
        )
        for column in (*table.partitions, *table.columns)
    ]


def _contents(tables: Sequence[Table]) -> str:
    """Return links to the tables' sections, by the source of the tables."""
    aggregates = (*MARTS, SUPPRESSED_GROUPS)
    kinds = {
        "From captures": [t for t in tables if t not in (*FROM_ZEEK_LOGS, *aggregates)],
        "From Zeek's logs": [t for t in tables if t in FROM_ZEEK_LOGS],
        "Aggregates behind the report and the dashboards": [t for t in tables if t in aggregates],
    }
    lines = [
        f"- {kind}: {', '.join(f'[{table.name}](#{table.name})' for table in members)}"
        for kind, members in kinds.items()
    ]
    return "\n".join(lines) + "\n"


def _section(table: Table) -> str:
    parts = [f"## {table.name}", f"One row is {table.row}.", _lines(HEADINGS, _rows(table))]
    if table.sorted_by:
        order = ", ".join(f"`{name}`" for name in table.sorted_by)
        parts.insert(2, f"Files are sorted by {order}.")
    if table.group_columns:
        columns = ", ".join(f"`{name}`" for name in table.group_columns)
        parts.insert(2, f"`min_users` may leave out groups by {columns}.")
    if table is INGEST_LOG:
        parts += [f"### {REASONS}", _lines(("reason", "meaning"), SKIP_REASONS.items())]
    return "\n\n".join(parts) + "\n"


def _lines(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table whose first column is code."""
    body = [(f"`{row[0]}`", *row[1:]) for row in rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
        for row in (headings, ["---"] * len(headings), *body)
    )
