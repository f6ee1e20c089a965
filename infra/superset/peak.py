"""What peak and off-peak differ in, as SQL over the mart `metrics`: as the report has it.

`estimators/differences.py` says how sure a difference is; this is the same in SQL, so that it is
made anew with the mart and for whoever asks: ratios of sums, errors robust to what a group of users
has being alike (CR1), Student's t, and which differences are beyond chance (Holm 1979).
"""

import numpy as np
from scipy import stats

from infra.superset.charts import bars, heat_map, lines, listed
from infra.superset.colours import BANDS_COLOURS, ENDS
from infra.superset.intervals import (
    CHOSEN,
    DATES_CHOSEN,
    SINCE,
    Ratio,
    estimates,
    places,
    polynomial,
    students_t,
    text,
)
from infra.superset.parts import (
    Choice,
    Dashboard,
    Dataset,
    Dates,
    Metric,
    Text,
    literal,
    told_if_enough,
)
from spark_jobs.estimators.by_user import CONFIDENCE, MIN_SAMPLES, MIN_USERS
from spark_jobs.estimators.differences import MIN_GROUPS_FOR_INTERVAL
from spark_jobs.report.compare import OFF_PEAK, PEAK
from spark_jobs.report.metrics import SHOWN_METRICS
from spark_jobs.report.page_elements import NO_BREAK_SPACE, NOT_MEASURED

SPANS = {"last day": 1, "last 7 days": 7, "last 30 days": 30, "all days": 100_000}
"""Days up to the warehouse's last that are compared, if no dates are chosen."""
SHOWN_SPAN = "last 30 days"
DIFFERS = "what differs (95 % interval)"


def _rows(rows: list[tuple]) -> str:
    return ",\n        ".join(f"({', '.join(map(literal, row))})" for row in rows)


UNITS = _rows(
    [
        (
            place, metric, shown.title, shown.unit.name, shown.unit.step, float(shown.unit.scale),
            shown.unit.more, shown.unit.less,
        )
        for place, (metric, shown) in enumerate(SHOWN_METRICS.items(), 1)
    ]
)  # fmt: skip
WITH_UNITS = f"""units(place, metric, title, unit, step, scale, more, less) as (
    from (values
        {UNITS})
)"""


def _normal(t: str, freedom: str) -> str:
    """The normal deviate that is as unlikely as a t: of two degrees of freedom and more by Hill
    (1970, Algorithm 395); below, by the probability, whose logarithm lies between those of one and
    of two, which are known."""
    a = f"({freedom} - 0.5)"
    w = f"({a} * ln(1 + {t} ** 2 / {freedom}))"
    b = f"(48 * {a} ** 2)"
    series = f"((-0.4 * {w} - 3.3) * {w} - 24) * {w} - 85.5"
    hill = f"sqrt({w}) * (1 + ({w} + 3 + ({series}) / (0.8 * {w} ** 2 + 100 + {b})) / {b})"
    one = f"ln(atan(1 / {t}) / pi())"
    two = f"-ln(2 + {t} ** 2 + {t} * sqrt(2 + {t} ** 2))"
    between = f"(2 - {freedom}) * {one} + ({freedom} - 1) * {two}"
    return f"case when {freedom} < 2 then {_beyond(between)} else {hill} end"


def _beyond(logarithm: str) -> str:
    """The normal deviate exceeded with a probability below a half, by its logarithm; nearly a
    polynomial of the root (error below 0.00001)."""
    roots = np.linspace(1.17, 8, 2000)
    deviates = stats.norm.isf(np.exp(-(roots**2) / 2))
    return polynomial(roots, deviates, 9, f"sqrt(-2 * ({logarithm}))")


def _value(value: str) -> str:
    return (
        f"coalesce({text(value, places(value, 3))} || '{NO_BREAK_SPACE}' || unit, '{NOT_MEASURED}')"
    )


