"""A connection's page: five sentences, its figure, its row of flows."""

import json
from pathlib import Path

from markupsafe import Markup
from plotly.offline import get_plotlyjs, get_plotlyjs_version

from schemas import FLOWS
from spark_jobs.report.connection import Connection
from spark_jobs.report.connection_packets import ConnectionPackets
from spark_jobs.report.page_elements import NOT_MEASURED, TEMPLATE, NumberTable, compressed, templates
from spark_jobs.report.plot import MAX_DRAWN, limit_legend, figure, first_direction, thinning_notes
from spark_jobs.report.why import why

BUTTONS = "toImage zoom2d pan2d zoomIn2d zoomOut2d resetScale2d"
WAYS = {"down": "to the mobile", "up": "from the mobile"}
HERE = Path(__file__).parent


def shared_script() -> str:
    """The file of Plotly for pages that stand together."""
    return f"plotly-{get_plotlyjs_version()}.min.js"


def page(connection: Connection, exchange: ConnectionPackets, shared: str = "") -> str:
    """The whole page; shared: the file beside it with Plotly, which else it carries itself."""
    flow = connection.flow
    template = templates().get_template("plot.html.jinja")
    return template.render(
        flow=flow,
        files=_files(exchange),
        display_filter=_display_filter(connection),
        sentences=why(connection),
        notes=[*_unknown(connection, exchange), *thinning_notes(exchange)],
        ways=_ways(exchange),
        shown=first_direction(exchange),
        limit_legend=limit_legend(exchange),
        has_times=len(connection.rtt_samples) > 0,
        drawing=_drawing(connection, exchange),
        table=_row(connection),
        shared=shared,
        plotly="" if shared else compressed(get_plotlyjs()),
        template=Markup(TEMPLATE),
        scripts=_script("page.js"),
        plot_scripts=_script("plot.js"),
    )


def _script(name: str) -> Markup:
    return Markup((HERE / name).read_text(encoding="utf-8"))


def _drawing(connection: Connection, exchange: ConnectionPackets) -> Markup:
    figure_html = figure(exchange, connection)
    drawing = json.dumps(figure_html, separators=(",", ":"))
    return Markup(
        '<div class="figure" role="img" aria-label="Time-sequence graph of the connection, what '
        'limited it, what was outstanding, round trips and rate"><div class="plot" '
        'data-responsive="1" data-buttons="{}" data-most="{}" style="height:{}px"></div>'
        '<script type="application/json">{}</script></div>'
    ).format(BUTTONS, MAX_DRAWN, figure_html["layout"]["height"], Markup(drawing.replace("</", "<\\/")))


def _ways(exchange: ConnectionPackets) -> dict[str, str]:
    """The ways that have data; without any, the one that is shown."""
    sent = {"down": exchange.down.sent, "up": exchange.up.sent}
    ways = [way for way in WAYS if sent[way]["size"].any()] or [first_direction(exchange)]
    return {way: WAYS[way] for way in ways}


def _files(exchange: ConnectionPackets) -> str:
    """Which frames of which captures, as far as they are figure_html."""
    told = []
    streams = [rows for s in (exchange.down, exchange.up) for rows in (s.sent, s.heard)]
    for code, name in enumerate(exchange.captures):
        frames = [f for rows in streams for f in rows["frame"][rows["capture"] == code].tolist()]
        if frames:
            told.append(f"frames {min(frames)} to {max(frames)} of {name}")
    return ", ".join(told)


def _display_filter(connection: Connection) -> str:
    """What finds it in Wireshark."""
    flow = connection.flow
    ip = "ipv6" if ":" in flow["server"] else "ip"
    return (
        f"{ip}.addr == {flow['server']} && tcp.port == {flow['server_port']} "
        f"&& tcp.port == {flow['user_port']}"
    )


def _unknown(connection: Connection, exchange: ConnectionPackets) -> list[str]:
    """What is not known of it, and so not figure_html."""
    flow, told = connection.flow, []
    if flow["directions_seen"] != "both":
        told.append(f"Gi saw one direction only: {flow['directions_seen']}.")
    if not exchange.down.from_syn or not exchange.up.from_syn:
        told.append(
            "Not both SYNs were seen: numbers of a stream without one count from the lowest that "
            "was seen."
        )
    windows = exchange.down.heard["window"]
    if len(windows) and (windows != windows).any():
        told.append("The windows' scale is not known: they are not figure_html.")
    if flow["split"]:
        told.append(
            "Something at Gi answers in the mobile's name: what limited the transfer, and the "
            "access side, are not known."
        )
    if flow["retransmissions"] is None:
        told.append("What its server did is not known: no causes, timeouts, limits and stalls.")
    if flow["lost_internet"] is None:
        told.append("What was lost is not known.")
    return told


def _row(connection: Connection) -> NumberTable:
    rows = []
    for column in FLOWS.columns:
        value = connection.flow[column.name]
        text = NOT_MEASURED if value is None else str(value)
        rows.append([column.name, text, column.unit or "", column.comment.partition(" [")[0]])
    return NumberTable(["column", "value", "unit", "meaning"], rows)
