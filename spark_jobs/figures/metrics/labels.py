"""Titles and units of the metrics by which networks, hours and subsets are compared."""

from dataclasses import dataclass

from spark_jobs.figures.format import KBITS, MILLISECONDS, PERCENT, Unit


@dataclass(frozen=True)
class ShownMetric:
    """A metric's title and unit."""

    title: str
    unit: Unit
    during_set_up: bool = False
    """The metric describes the set-up, when the ends have not yet agreed on options."""

    @property
    def axis_title(self) -> str:
        """The title with the unit."""
        return f"{self.title} [{self.unit.name}]"


SHOWN_METRICS = {
    "setup_delay": ShownMetric("Set-up delay", MILLISECONDS, True),
    "setup_failed": ShownMetric("Set-ups that fail", PERCENT, True),
    "rtt_access": ShownMetric("RTT on the access side", MILLISECONDS),
    "rtt_internet": ShownMetric("RTT on the Internet side", MILLISECONDS),
    "channel_rate": ShownMetric("Channel rate", KBITS),
    "loss_access": ShownMetric("Loss on the access side", PERCENT),
    "loss_internet": ShownMetric("Loss on the Internet side", PERCENT),
    "throughput": ShownMetric("Throughput (single transfers above 100 KiB)", KBITS),
    "goodput": ShownMetric("Goodput (all transfers above 32 KiB)", KBITS),
    "parallel": ShownMetric("With parallel connections", PERCENT),
}
