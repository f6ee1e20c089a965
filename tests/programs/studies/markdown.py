"""Figures as text: tables, numbers, intervals."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

UNKNOWN = "-"


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """GitHub's form; the first column to the left, the others to the right."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def number(value: float | None, digits: int = 2) -> str:
    return UNKNOWN if value is None or np.isnan(value) else f"{value:,.{digits}f}"


def percent(part: float | None, digits: int = 2) -> str:
    return UNKNOWN if part is None or np.isnan(part) else f"{100 * part:.{digits}f} %"


class Mean(NamedTuple):
    value: float
    half: float
    """Of its 95 % interval, by Student's t."""

    def __str__(self) -> str:
        return f"{self.value:,.2f} ± {self.half:.2f}"


def mean(values: Sequence[float]) -> Mean:
    """Of independent values."""
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values) if len(values) > 1 else np.nan
    return Mean(float(np.mean(values)), float(half))


def total(*shares: float | None) -> float | None:
    known = [share for share in shares if share is not None]
    return sum(known) if known else None
