-- Not a mart: the local hours of the networks, each with a number by which the marts group.
-- One row: an hour of a network's own clock on one date. `local_hour` is its number:
-- `first_local_hour`, which is the number of the date's hour 0, plus the hour. `local_period` is the
-- number of the first hour of the same date and period.
with days as (
    select network, date from flows
    union
    select network, date from quic_flows
    union
    select network, date from links
),
numbered_days as (
    select *, 24 * cast(row_number() over (order by network, date) as int) as first_local_hour
    from days
),
day_hours as (
    select *, unnest(generate_series(0, 23)) as hour
    from numbered_days
),
with_period as (
    select
        day_hours.*,
        period_of(hour, peak_from, peak_until, off_peak_from, off_peak_until) as period
    from day_hours
    left join peak_hours
        on peak_hours.network = day_hours.network
        and peak_hours.date = day_hours.date
)
select
    cast(first_local_hour + hour as int) as local_hour,
    cast(
        first_local_hour + min(hour) over (partition by first_local_hour, period) as int
    ) as local_period,
    first_local_hour,
    with_period.network, date, country, access,
    cast(hour as int) as hour,
    period,
    quarter_offset
from with_period
join network_facts on network_facts.network = with_period.network