COMPARED_SQL = f"""
with {WITH_UNITS}, spans(days, since) as (
    select days, coalesce({SINCE}, (select max(date) from metrics) - length::int + 1)
    from (values {_rows(list(SPANS.items()))}) as lengths(days, length)
), daily as (
    select network, country, access, metric, period, user_group, date,
        sum(measured) as measured, sum(numerator) as numerator, sum(denominator) as denominator
    from metrics where period in ('peak', 'off_peak') {DATES_CHOSEN} group by all
), groups as (
    select days, network, country, access, metric, period, user_group, max(date) as date,
        sum(measured) as measured, sum(numerator) as numerator, sum(denominator) as denominator
    from daily join spans on date >= since group by all having sum(denominator) > 0
), halves as (
    -- telling: as many equal groups of users would tell as much
    select days, network, country, access, metric, period, max(date) as date,
        count(*) as groups, sum(denominator) as whole, sum(numerator) / sum(denominator) as ratio,
        if(sum(measured) >= {MIN_SAMPLES} and count(*) >= {MIN_USERS}, ratio, null) as value,
        sum(denominator) ** 2 / sum(denominator ** 2) as telling
    from groups group by all
), scores as (
    -- what each group of users adds to the difference
    select days, network, metric, user_group,
        sum(if(period = 'peak', 1, -1) * (numerator - ratio * denominator) / whole) as score
    from groups join halves using (days, network, metric, period)
    group by all
), errors as (
    select days, network, metric, count(*) as clusters, sum(score ** 2) as squares
    from scores group by all
), pairs as (
    select days, network, country, access, metric, max(date) as date, sum(groups) as n,
        count(*) filter (period = 'peak') as peaks,
        count(*) filter (period = 'off_peak') as off_peaks,
        max(value) filter (period = 'peak') as first,
        max(value) filter (period = 'off_peak') as second,
        min(groups) as fewest, greatest(min(telling) - 1, 1) as freedom
    from halves group by all
), rough as (
    -- one or two halves, so two rows or more: the correction for few groups is CR1
    select *, first - second as difference,
        sqrt(squares * clusters / (clusters - 1) * (n - 1) / (n - 2)) as rough
    from pairs join errors using (days, network, metric)
), certain as (
    select *, if(peaks = 1 and off_peaks = 1 and difference is not null
        and fewest >= {MIN_GROUPS_FOR_INTERVAL} and rough > 0, rough, null) as error
    from rough
), tested as (
    select *, error * {students_t()} as reach, abs(difference) / error as t from certain
), differences as (
    select *, {_normal("t", "freedom")} as deviate from tested
), ranked as (
    -- how many of a page's differences are as likely to be chance, or less
    select *, row_number() over (partition by days order by deviate desc nulls last) as rank,
        count(deviate) over (partition by days) as told
    from differences
), ordered as (
    select *, {_beyond(f"ln({(1 - CONFIDENCE) / 2:.5g} / greatest(told - rank + 1, 1))")}
        as limit_of_chance
    from ranked
), judged as (
    select *, error is not null and bool_and(coalesce(deviate >= limit_of_chance,
        false)) over (partition by days order by rank) as claimed
    from ordered
), scaled as (
    select * exclude (first, second, difference, reach),
        first * scale as first, second * scale as second, difference * scale as difference,
        (difference - reach) * scale as low, (difference + reach) * scale as high,
        100 * difference / nullif(second, 0) as percent
    from judged join units using (metric)
), shown as (
    select *, {places("((high - low) / 2)", 2)} as places from scaled
), told as (
    select days, network, country, access, date, place, metric, title,
        title || ' [' || unit || ']' as title_unit, first as peak, second as off_peak, difference,
        low, high, claimed, percent,
        {_value("first")} as "at peak",
        {_value("second")} as "off-peak",
        case
            when peaks = 0 then 'nothing to compare: no peak data'
            when off_peaks = 0 then 'nothing to compare: no off-peak data'
            when difference is null then 'too few to compare'
            when error is null then 'too few users to say how sure the difference is'
            when not claimed and low <= 0 and high >= 0
                then 'no difference beyond chance (' || {text("low", "places")} || ' … '
                    || {text("high", "places")} || '{NO_BREAK_SPACE}' || step || ')'
            else if(claimed, '', 'perhaps ') || {text("abs(difference)", "places")}
                || '{NO_BREAK_SPACE}' || step || ' ' || if(difference > 0, more, less)
                || ' {PEAK.name} than {OFF_PEAK.name} ('
                || {text("if(difference > 0, low, -high)", "places")} || ' … '
                || {text("if(difference > 0, high, -low)", "places")} || ')'
        end as sentence
    from shown
)
select *, if(claimed, '● ', '') || sentence as "{DIFFERS}" from told
"""
COMPARED = Dataset(
    "peak_against_off_peak",
    COMPARED_SQL,
    [
        Metric(
            "percent",
            "sum(if(claimed, percent, 0))",
            "difference in % of off-peak",
            "+,.0f",
        ),
    ],
)

