"""Links from the report and the dashboards to the pages of connections, made by `giscope serve`."""

from typing import Any

from markupsafe import Markup

from spark_jobs.figures.names import SERVE_PORT
from spark_jobs.figures.selection import Selection

SERVER = f"http://127.0.0.1:{SERVE_PORT}"
"""Address of `giscope serve` on the reader's own machine."""
CONNECTIONS = "/connections"
LINK_SQL = (
    f"""'<a href="{SERVER}{CONNECTIONS}/' || network || '/' || date || '/' || flow_id"""
    """ || '" target="_blank">' || flow_id || '</a>'"""
)
"""SQL of the HTML of a link, for the tables of dashboards, from a row of a mart."""


def connection_link(selection: Selection, row: dict[str, Any]) -> Markup:
    """Return the ID of a connection, with a link to its page; row: network, date and flow_id."""
    return Markup('<a href="{}{}/{}/{}/{flow_id}">{flow_id}</a>').format(
        "" if selection.served else SERVER,
        CONNECTIONS,
        row["network"],
        row["date"],
        flow_id=row["flow_id"],
    )
