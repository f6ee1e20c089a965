"""Fig. 5: the set-up classification tree, with all networks in each node."""

from dataclasses import dataclass, replace

from spark_jobs.figures.dashboard_parts import literal
from spark_jobs.figures.fig05_setup_tree.numbers import NUMBERS, TREE, Node
from spark_jobs.figures.format import NOT_MEASURED, PERCENT, count
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio, Row
from spark_jobs.figures.page_elements import FONT, NumberTable, Section, figure_html
from spark_jobs.figures.selection import Selection

PAPER = (
    "The paper (Section III.C): the mean set-up delay of all connections is nearly 2 s over GPRS, "
    "almost twice that of dial-up. In the optimal area without background traffic it is more than "
    "1 s over GPRS and around 300 ms over dial-up. That area contains more than 20 % of the "
    "connections over GPRS, but 7 % over dial-up."
)
DIFFERENCES = (
    "Differences from the paper: the paper has one class for slight problems. Here, set-ups whose "
    "first timer was shorter than the RTT, so that it expired before the answer could arrive, are "
    "separate from those with lost SYNs or SYN ACKs. Refused (an RST answers the SYN) is not a "
    "class of the paper. For set-ups that ended with an RST, the tree shows its sender. A server "
    "that only refuses sends no other packet to compare with, so another device may have sent an "
    "RST from the server's address."
)
SHARES = Numbers(
    mart("fig05_setup_tree"),
    [
        Ratio(node.where, "share of set-ups", f"if({node.where}, flows, 0)")
        for node, _ in TREE.with_levels()
    ],
)
"""The share of the set-ups in each node, named by its condition."""
IN_NODES = ", ".join(
    f"if({node.where}, {literal(node.where)}, null)" for node, _ in TREE.with_levels()
)
BY_NODE = replace(
    NUMBERS,
    source=f"(select *, unnest([{IN_NODES}]) as node from fig05_setup_tree)",
    where="node is not null",
)
"""NUMBERS by `node`: a row of the mart counts in each node whose condition holds."""
BOX_W, GAP_X, GAP_Y, LINE, HEAD = 238, 16, 14, 19, 26
"""Sizes in px; LINE: height of a network's line, HEAD: of the node's name."""


@dataclass
class PlacedNode:
    """A node with its level, counted from the left, and the middle of its box (px from the top)."""

    node: Node
    level: int
    middle: float
    children: list["PlacedNode"]


def sections(selection: Selection) -> list[Section]:
    """Return the tree as a drawing and as a table."""
    shares = SHARES.rows(selection, "network")
    inside = {
        (row["node"], row["network"]): row for row in BY_NODE.rows(selection, "network", "node")
    }
    numbers = {
        node.where: _by_network(selection, node, shares, inside) for node, _ in TREE.with_levels()
    }
    tree = _prune(TREE, numbers)
    names = [network.name for network in selection.networks]
    height = HEAD + LINE * len(names) + 8
    placed, bottom = _place(tree, 0, 0.0, height)
    drawing = Drawing([], [], [])
    _draw(drawing, placed, height, selection, numbers)
    width = 4 * BOX_W + 3 * GAP_X + 16
    layout = {
        "shapes": drawing.boxes,
        "annotations": drawing.texts,
        "xaxis": {"visible": False, "range": [-4, width - 4], "fixedrange": True},
        "yaxis": {"visible": False, "range": [bottom, -4], "fixedrange": True},
    }
    html = figure_html(
        {"data": drawing.lines, "layout": layout},
        "The set-up classification tree with the share, mean set-up delay and "
        "background of each node by network",
        int(bottom) + 12,
        width,
    )
    html = html.replace('class="figure"', 'class="figure wide"')
    rows = [
        [("\N{EM SPACE}" * level) + node.name, name, count(found.flows), *found.texts]
        for node, level in tree.with_levels()
        for name, found in numbers[node.where].items()
    ]
    headings = ["", "network", "set-ups", "share", "mean delay", "background"]
    return [
        Section(
            anchor="fig05",
            title="Fig. 5. Connection set-up classification tree",
            source="INFOCOM 2004, Section III.C",
            caption="Each node shows for each network: share of the set-ups, their mean set-up "
            "delay, and the share of them with background traffic (bg). Only connections that the "
            "mobile opened and whose set-up Gi saw completely.",
            samples=f"{count(sum(of_node.flows for of_node in numbers[TREE.where].values()))} "
            "set-ups",
            figure=html,
            tables=[NumberTable(headings, rows)],
            notes=[PAPER, DIFFERENCES],
        )
    ]


@dataclass
class Drawing:
    """Elements of the drawing."""

    lines: list[dict]
    boxes: list[dict]
    texts: list[dict]


@dataclass(frozen=True)
class NodeNumbers:
    """A node's set-ups of one network: their number, and share, delay and background as texts.

    texts: with intervals; values: without, for the drawing.
    """

    flows: int
    texts: list[str]
    values: list[str]


NO_SETUPS = NodeNumbers(0, [NOT_MEASURED] * 3, [NOT_MEASURED] * 3)
ByNode = dict[str, dict[str, NodeNumbers]]
"""By a node's condition and network."""


def _by_network(
    selection: Selection, node: Node, shares: list[Row], inside: dict[tuple[str, str], Row]
) -> dict[str, NodeNumbers]:
    """Return a node's numbers by network.

    shares: the rows of SHARES by network; inside: those of BY_NODE, by node and network.
    """
    found = dict.fromkeys((network.name for network in selection.networks), NO_SETUPS)
    for share in shares:
        name = share["network"]
        texts, values = [share.text(node.where)], [share.value_text(node.where)]
        if node is TREE:
            texts = values = [PERCENT.text(1)]
        if row := inside.get((node.where, name)):
            found[name] = NodeNumbers(
                row["flows"],
                texts + row.texts,
                values + [row.value_text(ratio.name) for ratio in NUMBERS.ratios],
            )
        else:
            found[name] = NodeNumbers(0, texts + [NOT_MEASURED] * 2, values + [NOT_MEASURED] * 2)
    return found


def _prune(node: Node, numbers: ByNode) -> Node:
    """Return the tree without leaves that have no set-ups."""
    branches = tuple(
        _prune(branch, numbers)
        for branch in node.branches
        if branch.branches or any(found.flows for found in numbers[branch.where].values())
    )
    return replace(node, branches=branches)


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
    numbers: ByNode,
) -> None:
    left, top = placed.level * (BOX_W + GAP_X), placed.middle - height / 2
    for child in placed.children:
        bend = left + BOX_W + GAP_X / 2
        drawing.lines.append(
            {
                "type": "scatter",
                "x": [left + BOX_W, bend, bend, bend + GAP_X / 2],
                "y": [placed.middle, placed.middle, child.middle, child.middle],
                "mode": "lines",
                "line": {"color": "#999999", "width": 1.2},
                "showlegend": False,
                "hoverinfo": "skip",
            }
        )
        _draw(drawing, child, height, selection, numbers)
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
        share, delay, background = numbers[placed.node.where][network.name].values
        if background[0].isdigit():
            background += " bg"
        y = top + HEAD + LINE * (line + 0.5)
        _add_text(drawing, left + 8, y, network.name, network.colour)
        for text, right in ((share, 112), (delay, 172), (background, BOX_W - 6)):
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
            "font": {"size": 11, "color": colour, "family": FONT},
        }
    )
