"""Effects of TCP options on goodput, as measured within networks and adjusted for other causes.

The adjustment covers the access link's rate, the other options, the transfers' sizes, network and
hour.

The paper (INFOCOM 2004, Section VII) compares clusters' means and warns that the clustering
variables are not independent of one another. Here one regression for each access technology has all
of them at once, so an effect is a ratio of goodputs, other things equal. All effects are
differences of coefficients of this regression, so those of the three classes of windows chain.

Covariates are known before the transfer: the rate of its user's access link in that hour (`links`),
and the options that were negotiated. Losses and RTTs lie on the way from the option to the goodput,
so they are left out. The rate comes from ACKs between which the link was busy, for which two
packets in flight suffice. So a small window does not lower it, but may hide it. Of transfers
without a rate only the goodput counts:

    effect = effect on goodput in all transfers, not adjusted for the rate
             - (the same of transfers with a rate - adjusted effect of transfers with a rate)

The term in parentheses is by how much the options' users differ in their rates, times the effect of
the rate. It is assumed to be the same for transfers without a rate. If all have one, the effect is
that of the usual regression. (Chen and Chen, J. R. Statist. Soc. B 2000, double sampling.) Nothing
is said of an effect if transfers with a rate differ from the others by more than chance.

Transfers of one user share a link and a phone and are not independent. The intervals are those
of the jackknife that leaves out one group of users at a time (CV3: MacKinnon, Nielsen and Webb,
Journal of Applied Econometrics 2023). They are not too narrow if there are few groups. Student's t
has twice the number of groups on the smaller side, less two, as its degrees of freedom. Transfers
with and without an option may still differ in something that is not measured: this is no
experiment.

Superset's environment imports this module: it needs only NumPy, SciPy, `statistics` and `format`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from spark_jobs.figures.format import PERCENT, TOO_FEW, count
from spark_jobs.figures.statistics import Estimate, limits_of_chance, t_quantile

MIN_GROUPS = 5
"""Minimum number of groups of users on each side of a comparison.

With fewer groups, leaving out one would change the estimate a lot, and often the option could not
be distinguished from the other covariates.
"""
MAX_DIFFERENCE_OF_RATED = 0.2
"""Maximum difference between the two sides' shares of transfers with a rate.

If transfers without a rate have links that are a tenth faster than others with the same options,
such a difference shifts the effect by 2 %.
"""


@dataclass(frozen=True)
class Contrast:
    """A comparison of one option's `value` with its `base`."""

    name: str
    column: str
    value: str
    base: str


CONTRASTS = (
    Contrast("MSS high against low", "mss", "high", "low"),
    Contrast("SACK against none", "sack", "yes", "no"),
    Contrast("timestamps against none", "timestamps", "yes", "no"),
    Contrast("window med against low", "window", "med", "low"),
    Contrast("window high against low", "window", "high", "low"),
    Contrast("window high against med", "window", "high", "med"),
)
"""The comparisons that are made."""
OPTIONS = ("mss", "window", "sack", "timestamps")
"""Columns of options. An MSS that is neither low nor high is a class of its own."""
Columns = dict[str, np.ndarray]
"""Columns by name: texts, or numbers float64[N]; `user` and `flows` are int64[N]."""
GROUP_COLUMNS = ("network", "hour", "size_class", "user_group", "rate_bin", *OPTIONS)
"""Columns whose values form the groups of transfers that `effects` is given."""
BINS_PER_UNIT = 100
"""Bins of rate_bin per unit of the natural logarithm of the rate."""
SINGULAR = 1e-10
"""Size of an eigenvalue, relative to the largest, that is taken for zero."""
ROUNDING = 1e-9
"""Size of a difference of logarithms that is taken for zero."""


