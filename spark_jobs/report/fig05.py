"""Fig. 5: the set-up classification tree, with all networks in each node."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import plotly.graph_objects as go

from spark_jobs.report import paper
from spark_jobs.report.page_elements import (
    FONT,
    INTERVALS,
    NumberTable,
    Section,
    figure_html,
    group_rows,
    milliseconds,
    number,
    percent,
    percent_tenths,
)
from spark_jobs.report.samples import Rows, column, interval_text, mean, share
from spark_jobs.report.selection import Selection

CONNECTED = ("optimal", "slight_problem")


@dataclass(frozen=True)
class Node:
    """A node of the tree; where: the SQL condition for the mart's rows in it."""

    name: str
    where: str
    colour: str
    branches: tuple["Node", ...] = ()


SLIGHT_PROBLEM = "setup_class = 'slight_problem'"
RESET = "setup_class = 'serious_problem' and setup_reset"
GREY, GREEN, YELLOW, ORANGE, BLUE, RED, PURPLE = (
    "#f2f2f2",
    "#dff0e0",
    "#fdf3d0",
    "#fde3c8",
    "#dfeaf5",
    "#f8dcd6",
    "#ece2f2",
)


def _by_background(where: str, colour: str) -> tuple[Node, Node]:
    return (
        Node("no background", f"{where} and not background", colour),
        Node("background", f"{where} and background", colour),
    )


TREE = Node(
    "All set-ups",
    "true",
    GREY,
    (
        Node(
            "SYN ACK, ACK: connected",
            "setup_class in ('optimal', 'slight_problem')",
            GREY,
            (
                Node(
                    "Optimal: 1 SYN, 1 SYN ACK",
                    "setup_class = 'optimal'",
                    GREEN,
                    _by_background("setup_class = 'optimal'", GREEN),
                ),
                *(
                    Node(f"Slight problem: {title}", f"{SLIGHT_PROBLEM} and {which}", colour)
                    for title, which, colour in (
                        ("SYN (ACK) lost", "setup_retransmission = 'lost'", YELLOW),
                        ("timer too short", "setup_retransmission = 'premature'", ORANGE),
                        ("cause unknown", "setup_retransmission is null", YELLOW),
                    )
                ),
            ),
        ),
        Node(
            "Not connected",
            "setup_class not in ('optimal', 'slight_problem')",
            GREY,
            (
                Node(
                    "No response: SYNs only",
                    "setup_class = 'no_response'",
                    BLUE,
                    _by_background("setup_class = 'no_response'", BLUE),
                ),
                Node(
                    "Refused: RST to the SYN",
                    "setup_class = 'refused'",
                    PURPLE,
                    tuple(
                        Node(title, f"setup_class = 'refused' and {which}", PURPLE)
                        for title, which in (
                            ("from the server's address", "coalesce(reset_by, '') <> 'between'"),
                            ("by a device between", "reset_by = 'between'"),
                        )
                    ),
                ),
                Node(
                    "Serious problem: SYN ACK, no ACK",
                    "setup_class = 'serious_problem'",
                    RED,
                    (
                        *(
                            Node(f"RST by {title}", f"{RESET} and {which}", RED)
                            for title, which in (
                                ("the mobile", "reset_by = 'mobile'"),
                                ("the server", "reset_by = 'server'"),
                                ("a device between", "reset_by = 'between'"),
                                ("an unknown sender", "reset_by is null"),
                            )
                        ),
                        Node(
                            "no more packets",
                            "setup_class = 'serious_problem' and not setup_reset",
                            RED,
                        ),
                    ),
                ),
            ),
        ),
    ),
)

DIFFERENCES = (
    "Differences from the paper: the paper has one class for slight problems. Here, set-ups whose "
    "first timer was shorter than the RTT, so that it expired before the answer could arrive, are "
    "separate from those with lost SYNs or SYN ACKs. Refused (an RST answers the SYN) is not a "
    "class of the paper. For set-ups that ended with an RST, the tree shows its sender. A server "
    "that only refuses sends no other packet to compare with, so another device may have sent an "
    "RST from the server's address."
)
BOX_W, GAP_X, GAP_Y, LINE, HEAD = 274, 36, 14, 19, 26
"""Sizes in px; LINE: height of a network's line, HEAD: of the node's name."""


