"""Effects of TCP options, Table III and Figs. 14 to 17."""

from dataclasses import replace

from spark_jobs.figures.charts import bars, table
from spark_jobs.figures.dashboard_parts import Chart, Dataset, Metric, Text, enough_data, label_sql
from spark_jobs.figures.dashboard_sql import FLOWS, KEY_NAMES, KEYS, USER_GROUPS, USERS
from spark_jobs.figures.format import TOO_FEW
from spark_jobs.figures.names import HOURS_SQL
from spark_jobs.figures.numbers import DAY_FILTERS_MARK, FILTERS_MARK
from spark_jobs.figures.table3_clusters.numbers import (
    EFFECT_HEADINGS,
    EFFECTS_CAPTION,
    EFFECTS_SQL,
    EFFECTS_TITLE,
    GOODPUT,
    LABELS,
    NUMBERS,
    OPTION_COLOURS,
    OPTION_FIGURES,
    OPTION_LABELS,
    OPTIONS,
    OTHER_MSS,
    TABLE_ROWS,
    OptionFigure,
)

TAB = "options"
VALUES = [label for _, label in TABLE_ROWS]
COLOURS = OPTION_COLOURS


EFFECTS = Dataset(
    "option_effects",
    f"""
select networks.*, effects.* exclude (access)
from ({EFFECTS_SQL}) as effects
join (
    select network, country, access, max(date) as date
    from table3_clusters where true {DAY_FILTERS_MARK} group by all
) as networks using (access)
""",
    [Metric(name, f"max({name})", label, "") for name, label in EFFECT_HEADINGS.items()],
)


def _clusters(figure: OptionFigure) -> str:
    """Return SQL of goodput by an option's value, in each cluster of other options and in all.

    The column `cluster_flows` is the cluster and the hours, with the number of transfers that have
    each value: a value is compared with the other one in the same hours.
    """
    option = figure.option
    others = " || ', ' || ".join(f'"{name}"' for name in OPTIONS if name != option)
    counts = " || ' / ' || ".join(
        f"format('{{:,}}', coalesce(sum(flows) filter (value = '{name}') over of_cluster, 0)::int)"
        for name in figure.names
    )
    return f"""
select *, cluster || ', ' || hours || ' (n = ' || {counts} || ')' as cluster_flows
from (
    select {KEY_NAMES}, user_group, {USERS}, flows, goodput_sum, goodput_squares,
        '{option}' as option, "{option}" as value, unnest([{others}, 'overall']) as cluster
    from named where "{option}" is not null
) window of_cluster as (partition by cluster, hours)"""


OPTION_COLUMNS = ", ".join(f'{sql} as "{name}"' for name, sql in OPTION_LABELS.items())
GOODPUT_BY_CLUSTER = Dataset(
    "tcp_options",
    f"""
with named as (
    select {KEYS}, {USER_GROUPS}, flows, goodput_sum, goodput_squares, {OPTION_COLUMNS}
    from (select *, {HOURS_SQL} as hours from table3_clusters) where true {FILTERS_MARK}
)
select *, list_position({VALUES}, value) as place
from (
{" union all ".join(map(_clusters, OPTION_FIGURES))}
union all
select {KEY_NAMES}, user_group, {USERS}, flows, goodput_sum, goodput_squares, 'overall', 'overall',
    'overall', 'overall'
from named
)
""",
    [FLOWS, GOODPUT.metric],
)
WITH_OTHER = OPTION_LABELS | {"mss": label_sql(OPTIONS["mss"], LABELS["mss"], f"'{OTHER_MSS}'")}
"""SQL of the label of each option's value."""
BY_CLUSTER = replace(NUMBERS, dimensions=WITH_OTHER)
BY_VALUE = replace(
    NUMBERS,
    source=f"""(select *, unnest([{", ".join([*WITH_OTHER.values(), "'overall'"])}]) as option
    from table3_clusters)""",
    dimensions={"place": f"list_position({VALUES}, option)"},
)
BY_VALUE_TABLE = BY_VALUE.dataset("goodputs", "option", "place")
DEVIATION = Metric(
    "deviation",
    f"case when max(goodput) <> '{TOO_FEW}' then max(deviation) / 1000 end",
    "standard deviation [kbit/s]",
    ",.1f",
)


def _figure(figure: OptionFigure) -> Chart:
    chart = bars(
        f"{figure.title} (n: connections with {' / '.join(figure.names)})",
        GOODPUT_BY_CLUSTER, "cluster_flows", "goodput", "value",
        where=f"option = '{figure.option}' and cluster is not null",
        having=enough_data("flows"), horizontal=True, y_title="Goodput [kbit/s]", height=90,
    )  # fmt: skip
    return replace(chart, one_network=True)


ROWS = [
    [Text(EFFECTS_CAPTION, height=16)],
    [
        table(f"{EFFECTS_TITLE}, with 95 % intervals", EFFECTS, ["access", "comparison"],
              [name for name in EFFECT_HEADINGS if name != "comparison"],
              order="access || place", height=56),
    ],
    [
        table("Table III. Goodput by TCP options, with 95 % intervals",
              replace(BY_VALUE_TABLE, metrics=[*BY_VALUE_TABLE.metrics, DEVIATION]),
              ["network", "option", "hours"], ["goodput", "deviation", "flows", "rated"],
              order="format('{:02d}', place) || network || hours", height=64),
    ],
    [
        bars("Table III. Goodput by TCP options, by network", GOODPUT_BY_CLUSTER, "value",
             "goodput", where="cluster = 'overall'", y_title="Goodput [kbit/s]",
             horizontal=True, height=80),
    ],
    *([_figure(figure)] for figure in OPTION_FIGURES),
    [
        table("Clusters: goodput with 95 % intervals", BY_CLUSTER.dataset("clusters", *OPTIONS),
              ["network", *OPTIONS, "hours"], ["goodput", "flows"], order="-flows", height=64),
    ],
]  # fmt: skip
