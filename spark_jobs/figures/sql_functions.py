"""Functions of SQL for DuckDB: the statistics of `statistics`, and the texts of `format`.

They take lists with an element for each group of users, so that one call of a function computes
the estimates of many rows at once:

    select network, unnest(share_interval(list(sack), list(flows), list(flows)))
    from (
        select network, user_group, sum(sack) as sack, sum(flows) as flows
        from table1_summary group by all
    ) group by network

Superset's environment imports this module: it needs only DuckDB, NumPy, SciPy and PyArrow. SciPy is
imported when a query calls a function, because most queries call none.
"""

from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

NUMBERS: Any = "DOUBLE[]"
INTERVAL = "STRUCT(value DOUBLE, low DOUBLE, high DOUBLE)"
DIFFERENCE = "STRUCT(first DOUBLE, second DOUBLE, low DOUBLE, high DOUBLE, p DOUBLE)"
TRANSFERS: Any = (
    "STRUCT(access VARCHAR, network VARCHAR, hour INTEGER, size_class INTEGER, user_group INTEGER, "
    'rate_bin INTEGER, mss VARCHAR, "window" VARCHAR, sack VARCHAR, timestamps VARCHAR, '
    "flows BIGINT, log_goodput_sum DOUBLE)[]"
)
EFFECT = {
    **dict.fromkeys(("comparison", "connections", "rated", "users"), "VARCHAR"),
    **dict.fromkeys(("raw", "adjusted", "verdict"), "VARCHAR"),
    **dict.fromkeys(("estimate", "low", "high"), "DOUBLE"),
    "significant": "BOOLEAN",
}
EFFECTS = f"STRUCT({', '.join(f'{name} {sql_type}' for name, sql_type in EFFECT.items())})[]"
ARROW_TYPES = {"VARCHAR": pa.string(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the functions in a database, for all connections to it.

    mean_interval(numerators, denominators, samples): mean with its interval
    mean_of_rows(users, numerators, denominators, samples): mean without interval, null as in
    mean_interval; a user may have several elements
    share_interval(parts, wholes, samples): share with its interval
    quantile_interval(bins, level): quantile with its interval; bins: a list for each group of users
    of lists (samples, weight, weighted sum, smallest, largest)
    log_quantile(bins, level): quantile of lists (bin, weight), with bins by LOG_BINS
    difference_interval(user_groups, in_first, numerators, denominators, samples): ratios of sums in
    a first and a second selection, with the interval and the p of their difference. A user group
    with sums in both selections has two elements.
    limit_of_chance(p): the p below which the differences of a page are significant
    value_text(value, unit): a value as text
    estimate_text(interval, unit, samples): a mean or share with its interval as text
    change_text(value, unit): a relative difference with its sign, as text
    difference_text(difference, significant, unit, first_name, second_name): a difference in words
    option_effects(transfers): effects of TCP options on goodput, from the mart table3_clusters
    """
    difference_lists: list[Any] = ["BIGINT[]", "BOOLEAN[]", NUMBERS, NUMBERS, NUMBERS]
    functions: list[tuple[str, Any, list[Any], str]] = [
        ("mean_interval", _mean_interval, [NUMBERS, NUMBERS, NUMBERS], INTERVAL),
        ("mean_of_rows", _mean_of_rows, ["UBIGINT[]", NUMBERS, NUMBERS, NUMBERS], "DOUBLE"),
        ("share_interval", _share_interval, [NUMBERS, NUMBERS, NUMBERS], INTERVAL),
        ("quantile_interval", _quantile_interval, ["DOUBLE[][][]", "DOUBLE"], INTERVAL),
        ("log_quantile", _log_quantile, ["DOUBLE[][]", "DOUBLE"], "DOUBLE"),
        ("difference_interval", _difference_interval, difference_lists, DIFFERENCE),
        ("limit_of_chance", _limit_of_chance, [NUMBERS], "DOUBLE"),
        ("estimate_text", _estimate_text, [INTERVAL, "VARCHAR", "DOUBLE"], "VARCHAR"),
        ("value_text", _value_text, ["DOUBLE", "VARCHAR"], "VARCHAR"),
        ("change_text", _change_text, ["DOUBLE", "VARCHAR"], "VARCHAR"),
        ("difference_text", _difference_text, [DIFFERENCE, "BOOLEAN", *["VARCHAR"] * 3], "VARCHAR"),
        ("option_effects", _option_effects, [TRANSFERS], EFFECTS),
    ]
    for name, function, parameters, result in functions:
        # These are functions of a module, which are never freed: DuckDB keeps no reference to a
        # function after the connection that created it is closed.
        connection.create_function(
            name, function, parameters, result, type=ARROW, null_handling=SPECIAL
        )


def _mean_interval(
    numerators: pa.ChunkedArray, denominators: pa.ChunkedArray, samples: pa.ChunkedArray
) -> pa.Array:
    from spark_jobs.figures.statistics import Sums, mean_intervals

    row, *sums = _elements(numerators, denominators, samples)
    return _structs(mean_intervals(Sums(*sums, ratio=row, ratios=len(samples))))


def _mean_of_rows(
    users: pa.ChunkedArray,
    numerators: pa.ChunkedArray,
    denominators: pa.ChunkedArray,
    samples: pa.ChunkedArray,
) -> pa.Array:
    from spark_jobs.figures.statistics import Sums, mean_intervals

    row, user, *columns = _elements(users, numerators, denominators, samples)
    labels = np.unique(user, return_inverse=True)[1]
    groups, place = np.unique(row * (labels.max(initial=0) + 1) + labels, return_inverse=True)
    by_user = [np.bincount(place, np.nan_to_num(column), len(groups)) for column in columns]
    ratio = np.zeros(len(groups), np.int64)
    ratio[place] = row
    means = mean_intervals(Sums(*by_user, ratio=ratio, ratios=len(users)))
    return pa.array(means.value, from_pandas=True)


def _share_interval(
    parts: pa.ChunkedArray, wholes: pa.ChunkedArray, samples: pa.ChunkedArray
) -> pa.Array:
    from spark_jobs.figures.statistics import Sums, share_intervals

    row, *sums = _elements(parts, wholes, samples)
    return _structs(share_intervals(Sums(*sums, ratio=row, ratios=len(samples))))


def _quantile_interval(rows: pa.ChunkedArray, levels: pa.ChunkedArray) -> pa.Array:
    from spark_jobs.figures.statistics import UNKNOWN, Intervals, binned_quantile

    found = []
    for of_row, level in zip(rows, levels.to_pylist(), strict=True):
        groups = of_row.values
        lengths = groups.value_lengths().fill_null(0).to_numpy()
        bins = groups.flatten().flatten().to_numpy().reshape(-1, 5)
        group = np.repeat(np.arange(len(lengths)), lengths)
        found.append(binned_quantile(bins, group, level) if len(bins) else UNKNOWN)
    return _structs(Intervals(*np.array([[e.value, e.low, e.high] for e in found], float).T))


def _log_quantile(rows: pa.ChunkedArray, levels: pa.ChunkedArray) -> pa.Array:
    from spark_jobs.figures.statistics import log_quantile

    return pa.array(
        [
            log_quantile(of_row.values.flatten().to_numpy().reshape(-1, 2), level)
            for of_row, level in zip(rows, levels.to_pylist(), strict=True)
        ],
        pa.float64(),
    )


def _difference_interval(
    user_groups: pa.ChunkedArray,
    in_first: pa.ChunkedArray,
    numerators: pa.ChunkedArray,
    denominators: pa.ChunkedArray,
    samples: pa.ChunkedArray,
) -> pa.Array:
    from spark_jobs.figures.statistics import Sums, difference_intervals

    lists = (in_first, numerators, denominators, samples, user_groups)
    row, is_first, *columns = _elements(*lists)
    both, is_first = Sums(*columns, ratio=row, ratios=len(samples)), is_first.astype(bool)
    return _structs(difference_intervals(both.select(is_first), both.select(~is_first)))


def _limit_of_chance(p_values: pa.ChunkedArray) -> pa.Array:
    from spark_jobs.figures.statistics import limits_of_chance

    row, p = _elements(p_values)
    return pa.array(limits_of_chance(p, row, len(p_values)))


def _estimate_text(
    intervals: pa.ChunkedArray, units: pa.ChunkedArray, samples: pa.ChunkedArray
) -> pa.Array:
    from spark_jobs.figures.format import unit_of
    from spark_jobs.figures.statistics import UNKNOWN, Estimate

    rows = zip(*(column.to_pylist() for column in (intervals, units, samples)), strict=True)
    return pa.array(
        [
            unit_of(unit).estimate(Estimate(**found) if found else UNKNOWN, bool(count))
            for found, unit, count in rows
        ],
        pa.string(),
    )


def _value_text(values: pa.ChunkedArray, units: pa.ChunkedArray) -> pa.Array:
    from spark_jobs.figures.format import unit_of

    rows = zip(values.to_pylist(), units.to_pylist(), strict=True)
    return pa.array([unit_of(unit).text(value) for value, unit in rows], pa.string())


def _change_text(values: pa.ChunkedArray, units: pa.ChunkedArray) -> pa.Array:
    from spark_jobs.figures.format import unit_of

    rows = zip(values.to_pylist(), units.to_pylist(), strict=True)
    return pa.array(
        [None if value is None else unit_of(unit).change(value) for value, unit in rows],
        pa.string(),
    )


def _difference_text(
    differences: pa.ChunkedArray,
    are_significant: pa.ChunkedArray,
    units: pa.ChunkedArray,
    first_names: pa.ChunkedArray,
    second_names: pa.ChunkedArray,
) -> pa.Array:
    from spark_jobs.figures.format import unit_of
    from spark_jobs.figures.statistics import Difference, Interval

    columns = (differences, are_significant, units, first_names, second_names)
    texts = []
    for found, significant, unit, *names in zip(*(c.to_pylist() for c in columns), strict=True):
        interval = None if found["p"] is None else Interval(found["low"], found["high"], found["p"])
        difference = Difference(found["first"], found["second"], interval)
        texts.append(unit_of(unit).sentence(difference, significant, *names))
    return pa.array(texts, pa.string())


def _option_effects(transfers: pa.ChunkedArray) -> pa.Array:
    from spark_jobs.figures.table3_clusters.option_effects import effects

    found = [[effect.row for effect in effects(rows)] for rows in transfers.to_pylist()]
    fields = {name: ARROW_TYPES[sql_type] for name, sql_type in EFFECT.items()}
    return pa.array(found, pa.list_(pa.struct(fields)))


def _elements(*lists: pa.ChunkedArray) -> list[np.ndarray]:
    """Return the row number of each element, int64[N], and each column's elements.

    A null element becomes NaN. The lists of a row must be equally long.
    """
    columns = [pa.concat_arrays(column.chunks) for column in lists]
    lengths = [column.value_lengths().fill_null(0).to_numpy() for column in columns]
    if any((other != lengths[0]).any() for other in lengths[1:]):
        raise ValueError("the lists of a row have different numbers of elements")
    elements = [column.flatten().to_numpy(zero_copy_only=False) for column in columns]
    return [np.repeat(np.arange(len(lengths[0])), lengths[0]), *elements]


def _structs(columns: NamedTuple) -> pa.Array:
    """Return the rows of some columns as structs; NaN becomes null."""
    fields = columns._asdict()
    arrays = [pa.array(values, from_pandas=True) for values in fields.values()]
    return pa.StructArray.from_arrays(arrays, list(fields))
