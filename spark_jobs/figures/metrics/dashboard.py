"""The page that compares peak with off-peak, as SQL over the mart `metrics`.

The SQL calls the functions of `figures/sql_functions.py` for the sums by user group, so that the
numbers follow the mart, the selected days and the networks that the reader may see.
"""

from dataclasses import replace

from spark_jobs.figures.charts import bars, heat_map, lines, raw_table
from spark_jobs.figures.colours import BAND_COLOURS, BAND_SUFFIXES
from spark_jobs.figures.dashboard_parts import (
    Dataset,
    Metric,
    Text,
    ValueFilter,
    literal,
)
from spark_jobs.figures.dashboard_sql import USER_GROUPS, USERS
from spark_jobs.figures.format import NOT_MEASURED
from spark_jobs.figures.metrics.compare import OFF_PEAK, PEAK
from spark_jobs.figures.metrics.differences import (
    DATES_MARK,
    MEASURES,
    UNITS_CTE,
    judged_sql,
    peak_sums_sql,
    spans_cte,
    values_sql,
)
from spark_jobs.figures.metrics.labels import SHOWN_METRICS
from spark_jobs.figures.metrics.numbers import BY_DAY, QUANTILES
from spark_jobs.figures.names import HOURS_SQL
from spark_jobs.figures.numbers import FILTERS_MARK, PLACE
from spark_jobs.figures.statistics import CONFIDENCE

TAB = "peak"
COLOURS = BAND_COLOURS
SPANS = {"last day": 1, "last 7 days": 7, "last 30 days": 30, "all days": 100_000}
"""Numbers of days to compare, up to the last of the warehouse, if no dates are selected."""
DEFAULT_SPAN = "last 30 days"
DIFFERENCE_HEADING = "difference (95 % interval)"


SPANS_OF_DAYS = Dataset(
    "spans_of_days",
    f"""
select days, network, country, access, null::date as date
from networks, (values {values_sql([(name,) for name in SPANS])}) as spans(days)
""",
    [Metric("spans", "count(*)", "spans", ",d")],
)
BY_SPAN = replace(
    QUANTILES,
    source=f"""(
        with {spans_cte(SPANS.items())}
        select distributions.*, page from distributions join spans on date >= since
        where period in ('peak', 'off_peak') {DATES_MARK}
    )""",
    dimensions={**QUANTILES.dimensions, "in_peak": "period = 'peak'"},
)
"""Medians and 95th percentiles of each span of days."""


def _pair(value: str) -> str:
    """Return SQL of the text of a quantile at peak and off-peak."""
    texts = (
        f"value_text(any_value({value}.value) filter ({condition}), any_value(unit))"
        for condition in ("in_peak", "not in_peak")
    )
    return " || ', ' || ".join(texts) + f' as "{QUANTILE_HEADINGS[value]}"'


QUANTILE_HEADINGS = {value.name: f"{value.label}: at peak, off-peak" for value in QUANTILES.ratios}
QUANTILE_TEXTS = ", ".join(
    f"""coalesce("{heading}", {literal(NOT_MEASURED)}) as "{heading}\" """
    for heading in QUANTILE_HEADINGS.values()
)
QUANTILES_SQL = BY_SPAN.sql("network", "metric", "page", "in_peak").replace(FILTERS_MARK, "")
"""The dashboard's filters are those of the rows of COMPARED."""
COMPARED_SQL = f"""
with {judged_sql(peak_sums_sql(SPANS.items()))}, quantiles as (
    select page, network, metric, {", ".join(map(_pair, QUANTILE_HEADINGS))}
    from ({QUANTILES_SQL}) join units using (metric)
    group by all
)
select page as days, network, country, access, date, place, metric, title,
    title || ' [' || unit || ']' as title_unit, first * scale as peak, second * scale as off_peak,
    difference * scale as difference, low * scale as low, high * scale as high, significant,
    100 * difference / nullif(second, 0) as percent,
    value_text(first, unit) as "at peak", value_text(second, unit) as "off-peak",
    case
        when firsts = 0 then 'nothing to compare: no peak data'
        when seconds = 0 then 'nothing to compare: no off-peak data'
        else difference_text(compared, significant, unit, '{PEAK.name}', '{OFF_PEAK.name}')
    end as sentence,
    if(significant, '● ', '') || sentence as "{DIFFERENCE_HEADING}",
    {QUANTILE_TEXTS}
from judged left join quantiles using (page, network, metric)
"""
COMPARED = Dataset(
    "peak_against_off_peak",
    COMPARED_SQL,
    [
        Metric(
            "percent",
            "sum(percent)",
            "difference [% of off-peak]",
            "+,.0f",
        ),
    ],
)

