"""Table III and Figs. 14 to 17."""

from dataclasses import replace

from spark_jobs.figures.charts import bars, table
from spark_jobs.figures.colours import by_hours
from spark_jobs.figures.dashboard_parts import Chart, Dataset, Metric, enough_data
from spark_jobs.figures.dashboard_sql import FLOWS, KEYS, SERIES, USER_GROUPS, USERS
from spark_jobs.figures.format import TOO_FEW
from spark_jobs.figures.table3_clusters.numbers import (
    FIGURES,
    GOODPUT,
    LABELS,
    NUMBERS,
    OPTION_COLOURS,
    OPTION_LABELS,
    OPTIONS,
    Figure,
)

PAGE = "giscope-options"
VALUES = [*(label for name in OPTIONS for label in LABELS[name].values()), "overall"]
COLOURS = by_hours(OPTION_COLOURS)


def _clusters(option: str) -> str:
    """Return SQL of goodput by an option's value, in each cluster of other options and in all."""
    others = " || ', ' || ".join(f'"{name}"' for name in OPTIONS if name != option)
    return f"""
select {SERIES}, user_group, {USERS}, flows, goodput_sum, goodput_squares, '{option}' as option,
    "{option}" as value, unnest([{others}, 'overall']) as cluster
from named where "{option}" is not null"""


OPTION_COLUMNS = ", ".join(f'{sql} as "{name}"' for name, sql in OPTION_LABELS.items())
GOODPUT_BY_CLUSTER = Dataset(
    "tcp_options",
    f"""
with named as (
    select {KEYS}, {USER_GROUPS}, flows, goodput_sum, goodput_squares, {OPTION_COLUMNS}
    from table3_clusters
)
select *, list_position({VALUES}, value) as place, value || ', ' || hours as value_hours
from (
{" union all ".join(map(_clusters, OPTIONS))}
union all
select {SERIES}, user_group, {USERS}, flows, goodput_sum, goodput_squares, 'overall', 'overall',
    'overall'
from named
)
""",
    [FLOWS, GOODPUT.metric],
)
BY_VALUE = replace(
    NUMBERS,
    source=f"""(select *, unnest([{", ".join([*OPTION_LABELS.values(), "'overall'"])}]) as option
    from table3_clusters)""",
    dimensions={"place": f"list_position({VALUES}, option)"},
    where="option is not null",
)
BY_VALUE_TABLE = BY_VALUE.dataset("goodputs", "option", "place")
DEVIATION = Metric(
    "deviation",
    f"case when max(goodput) <> '{TOO_FEW}' then max(deviation) / 1000 end",
    "standard deviation [kbit/s]",
    ",.1f",
)


def _figure(figure: Figure) -> Chart:
    return bars(
        figure.title, GOODPUT_BY_CLUSTER, "cluster", "goodput", "value_hours",
        where=f"option = '{figure.option}' and cluster is not null",
        having=enough_data("flows"), horizontal=True, y_title="Goodput [kbit/s]", height=90,
    )  # fmt: skip


ROWS = [
    [
        table("Table III. Goodput by TCP options, with 95 % intervals",
              replace(BY_VALUE_TABLE, metrics=[*BY_VALUE_TABLE.metrics, DEVIATION]),
              ["network", "option", "hours"], ["goodput", "deviation", "flows"],
              order="format('{:02d}', place) || network || hours", height=64),
    ],
    [
        bars("Table III. Goodput by TCP options, by network", GOODPUT_BY_CLUSTER, "value",
             "goodput", "series", where="cluster = 'overall'", y_title="Goodput [kbit/s]",
             horizontal=True, height=80),
    ],
    *([_figure(figure)] for figure in FIGURES),
]  # fmt: skip
