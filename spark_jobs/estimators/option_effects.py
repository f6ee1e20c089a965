"""What a TCP option changes in goodput: the raw difference, and the difference adjusted for the
other options, the transfers' sizes, the network and the hour.

The paper (INFOCOM 2004, Section VII) compares clusters' means and warns that the clustering
variables are not independent of one another. Here log goodput is regressed on all of them at once,
so that an effect is a ratio of goodputs, other things equal. Transfers of one user share a radio
channel and a phone and are not independent: the intervals are robust to users being alike
(clustered by groups of users: Liang and Zeger 1986; Cameron and Miller 2015). What is not measured
may still differ between those with an option and those without: this is no experiment.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.tools.sm_exceptions import SingularMatrixWarning

CONFIDENCE = 0.95
FEWEST_GROUPS = 10
"""Groups of users on each side of a comparison below which no interval is given."""


@dataclass(frozen=True)
class Contrast:
    """One option's two values: `value` against `base`."""

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
OPTIONS = ("mss", "window", "sack", "timestamps")
CELL = ("network", "hour", "size_class", "user_group", *OPTIONS)


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
class Effect:
    """A contrast, how many transfers and groups of users it rests on, and its differences."""

    contrast: Contrast
    transfers: tuple[int, int]
    groups: tuple[int, int]
    raw: Difference
    adjusted: Difference


def effects(cells: Sequence[dict]) -> list[Effect]:
    """Every contrast's effect.

    cells: rows with the columns of CELL (any hashable values; the options' as in CONTRASTS),
    `flows` (transfers) and `log_goodput_sum`. Sums lose nothing: all covariates are the same
    within a cell, so weighted cell means give the coefficients that the single transfers would
    give, and their clustered covariance but for its factor for small samples, which counts cells.
    """
    frame = pd.DataFrame(list(cells), columns=[*CELL, "flows", "log_goodput_sum"])
    frame = frame[frame["flows"] > 0]
    frame["log_goodput"] = frame["log_goodput_sum"] / frame["flows"]
    frame["user"] = frame.groupby(["network", "user_group"]).ngroup()
    frame["place"] = frame["network"].astype(str) + " " + frame["hour"].astype(str)
    return [_effect(frame, contrast) for contrast in CONTRASTS]


def _effect(frame: pd.DataFrame, contrast: Contrast) -> Effect:
    mine = frame[frame[contrast.column].isin((contrast.value, contrast.base))]
    sides = [mine[mine[contrast.column] == side] for side in (contrast.value, contrast.base)]
    transfers = [int(side["flows"].sum()) for side in sides]
    groups = [int(side["user"].nunique()) for side in sides]
    covariates = [
        column for column in (*OPTIONS, "size_class", "place") if column != contrast.column
    ]
    return Effect(
        contrast,
        (transfers[0], transfers[1]),
        (groups[0], groups[1]),
        _difference(mine, contrast, [], min(groups)),
        _difference(mine, contrast, covariates, min(groups)),
    )


def _difference(
    frame: pd.DataFrame, contrast: Contrast, covariates: Sequence[str], groups: int
) -> Difference:
    """The contrast's coefficient in a weighted regression, as a ratio less one."""
    if groups == 0:
        return Difference(None)
    frame = frame.assign(treated=(frame[contrast.column] == contrast.value).astype(float))
    varying = [column for column in covariates if frame[column].nunique() > 1]
    formula = " + ".join(["log_goodput ~ treated", *(f"C({column})" for column in varying)])
    model = smf.wls(formula, frame, weights=frame["flows"])
    if not _identified(model.wexog, model.exog_names.index("treated")):
        return Difference(None)
    if groups < FEWEST_GROUPS:
        return Difference(float(np.expm1(model.fit().params["treated"])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SingularMatrixWarning)  # among the covariates only
        fitted = model.fit(cov_type="cluster", cov_kwds={"groups": frame["user"]})
    estimate, error = fitted.params["treated"], fitted.bse["treated"]
    half = stats.t.ppf((1 + CONFIDENCE) / 2, frame["user"].nunique() - 1) * error
    return Difference(*(float(np.expm1(x)) for x in (estimate, estimate - half, estimate + half)))


def _identified(design: np.ndarray, column: int) -> bool:
    """Whether a column is no combination of the others: without that its effect cannot be told
    from theirs."""
    others = np.delete(design, column, axis=1)
    mine = design[:, column]
    rest = mine - others @ np.linalg.lstsq(others, mine, rcond=None)[0]
    return bool(rest @ rest > 1e-9 * (mine @ mine))