@dataclass(frozen=True)
class Difference:
    """A relative difference of goodput (0.1: one tenth more), its interval and p; null if unknown.

    significant: whether it is beyond chance among all comparisons of the access technology
    """

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    p: float = np.nan
    significant: bool = False

    @property
    def excludes_zero(self) -> bool:
        """Return whether the interval excludes zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def text(self) -> str:
        """The difference with its interval."""
        return PERCENT.signed(Estimate(self.estimate, self.low, self.high))


@dataclass(frozen=True)
class Side:
    """One side of a comparison: transfers and groups of users, and those with a known rate."""

    transfers: int
    users: int
    rated_transfers: int
    rated_users: int

    @property
    def rated_share(self) -> float:
        """The share of the transfers that have a known rate."""
        return self.rated_transfers / self.transfers if self.transfers else 0.0


@dataclass(frozen=True)
class Effect:
    """A contrast with its differences and the data behind them.

    sides: data with the contrast's value, and with its base
    raw: difference within networks
    adjusted: difference after the adjustment
    rated_differ: whether the transfers with a known rate differ from the others
    """

    contrast: Contrast
    sides: tuple[Side, Side]
    raw: Difference
    adjusted: Difference
    rated_differ: bool

    @property
    def verdict(self) -> str:
        """The conclusion from the data, in words."""
        users = min(side.users for side in self.sides)
        rated_users = min(side.rated_users for side in self.sides)
        if users < MIN_GROUPS:
            return f"{TOO_FEW} users on one side ({users})"
        if rated_users < MIN_GROUPS:
            return f"{TOO_FEW} users with a known channel rate on one side ({rated_users})"
        if self.adjusted.low is None:
            return "always occurs with another option or network, so its own effect is unknown"
        if self.rated_differ:
            return "not known: transfers with a known channel rate differ from the others"
        direction = "gain" if (self.adjusted.estimate or 0) > 0 else "loss"
        if self.adjusted.significant:
            return f"the data support a {direction}"
        if self.adjusted.excludes_zero:
            return f"perhaps a {direction}, but chance among all comparisons may explain it"
        if self.raw.significant:
            return (
                "no difference beyond chance; channel rate, other options, size, network or hour "
                "explain the raw difference"
            )
        return "no difference beyond chance"

    @property
    def row(self) -> dict[str, Any]:
        """The effect as report and dashboards show it: texts (with / without) and numbers."""
        first, second = self.sides
        known = Difference() if self.rated_differ else self.adjusted
        return {
            "comparison": self.contrast.name,
            "connections": f"{count(first.transfers)} / {count(second.transfers)}",
            "rated": f"{count(first.rated_transfers)} / {count(second.rated_transfers)}",
            "users": f"{count(first.users)} / {count(second.users)}",
            "raw": self.raw.text,
            "adjusted": known.text,
            "verdict": self.verdict,
            "estimate": known.estimate,
            "low": known.low,
            "high": known.high,
            "significant": known.significant,
        }


def effects(rows: Sequence[Mapping[str, Any]]) -> list[Effect]:
    """Return the effect of every contrast within one access technology; none without transfers.

    rows: dicts with the columns of GROUP_COLUMNS, `flows` (transfers) and `log_goodput_sum`. The
    values may be any hashable values; those of the options are as in CONTRASTS. rate_bin is null if
    the rate is not known. Sums lose nothing: all covariates are the same within a row, so weighted
    means give the same result as the single transfers.
    """
    nonempty = [row for row in rows if row["flows"] > 0]
    if not nonempty:
        return []
    columns = _columns(nonempty)
    sides = [_sides(columns, contrast) for contrast in CONTRASTS]
    flows, classes = columns["flows"], (*OPTIONS, "size_class", "network_hour")
    has_rate = ~np.isnan(columns["log_rate"])
    of_all = _leave_one_out(columns, classes, flows)
    of_rated = _leave_one_out(columns, classes, flows * has_rate)
    adjusted_of_rated = _leave_one_out(columns, classes, flows * has_rate, ("log_rate",))
    within_networks = np.column_stack(
        [
            _leave_one_out(columns, (contrast.column, "network"), flows)[:, place]
            for place, contrast in enumerate(CONTRASTS)
        ]
    )
    users = [min(side.users for side in pair) for pair in sides]
    rated_users = [min(side.rated_users for side in pair) for pair in sides]
    raw = _differences(within_networks, users)
    adjusted = _differences(of_all - (of_rated - adjusted_of_rated), rated_users)
    selection = _differences(of_rated - of_all, rated_users)
    return [
        Effect(contrast, pair, raw, adjusted, _rated_differ(pair, selection))
        for contrast, pair, raw, adjusted, selection in zip(
            CONTRASTS, sides, raw, adjusted, selection, strict=True
        )
    ]


def _columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    columns = {name: np.array([str(row[name]) for row in rows]) for name in GROUP_COLUMNS}
    flows = np.array([row["flows"] for row in rows], np.int64)
    goodputs = np.array([row["log_goodput_sum"] for row in rows], np.float64)
    rates = np.array([row["rate_bin"] for row in rows], np.float64)
    return columns | {
        "flows": flows,
        "log_goodput": goodputs / flows,
        "log_rate": rates / BINS_PER_UNIT,
        "user": _codes(columns["network"], columns["user_group"]),
        "network_hour": _codes(columns["network"], columns["hour"]),
    }


def _codes(*columns: np.ndarray) -> np.ndarray:
    """Return int64[N]: a number from 0 for each combination of values."""
    numbers = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, codes = np.unique(column, return_inverse=True)
        numbers = np.unique(numbers * len(values) + codes, return_inverse=True)[1]
    return numbers


def _sides(columns: Columns, contrast: Contrast) -> tuple[Side, Side]:
    def side(value: str) -> Side:
        chosen = columns[contrast.column] == value
        rated = chosen & ~np.isnan(columns["log_rate"])
        flows, users = columns["flows"], columns["user"]
        return Side(
            int(flows[chosen].sum()),
            len(np.unique(users[chosen])),
            int(flows[rated].sum()),
            len(np.unique(users[rated])),
        )

    return side(contrast.value), side(contrast.base)


def _leave_one_out(
    columns: Columns, classes: Sequence[str], weights: np.ndarray, numbers: Sequence[str] = ()
) -> np.ndarray:
    """Return float64[1 + groups, contrasts]: the contrasts in a regression of log goodput.

    The first row is that of all transfers; each other row leaves out one group of users. A contrast
    is NaN if the covariates do not identify it.

    classes, numbers: the columns that are covariates. Each value of a class has an indicator, so
    only differences between them are identified.
    """
    labels = [(name, value) for name in classes for value in np.unique(columns[name])]
    parts = [columns[name] == value for name, value in labels]
    for name in numbers:
        known = np.where(weights > 0, columns[name], 0)
        parts.append((weights > 0) * (known - weights @ known / max(weights.sum(), 1)))
    root = np.sqrt(weights)
    design, values = np.array(parts, np.float64).T * root[:, None], columns["log_goodput"] * root
    norms = np.linalg.norm(design, axis=0)
    norms[norms == 0] = 1
    design /= norms
    wanted = np.zeros((len(CONTRASTS), len(norms)))
    for vector, contrast in zip(wanted, CONTRASTS, strict=True):
        for value, sign in ((contrast.value, 1), (contrast.base, -1)):
            if (contrast.column, value) in labels:
                place = labels.index((contrast.column, value))
                vector[place] = sign / norms[place]
    products, sums = design.T @ design, design.T @ values
    found = [_contrasts(products, sums, wanted)]
    inverse = np.linalg.pinv(products, SINGULAR, hermitian=True)
    residuals = values - design @ (inverse @ sums)
    for group in _row_numbers(columns["user"]):
        rows = design[group]
        remainder = np.eye(len(rows)) - rows @ inverse @ rows.T
        if np.linalg.eigvalsh(remainder)[0] > SINGULAR**0.5:
            change = inverse @ rows.T @ np.linalg.solve(remainder, residuals[group])
            found.append(found[0] - wanted @ change)
        else:  # without this group, the covariates identify fewer contrasts
            found.append(
                _contrasts(products - rows.T @ rows, sums - rows.T @ values[group], wanted)
            )
    return np.array(found)


def _contrasts(products: np.ndarray, sums: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the wanted combinations of coefficients; NaN where they are not identified."""
    solution = wanted @ np.linalg.pinv(products, SINGULAR, hermitian=True)
    is_identified = np.isclose(solution @ products, wanted, SINGULAR**0.5, SINGULAR**0.5)
    return np.where(is_identified.all(axis=1) & wanted.any(axis=1), solution @ sums, np.nan)


