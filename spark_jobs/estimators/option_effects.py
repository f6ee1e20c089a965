"""What a TCP option changes in goodput: the difference as measured within networks, and adjusted
for the channel's rate, the other options, the transfers' sizes, network and hour.

The paper (INFOCOM 2004, Section VII) compares clusters' means and warns that the clustering
variables are not independent of one another. Here log goodput is regressed on all of them at once,
so that an effect is a ratio of goodputs, other things equal.

Covariates lie before the transfer: what its user's channel gives in that hour, as all of the user's
connections measured it (`channel_rate`), and what was agreed on. Losses and round trips lie on the
way from the option to the goodput, and are left out. The window's effect is not adjusted for the
channel's rate: a small window hides that rate, so transfers with one known are no fair sample of
windows. Access technologies differ in what an option can do: `effects` is given one at a time.

Transfers of one user share a channel and a phone and are not independent. The intervals are those
of the jackknife that leaves out a group of users at a time (CV3: MacKinnon, Nielsen and Webb,
Journal of Applied Econometrics 2023), which are not too narrow where groups are few, with Student's
t of twice the groups on the side that has fewer, less two. What is not measured may still differ
between those with an option and those without: this is no experiment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from spark_jobs.estimators.by_user import CONFIDENCE

FEWEST_GROUPS = 5
"""Groups of users on each side of a comparison below which nothing is said: one who is left out
would turn the estimate, and often leaves nothing to tell the option from the others by."""


@dataclass(frozen=True)
class Contrast:
    """One option's two values: `value` against `base`; at_rate: adjusted for the channel's rate."""

    name: str
    column: str
    value: str
    base: str
    at_rate: bool = True


CONTRASTS = (
    Contrast("MSS high against low", "mss", "high", "low"),
    Contrast("SACK against none", "sack", "yes", "no"),
    Contrast("timestamps against none", "timestamps", "yes", "no"),
    Contrast("window med against low", "window", "med", "low", at_rate=False),
    Contrast("window high against low", "window", "high", "low", at_rate=False),
    Contrast("window high against med", "window", "high", "med", at_rate=False),
)
OPTIONS = ("mss", "window", "sack", "timestamps")
Columns = dict[str, np.ndarray]
"""Cells' columns by name: texts, or numbers, float64[N]; `user` and `flows` are int64[N]."""
CELL = ("network", "hour", "size_class", "user_group", "rate_bin", *OPTIONS)
BINS = 100
"""rate_bin: so many times the natural logarithm of the rate."""


