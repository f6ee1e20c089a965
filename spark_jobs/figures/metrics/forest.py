"""A forest plot as SVG: differences with their intervals, which a page shows without JavaScript."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from spark_jobs.figures.page_elements import FONT, TEXT

LABEL_PX, WIDTH_PX, ROW_PX, TOP_PX = 330, 1000, 40, 34
STEPS = (1, 2, 5, 10, 20, 25, 50, 100)


@dataclass(frozen=True)
class Dot:
    """One difference: its row, its place, the half width of its interval, and how it is drawn.

    shift: of its row's middle, in rows. filled: the dot is full, not open. text: shown on hovering.
    """

    row: int
    value: float
    half_width: float
    colour: str
    shift: float
    filled: bool
    text: str


def forest_svg(
    rows: Sequence[str],
    networks: Sequence[tuple[str, str]],
    dots: Sequence[Dot],
    reach: float,
    axis: str,
    label: str,
) -> Markup:
    """Return the plot. An interval beyond the axis is cut, and its end is an arrow.

    rows: their labels. networks: name and colour, for the legend. reach: end of the axis (%).
    axis, label: title of the axis, and a description for readers who cannot see the plot.
    """
    bottom = TOP_PX + ROW_PX * len(rows)

    def x_of(value: float) -> float:
        return LABEL_PX + (WIDTH_PX - LABEL_PX - 10) * (value + reach) / (2 * reach)

    parts = [_legend(networks)]
    step = next((s for s in STEPS if reach / s <= 5), STEPS[-1])
    for tick in range(-int(reach // step) * step, int(reach) + 1, step):
        colour = "#777777" if tick == 0 else "#eeeeee"
        parts.append(_line(x_of(tick), TOP_PX, x_of(tick), bottom, colour))
        text = f"{tick:+d} %".replace("-", "\N{MINUS SIGN}") if tick else "0"
        parts.append(_text(x_of(tick), bottom + 18, text, "middle"))
    parts += [
        _text(LABEL_PX - 10, TOP_PX + ROW_PX * (n + 0.5) + 4, row, "end")
        for n, row in enumerate(rows)
    ]
    parts.append(_text(x_of(0), bottom + 42, axis, "middle"))
    for dot in dots:
        y = TOP_PX + ROW_PX * (dot.row + 0.5 + dot.shift)
        parts.append(_dot(dot, y, reach, x_of))
    return Markup(
        '<div class="figure" role="img" aria-label="{}"><div><svg viewBox="0 0 {} {}" '
        'font-family="{}" font-size="13" fill="{}">{}</svg></div></div>'
    ).format(label, WIDTH_PX, bottom + 54, FONT, TEXT, Markup().join(parts))


def _dot(dot: Dot, y: float, reach: float, x_of: Callable[[float], float]) -> Markup:
    low, high = (dot.value + side * dot.half_width for side in (-1, 1))
    colour = dot.colour
    drawn = [_line(x_of(max(low, -reach)), y, x_of(min(high, reach)), y, colour)]
    for end, cut, side in ((-reach, low < -reach, -1), (reach, high > reach, 1)):
        if cut:
            x = x_of(end)
            points = f"{x},{y} {x - 7 * side},{y - 4} {x - 7 * side},{y + 4}"
            drawn.append(Markup('<polygon points="{}" fill="{}"/>').format(points, colour))
    if abs(dot.value) <= reach:
        drawn.append(
            Markup(
                '<circle cx="{:.1f}" cy="{:.1f}" r="4.5" fill="{}" stroke="{}" stroke-width="2"/>'
            ).format(x_of(dot.value), y, colour if dot.filled else "#ffffff", colour)
        )
    return Markup("<g><title>{}</title>{}</g>").format(dot.text, Markup().join(drawn))


def _legend(networks: Sequence[tuple[str, str]]) -> Markup:
    x, parts = float(LABEL_PX), []
    for name, colour in networks:
        parts.append(Markup('<circle cx="{:.0f}" cy="14" r="5" fill="{}"/>').format(x, colour))
        parts.append(_text(x + 10, 18, name, "start"))
        x += 30 + 8 * len(name)
    return Markup().join(parts)


def _line(x: float, y: float, other_x: float, other_y: float, colour: str) -> Markup:
    return Markup(
        '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="1.4"/>'
    ).format(x, y, other_x, other_y, colour)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, text
    )
