"""Fig. 5: the set-up classification tree, networks side by side in every node."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import plotly.graph_objects as go

from spark_jobs.report import paper
from spark_jobs.report.page_elements import (
    FONT,
    INTERVALS,
    Section,
    NumberTable,
    figure_html,
    group,
    milliseconds,
    number,
    percent,
    percent_tenths,
)
from spark_jobs.report.samples import Rows, mean, of, share, interval_text
from spark_jobs.report.selection import Selection

CONNECTED = ("optimal", "slight_problem")


@dataclass(frozen=True)
class Node:
    """A node: its name, the rows of the mart that fall into it (as SQL), its colour, its
    branches."""

    name: str
    where: str
    colour: str
    branches: tuple["Node", ...] = ()


REPEATED = "setup_class = 'slight_problem'"
ENDED = "setup_class = 'serious_problem' and setup_reset"
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
                    Node(f"Slight problem: {title}", f"{REPEATED} and {which}", colour)
                    for title, which, colour in (
                        ("SYN (ACK) lost", "setup_retransmission = 'lost'", YELLOW),
                        ("too short a timer", "setup_retransmission = 'premature'", ORANGE),
                        ("either", "setup_retransmission is null", YELLOW),
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
                            ("in the server's name", "coalesce(reset_by, '') <> 'between'"),
                            ("by something between", "reset_by = 'between'"),
                        )
                    ),
                ),
                Node(
                    "Serious problem: SYN ACK, no ACK",
                    "setup_class = 'serious_problem'",
                    RED,
                    (
                        *(
                            Node(f"RST by {title}", f"{ENDED} and {which}", RED)
                            for title, which in (
                                ("the mobile", "reset_by = 'mobile'"),
                                ("the server", "reset_by = 'server'"),
                                ("something between", "reset_by = 'between'"),
                                ("someone not told", "reset_by is null"),
                            )
                        ),
                        Node(
                            "fell silent",
                            "setup_class = 'serious_problem' and not setup_reset",
                            RED,
                        ),
                    ),
                ),
            ),
        ),
    ),
)

DEPARTURES = (
    "Departures from the paper: its slight problem is one class; here first timers that fired "
    "before the answer could come, set shorter than the round trip, stand apart from lost SYNs and "
    "SYN ACKs. Refused, an RST to the SYN, is no class of the paper's. Of what ended with "
    "an RST it is told who sent it; a server that only refuses sends nothing else to compare, so "
    "an RST in its name may be another's."
)
BOX_W, GAP_X, GAP_Y, LINE, HEAD = 274, 36, 14, 19, 26


@dataclass
class Placed:
    """A node's place: level from the left, top and height in px, and its numbers by network."""

    node: Node
    level: int
    middle: float
    children: list["Placed"]


def section(selection: Selection) -> Section:
    """The tree as a drawing and as a table."""
    selection.connection.execute("""
        create or replace temp table setups as
        select network, user_group, setup_class, setup_retransmission, setup_reset, reset_by, background,
            sum(flows)::bigint as flows, sum(delay_flows)::bigint as delay_flows,
            sum(delay_sum) as delay_sum
        from fig05_setup_tree group by all order by all
    """)
    numbers = {id(node): _numbers(selection, node) for node in _nodes(TREE)}
    tree = _without_empty(TREE, numbers)
    names = [network.name for network in selection.networks]
    height = HEAD + LINE * len(names) + 8
    total = {name: numbers[id(TREE)][name] for name in names}
    placed, bottom = _place(tree, 0, 0.0, height)
    drawn_parts = Parts([], [], [])
    _draw(drawn_parts, placed, height, selection, numbers, total)
    figure = go.Figure(drawn_parts.lines)
    figure.update_layout(shapes=drawn_parts.boxes, annotations=drawn_parts.texts)
    width = 4 * BOX_W + 3 * GAP_X + 16
    figure.update_xaxes(visible=False, range=[-4, width - 4], fixedrange=True)
    figure.update_yaxes(visible=False, range=[bottom, -4], fixedrange=True)
    drawing = figure_html(
        figure,
        "The set-up classification tree with the share, mean set-up delay and "
        "background of each node by network",
        int(bottom) + 12,
        width,
    )
    drawing = drawing.replace('class="figure"', 'class="figure wide"')
    rows = [
        [
            ("\N{EM SPACE}" * level) + node.name,
            name,
            *_texts(numbers[id(node)][name], total[name], True),
        ]
        for node, level in _with_levels(tree, 0)
        for name in names
    ]
    headings = ["", "network", "set-ups", "share", "mean delay", "background"]
    return Section(
        anchor="fig05",
        title="Fig. 5. Connection set-up classification tree",
        source="INFOCOM 2004, Section III.C",
        caption="In each node, by network: share of the set-ups, their mean set-up delay, and the "
        "share of them that met background traffic (bg). Only connections that the mobile opened "
        "and whose handshake was seen whole. " + INTERVALS,
        samples=f"{number(sum(_count(rows) for rows in total.values()))} set-ups",
        figure=drawing,
        tables=[NumberTable(headings, rows)],
        notes=[paper.SETUP_TREE, DEPARTURES],
    )