LAST_DAYS = f"""
    select network, any_value(country) as country, any_value(access) as access,
        max(date) as last_day, unnest([1, 7]) as days
    from metrics where true {DATES_MARK} group by network"""
SUMS_OF_DAYS = f"""with shown as (
        select measures.*, days, last_day, date = last_day as in_first
        from {MEASURES} as measures join ({LAST_DAYS}) as last_days
            on last_days.network = measures.network and date in (last_day, last_day - days)
        where period <> 'other'
    ), hours_of_both as (
        select network, days, hour from shown group by all having count(distinct date) = 2
    )
    select 0 as page, network, country, access, metric, days, {HOURS_SQL} as hours, in_first,
        user_group, max(last_day) as date, sum(measured) as measured, sum(numerator) as numerator,
        sum(denominator) as denominator
    from shown join hours_of_both using (network, days, hour)
    group by all having sum(denominator) > 0"""
"""SQL of the sums of `judged_sql` of each network's last day and of a day before.

Only hours count that both days have: a day whose captures end at noon has no evening.
"""
SINCE_BEFORE = Dataset(
    "days_before",
    f"""
with {judged_sql(SUMS_OF_DAYS, "days", "hours")}
select network, country, access, date, hours, place, days, title as metric,
    if(days = 1, 'the day before', 'the week before') as "compared with",
    value_text(first, unit) as "this day", value_text(second, unit) as "before",
    case when significant then if(difference > 0, '● ▲ ', '● ▼ ') else '' end || case
        when firsts = 0 or seconds = 0 then 'nothing to compare'
        else difference_text(compared, significant, unit, 'on this day', 'before')
    end as "{DIFFERENCE_HEADING}",
    significant
from judged
union all
select network, country, access, last_day, '{NOT_MEASURED}', 0, days, 'every metric',
    if(days = 1, 'the day before', 'the week before'), '{NOT_MEASURED}', '{NOT_MEASURED}',
    'nothing to compare: no data of ' || strftime(last_day - days, '%Y-%m-%d')
        || ' in the same hours', false
from ({LAST_DAYS}) where (network, days) not in (select network, days from judged)
""",
    [Metric("beyond_chance", "count_if(significant)", "differences beyond chance", ",d")],
)
TREND = Dataset(
    "trend",
    f"""
with {UNITS_CTE}, shown as ({BY_DAY.sql(*PLACE, "on_day", "metric")}
), days as (
    select network, country, access, hours, metric,
        unnest(generate_series(min(date), max(date), interval 1 day))::date as date
    from shown group by network, country, access, hours, metric
)
select network, country, access, date, hours, title || ' [' || unit || ']' as metric,
    unnest(['', {", ".join(map(literal, BAND_SUFFIXES))}]) as end_of,
    network || ', ' || hours || end_of as series,
    unnest([value.value, value.value, value.low, value.high]) * scale as value
from days left join shown using (network, country, access, hours, metric, date)
join units using (metric)
""",
    [Metric("value", "max(value)", "value in the unit of the selected metric", ",.3~r")],
)
"""The intervals by day: the four rows of a point are its value, its line and its band's edges.

A day without data has rows without values, so that the line has a gap there.
"""
TREND_SHOWN = Dataset(
    "by_day_shown",
    f"""
with {UNITS_CTE}
select network, any_value(country) as country, any_value(access) as access, max(date) as date,
    title || ' [' || unit || ']' as metric, strftime(min(date), '%Y-%m-%d') as "first day",
    strftime(max(date), '%Y-%m-%d') as "last day"
from metrics join units using (metric) where true {DATES_MARK} group by network, title, unit
""",
    [Metric("shown", "count(*)", "metrics", ",d")],
)

