"""Titles and units of the metrics by which networks, hours and subsets are compared."""

from dataclasses import dataclass

from spark_jobs.figures.format import KBITS, MILLISECONDS, PERCENT, Unit


@dataclass(frozen=True)
class ShownMetric:
    """A metric's title and unit.

    weight: what a change means to users, by which the summary ranks: of a share, per point; else
        per cent of its value. 0: users do not notice it.
    during_set_up: the metric describes the set-up, when the ends have not yet agreed on options.
    """

    title: str
    unit: Unit
    weight: float = 0
    during_set_up: bool = False

    @property
    def axis_title(self) -> str:
        """The title with the unit, if it has one."""
        return f"{self.title} [{self.unit.name}]" if self.unit.name else self.title


SHOWN_METRICS = {
    "setup_delay": ShownMetric("Set-up delay", MILLISECONDS, 0.7, True),
    "setup_failed": ShownMetric("Set-ups that fail", PERCENT, 10, True),
    "rtt_access": ShownMetric("RTT on the access side", MILLISECONDS, 0.5),
    "rtt_internet": ShownMetric("RTT on the Internet side", MILLISECONDS, 0.5),
    "channel_rate": ShownMetric("Channel rate", KBITS, 1),
    "loss_access": ShownMetric("Loss on the access side", PERCENT, 10),
    "loss_internet": ShownMetric("Loss on the Internet side", PERCENT, 10),
    "throughput": ShownMetric("Throughput (single transfers above 100 KiB)", KBITS, 0.5),
    "goodput": ShownMetric("Goodput (all transfers above 32 KiB)", KBITS, 1),
    "parallel": ShownMetric("With parallel connections", PERCENT),
}