@dataclass(frozen=True)
class Difference:
    """A relative difference of goodput (0.1: a tenth more) and its interval; null where it cannot
    be told."""

    estimate: float | None
    low: float | None = None
    high: float | None = None

    @property
    def supported(self) -> bool:
        """Whether the interval leaves out no difference."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class Side:
    """What one side of a comparison rests on: transfers, and how many groups of users of which
    network they are of."""

    transfers: int
    groups: dict[str, int]

    @property
    def users(self) -> int:
        """Groups of users in all."""
        return sum(self.groups.values())


@dataclass(frozen=True)
class Effect:
    """A contrast; its sides, with and without the option's value; what of them the adjusted
    difference rests on; its differences."""

    contrast: Contrast
    sides: tuple[Side, Side]
    adjusted_sides: tuple[Side, Side]
    raw: Difference
    adjusted: Difference


def effects(cells: Sequence[dict]) -> list[Effect]:
    """Every contrast's effect within one access technology.

    cells: rows with the columns of CELL (any hashable values; the options' as in CONTRASTS;
    rate_bin null where the rate is not known), `flows` (transfers) and `log_goodput_sum`. Sums lose
    nothing: all covariates are the same within a cell, so weighted cell means give what the single
    transfers would give.
    """
    there = [cell for cell in cells if cell["flows"] > 0]
    columns = {name: np.array([str(cell[name]) for cell in there]) for name in CELL}
    flows = np.array([cell["flows"] for cell in there], np.int64)
    goodputs = np.array([cell["log_goodput_sum"] for cell in there], np.float64)
    rates = np.array([cell["rate_bin"] for cell in there], np.float64)
    columns |= {
        "flows": flows,
        "log_goodput": goodputs / flows,
        "log_rate": rates / BINS,
        "user": _numbered(columns["network"], columns["user_group"]),
        "place": _numbered(columns["network"], columns["hour"]).astype(str),
    }
    return [_effect(columns, contrast) for contrast in CONTRASTS]


def _numbered(*columns: np.ndarray) -> np.ndarray:
    """int64[N]: a number for each combination of values."""
    found = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, codes = np.unique(column, return_inverse=True)
        found = np.unique(found * len(values) + codes, return_inverse=True)[1]
    return found


def _where(columns: Columns, mask: np.ndarray) -> Columns:
    return {name: values[mask] for name, values in columns.items()}


def _effect(columns: Columns, contrast: Contrast) -> Effect:
    mine = _where(columns, np.isin(columns[contrast.column], (contrast.value, contrast.base)))
    covariates = [
        column for column in (*OPTIONS, "size_class", "place") if column != contrast.column
    ]
    rated = _where(mine, ~np.isnan(mine["log_rate"])) if contrast.at_rate else mine
    rated = _shared(rated, covariates)
    return Effect(
        contrast,
        _sides(mine, contrast),
        _sides(rated, contrast),
        _difference(mine, contrast, ["network"], []),
        _difference(rated, contrast, covariates, ["log_rate"] if contrast.at_rate else []),
    )


def _sides(columns: Columns, contrast: Contrast) -> tuple[Side, Side]:
    found = []
    for value in (contrast.value, contrast.base):
        side = _where(columns, columns[contrast.column] == value)
        users = {
            str(network): len(np.unique(side["user"][side["network"] == network]))
            for network in np.unique(side["network"])
        }
        found.append(Side(int(side["flows"].sum()), users))
    return found[0], found[1]


def _shared(columns: Columns, classes: Sequence[str]) -> Columns:
    """Without the classes that one group of users alone has: they tell it from the others, and
    nothing of the option."""
    while True:
        shared = np.ones(len(columns["user"]), bool)
        for name in classes:
            shared &= _users_beside(columns[name], columns["user"]) > 1
        if shared.all():
            return columns
        columns = _where(columns, shared)


def _users_beside(classes: np.ndarray, users: np.ndarray) -> np.ndarray:
    """int64[N]: how many users have the class of each."""
    codes = _numbered(classes)
    pairs = np.unique(np.column_stack([codes, users]), axis=0)
    return np.bincount(pairs[:, 0])[codes]


def _difference(
    columns: Columns, contrast: Contrast, classes: Sequence[str], numbers: Sequence[str]
) -> Difference:
    """The contrast's coefficient in a weighted regression on covariates, classes and numbers, as a
    ratio less one."""
    fewest = min(side.users for side in _sides(columns, contrast))
    if fewest < FEWEST_GROUPS:
        return Difference(None)
    treated = (columns[contrast.column] == contrast.value).astype(np.float64)
    weights = columns["flows"].astype(np.float64)
    others = _independent(_covariates(columns, classes, numbers), weights)
    if not _identified(treated, others, weights):
        return Difference(None)
    groups = _numbered(columns["user"])
    regressors = np.column_stack([treated, others])
    fitted = _first_coefficient(columns["log_goodput"], regressors, weights, groups)
    if fitted is None:
        return Difference(None)
    middle, error = fitted
    freedom = min(2 * fewest - 2, int(groups.max()))
    half = scipy.special.stdtrit(freedom, (1 + CONFIDENCE) / 2) * error
    return Difference(*(float(np.expm1(x)) for x in (middle, middle - half, middle + half)))


def _first_coefficient(
    values: np.ndarray, columns: np.ndarray, weights: np.ndarray, groups: np.ndarray
) -> tuple[float, float] | None:
    """The first column's coefficient and its error by CV3; None where it hangs on one group."""
    root = np.sqrt(weights)
    values, columns = values * root, columns * root[:, None]
    products, sums = columns.T @ columns, columns.T @ values
    count = int(groups.max()) + 1
    left, left_sums = np.tile(products, (count, 1, 1)), np.tile(sums, (count, 1))
    for group in range(count):
        mine = groups == group
        left[group] -= columns[mine].T @ columns[mine]
        left_sums[group] -= columns[mine].T @ values[mine]
    if np.linalg.matrix_rank(left).min() < len(sums):
        return None
    middle = np.linalg.solve(products, sums)[0]
    without = np.linalg.solve(left, left_sums[:, :, None])[:, 0, 0]
    return middle, np.sqrt((count - 1) / count * ((without - middle) ** 2).sum())


def _covariates(columns: Columns, classes: Sequence[str], numbers: Sequence[str]) -> np.ndarray:
    """A column of ones, those of the classes but for each one's first, and the numbers, centred."""
    parts = [np.ones((len(columns["user"]), 1))]
    parts += [columns[name][:, None] == np.unique(columns[name])[1:] for name in classes]
    parts += [(columns[name] - columns[name].mean())[:, None] for name in numbers]
    return np.hstack(parts)


def _independent(columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """As many columns as are independent of each other."""
    _, triangle, order = scipy.linalg.qr(
        columns * np.sqrt(weights)[:, None], mode="economic", pivoting=True
    )
    size = np.abs(np.diag(triangle))
    return columns[:, np.sort(order[: int((size > 1e-9 * size[0]).sum())])]


def _identified(treated: np.ndarray, others: np.ndarray, weights: np.ndarray) -> bool:
    """Whether an effect can be told from the others': its column is no combination of theirs."""
    root = np.sqrt(weights)
    mine, rest = treated * root, others * root[:, None]
    left = mine - rest @ np.linalg.lstsq(rest, mine, rcond=None)[0]
    return bool(left @ left > 1e-9 * (mine @ mine))