@dataclass
class PlacedNode:
    """A node with its level, counted from the left, and the middle of its box (px from the top)."""

    node: Node
    level: int
    middle: float
    children: list["PlacedNode"]


def section(selection: Selection) -> Section:
    """Return the tree as a drawing and as a table."""
    selection.connection.execute("""
        create or replace temp table setups as
        select network, user_group, setup_class, setup_retransmission, setup_reset, reset_by,
            background,
            sum(flows)::bigint as flows, sum(delay_flows)::bigint as delay_flows,
            sum(delay_sum) as delay_sum
        from fig05_setup_tree group by all order by all
    """)
    rows_of_nodes = {id(node): _rows_by_network(selection, node) for node in _nodes(TREE)}
    tree = _prune(TREE, rows_of_nodes)
    names = [network.name for network in selection.networks]
    height = HEAD + LINE * len(names) + 8
    total = {name: rows_of_nodes[id(TREE)][name] for name in names}
    placed, bottom = _place(tree, 0, 0.0, height)
    drawing = Drawing([], [], [])
    _draw(drawing, placed, height, selection, rows_of_nodes, total)
    figure = go.Figure(drawing.lines)
    figure.update_layout(shapes=drawing.boxes, annotations=drawing.texts)
    width = 4 * BOX_W + 3 * GAP_X + 16
    figure.update_xaxes(visible=False, range=[-4, width - 4], fixedrange=True)
    figure.update_yaxes(visible=False, range=[bottom, -4], fixedrange=True)
    html = figure_html(
        figure,
        "The set-up classification tree with the share, mean set-up delay and "
        "background of each node by network",
        int(bottom) + 12,
        width,
    )
    html = html.replace('class="figure"', 'class="figure wide"')
    rows = [
        [
            ("\N{EM SPACE}" * level) + node.name,
            name,
            *_texts(rows_of_nodes[id(node)][name], total[name], True),
        ]
        for node, level in _with_levels(tree, 0)
        for name in names
    ]
    headings = ["", "network", "set-ups", "share", "mean delay", "background"]
    return Section(
        anchor="fig05",
        title="Fig. 5. Connection set-up classification tree",
        source="INFOCOM 2004, Section III.C",
        caption="Each node shows for each network: share of the set-ups, their mean set-up delay, "
        "and the share of them with background traffic (bg). Only connections that the mobile "
        "opened and whose set-up Gi saw completely. " + INTERVALS,
        samples=f"{number(sum(_count(rows) for rows in total.values()))} set-ups",
        figure=html,
        tables=[NumberTable(headings, rows)],
        notes=[paper.SETUP_TREE, DIFFERENCES],
    )


@dataclass
class Drawing:
    """Elements of the drawing, collected before Plotly gets them.

    Plotly copies all elements of a figure each time one is added.
    """

    lines: list[go.Scatter]
    boxes: list[dict]
    texts: list[dict]


def _prune(node: Node, rows_of_nodes: dict) -> Node:
    """Return the tree without leaves that have no set-ups; add its nodes to rows_of_nodes."""
    if not node.branches:
        return node
    branches = tuple(
        _prune(branch, rows_of_nodes)
        for branch in node.branches
        if branch.branches or any(rows_of_nodes[id(branch)].values())
    )
    rows_of_nodes[id(pruned := replace(node, branches=branches))] = rows_of_nodes[id(node)]
    return pruned


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for branch in node.branches:
        yield from _nodes(branch)


def _with_levels(node: Node, level: int) -> Iterator[tuple[Node, int]]:
    yield node, level
    for branch in node.branches:
        yield from _with_levels(branch, level + 1)


