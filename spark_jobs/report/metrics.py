"""Metrics that compare two subsets of connections: titles, units, and differences in words."""

from dataclasses import dataclass
from math import floor, log10

from spark_jobs.figures.statistics import Difference, Interval
from spark_jobs.report.page_elements import NO_BREAK_SPACE, NOT_MEASURED

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Unit:
    """A unit and the words for a difference in it.

    name: of the unit. step: of the unit of a difference. scale: factor from the metric's unit to
    the shown one. more, less: words for a positive and a negative difference.
    """

    name: str
    step: str
    scale: float
    more: str
    less: str

    def value(self, value: float | None) -> str:
        """Return a value as text with three significant digits and the unit."""
        if value is None:
            return NOT_MEASURED
        return f"{self._text(value, _places(value * self.scale, 3))}{NO_BREAK_SPACE}{self.name}"

    def difference(self, estimate: float, interval: Interval, first: str, second: str) -> str:
        """Return a difference in words, as '1.2 points more at peak than off-peak (0.8 … 1.6)'.

        The interval's half width decides the decimals: it has two significant digits.
        """
        places = _places((interval.high - interval.low) / 2 * self.scale, 2)
        ends = (
            sorted((interval.low, interval.high))
            if estimate > 0
            else (-interval.high, -interval.low)
        )
        low, high = (self._text(end, places) for end in ends)
        word = self.more if estimate > 0 else self.less
        text = self._text(abs(estimate), places)
        return f"{text}{NO_BREAK_SPACE}{self.step} {word} {first} than {second} ({low} … {high})"

    def interval(self, interval: Interval) -> str:
        """Return the ends of an interval with the unit of a difference."""
        places = _places((interval.high - interval.low) / 2 * self.scale, 2)
        low, high = (self._text(end, places) for end in (interval.low, interval.high))
        return f"{low} … {high}{NO_BREAK_SPACE}{self.step}"

    def _text(self, value: float, places: int) -> str:
        text = f"{abs(value) * self.scale:,.{places}f}"
        return MINUS + text if value < 0 and text.strip("0.,") else text


def _places(value: float, digits: int) -> int:
    """Return the decimals that give a value so many significant digits, at most four."""
    return min(max(digits - 1 - floor(log10(abs(value))), 0), 4) if value else 0


SHARE = Unit("%", "points", 100, "more", "less")
SECONDS = Unit("ms", "ms", 1000, "longer", "shorter")
RATE = Unit("kbit/s", "kbit/s", 1e-3, "faster", "slower")


@dataclass(frozen=True)
class ShownMetric:
    """A metric's title and unit."""

    title: str
    unit: Unit
    during_set_up: bool = False
    """The metric describes the set-up, when the ends have not yet agreed on options."""

    def sentence(self, difference: Difference, significant: bool, first: str, second: str) -> str:
        """Return a difference between the subsets named first and second, in words.

        significant: the difference is beyond chance, with all comparisons on the page counted.
        """
        if difference.estimate is None:
            return "too few to compare"
        interval = difference.interval
        if interval is None:
            return "too few users to say how sure the difference is"
        if not significant and interval.low <= 0 <= interval.high:
            return f"no difference beyond chance ({self.unit.interval(interval)})"
        text = self.unit.difference(difference.estimate, interval, first, second)
        return text if significant else f"perhaps {text}"


SHOWN_METRICS = {
    "setup_delay": ShownMetric("Set-up delay", SECONDS, True),
    "setup_failed": ShownMetric("Set-ups that fail", SHARE, True),
    "rtt_access": ShownMetric("RTT on the access side", SECONDS),
    "rtt_internet": ShownMetric("RTT on the Internet side", SECONDS),
    "channel_rate": ShownMetric("Channel rate", RATE),
    "loss_access": ShownMetric("Loss on the access side", SHARE),
    "loss_internet": ShownMetric("Loss on the Internet side", SHARE),
    "throughput": ShownMetric("Throughput (single, above 100 KB)", RATE),
    "goodput": ShownMetric("Goodput above 32 KB", RATE),
    "parallel": ShownMetric("With parallel connections", SHARE),
}