@dataclass
class Parts:
    """What the drawing is made of; Plotly copies what there is at each addition, so all at once."""

    lines: list[go.Scatter]
    boxes: list[dict]
    texts: list[dict]


def _without_empty(node: Node, numbers: dict) -> Node:
    """Without the leaves of the lower levels into which nothing falls."""
    if not node.branches:
        return node
    kept = tuple(
        _without_empty(branch, numbers)
        for branch in node.branches
        if branch.branches or any(numbers[id(branch)].values())
    )
    numbers[id(made := replace(node, branches=kept))] = numbers[id(node)]
    return made


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for branch in node.branches:
        yield from _nodes(branch)


def _with_levels(node: Node, level: int) -> Iterator[tuple[Node, int]]:
    yield node, level
    for branch in node.branches:
        yield from _with_levels(branch, level + 1)


def _numbers(selection: Selection, node: Node) -> dict[str, list[dict]]:
    """A node's set-ups by network, a row a group of users."""
    rows = selection.rows(f"""
        select network, user_group, sum(flows)::bigint as flows,
            coalesce(sum(flows) filter (background), 0)::bigint as background,
            sum(delay_flows)::bigint as delay_flows, sum(delay_sum) as delay_sum
        from setups where {node.where} group by all order by all
    """)
    found = group(rows, "network")
    return {network.name: found.get((network.name,), []) for network in selection.networks}


def _count(rows: Rows) -> int:
    return sum(row["flows"] for row in rows)


def _texts(rows: Rows, total: Rows, with_intervals: bool = False) -> list[str]:
    """Set-ups, their share of all, their mean delay and the share of them with background."""
    inside = {row["user_group"]: row["flows"] for row in rows}
    found = [
        interval_text(
            share(total, lambda row: inside.get(row["user_group"], 0)), percent_tenths, bool(total)
        ),
        interval_text(
            mean(rows, "delay_sum", "delay_flows", "delay_flows"),
            milliseconds,
            any(row["delay_flows"] for row in rows),
        ),
        interval_text(share(rows, of("background")), _whole_percent, bool(rows)),
    ]
    if rows is total:
        found[0] = percent_tenths(1 if total else None)
    if not with_intervals:
        found = [text.split(" (")[0] for text in found]
    return [number(_count(rows)), *found]


def _with_background(share: str) -> str:
    """What a node says of background traffic."""
    return f"{share} bg" if share[0].isdigit() else share


def _whole_percent(share: float | None) -> str:
    return percent(share, digits=0)


def _place(node: Node, level: int, top: float, height: int) -> tuple[Placed, float]:
    """Leaves one under the other, a parent in the middle of its branches; returns the bottom."""
    if not node.branches:
        return Placed(node, level, top + height / 2, []), top + height + GAP_Y
    children = []
    for branch in node.branches:
        child, top = _place(branch, level + 1, top, height)
        children.append(child)
    middle = (children[0].middle + children[-1].middle) / 2
    return Placed(node, level, middle, children), top


def _draw(
    parts: Parts, placed: Placed, height: int, selection: Selection, numbers: dict, total: dict
) -> None:
    left, top = placed.level * (BOX_W + GAP_X), placed.middle - height / 2
    for child in placed.children:
        bend = left + BOX_W + GAP_X / 2
        parts.lines.append(
            go.Scatter(
                x=[left + BOX_W, bend, bend, bend + GAP_X / 2],
                y=[placed.middle, placed.middle, child.middle, child.middle],
                mode="lines",
                line={"color": "#999999", "width": 1.2},
                showlegend=False,
                hoverinfo="skip",
            )
        )
        _draw(parts, child, height, selection, numbers, total)
    parts.boxes.append(
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
    _write(parts, left + 8, top + HEAD / 2 + 2, f"<b>{placed.node.name}</b>", "#1a1a1a")
    for line, network in enumerate(selection.networks):
        _flows, share, delay, background = _texts(
            numbers[id(placed.node)][network.name], total[network.name]
        )
        y = top + HEAD + LINE * (line + 0.5)
        _write(parts, left + 8, y, network.name, network.colour)
        for text, right in ((share, 130), (delay, 202), (_with_background(background), BOX_W - 8)):
            _write(parts, left + right, y, text, network.colour, "right")


def _write(parts: Parts, x: float, y: float, text: str, colour: str, anchor: str = "left") -> None:
    parts.texts.append(
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
