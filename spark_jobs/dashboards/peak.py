"""The page that compares peak with off-peak, as SQL over the mart `metrics`.

The SQL calls the functions of `figures/sql_functions.py` for the sums by user group, so that the
numbers follow the mart, the selected days and the networks that the reader may see.
"""

from spark_jobs.dashboards.charts import bars, heat_map, lines, raw_table
from spark_jobs.dashboards.colours import BAND_COLOURS, BAND_SUFFIXES
from spark_jobs.dashboards.intervals import (
    DATES_MARK,
    FILTERS_MARK,
    SINCE_MARK,
    Ratio,
    decimal_places,
    estimates,
    format_number,
)
from spark_jobs.dashboards.parts import (
    Dashboard,
    Dataset,
    DateFilter,
    Metric,
    Text,
    ValueFilter,
    if_enough_data,
    literal,
)
from spark_jobs.figures.statistics import (
    CONFIDENCE,
)
from spark_jobs.report.compare import OFF_PEAK, PEAK
from spark_jobs.report.metrics import SHOWN_METRICS
from spark_jobs.report.page_elements import NO_BREAK_SPACE, NOT_MEASURED

SPANS = {"last day": 1, "last 7 days": 7, "last 30 days": 30, "all days": 100_000}
"""Numbers of days to compare, up to the last of the warehouse, if no dates are selected."""
DEFAULT_SPAN = "last 30 days"
DIFFERENCE_HEADING = "difference (95 % interval)"


def _values_sql(rows: list[tuple]) -> str:
    return ",\n        ".join(f"({', '.join(map(literal, row))})" for row in rows)


UNITS = _values_sql(
    [
        (
            place, metric, shown.title, shown.unit.name, shown.unit.step, float(shown.unit.scale),
            shown.unit.more, shown.unit.less,
        )
        for place, (metric, shown) in enumerate(SHOWN_METRICS.items(), 1)
    ]
)  # fmt: skip
UNITS_CTE = f"""units(place, metric, title, unit, step, scale, more, less) as (
    from (values
        {UNITS})
)"""


def _value_with_unit(value: str) -> str:
    number = format_number(value, decimal_places(value, 3))
    return f"coalesce({number} || '{NO_BREAK_SPACE}' || unit, '{NOT_MEASURED}')"


COMPARED_SQL = f"""
with {UNITS_CTE}, spans(days, since) as (
    select days, coalesce({SINCE_MARK}, (select max(date) from metrics) - length::int + 1)
    from (values {_values_sql(list(SPANS.items()))}) as lengths(days, length)
), daily as (
    select network, country, access, metric, period, user_group, date,
        sum(measured) as measured, sum(numerator) as numerator, sum(denominator) as denominator
    from metrics where period in ('peak', 'off_peak') {DATES_MARK} group by all
), user_groups as (
    select days, network, country, access, metric, period, user_group, max(date) as date,
        sum(measured) as measured, sum(numerator) as numerator, sum(denominator) as denominator
    from daily join spans on date >= since group by all having sum(denominator) > 0
), pairs as (
    select days, network, country, access, metric, max(date) as date,
        count(*) filter (period = 'peak') as peaks,
        count(*) filter (period = 'off_peak') as off_peaks,
        difference_interval(list(user_group), list(period = 'peak'), list(numerator),
            list(denominator), list(measured)) as compared
    from user_groups group by all
), differences as materialized (
    select days, network, country, access, metric, date, peaks, off_peaks, unnest(compared)
    from pairs
), limits as (
    select days, limit_of_chance(list(p)) as limit_of_chance from differences group by days
), judged as (
    select *, first - second as difference, coalesce(p < limit_of_chance, false) as significant
    from differences join limits using (days)
), scaled as (
    select * replace (first * scale as first, second * scale as second,
            difference * scale as difference, low * scale as low, high * scale as high),
        100 * difference / nullif(second, 0) as percent
    from judged join units using (metric)
), shown as (
    select *, {decimal_places("((high - low) / 2)", 2)} as places from scaled
), sentences as (
    select days, network, country, access, date, place, metric, title,
        title || ' [' || unit || ']' as title_unit, first as peak, second as off_peak, difference,
        low, high, significant, percent,
        {_value_with_unit("first")} as "at peak",
        {_value_with_unit("second")} as "off-peak",
        case
            when peaks = 0 then 'nothing to compare: no peak data'
            when off_peaks = 0 then 'nothing to compare: no off-peak data'
            when difference is null then 'too few to compare'
            when p is null then 'too few users to say how sure the difference is'
            when not significant and low <= 0 and high >= 0
                then 'no difference beyond chance (' || {format_number("low", "places")} || ' … '
                    || {format_number("high", "places")} || '{NO_BREAK_SPACE}' || step || ')'
            else if(significant, '', 'perhaps ') || {format_number("abs(difference)", "places")}
                || '{NO_BREAK_SPACE}' || step || ' ' || if(difference > 0, more, less)
                || ' {PEAK.name} than {OFF_PEAK.name} ('
                || {format_number("if(difference > 0, low, -high)", "places")} || ' … '
                || {format_number("if(difference > 0, high, -low)", "places")} || ')'
        end as sentence
    from shown
)
select *, if(significant, '● ', '') || sentence as "{DIFFERENCE_HEADING}" from sentences
"""
COMPARED = Dataset(
    "peak_against_off_peak",
    COMPARED_SQL,
    [
        Metric(
            "percent",
            "sum(if(significant, percent, 0))",
            "difference [% of off-peak]",
            "+,.0f",
        ),
    ],
)

