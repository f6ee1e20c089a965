"""Means and shares with their intervals, as SQL: as `estimators/by_user.py` has them.

A dataset gives a row a cell of a table, with the text of each value and its interval. What users of
a group have is alike, so that sums by group must be known before the cell's interval is: the
filters that a dataset's rows would be too late for are put into its SQL (`CHOSEN`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from infra.superset.parts import Metric, literal
from spark_jobs.estimators.by_user import (
    CONFIDENCE,
    MIN_EFFECTIVE_GROUPS,
    MIN_SAMPLES,
    MIN_USERS,
    ROUNDING,
)
from spark_jobs.report.metrics import MINUS
from spark_jobs.report.page_elements import NO_BREAK_SPACE

CHOSEN = "/* chosen */"
"""In a dataset's SQL: where the filters' values are asked for; `and` goes before them."""
SINCE = "/* since */ null::date"
"""In a dataset's SQL: a day before all, if dates are chosen; else null."""
DATES_CHOSEN = "/* dates chosen */"
"""In a dataset's SQL: where only the dates are asked for."""
OF_NETWORK = ("country", "access")
"""What a network tells of its rows: grouped by it, they need no grouping by these."""
FILTERED = ("country", "access", "network", "hours", "hour")

_DATES = (
    "{% set dates = get_time_filter('date', strftime='%Y-%m-%d %H:%M:%S', remove_filter=True) %}"
)
DATES_SQL = (
    _DATES + "{% if dates.from_expr %} and date >= timestamp '{{ dates.from_expr }}'{% endif %}"
    "{% if dates.to_expr %} and date < timestamp '{{ dates.to_expr }}'{% endif %}"
)
IN_SUPERSET = {
    CHOSEN: DATES_SQL
    + "".join(
        f"{{% for f in get_filters('{column}', remove_filter=True) %}}"
        f" and {column} {{{{ 'not in' if f.op == 'NOT IN' else 'in' }}}}"
        " {{ f.val|where_in }}{% endfor %}"
        for column in FILTERED
    ),
    DATES_CHOSEN: DATES_SQL,
    SINCE: _DATES + "{% if dates.from_expr or dates.to_expr %}'0001-01-01'::date"
    "{% else %}null::date{% endif %}",
}
"""What Superset's templates make of these; elsewhere they are comments, so that all is chosen."""


def templated(sql: str) -> str:
    """A dataset's SQL for Superset."""
    for mark, template in IN_SUPERSET.items():
        sql = sql.replace(mark, template)
    return sql


@dataclass(frozen=True)
class Ratio:
    """A column of a table: sums of a numerator by sums of a denominator, as SQL.

    measured: of how many samples; share: between 0 and 1; scale: of what is shown.
    """

    name: str
    numerator: str
    denominator: str
    measured: str
    share: bool = False
    scale: float = 1.0


def share_of(name: str, part: str, whole: str, measured: str = "flows") -> Ratio:
    """Shown in %."""
    return Ratio(name, part, whole, measured, share=True, scale=100)


def polynomial(x: np.ndarray, y: np.ndarray, degree: int, of: str) -> str:
    """The polynomial nearest to points, as SQL of an expression."""
    terms = [f"{float(term):.8f}" for term in np.polyfit(x, y, degree)]
    text = terms[0]
    for term in terms[1:]:
        text = f"({text}) * {of} + {term}"
    return text


def students_t() -> str:
    """The quantile of Student's t for CONFIDENCE. Its logarithm is nearly a polynomial of
    1 / freedom (error below 0.0001 %, so that rounded ends are the report's)."""
    u = np.linspace(0.0005, 1, 2000)
    logarithm = np.log(stats.t.ppf((1 + CONFIDENCE) / 2, 1 / u))
    return f"exp({polynomial(u, logarithm, 8, '(1 / freedom)')})"


def places(value: str, digits: int) -> str:
    """Decimal places in which a value has so many significant digits; four at most."""
    return (
        f"case when {value} = 0 then 0 else least(greatest("
        f"{digits - 1} - floor(log10(abs({value}))), 0), 4) end::int"
    )


def text(value: str, decimals: str) -> str:
    """A number with so many decimal places."""
    shown = f"format('{{:,.{{}}f}}', abs({value}), {decimals})"
    return f"if({value} < 0 and regexp_matches({shown}, '[1-9]'), '{MINUS}', '') || {shown}"


def _beta(z: float, a: str, b: str, beyond: int) -> str:
    """A quantile of the beta distribution, by its normal deviate z: what F has of it is nearly the
    cube of a ratio of normal variables (Paulson 1942; right to a hundredth of an interval's width).
    beyond: where there is none."""
    c1, c2 = f"(1 / (9 * ({a})))", f"(1 / (9 * ({b})))"
    p, q = f"(1 - {c1})", f"(1 - {c2})"
    least = f"({q} ** 2 - {z * z:.6f} * {c2})"
    root = f"sqrt(greatest({c1} * {q} ** 2 + {c2} * {p} ** 2 - {z * z:.6f} * {c1} * {c2}, 0))"
    cube = f"(greatest({p} * {q} + ({z:.6f}) * {root}, 0) / {least}) ** 3"
    f = f"(({a}) * {cube})"
    return f"if(({b}) < 0.2 or {least} <= 0, {beyond}, {f} / (({b}) + {f}))"