def _row_numbers(groups: np.ndarray) -> list[np.ndarray]:
    """Return the numbers of the rows of each group."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def _differences(values: np.ndarray, users: Sequence[int]) -> list[Difference]:
    """Return the differences with intervals (CV3), and which of them are significant.

    values: float64[1 + groups, contrasts] as from `_leave_one_out`.
    users: number of groups on the smaller side of each contrast.
    """
    groups = len(values) - 1
    values = np.where(np.abs(values) < ROUNDING, 0, values)
    estimate, without = values[0], values[1:]
    error = np.sqrt((groups - 1) / groups * ((without - estimate) ** 2).sum(axis=0))
    error[np.array(users) < MIN_GROUPS] = np.nan
    freedom = np.minimum(2 * np.array(users) - 2, groups - 1)
    half_width = t_quantile(freedom) * error
    deviates = np.abs(estimate) / np.maximum(error, ROUNDING)
    p = 2 * scipy.special.stdtr(np.maximum(freedom, 1), -deviates)
    significant = p < limits_of_chance(p, np.zeros(len(p), np.int64), 1)
    ends = np.expm1([estimate, estimate - half_width, estimate + half_width]).T.tolist()
    return [
        Difference(value, low, high, float(p), bool(is_significant))
        if not np.isnan(p)
        else Difference()
        for (value, low, high), p, is_significant in zip(ends, p, significant, strict=True)
    ]


def _rated_differ(sides: tuple[Side, Side], selection: Difference) -> bool:
    """Return whether the transfers with a rate differ from all, by their share or their goodput.

    selection: the effect in transfers with a rate against that in all, neither adjusted for it.
    """
    first, second = sides
    return selection.excludes_zero or (
        abs(first.rated_share - second.rated_share) > MAX_DIFFERENCE_OF_RATED
    )
