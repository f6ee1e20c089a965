"""Effects of TCP options on goodput, as measured within networks and adjusted for other causes.

The adjustment covers the channel's rate, the other options, the transfers' sizes, network and hour.

The paper (INFOCOM 2004, Section VII) compares clusters' means and warns that the clustering
variables are not independent of one another. Here log goodput is regressed on all of them at once,
so an effect is a ratio of goodputs, other things equal.

Covariates are known before the transfer: the rate of its user's channel in that hour, as measured
over all of the user's connections (`channel_rate`), and the options that were negotiated. Losses
and RTTs lie on the way from the option to the goodput, so they are left out. The window's effect is
not adjusted for the channel's rate: a small window hides that rate, so transfers with a known rate
are no fair sample of windows. Access technologies differ in the effect that an option can have, so
`effects` is given one technology at a time.

Transfers of one user share a channel and a phone and are not independent. The intervals are those
of the jackknife that leaves out one group of users at a time (CV3: MacKinnon, Nielsen and Webb,
Journal of Applied Econometrics 2023). They are not too narrow if there are few groups. Student's t
has twice the number of groups on the smaller side, less two, as its degrees of freedom. Transfers
with and without an option may still differ in something that is not measured: this is no
experiment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from spark_jobs.figures.statistics import t_quantile

MIN_GROUPS = 5
"""Minimum number of groups of users on each side of a comparison.

With fewer groups, leaving out one would change the estimate a lot, and often the option could not
be distinguished from the other covariates.
"""


@dataclass(frozen=True)
class Contrast:
    """A comparison of one option's `value` with its `base`.

    adjusts_rate: the difference is adjusted for the channel's rate.
    """

    name: str
    column: str
    value: str
    base: str
    adjusts_rate: bool = True


CONTRASTS = (
    Contrast("MSS high against low", "mss", "high", "low"),
    Contrast("SACK against none", "sack", "yes", "no"),
    Contrast("timestamps against none", "timestamps", "yes", "no"),
    Contrast("window med against low", "window", "med", "low", adjusts_rate=False),
    Contrast("window high against low", "window", "high", "low", adjusts_rate=False),
    Contrast("window high against med", "window", "high", "med", adjusts_rate=False),
)
"""The comparisons that are made."""
OPTIONS = ("mss", "window", "sack", "timestamps")
"""Columns of options."""
Columns = dict[str, np.ndarray]
"""Columns by name: texts, or numbers float64[N]; `user` and `flows` are int64[N]."""
GROUP_COLUMNS = ("network", "hour", "size_class", "user_group", "rate_bin", *OPTIONS)
"""Columns whose values form the groups of transfers that `effects` is given."""
BINS_PER_UNIT = 100
"""Bins of rate_bin per unit of the natural logarithm of the rate."""


@dataclass(frozen=True)
class Difference:
    """A relative difference of goodput (0.1: one tenth more) and its interval; null if unknown."""

    estimate: float | None
    low: float | None = None
    high: float | None = None

    @property
    def supported(self) -> bool:
        """Return whether the interval excludes zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class Side:
    """The data of one side of a comparison: transfers, and number of groups of users by network."""

    transfers: int
    groups: dict[str, int]

    @property
    def users(self) -> int:
        """Return the number of groups of users in all networks."""
        return sum(self.groups.values())


@dataclass(frozen=True)
class Effect:
    """A contrast with its differences and the data behind them.

    sides: data with and without the option's value
    adjusted_sides: the part of it that the adjusted difference rests on
    raw, adjusted: the differences
    """

    contrast: Contrast
    sides: tuple[Side, Side]
    adjusted_sides: tuple[Side, Side]
    raw: Difference
    adjusted: Difference


def effects(rows: Sequence[dict]) -> list[Effect]:
    """Return the effect of every contrast within one access technology.

    rows: dicts with the columns of GROUP_COLUMNS, `flows` (transfers) and `log_goodput_sum`. The
    values may be any hashable values; those of the options are as in CONTRASTS. rate_bin is null if
    the rate is not known. Sums lose nothing: all covariates are the same within a row, so weighted
    means give the same result as the single transfers.
    """
    nonempty = [row for row in rows if row["flows"] > 0]
    columns = {name: np.array([str(row[name]) for row in nonempty]) for name in GROUP_COLUMNS}
    flows = np.array([row["flows"] for row in nonempty], np.int64)
    goodputs = np.array([row["log_goodput_sum"] for row in nonempty], np.float64)
    rates = np.array([row["rate_bin"] for row in nonempty], np.float64)
    columns |= {
        "flows": flows,
        "log_goodput": goodputs / flows,
        "log_rate": rates / BINS_PER_UNIT,
        "user": _codes(columns["network"], columns["user_group"]),
        "network_hour": _codes(columns["network"], columns["hour"]).astype(str),
    }
    return [_effect(columns, contrast) for contrast in CONTRASTS]


def _codes(*columns: np.ndarray) -> np.ndarray:
    """Return int64[N]: a number for each combination of values."""
    numbers = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, codes = np.unique(column, return_inverse=True)
        numbers = np.unique(numbers * len(values) + codes, return_inverse=True)[1]
    return numbers


def _select(columns: Columns, mask: np.ndarray) -> Columns:
    return {name: values[mask] for name, values in columns.items()}


