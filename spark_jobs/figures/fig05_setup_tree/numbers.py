"""The classes of set-ups: the tree, its areas as labels, and shares and delays of a node."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from spark_jobs.figures.dashboard_parts import literal
from spark_jobs.figures.format import MILLISECONDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio, mean

CONNECTED = "setup_class in ('optimal', 'slight_problem')"
REFUSED, SLIGHT, SERIOUS = (
    f"setup_class = '{name}'" for name in ("refused", "slight_problem", "serious_problem")
)
RESET = f"{SERIOUS} and setup_reset"


@dataclass(frozen=True)
class Area:
    """A set of set-ups: a part of a class; where: the SQL condition for the mart's rows in it."""

    name: str
    where: str
    colour: str


AREAS = (
    Area("optimal: 1 SYN, 1 SYN ACK", "setup_class = 'optimal'", "#7fb77e"),
    Area(
        "slight problem: SYN (ACK) lost", f"{SLIGHT} and setup_retransmission = 'lost'", "#e3b52e"
    ),
    Area(
        "slight problem: timer too short",
        f"{SLIGHT} and setup_retransmission = 'premature'",
        "#f0a35e",
    ),
    Area("slight problem: cause unknown", f"{SLIGHT} and setup_retransmission is null", "#f2cf63"),
    Area("no response: SYNs only", "setup_class = 'no_response'", "#8fb4d9"),
    Area(
        "refused: RST from the server's address",
        f"{REFUSED} and coalesce(reset_by, '') <> 'between'",
        "#b493c9",
    ),
    Area("refused: RST by a device between", f"{REFUSED} and reset_by = 'between'", "#8d6fa8"),
    Area("serious problem: RST by the mobile", f"{RESET} and reset_by = 'mobile'", "#d9735b"),
    Area("serious problem: RST by the server", f"{RESET} and reset_by = 'server'", "#c4573e"),
    Area(
        "serious problem: RST by a device between", f"{RESET} and reset_by = 'between'", "#e39a87"
    ),
    Area("serious problem: RST, sender unknown", f"{RESET} and reset_by is null", "#f0c0b0"),
    Area("serious problem: no more packets", f"{SERIOUS} and not setup_reset", "#a8452f"),
)
AREA = f"case {' '.join(f'when {a.where} then {literal(a.name)}' for a in AREAS)} end"
BACKGROUND = "if(background, 'background', 'no background')"
OUTCOME = f"if({CONNECTED}, 'connected', 'not connected')"
NUMBERS = Numbers(
    mart("fig05_setup_tree"),
    [
        mean("mean_delay", "mean set-up delay", "delay_sum", MILLISECONDS, "delay_flows",
             "delay_flows"),
        Ratio("with_background", "with background traffic", "if(background, flows, 0)"),
    ],
    {"area": AREA, "background": BACKGROUND},
    counts={"flows": ("set-ups", "flows")},
)  # fmt: skip
"""Numbers of the set-ups of a node; shares of all set-ups are the page's own."""


@dataclass(frozen=True)
class Node:
    """A node of the tree; where: the SQL condition for the mart's rows in it."""

    name: str
    where: str
    colour: str
    branches: tuple["Node", ...] = field(default_factory=tuple)

    def with_levels(self, level: int = 0) -> Iterator[tuple["Node", int]]:
        """Yield this node and those below it, each with its level from the left."""
        yield self, level
        for branch in self.branches:
            yield from branch.with_levels(level + 1)


GREY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#f2f2f2", "#dff0e0", "#fdf3d0", "#dfeaf5", "#f8dcd6", "#ece2f2",
)  # fmt: skip


def _nodes(beginning: str, colour: str) -> tuple[Node, ...]:
    """Return the nodes of the areas whose names begin so; they are called by the rest."""
    return tuple(
        Node(area.name.removeprefix(f"{beginning}: "), area.where, colour)
        for area in AREAS
        if area.name.startswith(f"{beginning}: ")
    )


def _by_background(name: str, where: str, colour: str) -> Node:
    branches = tuple(
        Node(label, f"{where} and {condition}", colour)
        for label, condition in (("no background", "not background"), ("background", "background"))
    )
    return Node(name, where, colour, branches)


TREE = Node(
    "All set-ups",
    "true",
    GREY,
    (
        Node(
            "SYN ACK, ACK: connected",
            CONNECTED,
            GREY,
            (
                _by_background("Optimal: 1 SYN, 1 SYN ACK", "setup_class = 'optimal'", GREEN),
                *(
                    Node(f"Slight problem: {node.name}", node.where, YELLOW)
                    for node in _nodes("slight problem", YELLOW)
                ),
            ),
        ),
        Node(
            "Not connected",
            f"not {CONNECTED}",
            GREY,
            (
                _by_background("No response: SYNs only", "setup_class = 'no_response'", BLUE),
                Node("Refused: RST to the SYN", REFUSED, PURPLE, _nodes("refused", PURPLE)),
                Node(
                    "Serious problem: SYN ACK, no ACK",
                    SERIOUS,
                    RED,
                    _nodes("serious problem", RED),
                ),
            ),
        ),
    ),
)
