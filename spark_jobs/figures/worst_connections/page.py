"""The slowest, most stalled and most lossy connections, each with a link to its page."""

from typing import Any

from markupsafe import Markup

from spark_jobs.figures.connection_links import SERVER, connection_link
from spark_jobs.figures.examples.page import suppressed_notes
from spark_jobs.figures.format import KBITS, NOT_MEASURED, PERCENT, count
from spark_jobs.figures.marts import mart
from spark_jobs.figures.names import with_spaces
from spark_jobs.figures.page_elements import NumberTable, Section, unless_empty
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.worst_connections.numbers import SHOWN, WORST_BY

HEADINGS = (
    "connection", "network", "day", "hours", "goodput", "bytes to the mobile", "stalled [s]",
    "data packets", "lost", "limited by",
)  # fmt: skip


def sections(selection: Selection) -> list[Section]:
    """Return a table of the worst connections in each respect."""
    tables = []
    for worst_by, (title, order) in WORST_BY.items():
        rows = selection.rows(f"""
            select * from worst_connections where worst_by = '{worst_by}'
            order by {order}, flow_id limit {SHOWN}
        """)
        if rows:
            tables.append(NumberTable(HEADINGS, [_texts(selection, row) for row in rows], title))
    by_server = "" if selection.served else f" by giscope serve at {SERVER}, which must run"
    section = Section(
        anchor="worst-connections",
        title="Slowest, most stalled and most lossy connections",
        source="giscope",
        caption=f"Up to {SHOWN} connections in each table. A link opens the connection's page with "
        f"its time-sequence graph, made{by_server} when you ask for it.",
        samples=f"{sum(len(table.rows) for table in tables)} connections",
        tables=tables,
        open_tables=True,
        notes=suppressed_notes(selection, mart("worst_connections")),
    )
    return [section if section.notes else unless_empty(section, bool(tables))]


def _texts(selection: Selection, row: dict[str, Any]) -> list[str]:
    return [
        connection_link(selection, row),
        row["network"],
        Markup("<time>{}</time>").format(row["date"]),
        f"{row['hour']}\N{EN DASH}{row['hour'] + 1} h",
        KBITS.text(row["goodput"]),
        count(row["payload_bytes_down"]),
        f"{row['stalled']:,.1f}",
        count(row["data_packets_down"]),
        PERCENT.text(row["loss"]),
        with_spaces(row["limited_by"] or NOT_MEASURED),
    ]
