"""Means and shares with confidence intervals, as SQL.

A dataset has a row for each group of a table, with the text of each value and its interval. The
interval needs sums by user group, because the values of one user are alike. So a page's filters
must apply before these sums, not to the dataset's rows: `FILTERS_MARK` puts them into its SQL.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.dashboards.parts import Metric, literal
from spark_jobs.report.metrics import MINUS
from spark_jobs.report.page_elements import NO_BREAK_SPACE

FILTERS_MARK = "/* filters */"
"""Mark in a dataset's SQL that becomes the conditions of the page's filters, each with `and`."""
SINCE_MARK = "/* since */ null::date"
"""Mark in a dataset's SQL that becomes a day before all others if dates are selected, else null."""
DATES_MARK = "/* dates */"
"""Mark in a dataset's SQL that becomes the condition of the page's filter of dates."""
NETWORK_PROPERTIES = ("country", "access")
"""Columns with one value for each network: rows grouped by network need no grouping by these."""
FILTER_COLUMNS = ("country", "access", "network", "hours", "hour")

_DATES = (
    "{% set dates = get_time_filter('date', strftime='%Y-%m-%d %H:%M:%S', remove_filter=True) %}"
)
DATES_SQL = (
    _DATES + "{% if dates.from_expr %} and date >= timestamp '{{ dates.from_expr }}'{% endif %}"
    "{% if dates.to_expr %} and date < timestamp '{{ dates.to_expr }}'{% endif %}"
)
TEMPLATES = {
    FILTERS_MARK: DATES_SQL
    + "".join(
        f"{{% for f in get_filters('{column}', remove_filter=True) %}}"
        f" and {column} {{{{ 'not in' if f.op == 'NOT IN' else 'in' }}}}"
        " {{ f.val|where_in }}{% endfor %}"
        for column in FILTER_COLUMNS
    ),
    DATES_MARK: DATES_SQL,
    SINCE_MARK: _DATES + "{% if dates.from_expr or dates.to_expr %}'0001-01-01'::date"
    "{% else %}null::date{% endif %}",
}
"""Superset's template for each mark. Outside Superset the marks are comments and filter nothing."""


def to_superset_template(sql: str) -> str:
    """Return a dataset's SQL with Superset's templates in the place of the marks."""
    for mark, template in TEMPLATES.items():
        sql = sql.replace(mark, template)
    return sql


@dataclass(frozen=True)
class Ratio:
    """Column of a table: the sum of a numerator divided by the sum of a denominator, both as SQL.

    measured: number of samples, as SQL.
    share: the ratio is between 0 and 1.
    scale: factor of the value that is shown.
    """

    name: str
    numerator: str
    denominator: str
    measured: str
    share: bool = False
    scale: float = 1.0


def share_ratio(name: str, part: str, whole: str, measured: str = "flows") -> Ratio:
    """Return a ratio between 0 and 1 that is shown in percent."""
    return Ratio(name, part, whole, measured, share=True, scale=100)


def decimal_places(value: str, digits: int) -> str:
    """Return SQL of the decimal places that show `digits` significant digits; at most four."""
    return (
        f"case when {value} = 0 then 0 else least(greatest("
        f"{digits - 1} - floor(log10(abs({value}))), 0), 4) end::int"
    )


def format_number(value: str, decimals: str) -> str:
    """Return SQL of a number's text with so many decimal places."""
    shown = f"format('{{:,.{{}}f}}', abs({value}), {decimals})"
    return f"if({value} < 0 and regexp_matches({shown}, '[1-9]'), '{MINUS}', '') || {shown}"


