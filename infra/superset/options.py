"""The page of the options of TCP (Table III, Figs. 14 to 17)."""

from infra.superset.charts import bars, table
from infra.superset.colours import paler
from infra.superset.common import FILTERS, FLOWS, KEYS, SERIES, USER_GROUPS, mean_rate
from infra.superset.intervals import Ratio, as_told, sums, tabled
from infra.superset.parts import Chart, Dashboard, Dataset, Metric, enough, labelled, told_if_enough
from spark_jobs.report import table3

OPTIONS = {
    "mss": "mss_class",
    "window": "window_class",
    "sack": "if(sack, 'yes', 'no')",
    "timestamps": "if(timestamps, 'yes', 'no')",
}
"""The options by their names in table3.LABELS, and where the mart has them."""
CLUSTERS = {f'"{name}"': labelled(sql, table3.LABELS[name]) for name, sql in OPTIONS.items()}
NAMED = ",\n    ".join(f"{sql} as {name}" for name, sql in CLUSTERS.items())


OPTIONS_COLOURS = {
    f"{label}, {hours}": paler(colour, 0.5 if hours == "off-peak" else 0.75 * (hours == "other"))
    for name in OPTIONS
    for label, colour in zip(
        table3.LABELS[name].values(), ("#7a6a9b", "#5c7f3b", "#8a5a44", "#555555"), strict=False
    )
    for hours in ("peak", "off-peak", "other")
}
VALUES = [*(label for name in OPTIONS for label in table3.LABELS[name].values()), "overall"]


def _clusters(option: str) -> str:
    """Each value of an option in every cluster of the others, then in all of them."""
    others = " || ', ' || ".join(f'"{name}"' for name in OPTIONS if name != option)
    return f"""
select {SERIES}, user_groups, flows, goodput_sum, goodput_squares, '{option}' as option,
    "{option}" as value, unnest([{others}, 'overall']) as cluster
from named where "{option}" is not null"""


OPTIONS_DATA = Dataset(
    "tcp_options",
    f"""
with named as (
    select {KEYS}, {USER_GROUPS}, flows, goodput_sum, goodput_squares,
    {NAMED}
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
VALUES_OF = ", ".join([*(f'"{name}"' for name in OPTIONS), "'overall'"])
GOODPUTS = Dataset(
    "goodputs",
    tabled(
        f"""select *, list_position({VALUES}, "option") as place
    from (select *, unnest([{VALUES_OF}]) as "option"
        from ({sums("table3_clusters", ["flows", "goodput_sum", "goodput_squares"], CLUSTERS)}))
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
        as_told("goodput", "mean goodput [kbit/s]"),
        Metric(
            "deviation",
            told_if_enough("max(deviation)", "flows"),
            "standard deviation [kbit/s]",
            ",.1f",
        ),
        Metric("flows", "max(flows)", "connections", ",d"),
    ],
)


def _figure(figure: table3.Figure) -> Chart:
    return bars(
        figure.title, OPTIONS_DATA, "cluster", "goodput", "value_hours",
        where=f"option = '{figure.option}' and cluster is not null",
        having=enough("flows"), horizontal=True, y_title="Goodput [kbit/s]", height=90,
    )  # fmt: skip


OPTION_CHARTS = [_figure(figure) for figure in table3.FIGURES]
EFFECTS = Dashboard(
    "Options",
    "giscope-options",
    filters=FILTERS,
    rows=[
        [
            table("Table III. Goodput by TCP options, with 95 % intervals", GOODPUTS,
                  ["network", "option", "hours"], ["goodput", "deviation", "flows"],
                  order="format('{:02d}', place) || network || hours", height=64),
        ],
        [
            bars("Table III. Goodput by TCP options, by network", OPTIONS_DATA, "value",
                 "goodput", "series", where="cluster = 'overall'", y_title="Goodput [kbit/s]",
                 horizontal=True, height=80),
        ],
        *([chart] for chart in OPTION_CHARTS),
    ],
    colours=OPTIONS_COLOURS,
)  # fmt: skip
