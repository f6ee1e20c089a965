"""A figure's numbers, written out in NumPy; DuckDB evaluates only the SQL of single rows."""

import duckdb
import numpy as np
import pandas as pd
from scipy import stats

from spark_jobs.figures.names import PERIODS
from spark_jobs.figures.numbers import Numbers

HOURS = {period: label for period, (label, _) in PERIODS.items()}
PARTS = ["part", "whole", "samples"]


def written_out(
    connection: duckdb.DuckDBPyConnection, numbers: Numbers, by: tuple[str, ...]
) -> pd.DataFrame:
    """Return the cells: the columns `by`, the counts, and for each ratio (name, "value"), "low",
    "high" (NaN if unknown) and "samples"."""
    rows = _rows(connection, numbers, by)
    keys = [f"by {name}" for name in by]
    cells = rows.groupby(keys or [0] * len(rows), dropna=False)
    rows["cell"] = cells.ngroup()
    found = rows.groupby("cell")[[*numbers.counts]].sum()
    for name, key in zip(by, keys, strict=True):
        found[name] = rows.drop_duplicates("cell").set_index("cell")[key]
    for n, ratio in enumerate(numbers.ratios):
        sums = rows.rename(columns={f"{part}_{n}": part for part in PARTS})
        estimate = _plain_ratio if ratio.kind == "none" else _jackknife
        for name, values in estimate(sums, ratio.kind).items():
            found[ratio.name, name] = values
    return found


def _rows(
    connection: duckdb.DuckDBPyConnection, numbers: Numbers, by: tuple[str, ...]
) -> pd.DataFrame:
    """Return the mart's rows with the values of each row; users: the numbers of its users."""
    values = {name: sql for name, (_, sql) in numbers.counts.items()}
    for n, ratio in enumerate(numbers.ratios):
        parts = (ratio.numerator, ratio.denominator, ratio.samples)
        values |= {f"{part}_{n}": sql for part, sql in zip(PARTS, parts, strict=True)}
    keys = {f"by {name}": numbers.dimensions.get(name, name) for name in by if name != "hours"}
    one_group = "user_group" in {column.name for column in numbers.mart.columns}
    users = "user_group" if one_group else "user_numbers"
    selected = ", ".join(f'({sql}) as "{name}"' for name, sql in (keys | values).items())
    rows = connection.sql(f"""
        select network as of_network, period as of_period, {users} as users, {selected}
        from {numbers.source or numbers.mart.name} where {numbers.where}
    """).to_arrow_table().to_pandas()  # fmt: skip
    rows[[*values]] = rows[[*values]].astype(float)
    rows["by hours"] = rows["of_period"].map(HOURS)
    return rows


def _plain_ratio(rows: pd.DataFrame, _: str) -> dict[str, pd.Series]:
    """Return ratios of sums: of at least five samples of three users."""
    sums = rows.groupby("cell")[PARTS].sum()
    users = rows.groupby(["cell", "of_network"])["users"].agg(_count).groupby("cell").sum()
    is_enough = (sums["samples"] >= 5) & (users >= 3) & (sums["whole"] != 0)
    value = (sums["part"] / sums["whole"]).where(is_enough)
    return {"value": value, "low": value * np.nan, "high": value * np.nan, **sums[["samples"]]}


def _count(users: pd.Series) -> int:
    return users.explode().nunique()


def _jackknife(rows: pd.DataFrame, kind: str) -> dict[str, pd.Series]:
    """Return means or shares with the intervals from leaving out each group of users in turn."""
    groups = rows.groupby(["cell", "of_network", "users"])[PARTS].sum()
    groups = groups[groups["whole"] > 0]
    of_cell = groups.groupby("cell")
    count, total = of_cell.size(), of_cell.sum()
    effective = total["whole"] ** 2 / (groups["whole"] ** 2).groupby("cell").sum()
    value = total["part"] / total["whole"]
    others = total.reindex(groups.index, level="cell") - groups
    change = others["part"] / others["whole"] - value.reindex(groups.index, level="cell")
    error = np.sqrt((change**2).groupby("cell").sum())
    is_enough = (total["samples"] >= 5) & (count >= 3)
    t = stats.t.ppf(0.975, np.maximum(effective - 1, 1))
    if kind == "mean":
        is_enough &= effective > 3 - 1e-12
        factor = np.exp(t * error / value)
        low, high = value / factor, value * factor
    else:
        spread = value * (1 - value)
        value = value.where(spread > 1e-12, value.round())
        samples = spread * (stats.norm.ppf(0.975) / t / error) ** 2
        samples = samples.where((spread > 1e-12) & (error > 0), count)
        part, rest = value * samples, (1 - value) * samples
        low = value.where(value == 0, stats.beta.ppf(0.025, part, rest + 1))
        high = value.where(value == 1, stats.beta.ppf(0.975, part + 1, rest))
    known = {"value": value, "low": low, "high": high}
    return {
        **{name: column.where(is_enough) for name, column in known.items()},
        "samples": rows.groupby("cell")["samples"].sum(),
    }