OVER_NETWORK = "over (partition by any_value(network), any_value(metric))"
MEAN = f"sum(sum(numerator)) {OVER_NETWORK} / sum(sum(denominator)) {OVER_NETWORK}"
BY_HOUR = Dataset(
    "by_hour",
    f"""
with {UNITS_CTE}, days as (
    select network, country, access, metric,
        unnest(generate_series(min(date), max(date), interval 1 day))::date as date
    from metrics group by network, country, access, metric
), cells as (
    select network, country, access, metric, date, hour, {HOURS_SQL} as hours,
        {USER_GROUPS}, measured, numerator, denominator
    from metrics
    union all
    select *, unnest(range(24)), null, null, 0, null, 0, 0, null from days
)
select network, date, country, access, hour, hours, format('{{:02d}} h', hour) as local_hour,
    title || ' [' || unit || ']' as metric, user_group, {USERS}, measured,
    numerator * scale as numerator, denominator
from cells join units using (metric)
""",
    [
        Metric(
            "share_of_mean",
            f"{BY_DAY['value'].metric.sql} / ({MEAN})",
            "of the network's mean",
            ".0%",
        ),
    ],
)
TITLES = [shown.axis_title for shown in SHOWN_METRICS.values()]
TEXT = f"""
**Peak against off-peak**, by the local hours of each network.

The chart above shows by how many percent a metric is higher at peak than off-peak. It shows only
differences beyond chance. A network that is missing there has no such difference, or no data to
compare.

● marks the same differences in the table. If nothing differed, a page would show a ● by chance in
fewer than one case in twenty, over all networks and metrics of the compared days. *perhaps* marks
a difference whose own interval excludes zero, but which is not beyond chance among all of these
comparisons. Intervals are {CONFIDENCE:.0%} confidence intervals; they allow for the values of one
user being alike.

The page compares the days of *Dates*, if any are selected. `giscope report --compare` compares any
other two selections, such as the days before and after a change.
"""
BEFORE_TEXT = """
**The last day** of each network (in UTC; of the selected *Dates*, if any), against the day before
and the day a week before, in the local hours that both days have.

● ▲ higher than before, ● ▼ lower: beyond chance among all rows of this table. Those come first.
"""
COMPARISON_TITLE, DIFFERENCES_TITLE, BEFORE_TITLE, SHOWN_TITLE, TREND_TITLE, HOURS_TITLE = (
    "Differences between peak and off-peak",
    "Differences beyond chance [% of off-peak]",
    "Last day of each network, against the day and the week before",
    "Network and metric of the next two charts",
    "Metric by day, at peak and off-peak, with 95 % intervals",
    "Metric by day and local hour [% of the network's mean]",
)
ROWS = [
    [
        replace(
            bars(DIFFERENCES_TITLE, COMPARED, "title", "percent", "network", horizontal=True,
                 descending=True, y_title="Peak minus off-peak [% of off-peak]", height=58,
                 where="significant"),
            description="Differences beyond chance. The chart has no rows if there are none in the "
            "selected networks and days, or nothing to compare: the table below says which."),
    ],
    [
        raw_table(COMPARISON_TITLE, COMPARED,
                  ["access", "network", "title", "at peak", "off-peak", DIFFERENCE_HEADING,
                   *QUANTILE_HEADINGS.values()],
                  order="network, place", height=100, width=9),
        Text(TEXT, height=100),
    ],
    [
        replace(
            raw_table(BEFORE_TITLE, SINCE_BEFORE,
                      ["network", "date", "hours", "metric", "compared with", "this day",
                       "before", DIFFERENCE_HEADING],
                      order="significant desc, network, hours, place, days", height=64, width=9),
            description="The table has no rows if the selected networks have no data on these "
            "days."),
        Text(BEFORE_TEXT, height=64),
    ],
    [
        replace(
            raw_table(SHOWN_TITLE, TREND_SHOWN,
                      ["network", "metric", "first day", "last day"], order="network", height=16),
            one_network=True, description="What the filters select for the two charts below."),
    ],
    [
        replace(
            lines(TREND_TITLE, TREND, "value", by="series", where="hours <> 'other'", height=58),
            one_network=True,
        ),
    ],
    [
        replace(heat_map(HOURS_TITLE, BY_HOUR, "date", "local_hour", "share_of_mean", (0.5, 1.5),
                         height=80),
                one_network=True),
    ],
]  # fmt: skip
FILTERS = [
    ValueFilter("days", "Days compared, if no dates are selected", SPANS_OF_DAYS,
                selected=[DEFAULT_SPAN], single=True,
                charts=[COMPARISON_TITLE, DIFFERENCES_TITLE]),
    ValueFilter("metric", "Metric by day and hour", BY_HOUR, selected=TITLES[:1], single=True,
                charts=[SHOWN_TITLE, TREND_TITLE, HOURS_TITLE]),
]  # fmt: skip
