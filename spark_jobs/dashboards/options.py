"""The page on TCP options (Table III, Figs. 14 to 17)."""

from spark_jobs.dashboards.charts import bars, table
from spark_jobs.dashboards.colours import paler
from spark_jobs.dashboards.common import FILTERS, FLOWS, KEYS, SERIES, USER_GROUPS, mean_rate
from spark_jobs.dashboards.intervals import Ratio, estimate_table, text_metric, user_group_sums
from spark_jobs.dashboards.parts import (
    Chart,
    Dashboard,
    Dataset,
    Metric,
    enough_data,
    if_enough_data,
    label_sql,
)
from spark_jobs.report import table3

OPTIONS = {
    "mss": "mss_class",
    "window": "window_class",
    "sack": "if(sack, 'yes', 'no')",
    "timestamps": "if(timestamps, 'yes', 'no')",
}
"""SQL of each option's value in the mart, by the option's name in table3.LABELS."""
OPTION_COLUMNS = {f'"{name}"': label_sql(sql, table3.LABELS[name]) for name, sql in OPTIONS.items()}
OPTION_COLUMNS_SQL = ",\n    ".join(f"{sql} as {name}" for name, sql in OPTION_COLUMNS.items())


OPTION_COLOURS = {
    f"{label}, {hours}": paler(colour, 0.5 if hours == "off-peak" else 0.75 * (hours == "other"))
    for name in OPTIONS
    for label, colour in zip(
        table3.LABELS[name].values(), ("#7a6a9b", "#5c7f3b", "#8a5a44", "#555555"), strict=False
    )
    for hours in ("peak", "off-peak", "other")
}
VALUES = [*(label for name in OPTIONS for label in table3.LABELS[name].values()), "overall"]


def _clusters(option: str) -> str:
    """Return SQL of goodput by an option's value, in each cluster of other options and in all."""
    others = " || ', ' || ".join(f'"{name}"' for name in OPTIONS if name != option)
    return f"""
select {SERIES}, user_groups, flows, goodput_sum, goodput_squares, '{option}' as option,
    "{option}" as value, unnest([{others}, 'overall']) as cluster
from named where "{option}" is not null"""


GOODPUT_BY_CLUSTER = Dataset(
    "tcp_options",
    f"""
with named as (
    select {KEYS}, {USER_GROUPS}, flows, goodput_sum, goodput_squares,
    {OPTION_COLUMNS_SQL}
    from table3_clusters
)
select *, list_position({VALUES}, value) as place, value || ', ' || hours as value_hours
from (
{" union all ".join(map(_clusters, OPTIONS))}
union all
select {SERIES}, user_groups, flows, goodput_sum, goodput_squares, 'overall', 'overall',
    'overall'
from named
)
""",
    [
        FLOWS,
        mean_rate("goodput", "mean goodput"),
    ],
)


DEVIATION = (
    "sqrt(greatest(sum(goodput_squares) - sum(goodput_sum) ^ 2 / sum(flows), 0)"
    " / nullif(sum(flows) - 1, 0)) / 1000"
)
VALUE_COLUMNS = ", ".join([*(f'"{name}"' for name in OPTIONS), "'overall'"])
GOODPUT_SUMS = user_group_sums(
    "table3_clusters", ["flows", "goodput_sum", "goodput_squares"], OPTION_COLUMNS
)
GOODPUT_TABLE = Dataset(
    "goodputs",
    estimate_table(
        f"""select *, list_position({VALUES}, "option") as place
    from (select *, unnest([{VALUE_COLUMNS}]) as "option"
        from ({GOODPUT_SUMS}))
    where "option" is not null""",
        ["network", "country", "access", "hours", '"option"', "place"],
        [Ratio("goodput", "goodput_sum", "flows", "flows", scale=1e-3)],
        {
            "flows": "sum(flows)",
            "user_groups": "bit_or(1::ubigint << user_group)",
            "deviation": DEVIATION,
        },
    ),
    [
        text_metric("goodput", "mean goodput [kbit/s]"),
        Metric(
            "deviation",
            if_enough_data("max(deviation)", "flows"),
            "standard deviation [kbit/s]",
            ",.1f",
        ),
        Metric("flows", "max(flows)", "connections", ",d"),
    ],
)


def _figure(figure: table3.Figure) -> Chart:
    return bars(
        figure.title, GOODPUT_BY_CLUSTER, "cluster", "goodput", "value_hours",
        where=f"option = '{figure.option}' and cluster is not null",
        having=enough_data("flows"), horizontal=True, y_title="Goodput [kbit/s]", height=90,
    )  # fmt: skip


OPTION_CHARTS = [_figure(figure) for figure in table3.FIGURES]
OPTIONS_PAGE = Dashboard(
    "Options",
    "giscope-options",
    filters=FILTERS,
    rows=[
        [
            table("Table III. Goodput by TCP options, with 95 % intervals", GOODPUT_TABLE,
                  ["network", "option", "hours"], ["goodput", "deviation", "flows"],
                  order="format('{:02d}', place) || network || hours", height=64),
        ],
        [
            bars("Table III. Goodput by TCP options, by network", GOODPUT_BY_CLUSTER, "value",
                 "goodput", "series", where="cluster = 'overall'", y_title="Goodput [kbit/s]",
                 horizontal=True, height=80),
        ],
        *([chart] for chart in OPTION_CHARTS),
    ],
    colours=OPTION_COLOURS,
)  # fmt: skip