BY_DAY = estimates(
    f"""select network, country, access, date, metric, user_group, measured,
    replace(period, '_', '-') as hours, numerator, denominator
    from metrics where true {FILTERS_MARK}""",
    ["network", "country", "access", "date", "metric", "hours"],
    [Ratio("value", "numerator", "denominator", "measured")],
)
TREND = Dataset(
    "trend",
    f"""
with {UNITS_CTE}, shown as ({BY_DAY})
select network, country, access, date, hours, title || ' [' || unit || ']' as metric,
    unnest(['', {", ".join(map(literal, BAND_SUFFIXES))}]) as end_of,
    network || ' ' || hours || end_of as series,
    unnest([value, value, low, high]) * scale as value
from shown join units using (metric)
""",
    [Metric("value", "max(value)", "value in the unit of the selected metric", ",.3~r")],
)
"""The intervals by day: the four rows of a point are its value, its line and its band's edges."""

OVER_NETWORK = "over (partition by any_value(network), any_value(metric))"
MEAN = f"sum(sum(numerator)) {OVER_NETWORK} / sum(sum(denominator)) {OVER_NETWORK}"
BY_HOUR = Dataset(
    "by_hour",
    f"""
with {UNITS_CTE}
select network, date, country, access, hour, replace(period, '_', '-') as hours,
    format('{{:02d}} h', hour) as local_hour, title || ' [' || unit || ']' as metric,
    1::ubigint << user_group as user_groups, measured, numerator * scale as numerator, denominator
from metrics join units using (metric)
""",
    [
        Metric(
            "share_of_mean",
            if_enough_data(f"sum(numerator) / sum(denominator) / ({MEAN})", "measured"),
            "of the network's mean",
            ".0%",
        ),
    ],
)
TITLES = [f"{shown.title} [{shown.unit.name}]" for shown in SHOWN_METRICS.values()]
DAYS = Dataset(
    "days",
    """
select network, date, country, access,
    case when bool_and(passed) then 'published' when bool_and(passed or released is not null)
        then 'released in spite of a failed check' else 'HELD' end as state,
    state = 'HELD' as held,
    coalesce(string_agg(finding, '; ' order by measure) filter (not passed), 'none') as findings,
    max(released) as released
from quality join networks using (network) group by all
""",
    [Metric("checked", "count(*)", "days", ",d")],
)
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
other two selections, such as the days before and after a change. The report (`report.html` in the
warehouse's folder, made by `giscope report`) also shows the time slots in use, and the interval of
every figure.
"""
COMPARISON_TITLE, DIFFERENCES_TITLE, DAYS_TITLE, TREND_TITLE, HOURS_TITLE = (
    "Differences between peak and off-peak",
    "Differences beyond chance [% of off-peak]",
    "Days: held days first, then the newest",
    "Metric by day, at peak and off-peak, with 95 % intervals",
    "Metric by day and local hour [% of the network's mean]",
)
PEAK_PAGE = Dashboard(
    "Peak against off-peak",
    "giscope-peak",
    rows=[
        [
            bars(DIFFERENCES_TITLE, COMPARED, "title", "percent", "network", horizontal=True,
                 descending=True, y_title="Peak minus off-peak [% of off-peak]", height=58,
                 width=7),
            raw_table(DAYS_TITLE, DAYS, ["date", "network", "state", "findings"],
                      order="held, date", height=58),
        ],
        [
            raw_table(COMPARISON_TITLE, COMPARED,
                      ["access", "network", "title", "at peak", "off-peak", DIFFERENCE_HEADING],
                      order="network, place", height=100, width=9),
            Text(TEXT, height=100),
        ],
        [lines(TREND_TITLE, TREND, "value", where="hours <> 'other'", height=58)],
        [heat_map(HOURS_TITLE, BY_HOUR, "date", "local_hour", "share_of_mean", height=80)],
    ],
    filters=[
        DateFilter(),
        ValueFilter("days", "Days compared, if no dates are selected", COMPARED,
                    selected=[DEFAULT_SPAN], single=True,
                    charts=[COMPARISON_TITLE, DIFFERENCES_TITLE]),
        ValueFilter("country", "Country", DAYS,
                    charts=[COMPARISON_TITLE, DIFFERENCES_TITLE, DAYS_TITLE]),
        ValueFilter("access", "Access", DAYS,
                    charts=[COMPARISON_TITLE, DIFFERENCES_TITLE, DAYS_TITLE]),
        ValueFilter("network", "Network", DAYS, narrowed_by=("country", "access"),
                    charts=[COMPARISON_TITLE, DIFFERENCES_TITLE, DAYS_TITLE]),
        ValueFilter("metric", "Metric by day and hour", BY_HOUR, selected=TITLES[:1], single=True,
                    charts=[TREND_TITLE, HOURS_TITLE]),
        ValueFilter("network", "Network by day and hour", DAYS, single=True, select_first=True,
                    charts=[TREND_TITLE, HOURS_TITLE], key="drawn"),
    ],
    colours=BAND_COLOURS,
)  # fmt: skip
