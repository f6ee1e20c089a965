"""The page on which `giscope serve` finds connections, and on which it says what went wrong."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from spark_jobs.figures.connection_links import CONNECTIONS
from spark_jobs.figures.page_elements import NumberTable
from spark_jobs.report.find_connections import TIME_FORM, Found
from spark_jobs.report.templates import templates

FIELDS = {
    "address": "Address, or pseudonym",
    "time": "Time, such as 2004-03-29T17:45:10 (local time of the network) or with Z for UTC",
    "port": "Port",
    "filter": "Wireshark's display filter",
    "network": "Network",
}
"""Names and labels of the form's fields."""
HEADINGS = ("connection", "network", "begins (UTC)", "server", "port", "bytes to the mobile")


def search_page(
    title: str,
    lines: Sequence[str] = (),
    values: Mapping[str, str] | None = None,
    found: Found | None = None,
) -> str:
    """Return a page with a title, lines below it, connections found, and the form.

    values: the texts in the form's fields.
    """
    rows = [
        [
            Markup('<a href="{}/{network}/{date}/{flow_id}">{flow_id}</a>').format(
                CONNECTIONS, **row
            ),
            row["network"],
            row["start_ts"].strftime(TIME_FORM),
            row["server"],
            str(row["server_port"]),
            f"{row['payload_bytes_down']:,}",
        ]
        for row in (found.rows if found else ())
    ]
    return (
        templates()
        .get_template("search.html.jinja")
        .render(
            title=title,
            lines=lines,
            values=values or {},
            fields=FIELDS,
            table=NumberTable(HEADINGS, rows) if rows else None,
            template=Markup("{}"),
            scripts=Markup((Path(__file__).parent / "page.js").read_text(encoding="utf-8")),
        )
    )
