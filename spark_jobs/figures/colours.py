"""Colours on the dashboards: those of the report, paler off-peak.

Networks have theirs in the order of the names.
The assets cannot know the networks of a warehouse. They give colours to a first network, a second
network and so on, and `load.py` replaces these by the networks' names.
"""

from collections.abc import Iterable, Mapping

from spark_jobs.figures.names import NETWORK_COLOURS, PERIODS, paler

NUMBERED_NETWORK = "network {}"
"""Name of a network in the assets: its place in the sorted list of all networks' names."""
PALENESS = {"": 0.0} | {
    f", {label}": paleness
    for (label, _), paleness in zip(PERIODS.values(), (0, 0.5, 0.25, 0.75), strict=True)
}
"""Share of white in a network's colour, by the part of a label that follows the name."""
BAND_SUFFIXES = ("__yhat", "__yhat_lower", "__yhat_upper")
"""Suffixes of a label by which Superset recognizes a line and the two edges of its band."""


def by_hours(colours: Mapping[str, str]) -> dict[str, str]:
    """Return the colours of labels with hours, such as 'SACK, off-peak', as of networks' labels."""
    return {
        f"{label}{hours}": paler(colour, paleness)
        for label, colour in colours.items()
        for hours, paleness in PALENESS.items()
        if hours
    }


def _network_colours(suffixes: Iterable[str]) -> dict[str, str]:
    return {
        NUMBERED_NETWORK.format(n) + suffix + line_suffix: paler(colour, PALENESS[suffix])
        for n, colour in enumerate(NETWORK_COLOURS, 1)
        for suffix in PALENESS
        for line_suffix in suffixes
    }


SERIES_COLOURS = _network_colours([""])
BAND_COLOURS = _network_colours(BAND_SUFFIXES)