BY_DAY = estimates(
    f"""select network, country, access, date, date as day, metric, user_group, measured,
    replace(period, '_', '-') as hours, numerator, denominator from metrics where true {CHOSEN}""",
    ["network", "country", "access", "date", "metric", "hours"],
    [Ratio("value", "numerator", "denominator", "measured")],
)
TREND = Dataset(
    "trend",
    f"""
with {WITH_UNITS}, shown as ({BY_DAY})
select network, country, access, date, hours, title || ' [' || unit || ']' as metric,
    unnest(['', {", ".join(map(literal, ENDS))}]) as end_of,
    network || ' ' || hours || end_of as series,
    unnest([value, value, low, high]) * scale as value
from shown join units using (metric)
""",
    [Metric("value", "max(value)", "in the unit of the metric at the left", ",.3~r")],
)
"""Superset draws a point, a line and a band."""

ALL_SHOWN = "over (partition by any_value(network), any_value(metric))"
MEAN = f"sum(sum(numerator)) {ALL_SHOWN} / sum(sum(denominator)) {ALL_SHOWN}"
BY_HOUR = Dataset(
    "by_hour",
    f"""
with {WITH_UNITS}
select network, date, country, access, hour, replace(period, '_', '-') as hours,
    format('{{:02d}} h', hour) as local_hour, title || ' [' || unit || ']' as metric,
    1::ubigint << user_group as user_groups, measured, numerator * scale as numerator, denominator
from metrics join units using (metric)
""",
    [
        Metric(
            "part_of_mean",
            told_if_enough(f"sum(numerator) / sum(denominator) / ({MEAN})", "measured"),
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
        then 'released in spite of a failed check' else 'HELD BACK' end as state,
    state = 'HELD BACK' as held,
    coalesce(string_agg(finding, '; ' order by measure) filter (not passed), 'nothing') as amiss,
    max(released) as released
from quality join networks using (network) group by all
""",
    [Metric("checked", "count(*)", "days", ",d")],
)
TEXT = f"""
**Peak against off-peak**, by each network's own local hours. Above: by how many per cent a metric
is higher at peak, of differences beyond chance only; a network that is not there differs in
nothing, or has nothing to compare. ● marks the same differences below: chance alone would show one
on fewer than one page in twenty, all networks and metrics of its days taken together. Where it is
said *perhaps*, the interval alone leaves out nothing. Intervals are of {CONFIDENCE:.0%} and allow
for what one user has being alike.
What is compared is the days of *Dates*, if any are chosen. Every other selection, before and after
a change say, is compared by `giscope report --compare`; the report (`report.html` in the
warehouse's folder, made by `giscope report`) also has time slots in use and intervals of every
figure.
"""
COMPARISON, GLANCE, STATES, TRENDS, MAP = (
    "What differs between peak and off-peak",
    "Differences beyond chance, in % of off-peak",
    "Days: held back first, then the newest",
    "Day by day, at peak and off-peak, with 95 % intervals",
    "Hour by hour, in % of the network's mean",
)
PEAK_PAGE = Dashboard(
    "Peak against off-peak",
    "giscope-peak",
    rows=[
        [
            bars(GLANCE, COMPARED, "title", "percent", "network", horizontal=True, descending=True,
                 y_title="Peak less off-peak, in % of off-peak", height=58, width=7),
            listed(STATES, DAYS, ["date", "network", "state", "amiss"],
                   order="held, date", height=58),
        ],
        [
            listed(COMPARISON, COMPARED,
                   ["access", "network", "title", "at peak", "off-peak", DIFFERS],
                   order="network, place", height=100, width=9),
            Text(TEXT, height=100),
        ],
        [lines(TRENDS, TREND, "value", where="hours <> 'other'", height=58)],
        [heat_map(MAP, BY_HOUR, "date", "local_hour", "part_of_mean", height=80)],
    ],
    filters=[
        Dates(),
        Choice("days", "Days compared, if no dates are chosen", COMPARED, chosen=[SHOWN_SPAN],
               single=True, charts=[COMPARISON, GLANCE]),
        Choice("country", "Country", DAYS, charts=[COMPARISON, GLANCE, STATES]),
        Choice("access", "Access", DAYS, charts=[COMPARISON, GLANCE, STATES]),
        Choice("network", "Network", DAYS, narrowed_by=("country", "access"),
               charts=[COMPARISON, GLANCE, STATES]),
        Choice("metric", "Metric by day and hour", BY_HOUR, chosen=TITLES[:1], single=True,
               charts=[TRENDS, MAP]),
        Choice("network", "Network by day and hour", DAYS, single=True, first=True,
               charts=[TRENDS, MAP], key="drawn"),
    ],
    colours=BANDS_COLOURS,
)  # fmt: skip