def _effect(columns: Columns, contrast: Contrast) -> Effect:
    compared = _select(columns, np.isin(columns[contrast.column], (contrast.value, contrast.base)))
    covariates = [
        column for column in (*OPTIONS, "size_class", "network_hour") if column != contrast.column
    ]
    adjusted = (
        _select(compared, ~np.isnan(compared["log_rate"])) if contrast.adjusts_rate else compared
    )
    adjusted = _without_single_user_classes(adjusted, covariates)
    return Effect(
        contrast,
        _sides(compared, contrast),
        _sides(adjusted, contrast),
        _difference(compared, contrast, ["network"], []),
        _difference(adjusted, contrast, covariates, ["log_rate"] if contrast.adjusts_rate else []),
    )


def _sides(columns: Columns, contrast: Contrast) -> tuple[Side, Side]:
    sides = []
    for value in (contrast.value, contrast.base):
        side = _select(columns, columns[contrast.column] == value)
        users = {
            str(network): len(np.unique(side["user"][side["network"] == network]))
            for network in np.unique(side["network"])
        }
        sides.append(Side(int(side["flows"].sum()), users))
    return sides[0], sides[1]


def _without_single_user_classes(columns: Columns, classes: Sequence[str]) -> Columns:
    """Return the columns without the rows whose class only one group of users has.

    Such a class distinguishes the group from the others and shows nothing about the option.
    """
    while True:
        is_shared = np.ones(len(columns["user"]), bool)
        for name in classes:
            is_shared &= _users_per_class(columns[name], columns["user"]) > 1
        if is_shared.all():
            return columns
        columns = _select(columns, is_shared)


def _users_per_class(classes: np.ndarray, users: np.ndarray) -> np.ndarray:
    """Return int64[N]: number of users that have the class of each row."""
    codes = _codes(classes)
    pairs = np.unique(np.column_stack([codes, users]), axis=0)
    return np.bincount(pairs[:, 0])[codes]


def _difference(
    columns: Columns, contrast: Contrast, classes: Sequence[str], numbers: Sequence[str]
) -> Difference:
    """Return the contrast's coefficient in a weighted regression, as a ratio minus one.

    classes, numbers: the columns that are covariates.
    """
    min_users = min(side.users for side in _sides(columns, contrast))
    if min_users < MIN_GROUPS:
        return Difference(None)
    treated = (columns[contrast.column] == contrast.value).astype(np.float64)
    weights = columns["flows"].astype(np.float64)
    others = _independent_columns(_covariates(columns, classes, numbers), weights)
    if not _is_identified(treated, others, weights):
        return Difference(None)
    groups = _codes(columns["user"])
    regressors = np.column_stack([treated, others])
    fit = _first_coefficient(columns["log_goodput"], regressors, weights, groups)
    if fit is None:
        return Difference(None)
    estimate, error = fit
    degrees_of_freedom = min(2 * min_users - 2, int(groups.max()))
    half_width = float(t_quantile(degrees_of_freedom)) * error
    return Difference(
        *(float(np.expm1(x)) for x in (estimate, estimate - half_width, estimate + half_width))
    )


def _first_coefficient(
    values: np.ndarray, columns: np.ndarray, weights: np.ndarray, groups: np.ndarray
) -> tuple[float, float] | None:
    """Return the first coefficient and its error by CV3; None if it depends on one group."""
    root = np.sqrt(weights)
    values, columns = values * root, columns * root[:, None]
    products, sums = columns.T @ columns, columns.T @ values
    count = int(groups.max()) + 1
    remaining, remaining_sums = np.tile(products, (count, 1, 1)), np.tile(sums, (count, 1))
    for group in range(count):
        in_group = groups == group
        remaining[group] -= columns[in_group].T @ columns[in_group]
        remaining_sums[group] -= columns[in_group].T @ values[in_group]
    if np.linalg.matrix_rank(remaining).min() < len(sums):
        return None
    estimate = np.linalg.solve(products, sums)[0]
    leave_one_out = np.linalg.solve(remaining, remaining_sums[:, :, None])[:, 0, 0]
    return estimate, np.sqrt((count - 1) / count * ((leave_one_out - estimate) ** 2).sum())


def _covariates(columns: Columns, classes: Sequence[str], numbers: Sequence[str]) -> np.ndarray:
    """Return a column of ones, indicators of the classes, and the centred numbers.

    There is no indicator of the first class of each column.
    """
    parts = [np.ones((len(columns["user"]), 1))]
    parts += [columns[name][:, None] == np.unique(columns[name])[1:] for name in classes]
    parts += [(columns[name] - columns[name].mean())[:, None] for name in numbers]
    return np.hstack(parts)


def _independent_columns(columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return a largest set of columns that are linearly independent."""
    _, triangle, order = scipy.linalg.qr(
        columns * np.sqrt(weights)[:, None], mode="economic", pivoting=True
    )
    size = np.abs(np.diag(triangle))
    return columns[:, np.sort(order[: int((size > 1e-9 * size[0]).sum())])]


def _is_identified(treated: np.ndarray, others: np.ndarray, weights: np.ndarray) -> bool:
    """Return whether the treatment's column is no linear combination of the other columns."""
    root = np.sqrt(weights)
    weighted, weighted_others = treated * root, others * root[:, None]
    residual = (
        weighted - weighted_others @ np.linalg.lstsq(weighted_others, weighted, rcond=None)[0]
    )
    return bool(residual @ residual > 1e-9 * (weighted @ weighted))
