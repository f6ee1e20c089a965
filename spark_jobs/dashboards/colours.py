"""Colours of the networks on the pages: those of the report, in the order of the names.

The assets cannot know the networks of a warehouse. They give colours to a first network, a second
network and so on, and `load.py` replaces these by the networks' names.
"""

from collections.abc import Iterable

from spark_jobs.report.selection import COLOURS

NUMBERED_NETWORK = "network {}"
"""Name of a network in the assets: its place in the sorted list of all networks' names."""
PALENESS = {"": 0.0, " peak": 0.0, " off-peak": 0.5, " other": 0.75}
"""Share of white in a network's colour, by the part of a label that follows the name."""


def paler(colour: str, share: float) -> str:
    """Return a colour that is mixed with this share of white."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part + share * (255 - part)):02x}" for part in parts)


BAND_SUFFIXES = ("__yhat", "__yhat_lower", "__yhat_upper")
"""Suffixes of a label by which Superset recognizes a line and the two edges of its band."""


def _network_colours(suffixes: Iterable[str]) -> dict[str, str]:
    return {
        NUMBERED_NETWORK.format(n) + suffix + line_suffix: paler(colour, PALENESS[suffix])
        for n, colour in enumerate(COLOURS, 1)
        for suffix in PALENESS
        for line_suffix in suffixes
    }


NETWORK_COLOURS = _network_colours([""])
BAND_COLOURS = _network_colours(BAND_SUFFIXES)
