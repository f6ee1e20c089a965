"""A connection's page: five lines, its figure, and its row of flows."""

import json
from pathlib import Path

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from schemas import FLOWS
from spark_jobs.base.errors import UserError
from spark_jobs.figures.format import NOT_MEASURED
from spark_jobs.figures.page_elements import TEMPLATE, NumberTable
from spark_jobs.report.connection import Connection
from spark_jobs.report.connection_packets import ConnectionPackets, packets_of
from spark_jobs.report.plot import MAX_DRAWN, figure, first_direction, limit_legend, thinning_notes
from spark_jobs.report.templates import compressed, templates
from spark_jobs.report.why import explanation
from spark_jobs.tables.day_plan import WorkItem, item_of_user
from spark_jobs.tables.day_tables import read_partition
from spark_jobs.warehouse.store import Warehouse

BUTTONS = "toImage zoom2d pan2d zoomIn2d zoomOut2d resetScale2d"
DIRECTIONS = {"down": "to the mobile", "up": "from the mobile"}
FOLDER = Path(__file__).parent


def page_of(warehouse: Warehouse, connection: Connection, shared_script: str = "") -> str:
    """Return a connection's page as HTML, with its packets read; shared_script: see page.

    Raises UserError if its packets are gone.
    """
    flow = connection.flow
    item = item_of_user(warehouse, flow["network"], flow["date"], flow["user"])
    text = page_of_item(item, connection, shared_script) if item else None
    if text is None:
        raise UserError(f"{warehouse.root}: no packets of flow {flow['flow_id']}")
    return text


def page_of_item(item: WorkItem, connection: Connection, shared_script: str) -> str | None:
    """Return a connection's page as HTML; None if the item has no packets of it.

    item: reads the packets of the connection's user. shared_script: see page.
    """
    partition = read_partition(item)
    exchange = packets_of(partition, connection) if partition else None
    return page(connection, exchange, shared_script) if exchange else None


def page(connection: Connection, packets: ConnectionPackets, shared_script: str = "") -> str:
    """Return the page as HTML.

    shared_script: file of Plotly's script in the page's folder; if empty, the page contains Plotly.
    """
    flow = connection.flow
    template = templates().get_template("plot.html.jinja")
    return template.render(
        flow=flow,
        files=_files(packets),
        display_filter=_display_filter(connection),
        sentences=explanation(connection),
        notes=[*_unknown_notes(connection, packets), *thinning_notes(packets)],
        directions=_directions(packets),
        shown=first_direction(packets),
        limits=limit_legend(packets),
        has_rtt=len(connection.rtt_samples) > 0,
        drawing=_drawing(connection, packets),
        table=_flow_table(connection),
        shared_script=shared_script,
        plotly="" if shared_script else compressed(get_plotlyjs()),
        template=Markup(TEMPLATE),
        scripts=_script("page.js"),
        plot_scripts=_script("plot.js"),
    )


def _script(name: str) -> Markup:
    return Markup((FOLDER / name).read_text(encoding="utf-8"))


def _drawing(connection: Connection, packets: ConnectionPackets) -> Markup:
    contents = figure(packets, connection)
    text = json.dumps(contents, separators=(",", ":"))
    return Markup(
        '<div class="figure" role="img" aria-label="Time-sequence graph of the connection, limits, '
        'stalls, bytes in flight, RTT, RTO and rate"><div class="plot" '
        'data-responsive="1" data-buttons="{}" data-max-marks="{}" style="height:{}px"></div>'
        '<script type="application/json">{}</script></div>'
    ).format(BUTTONS, MAX_DRAWN, contents["layout"]["height"], Markup(text.replace("</", "<\\/")))


def _directions(packets: ConnectionPackets) -> dict[str, str]:
    """Return the labels of the directions with data; without data, of the one that is shown."""
    segments = {"down": packets.down.segments, "up": packets.up.segments}
    with_data = [direction for direction in DIRECTIONS if segments[direction]["size"].any()]
    return {
        direction: DIRECTIONS[direction] for direction in with_data or [first_direction(packets)]
    }


def _files(packets: ConnectionPackets) -> str:
    """Return the range of frames in each capture, in words."""
    ranges = []
    streams = [rows for s in (packets.down, packets.up) for rows in (s.segments, s.acks)]
    for code, name in enumerate(packets.captures):
        frames = [f for rows in streams for f in rows["frame"][rows["capture"] == code].tolist()]
        if frames:
            ranges.append(f"frames {min(frames)} to {max(frames)} of {name}")
    return ", ".join(ranges)


def _display_filter(connection: Connection) -> str:
    """Return a Wireshark display filter for the connection."""
    flow = connection.flow
    ip = "ipv6" if ":" in flow["server"] else "ip"
    return (
        f"{ip}.addr == {flow['server']} && tcp.port == {flow['server_port']} "
        f"&& tcp.port == {flow['user_port']}"
    )


def _unknown_notes(connection: Connection, packets: ConnectionPackets) -> list[str]:
    """Return notes on what is unknown and therefore missing in the figure."""
    flow, notes = connection.flow, []
    if flow["directions_seen"] != "both":
        notes.append(f"Gi saw only one direction: {flow['directions_seen']}.")
    if not packets.down.from_syn or not packets.up.from_syn:
        notes.append(
            "Gi did not see both SYNs. Without a SYN, the numbers of a stream count from the "
            "lowest that Gi saw."
        )
    windows = packets.down.acks["window"]
    if len(windows) and (windows != windows).any():
        notes.append("The window scale is unknown, so the figure shows no windows.")
    if flow["split"]:
        notes.append(
            "This is a split connection: a proxy at Gi answers for the mobile. The limits of the "
            "transfer and the access side are unknown."
        )
    if flow["retransmissions"] is None:
        notes.append(
            "The server's behaviour is unknown, so the figure shows no causes, RTO, limits and "
            "stalls."
        )
    if flow["lost_internet"] is None:
        notes.append("The losses are unknown.")
    return notes


def _flow_table(connection: Connection) -> NumberTable:
    rows = []
    for column in FLOWS.columns:
        value = connection.flow[column.name]
        text = NOT_MEASURED if value is None else str(value)
        rows.append([column.name, text, column.unit or "", column.comment.partition(" [")[0]])
    return NumberTable(["column", "value", "unit", "meaning"], rows)