def estimates(rows: str, group_columns: Sequence[str], ratios: Sequence[Ratio]) -> str:
    """Return SQL of estimates: a row for each group and ratio, with value, low and high.

    A group with too few samples or users has no row.
    The connection needs the functions of `figures/sql_functions.py`.

    rows: SQL of sums by user_group.
    group_columns: columns of these rows that define the groups.
    """
    properties = [
        name for name in NETWORK_PROPERTIES if "network" in group_columns and name in group_columns
    ]
    keys = ", ".join(name for name in group_columns if name not in properties)
    property_values = "".join(f", any_value({name}) as {name}" for name in properties)
    sums = ",\n        ".join(
        f"sum(({sql})::double) as {part}_{n}"
        for n, r in enumerate(ratios)
        for part, sql in (
            ("numerator", r.numerator),
            ("denominator", r.denominator),
            ("measured", r.measured),
        )
    )
    intervals = ",\n        ".join(
        f"{{'ratio': {literal(r.name)}, 'interval': {'share' if r.share else 'mean'}_interval("
        f"list(numerator_{n}), list(denominator_{n}), list(measured_{n}))}}"
        for n, r in enumerate(ratios)
    )
    return f"""
with summed as (
    select {keys}{property_values}, user_group,
        {sums}
    from ({rows}) group by {keys}, user_group
), intervals as materialized (
    select {keys}{property_values}, unnest([{intervals}]) as estimate
    from summed group by {keys}
)
select {", ".join(group_columns)}, estimate.ratio, unnest(estimate.interval)
from intervals where estimate.interval.value is not null
"""


def estimate_table(
    rows: str,
    group_columns: Sequence[str],
    ratios: Sequence[Ratio],
    other_columns: Mapping[str, str],
) -> str:
    """Return SQL of a table: a row for each group, with each ratio's value and interval as text.

    rows, group_columns: as in `estimates`.
    other_columns: further columns, by name, as SQL over all rows of a group.
    """
    names = ", ".join(group_columns)
    scales = f"case ratio {' '.join(f'when {literal(r.name)} then {r.scale}' for r in ratios)} end"
    columns = ",\n    ".join(
        f'max(shown_value || shown_interval) filter (ratio = {literal(r.name)}) as "{r.name}"'
        for r in ratios
    )
    others = "".join(f",\n        {sql} as {name}" for name, sql in other_columns.items())
    return f"""
with sums as materialized (
    {rows}
), all_groups as (
    select {names}, max(day) as date{others}
    from sums group by {names}
), estimates as ({estimates("select * from sums", group_columns, ratios)}
), scaled as (
    select {names}, ratio, {scales} as scale, value * scale as scaled_value,
        low * scale as scaled_low, high * scale as scaled_high
    from estimates
), rounded as (
    select *, coalesce({decimal_places("nullif((scaled_high - scaled_low) / 2, 0)", 2)},
        {decimal_places("scaled_value", 3)}) as decimals
    from scaled
), shown as (
    select {names}, ratio, {format_number("scaled_value", "decimals")} as shown_value,
        coalesce(' (' || {format_number("scaled_low", "decimals")}
            || '{NO_BREAK_SPACE}…{NO_BREAK_SPACE}'
            || {format_number("scaled_high", "decimals")} || ')', '') as shown_interval
    from rounded
)
select * from all_groups left join (
    select {names},
    {columns}
    from shown group by {names}
) using ({names})
"""


def user_group_sums(
    mart: str,
    columns: Sequence[str],
    group_columns: Mapping[str, str] | None = None,
    where: str = "true",
) -> str:
    """Return SQL of a mart's sums by user_group, of the rows that the page's filters select.

    The sums are by network, peak or off-peak, user_group and group_columns.
    columns: columns to sum: names, or `SQL as name`.
    group_columns: further columns to group by: name and SQL.
    """
    groups = "".join(f"{sql} as {name}, " for name, sql in (group_columns or {}).items())
    parts = [column.rpartition(" as ") for column in columns]
    column_sums = ", ".join(f"sum({sql or name}) as {name}" for sql, _, name in parts)
    return f"""select network, country, access, replace(period, '_', '-') as hours,
        {groups}user_group, max(date) as day, {column_sums}
    from {mart} where {where} {FILTERS_MARK} group by all"""


def text_metric(name: str, label: str) -> Metric:
    """Return a metric that shows a text column of `estimate_table`."""
    return Metric(name, f'max("{name}")', label, "")