def _rows_by_network(selection: Selection, node: Node) -> dict[str, list[dict]]:
    """Return a node's set-ups by network, with a row for each user group."""
    rows = selection.rows(f"""
        select network, user_group, sum(flows)::bigint as flows,
            coalesce(sum(flows) filter (background), 0)::bigint as background,
            sum(delay_flows)::bigint as delay_flows, sum(delay_sum) as delay_sum
        from setups where {node.where} group by all order by all
    """)
    texts = group_rows(rows, "network")
    return {network.name: texts.get((network.name,), []) for network in selection.networks}


def _count(rows: Rows) -> int:
    return sum(row["flows"] for row in rows)


def _texts(rows: Rows, total: Rows, with_intervals: bool = False) -> list[str]:
    """Return a node's set-ups, their share of all, mean delay and share with background traffic."""
    inside = {row["user_group"]: row["flows"] for row in rows}
    texts = [
        interval_text(
            share(total, lambda row: inside.get(row["user_group"], 0)), percent_tenths, bool(total)
        ),
        interval_text(
            mean(rows, "delay_sum", "delay_flows", "delay_flows"),
            milliseconds,
            any(row["delay_flows"] for row in rows),
        ),
        interval_text(share(rows, column("background")), _whole_percent, bool(rows)),
    ]
    if rows is total:
        texts[0] = percent_tenths(1 if total else None)
    if not with_intervals:
        texts = [text.split(" (")[0] for text in texts]
    return [number(_count(rows)), *texts]


def _background_text(share: str) -> str:
    """Return a node's text about background traffic."""
    return f"{share} bg" if share[0].isdigit() else share


def _whole_percent(share: float | None) -> str:
    return percent(share, digits=0)


def _place(node: Node, level: int, top: float, height: int) -> tuple[PlacedNode, float]:
    """Place a node and its branches; return the placed node and the bottom (px).

    Leaves stand below each other; a parent stands in the middle of its branches.
    """
    if not node.branches:
        return PlacedNode(node, level, top + height / 2, []), top + height + GAP_Y
    children = []
    for branch in node.branches:
        child, top = _place(branch, level + 1, top, height)
        children.append(child)
    middle = (children[0].middle + children[-1].middle) / 2
    return PlacedNode(node, level, middle, children), top


def _draw(
    drawing: Drawing,
    placed: PlacedNode,
    height: int,
    selection: Selection,
    rows_of_nodes: dict,
    total: dict,
) -> None:
    left, top = placed.level * (BOX_W + GAP_X), placed.middle - height / 2
    for child in placed.children:
        bend = left + BOX_W + GAP_X / 2
        drawing.lines.append(
            go.Scatter(
                x=[left + BOX_W, bend, bend, bend + GAP_X / 2],
                y=[placed.middle, placed.middle, child.middle, child.middle],
                mode="lines",
                line={"color": "#999999", "width": 1.2},
                showlegend=False,
                hoverinfo="skip",
            )
        )
        _draw(drawing, child, height, selection, rows_of_nodes, total)
    drawing.boxes.append(
        {
            "type": "rect",
            "x0": left,
            "x1": left + BOX_W,
            "y0": top,
            "y1": top + height,
            "fillcolor": placed.node.colour,
            "opacity": 1,
            "layer": "below",
            "line": {"color": "#777777", "width": 1},
        }
    )
    _add_text(drawing, left + 8, top + HEAD / 2 + 2, f"<b>{placed.node.name}</b>", "#1a1a1a")
    for line, network in enumerate(selection.networks):
        _flows, share, delay, background = _texts(
            rows_of_nodes[id(placed.node)][network.name], total[network.name]
        )
        y = top + HEAD + LINE * (line + 0.5)
        _add_text(drawing, left + 8, y, network.name, network.colour)
        for text, right in ((share, 130), (delay, 202), (_background_text(background), BOX_W - 8)):
            _add_text(drawing, left + right, y, text, network.colour, "right")


def _add_text(
    drawing: Drawing, x: float, y: float, text: str, colour: str, anchor: str = "left"
) -> None:
    drawing.texts.append(
        {
            "x": x,
            "y": y,
            "text": text,
            "showarrow": False,
            "xanchor": anchor,
            "yanchor": "middle",
            "font": {"size": 12, "color": colour, "family": FONT},
        }
    )
