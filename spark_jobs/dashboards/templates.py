"""Superset's templates for the marks in datasets' SQL: the filters of a page."""

from collections.abc import Iterable

from spark_jobs.figures.metrics.differences import DATES_MARK, SINCE_MARK, SPANS_MARK
from spark_jobs.figures.numbers import DAY_FILTERS_MARK, FILTERS_MARK

DAY_COLUMNS, HOUR_COLUMNS = ("country", "access", "network"), ("hours", "hour")

_DATES = (
    "{% set dates = get_time_filter('date', strftime='%Y-%m-%d %H:%M:%S', remove_filter=True) %}"
)
DATES_SQL = (
    _DATES + "{% if dates.from_expr %} and date >= timestamp '{{ dates.from_expr }}'{% endif %}"
    "{% if dates.to_expr %} and date < timestamp '{{ dates.to_expr }}'{% endif %}"
)


def _values_sql(columns: Iterable[str], moved: bool = True) -> str:
    """Return the conditions of filters; moved: Superset does not apply them to the rows, too."""
    return "".join(
        f"{{% for f in get_filters('{column}', remove_filter={moved}) %}}"
        f" and {column} {{{{ 'not in' if f.op == 'NOT IN' else 'in' }}}}"
        " {{ f.val|where_in }}{% endfor %}"
        for column in columns
    )


TEMPLATES = {
    FILTERS_MARK: DATES_SQL + _values_sql((*DAY_COLUMNS, *HOUR_COLUMNS)),
    DAY_FILTERS_MARK: DATES_SQL + _values_sql(DAY_COLUMNS),
    DATES_MARK: DATES_SQL,
    SPANS_MARK: _values_sql(["days"], moved=False),
    SINCE_MARK: _DATES + "{% if dates.from_expr or dates.to_expr %}'0001-01-01'::date"
    "{% else %}null::date{% endif %}",
}
"""Superset's template for each mark. Outside Superset the marks are comments and filter nothing."""


def to_superset_template(sql: str) -> str:
    """Return a dataset's SQL with Superset's templates in the place of the marks."""
    for mark, template in TEMPLATES.items():
        sql = sql.replace(mark, template)
    return sql
