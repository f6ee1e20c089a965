"""The metrics by which selections are compared, in words and numbers."""

from dataclasses import dataclass
from math import floor, log10

from spark_jobs.estimators.differences import Difference, Interval
from spark_jobs.report.page_elements import NO_BREAK_SPACE, NOT_MEASURED

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Unit:
    """How values and their differences are written; scale: from the metric's unit to the one that
    is shown; step: the unit of a difference."""

    name: str
    step: str
    scale: float
    more: str
    less: str

    def value(self, value: float | None) -> str:
        """Three significant digits."""
        if value is None:
            return NOT_MEASURED
        return f"{self._text(value, _places(value * self.scale, 3))}{NO_BREAK_SPACE}{self.name}"

    def difference(self, estimate: float, interval: Interval, first: str, second: str) -> str:
        """By how much, which way, and how sure: '1.2 points more at peak than off-peak (0.8 …
        1.6)', to two digits of how far the interval reaches."""
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

    def nothing(self, interval: Interval) -> str:
        """The ends of an interval about nothing."""
        places = _places((interval.high - interval.low) / 2 * self.scale, 2)
        low, high = (self._text(end, places) for end in (interval.low, interval.high))
        return f"{low} … {high}{NO_BREAK_SPACE}{self.step}"

    def _text(self, value: float, places: int) -> str:
        text = f"{abs(value) * self.scale:,.{places}f}"
        return MINUS + text if value < 0 and text.strip("0.,") else text


def _places(value: float, digits: int) -> int:
    """Decimal places in which a value has so many significant digits; four at most."""
    return min(max(digits - 1 - floor(log10(abs(value))), 0), 4) if value else 0


SHARE = Unit("%", "points", 100, "more", "less")
SECONDS = Unit("ms", "ms", 1000, "longer", "shorter")
RATE = Unit("kbit/s", "kbit/s", 1e-3, "faster", "slower")


@dataclass(frozen=True)
class Shown:
    """A metric's title and unit."""

    title: str
    unit: Unit
    of_set_up: bool = False
    """Of what comes before options are agreed on."""

    def sentence(self, told: Difference, claimed: bool, first: str, second: str) -> str:
        """What a difference says."""
        if told.estimate is None:
            return "too few to compare"
        if told.interval is None:
            return "too few users to say how sure the difference is"
        if not claimed and told.interval.low <= 0 <= told.interval.high:
            return f"no difference beyond chance ({self.unit.nothing(told.interval)})"
        text = self.unit.difference(told.estimate, told.interval, first, second)
        return text if claimed else f"perhaps {text}"


SHOWN = {
    "setup_delay": Shown("Set-up delay", SECONDS, True),
    "setup_failed": Shown("Set-ups that fail", SHARE, True),
    "rtt_access": Shown("Round trip on the access side", SECONDS),
    "rtt_internet": Shown("Round trip on the Internet side", SECONDS),
    "channel_rate": Shown("Channel rate", RATE),
    "loss_access": Shown("Loss on the access side", SHARE),
    "loss_internet": Shown("Loss on the Internet side", SHARE),
    "throughput": Shown("Throughput, alone, above 100 KB", RATE),
    "goodput": Shown("Goodput above 32 KB", RATE),
    "parallel": Shown("With parallel traffic", SHARE),
}
