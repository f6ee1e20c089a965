"""The key numbers of the Overview: those of each day, and of each network's last day."""

from dataclasses import replace

from spark_jobs.figures.charts import big_number, raw_table
from spark_jobs.figures.dashboard_parts import Dataset, Metric, if_enough_data, literal
from spark_jobs.figures.format import (
    KBITS,
    MEGABYTES,
    NOT_MEASURED,
    NUMBER,
    Unit,
)
from spark_jobs.figures.mart_columns import users_with
from spark_jobs.figures.metrics.differences import DATES_MARK, values_sql
from spark_jobs.figures.metrics.labels import SHOWN_METRICS
from spark_jobs.figures.metrics.numbers import QUANTILES
from spark_jobs.figures.numbers import FILTERS_MARK
from spark_jobs.figures.statistics import enough_sql

KEY_NUMBERS: dict[str, tuple[str, Unit, str]] = {
    "users": ("Users", NUMBER, ",d"),
    "connections": ("TCP connections", NUMBER, ",d"),
    "bytes": ("Traffic [B]", MEGABYTES, ".3~s"),
    **{
        metric: (SHOWN_METRICS[metric].axis_title, SHOWN_METRICS[metric].unit, ",.3~r")
        for metric in ("setup_delay", "rtt_access", "loss_access", "loss_internet")
    },
    "goodput": ("Goodput [kbit/s]", KBITS, ",.3~r"),
}
"""Title, unit and format of each number."""
SHORT_TITLES = {
    "connections": "Connections",
    "rtt_access": "Access RTT [ms]",
    "loss_access": "Access loss [%]",
    "loss_internet": "Internet loss [%]",
}
"""Titles of charts that have no room for the whole ones."""
COUNTS = ("users", "connections", "bytes")
"""Numbers that are sums. The others are means, and need enough samples."""
TERMS_SQL = """
select network, date, country, access, period, user_groups, user_numbers,
    case when metric = 'traffic' then 'bytes' when starts_with(metric, 'users_of') then 'users'
        else metric end as number,
    metric = 'users_of_period' as of_period, metric = 'users_of_day' as of_day, measured,
    if(metric = 'traffic', numerator / 8, numerator) as numerator, denominator
from timeline where metric <> 'users'
"""
"""SQL of the rows of the mart timeline that the numbers are made of."""
BY_DAY = Dataset(
    "key_numbers_by_day",
    f"select * from ({TERMS_SQL}) where not of_period",
    [
        Metric(
            number,
            "sum(numerator)"
            if number in COUNTS
            else if_enough_data(f"{unit.scale} * sum(numerator) / sum(denominator)", "measured"),
            title,
            form,
        )
        for number, (title, unit, form) in KEY_NUMBERS.items()
    ],
)


def _value(condition: str, name: str) -> str:
    """Return SQL of a number's text, of the terms that meet a condition."""
    chosen = f"filter (where {condition})"
    enough = enough_sql(f"sum(measured) {chosen}", users_with(f"if({condition}, measured, 0)"))
    value = f"sum(numerator) {chosen} / coalesce(sum(denominator) {chosen}, 1)"
    return f"""case
        when any_value(unit) = '' and {value} is not null then format('{{:,.0f}}', {value})
        when any_value(is_count) = 1 or {enough} then value_text({value}, any_value(unit))
        else {literal(NOT_MEASURED)}
    end as "{name}\""""


LAST_DAYS = (
    f"select network, max(date) as last_day from timeline where true {DATES_MARK} group by 1"
)
LAST_QUANTILES = replace(
    QUANTILES,
    source=f"""(
        select distributions.* from distributions join ({LAST_DAYS}) as last_days
            on last_days.network = distributions.network and date = last_day
    )""",
)
QUANTILE_TEXTS = ", ".join(
    f"value_text({value.name}.value, coalesce(unit, '')) as \"{value.label}\""
    for value in LAST_QUANTILES.ratios
)
LAST_DAY_SQL = f"""
with units(number, place, title, unit, is_count) as (values {
    values_sql(
        [
            (number, place, title.partition(" [")[0], unit.name, int(number in COUNTS))
            for place, (number, (title, unit, _)) in enumerate(KEY_NUMBERS.items())
        ]
    )
}), last_days as ({LAST_DAYS}), numbers as (
    select network, any_value(country) as country, any_value(access) as access,
        last_day as date, number, any_value(place) as place, any_value(title) as title,
        {_value("date = last_day and not of_period", "last day")},
        {_value("date = last_day - 1 and not of_period", "day before")},
        {_value("date = last_day and not of_day and period = 'peak'", "at peak")},
        {_value("date = last_day and not of_day and period = 'off_peak'", "off-peak")}
    from ({TERMS_SQL}) join last_days using (network) join units using (number)
    where date in (last_day, last_day - 1)
    group by network, last_day, number
), quantiles as (
    {LAST_QUANTILES.sql("network", "metric").replace(FILTERS_MARK, "")}
)
select numbers.*, {QUANTILE_TEXTS}
from numbers join units using (number)
left join quantiles on quantiles.network = numbers.network and quantiles.metric = numbers.number
"""
LAST_DAY = Dataset("key_numbers", LAST_DAY_SQL, [Metric("numbers", "count(*)", "numbers", ",d")])
LAST_DAY_TITLE = "Key numbers of each network's last day"
BIG_NUMBERS = [
    replace(
        big_number(SHORT_TITLES.get(number, title), BY_DAY, number, where=f"number = '{number}'"),
        caption=f"{title}: the last day, and its difference from the day before.",
    )
    for number, (title, _, _) in KEY_NUMBERS.items()
]
ROWS = [
    BIG_NUMBERS[:4],
    BIG_NUMBERS[4:],
    [
        raw_table(LAST_DAY_TITLE, LAST_DAY,
                  ["network", "title", "last day", "day before", "at peak", "off-peak",
                   *(value.label for value in LAST_QUANTILES.ratios)],
                  order="network, place", height=56),
    ],
]  # fmt: skip
