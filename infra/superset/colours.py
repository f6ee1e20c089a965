"""Which colours networks have on the pages: the report's, in the order of their names.

The assets cannot know a warehouse's networks: they give the colours of the first network, the
second and so on; `load.py` puts their names there.
"""

from collections.abc import Iterable

from spark_jobs.report.selection import COLOURS

NUMBERED = "network {}"
"""A network in the assets, by its place among the names of all."""
PALER = {"": 0.0, " peak": 0.0, " off-peak": 0.5, " other": 0.75}
"""How far from its hue to white, by what follows a network's name in a label."""


def paler(colour: str, share: float) -> str:
    """A colour so far on its way to white."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part + share * (255 - part)):02x}" for part in parts)


ENDS = ("__yhat", "__yhat_lower", "__yhat_upper")
"""What Superset knows a line and its band by, if added to a label."""


def _coloured(ends: Iterable[str]) -> dict[str, str]:
    return {
        NUMBERED.format(n) + suffix + end: paler(colour, PALER[suffix])
        for n, colour in enumerate(COLOURS, 1)
        for suffix in PALER
        for end in ends
    }


NETWORKS_COLOURS = _coloured([""])
BANDS_COLOURS = _coloured(ENDS)
