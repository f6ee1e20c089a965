"""The shares of connections by their share of their user's bytes: in thirds, and in twentieths."""

from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio

TWENTIETHS = 20
"""Bars, besides one for connections without background traffic."""
SIXTIETHS = "round(60 * bin)"
"""SQL of the number of a row's bin: three are a bar, and twenty are a third."""


def _between(low: int, high: int) -> str:
    """Return SQL of a row's flows if its share is in [low, high) sixtieths."""
    return f"if({SIXTIETHS} between {low} and {high - 1}, flows, 0)"


NUMBERS = Numbers(
    mart("fig11_tcp_share"),
    [
        Ratio("first", "below 1/3", _between(0, 20)),
        Ratio("second", "1/3 to 2/3", _between(20, 40)),
        Ratio("third", "2/3 to below 1", _between(40, 60)),
        Ratio(f"bar_{TWENTIETHS}", "1: single", _between(60, 61)),
        *(
            Ratio(f"bar_{n}", f"{n / TWENTIETHS:.2f} to below {(n + 1) / TWENTIETHS:.2f}",
                  _between(3 * n, 3 * n + 3))
            for n in range(TWENTIETHS)
        ),
    ],
)  # fmt: skip