def estimates(rows: str, cells: Sequence[str], ratios: Sequence[Ratio]) -> str:
    """SQL: a row a cell and ratio, with value, low and high (null where there is too little).

    rows: SQL of sums by user_group; cells: its columns that are told apart.
    """
    of_network = [name for name in OF_NETWORK if "network" in cells and name in cells]
    keys = ", ".join(name for name in cells if name not in of_network)
    facts = "".join(f", any_value({name}) as {name}" for name in of_network)
    carried = "".join(f", {name}" for name in of_network)
    z = float(stats.norm.ppf((1 + CONFIDENCE) / 2))
    alpha = (1 - CONFIDENCE) / 2
    sums = ",\n        ".join(
        f"sum(({sql})::double) as {part}_{n}"
        for n, r in enumerate(ratios)
        for part, sql in (
            ("numerator", r.numerator),
            ("denominator", r.denominator),
            ("measured", r.measured),
        )
    )
    measures = " union all ".join(
        f"""
    select {keys}{carried}, user_group, day,
        {literal(r.name)} as ratio, {str(r.share).lower()} as share,
        numerator_{n} as numerator, denominator_{n} as denominator, measured_{n} as measured
    from summed"""
        for n, r in enumerate(ratios)
    )
    return f"""
with summed as (
    select {keys}{facts}, user_group, max(day) as day,
        {sums}
    from ({rows}) group by {keys}, user_group
), measures as ({measures}
), groups as (
    select * from measures where denominator > 0
), cells as (
    -- telling: as many equal groups of users would tell as much
    select {keys}{facts}, ratio, share, max(day) as day, sum(measured) as measured,
        count(*) as groups, sum(denominator) as whole, sum(numerator) / sum(denominator) as mean,
        sum(denominator) ** 2 / sum(denominator ** 2) as telling
    from groups group by {keys}, ratio, share
), errors as (
    -- the users' jackknife (HC3)
    select {keys}, ratio,
        sqrt(sum(((numerator - mean * denominator) / nullif(1 - denominator / whole, 0)) ** 2)) / any_value(whole)
            as error
    from groups join cells using ({keys}, ratio) group by all
), told as (
    select * exclude (mean), if(share, least(greatest(mean, 0), 1), mean) as value,
        greatest(telling - 1, 1) as freedom, error * {students_t()} as half,
        value * (1 - value) as spread
    from cells join errors using ({keys}, ratio)
    where measured >= {MIN_SAMPLES} and groups >= {MIN_USERS}
        and (share or telling >= {MIN_EFFECTIVE_GROUPS})
), counted as (
    -- of a share: as many independent samples would have the same error
    select *, if(spread > {ROUNDING} and half > 0, spread * ({z:.6f} / half) ** 2, groups) as n,
        if(spread > {ROUNDING}, value, round(value)) as p, p * n as x
    from told
)
select {", ".join(cells)}, ratio, day, value,
    case when not share then if(value > 0, value / exp(half / value), value - half)
        when x = 0 then 0 when x = n then {alpha} ** (1 / n)
        else {_beta(-z, "x", "n - x + 1", 0)} end as low,
    case when not share then if(value > 0, value * exp(half / value), value + half)
        when x = n then 1 when x = 0 then 1 - {alpha} ** (1 / n)
        else {_beta(z, "x + 1", "n - x", 1)} end as high
from counted
"""


def tabled(
    rows: str, cells: Sequence[str], ratios: Sequence[Ratio], others: Mapping[str, str]
) -> str:
    """SQL: a row a cell, with each ratio as text: its value and interval.

    others: what else a cell tells, as SQL of all its rows.
    """
    names = ", ".join(cells)
    scales = f"case ratio {' '.join(f'when {literal(r.name)} then {r.scale}' for r in ratios)} end"
    columns = ",\n    ".join(
        f'max(shown || ends) filter (ratio = {literal(r.name)}) as "{r.name}"' for r in ratios
    )
    told = "".join(f",\n        {sql} as {name}" for name, sql in others.items())
    return f"""
with sums as materialized (
    {rows}
), all_cells as (
    select {names}, max(day) as date{told}
    from sums group by {names}
), estimates as ({estimates("select * from sums", cells, ratios)}
), scaled as (
    select {names}, ratio, {scales} as scale, value * scale as told, low * scale as least,
        high * scale as most
    from estimates
), rounded as (
    select *, coalesce({places("nullif((most - least) / 2, 0)", 2)}, {places("told", 3)})
        as decimals
    from scaled
), shown as (
    select {names}, ratio, {text("told", "decimals")} as shown,
        coalesce(' (' || {text("least", "decimals")} || '{NO_BREAK_SPACE}…{NO_BREAK_SPACE}'
            || {text("most", "decimals")} || ')', '') as ends
    from rounded
)
select * from all_cells left join (
    select {names},
    {columns}
    from shown group by {names}
) using ({names})
"""


def sums(
    mart: str, columns: Sequence[str], cells: Mapping[str, str] | None = None, where: str = "true"
) -> str:
    """SQL: sums of a mart's columns by network, peak or off-peak, user_group and cells (by name,
    as SQL), of what a page's filters choose. columns: names, or `SQL as name`."""
    of = "".join(f"{sql} as {name}, " for name, sql in (cells or {}).items())
    parts = [column.rpartition(" as ") for column in columns]
    added = ", ".join(f"sum({sql or name}) as {name}" for sql, _, name in parts)
    return f"""select network, country, access, replace(period, '_', '-') as hours, {of}user_group,
        max(date) as day, {added}
    from {mart} where {where} {CHOSEN} group by all"""


def as_told(name: str, label: str) -> Metric:
    """A column of `tabled`, where a chart groups by its cells."""
    return Metric(name, f'max("{name}")', label, "")
