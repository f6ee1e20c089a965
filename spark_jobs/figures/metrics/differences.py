"""Differences between two halves of the mart `metrics`, as SQL, for the report and the dashboards.

The SQL calls the functions of `figures/sql_functions.py` for the sums by user group.
"""

from collections.abc import Iterable

from spark_jobs.figures.dashboard_parts import literal
from spark_jobs.figures.mart_columns import common_user_group
from spark_jobs.figures.metrics.labels import SHOWN_METRICS

MEASURES = f"(select * replace ({common_user_group('metrics')} as user_group) from metrics)"
"""The mart `metrics`, with the same kind of user groups on all days of a network."""
SINCE_MARK = "/* since */ null::date"
"""Mark in a dataset's SQL that becomes a day before all others if dates are selected, else null."""
SPANS_MARK = "/* spans */"
"""Mark in a dataset's SQL that becomes the condition of the dashboard's filter of spans of days."""
DATES_MARK = "/* dates */"
"""Mark in a dataset's SQL that becomes the condition of the page's filter of dates."""


def values_sql(rows: list[tuple]) -> str:
    """Return rows of literals, for `values`."""
    return ",\n        ".join(f"({', '.join(map(literal, row))})" for row in rows)


UNITS = values_sql(
    [
        (place, metric, shown.title, shown.unit.name, float(shown.unit.scale))
        for place, (metric, shown) in enumerate(SHOWN_METRICS.items(), 1)
    ]
)
UNITS_CTE = f"""units(place, metric, title, unit, scale) as (
    from (values
        {UNITS})
)"""


def judged_sql(sums: str, *keys: str) -> str:
    """Return common table expressions, the last of them `judged`: differences between two halves.

    sums: SQL of rows with user group, `in_first`, measured, numerator and denominator, by page,
    network, country, access, date, metric and the columns `keys`. A difference beyond chance is one
    among all of its `page`.
    """
    by = ", ".join(["page", "network", "country", "access", "metric", *keys])
    return f"""
{UNITS_CTE}, user_groups as (
    {sums}
), pairs as (
    select {by}, max(date) as date,
        count(*) filter (in_first) as firsts, count(*) filter (not in_first) as seconds,
        difference_interval(list(user_group), list(in_first), list(numerator),
            list(denominator), list(measured)) as compared
    from user_groups group by all
), differences as materialized (
    select * exclude (compared), compared, unnest(compared) from pairs
), limits as (
    select page, limit_of_chance(list(p)) as limit_of_chance from differences group by page
), judged as (
    select *, first - second as difference, coalesce(p < limit_of_chance, false) as significant
    from differences join limits using (page) join units using (metric)
)"""


def spans_cte(spans: Iterable[tuple[str, int]]) -> str:
    """Return a common table expression of spans of days: the name and the first day of each."""
    return f"""spans(page, since) as (
        select days, coalesce({SINCE_MARK}, (select max(date) from metrics) - length::int + 1)
        from (values {values_sql(list(spans))}) as lengths(days, length) where true {SPANS_MARK}
    )"""


def peak_sums_sql(spans: Iterable[tuple[str, int]]) -> str:
    """Return SQL of the sums of `judged_sql` at peak and off-peak, with a page for each span."""
    return f"""with {spans_cte(spans)}, daily as (
        select network, country, access, metric, period, user_group, date,
            sum(measured) as measured, sum(numerator) as numerator, sum(denominator) as denominator
        from {MEASURES} where period in ('peak', 'off_peak') {DATES_MARK} group by all
    )
    select page, network, country, access, metric, period = 'peak' as in_first, user_group,
        max(date) as date, sum(measured) as measured, sum(numerator) as numerator,
        sum(denominator) as denominator
    from daily join spans on date >= since group by all having sum(denominator) > 0"""
