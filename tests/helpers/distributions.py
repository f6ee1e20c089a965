"""Distributions of samples."""

import numpy as np
import pandas as pd


def distribution(values: np.ndarray, users: np.ndarray) -> pd.DataFrame:
    """Return rows as of the mart distributions: of each user and bin of 2 %."""
    bins = np.floor(50 * np.log(values)).astype(int)
    found = pd.DataFrame({"user_group": 64 + users, "bin": bins, "value": values}).groupby(
        ["user_group", "bin"], as_index=False
    )["value"]
    rows = found.agg(samples="count", weighted_sum="sum", lowest="min", highest="max")
    return rows.assign(network="n", weight=rows["samples"].astype(float))
