"""The values of each five minutes, as SQL for the report and the dashboard."""

from spark_jobs.figures.format import NUMBER, Unit
from spark_jobs.figures.mart_columns import USER_COUNT
from spark_jobs.figures.metrics.differences import DATES_MARK, SINCE_MARK, values_sql
from spark_jobs.figures.metrics.labels import SHOWN_METRICS, ShownMetric
from spark_jobs.figures.statistics import enough_sql

TRAFFIC = Unit("Mbit/s", 1e-6 / 300)
COUNTS = {
    "users": ShownMetric("Users with a connection open", NUMBER),
    "connections": ShownMetric("TCP connections that start", NUMBER),
    "traffic": ShownMetric("Traffic, TCP and QUIC, both directions", TRAFFIC),
    "stalls": ShownMetric("Stalls that begin", NUMBER),
}
"""Metrics that are numbers, and 0 in five minutes without a connection."""
SHOWN = {
    **COUNTS,
    **{
        metric: SHOWN_METRICS[metric]
        for metric in (
            "setup_delay", "setup_failed", "loss_access", "loss_internet", "rtt_access",
            "rtt_internet", "goodput",
        )
    },
}  # fmt: skip
"""The metrics in the order in which the pages show them."""
TIMELINE_SQL = f"""
with units(place, metric, is_count, scale) as (values {
    values_sql(
        [
            (place, metric, int(metric in COUNTS), float(shown.unit.scale))
            for place, (metric, shown) in enumerate(SHOWN.items())
        ]
    )
}), last_days as (
    select network, max(date) as last_day from timeline where true {DATES_MARK} group by network
), chosen as (
    select timeline.* from timeline join last_days using (network)
    where slot is not null and date >= coalesce({SINCE_MARK}, last_day) {DATES_MARK}
), days as (
    select network, date, country, access, unnest(range(288)) as slot
    from (select distinct network, date, country, access from chosen)
), captured as (
    select days.* from days semi join ingest_log
        on ingest_log.network = days.network and packets > 0
        and epoch_us(first_ts) < epoch_us(days.date) + 300000000 * (slot + 1)
        and epoch_us(last_ts) >= epoch_us(days.date) + 300000000 * slot
), terms as (
    select network, date, country, access, slot, metric, measured, numerator, denominator,
        user_groups, user_numbers
    from chosen
    union all
    select network, date, country, access, slot, metric, 0, 0, null, 0, null
    from captured, units where is_count = 1
    union all
    select network, date, country, access, slot, metric, 0, null, null, 0, null
    from days, units
)
select network, date, country, access, metric,
    make_timestamp(epoch_us(date) + 300000000 * slot) as time,
    case when any_value(is_count) = 1 or {enough_sql("sum(measured)", USER_COUNT)}
        then any_value(scale) * sum(numerator) / coalesce(sum(denominator), 1) end as value
from terms join units using (metric)
group by all
"""
"""SQL of the values in the shown units, of each network's last day if no dates are selected.

Five minutes without a value are null, a gap. Numbers are 0 in five minutes that a capture covers.
"""
