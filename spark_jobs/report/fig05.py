"""Fig. 5: the set-up classification tree, networks side by side in every node."""

from collections.abc import Iterator
from dataclasses import dataclass

import plotly.graph_objects as go

from spark_jobs.report import paper
from spark_jobs.report.parts import FONT, Section, TableOfNumbers, drawn, number, percent, seconds
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


GREY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#f2f2f2",
    "#dff0e0",
    "#fdf3d0",
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
                Node(
                    "Slight problem: more SYN (ACK)s",
                    "setup_class = 'slight_problem'",
                    YELLOW,
                    tuple(
                        Node(title, f"setup_class = 'slight_problem' and {which}", YELLOW)
                        for title, which in (
                            ("the timer was too short", "setup_repeat = 'premature'"),
                            ("a SYN or SYN ACK was lost", "setup_repeat = 'lost'"),
                            ("one or the other", "setup_repeat is null"),
                        )
                    ),
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
                Node("Refused: RST to the SYN", "setup_class = 'refused'", PURPLE),
                Node(
                    "Serious problem: SYN ACK, no ACK",
                    "setup_class = 'serious_problem'",
                    RED,
                    (
                        Node(
                            "ended by RST", "setup_class = 'serious_problem' and setup_reset", RED
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
    numbers = {id(node): _numbers(selection, node) for node in _nodes(TREE)}
    names = [network.name for network in selection.networks]
    height = HEAD + LINE * len(names) + 8
    total = {name: numbers[id(TREE)][name]["flows"] for name in names}
    placed, bottom = _place(TREE, 0, 0.0, height)
    figure = go.Figure()
    _draw(figure, placed, height, selection, numbers, total)
    width = 4 * BOX_W + 3 * GAP_X + 16
    figure.update_xaxes(visible=False, range=[-4, width - 4], fixedrange=True)
    figure.update_yaxes(visible=False, range=[bottom, -4], fixedrange=True)
    drawing = drawn(
        figure,
        "The set-up classification tree with the share, mean set-up delay and "
        "background of each node by network",
        int(bottom) + 12,
        width,
    )
    drawing = drawing.replace('class="figure"', 'class="figure wide"')
    rows = [
        [("\N{EM SPACE}" * level) + node.name]
        + [text for name in names for text in _texts(numbers[id(node)][name], total[name])]
        for node, level in _with_levels(TREE, 0)
    ]
    headings = [
        "",
        *(
            f"{name}: {what}"
            for name in names
            for what in ("set-ups", "share", "mean delay", "background")
        ),
    ]
    return Section(
        anchor="fig05",
        title="Fig. 5. Connection set-up classification tree",
        source="INFOCOM 2004, Section III.C",
        caption="In each node, by network: share of the set-ups, their mean set-up delay, and the "
        "share of them that met background traffic. Only connections that the mobile opened and "
        "whose handshake was seen whole.",
        samples=f"{number(sum(total.values()))} set-ups",
        figure=drawing,
        tables=[TableOfNumbers(headings, rows)],
        notes=[paper.SETUP_TREE],
    )


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for branch in node.branches:
        yield from _nodes(branch)


def _with_levels(node: Node, level: int) -> Iterator[tuple[Node, int]]:
    yield node, level
    for branch in node.branches:
        yield from _with_levels(branch, level + 1)


def _numbers(selection: Selection, node: Node) -> dict[str, dict]:
    """Set-ups, mean delay and share with background of each network."""
    rows = {
        row["network"]: row
        for row in selection.rows(f"""
            select network, sum(flows)::bigint as flows,
                sum(delay_sum) / nullif(sum(delay_flows), 0) as delay,
                sum(flows) filter (background) / sum(flows) as background
            from fig05_setup_tree where {node.where} group by network
        """)
    }
    none = {"flows": 0, "delay": None, "background": None}
    found = {network.name: rows.get(network.name, none) for network in selection.networks}
    return {
        name: {**row, "background": row["background"] or 0 if row["flows"] else None}
        for name, row in found.items()
    }


def _texts(numbers: dict, total: int) -> list[str]:
    return [
        number(numbers["flows"]),
        percent(numbers["flows"], total),
        seconds(numbers["delay"]),
        percent(numbers["background"], digits=0),
    ]


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
    figure: go.Figure, placed: Placed, height: int, selection: Selection, numbers: dict, total: dict
) -> None:
    left, top = placed.level * (BOX_W + GAP_X), placed.middle - height / 2
    for child in placed.children:
        bend = left + BOX_W + GAP_X / 2
        figure.add_trace(
            go.Scatter(
                x=[left + BOX_W, bend, bend, bend + GAP_X / 2],
                y=[placed.middle, placed.middle, child.middle, child.middle],
                mode="lines",
                line={"color": "#999999", "width": 1.2},
                showlegend=False,
                hoverinfo="skip",
            )
        )
        _draw(figure, child, height, selection, numbers, total)
    figure.add_shape(
        type="rect",
        x0=left,
        x1=left + BOX_W,
        y0=top,
        y1=top + height,
        fillcolor=placed.node.colour,
        opacity=1,
        layer="below",
        line={"color": "#777777", "width": 1},
    )
    _write(figure, left + 8, top + HEAD / 2 + 2, f"<b>{placed.node.name}</b>", "#1a1a1a")
    for line, network in enumerate(selection.networks):
        _flows, share, delay, background = _texts(
            numbers[id(placed.node)][network.name], total[network.name]
        )
        y = top + HEAD + LINE * (line + 0.5)
        _write(figure, left + 8, y, network.name, network.colour)
        for text, right in ((share, 142), (delay, 196), (f"{background} bg", BOX_W - 8)):
            _write(figure, left + right, y, text, network.colour, "right")


def _write(
    figure: go.Figure, x: float, y: float, text: str, colour: str, anchor: str = "left"
) -> None:
    figure.add_annotation(
        x=x,
        y=y,
        text=text,
        showarrow=False,
        xanchor=anchor,
        yanchor="middle",
        font={"size": 12, "color": colour, "family": FONT},
    )
