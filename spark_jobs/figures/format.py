"""Numbers as text: values, intervals and differences in the report, the dashboards and commands.

Superset's environment imports this module: it needs only `statistics`.
"""

from dataclasses import dataclass
from math import floor, log10

from spark_jobs.figures.statistics import (
    CONFIDENCE,
    MIN_EFFECTIVE_GROUPS,
    MIN_SAMPLES,
    MIN_USERS,
    Difference,
    Estimate,
    Interval,
)

NOT_MEASURED = "\N{EN DASH}"
"""Text of a value without samples."""
TOO_FEW = "too few"
"""Text of a value of too few samples or users (see `INTERVALS`)."""
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"
MAX_PLACES = 4
"""Maximum number of decimals."""
INTERVALS = (
    f"In brackets: {100 * CONFIDENCE:.0f} % confidence intervals, clustered by user. "
    f"{TOO_FEW.capitalize()}: fewer than {MIN_SAMPLES} samples or {MIN_USERS} users, or a mean of "
    f"fewer than {MIN_EFFECTIVE_GROUPS:g} effective users (one with more samples counts more)."
)
"""The meaning of the brackets and the condition for "too few": at the top of the page, and as the
tooltip of its tables."""


@dataclass(frozen=True)
class Unit:
    """A unit in which numbers are printed.

    name: printed after a value.
    scale: factor from the unit of the tables to this one.
    step: unit of a difference, such as the points between two percentages.
    more, less: words for a positive and a negative difference.
    """

    name: str
    scale: float = 1.0
    step: str = ""
    more: str = "more"
    less: str = "less"

    def text(self, value: float | None, places: int | None = None) -> str:
        """Return a value with its unit.

        places: number of decimals, by default as many as give three significant digits.
        """
        if value is None:
            return NOT_MEASURED
        if places is None:
            places = _places(value * self.scale, 3)
        return f"{self._number(value, places)}{NO_BREAK_SPACE}{self.name}".rstrip()

    def estimate(self, estimate: Estimate, measured: bool = True) -> str:
        """Return a value with its interval, if it has one, as '52.5 % (51.0 … 54.1)'.

        There are as many decimals as give half of the interval's width two significant digits.

        measured: whether there are samples. If there are, an unknown value is one of too few.
        """
        if estimate.value is None:
            return TOO_FEW if measured else NOT_MEASURED
        if estimate.low is None or estimate.high is None:
            return self.text(estimate.value)
        half_width = (estimate.high - estimate.low) / 2 * self.scale
        places = _places(half_width, 2) if half_width else _places(estimate.value * self.scale, 3)
        value = self.text(estimate.value, places)
        return f"{value} ({self._range(estimate.low, estimate.high, places)})"

    def signed(self, estimate: Estimate) -> str:
        """Return a difference with its interval, all with signs, as '+1.2 % (+0.1 … +2.5)'."""
        if estimate.value is None or estimate.low is None or estimate.high is None:
            return NOT_MEASURED
        ends = (self._signed(end, 1) for end in (estimate.low, estimate.high))
        return f"{self.change(estimate.value, 1)} ({_joined(*ends)})"

    def change(self, value: float, places: int = 0) -> str:
        """Return a difference with its sign and unit, as '+26 %'."""
        return f"{self._signed(value, places)}{NO_BREAK_SPACE}{self.name}"

    def sentence(self, difference: Difference, significant: bool, first: str, second: str) -> str:
        """Return a difference in words, as '1.2 points more at peak than off-peak (0.8 … 1.6)'.

        significant: whether it is beyond chance among all comparisons on the page.
        first, second: names of the two selections, such as 'at peak' and 'off-peak'.
        """
        if difference.estimate is None:
            return "too few to compare"
        interval = difference.interval
        if interval is None:
            return "too few users to say how sure the difference is"
        places = _places((interval.high - interval.low) / 2 * self.scale, 2)
        if not significant and interval.low <= 0 <= interval.high:
            ends = self._range(interval.low, interval.high, places)
            return f"no difference beyond chance ({ends}{NO_BREAK_SPACE}{self.step})"
        text = self._difference(difference.estimate, interval, places, first, second)
        return text if significant else f"perhaps {text}"

    def _difference(
        self, estimate: float, interval: Interval, places: int, first: str, second: str
    ) -> str:
        ends = (interval.low, interval.high) if estimate > 0 else (-interval.high, -interval.low)
        word = self.more if estimate > 0 else self.less
        value = f"{self._number(abs(estimate), places)}{NO_BREAK_SPACE}{self.step}"
        return f"{value} {word} {first} than {second} ({self._range(*ends, places)})"

    def _range(self, low: float, high: float, places: int) -> str:
        return _joined(self._number(low, places), self._number(high, places))

    def _signed(self, value: float, places: int) -> str:
        return ("+" if value > 0 else "") + self._number(value, places)

    def _number(self, value: float, places: int) -> str:
        text = f"{abs(value) * self.scale:,.{places}f}"
        # A value that is rounded to zero has no sign.
        return MINUS + text if value < 0 and text.strip("0.,") else text


def _joined(low: str, high: str) -> str:
    return f"{low}{NO_BREAK_SPACE}…{NO_BREAK_SPACE}{high}"


def _places(value: float, digits: int) -> int:
    """Return the number of decimals with which a value has so many significant digits."""
    return min(max(digits - 1 - floor(log10(abs(value))), 0), MAX_PLACES) if value else 0


def count(value: float | None) -> str:
    """Return a count as text, with thousands separators."""
    return NOT_MEASURED if value is None else f"{value:,.0f}"


PERCENT = Unit("%", 100, "points")
MILLISECONDS = Unit("ms", 1000, "ms", "longer", "shorter")
SECONDS = Unit("s", 1, "s", "longer", "shorter")
KBITS = Unit("kbit/s", 1e-3, "kbit/s", "faster", "slower")
PER_HOUR = Unit("/h", 3600)
PER_1000 = Unit("per 1000", 1000)
KILOBYTES = Unit("kB", 1e-3)
MEGABYTES = Unit("MB", 1e-6)
"""1,000 B and 1,000,000 B."""
NUMBER = Unit("")
UNITS = {
    unit.name: unit
    for unit in (
        PERCENT,
        MILLISECONDS,
        SECONDS,
        KBITS,
        PER_HOUR,
        PER_1000,
        KILOBYTES,
        MEGABYTES,
        NUMBER,
    )
}
"""Units by name, for SQL."""


def unit_of_time(value: float) -> Unit:
    """Return the unit in which a time (s) is printed: ms below a tenth of a second."""
    return MILLISECONDS if value < 0.1 else SECONDS


def unit_of(name: str) -> Unit:
    """Return the unit of a name in SQL. Raises ValueError if there is none."""
    if name not in UNITS:
        raise ValueError(f"there is no unit {name!r}; units: {', '.join(filter(None, UNITS))}")
    return UNITS[name]
