-- Not a mart: the local hours of the networks, each with a number by which the marts group.
-- One row: an hour of a network's own clock on one date. `local_hour` is its number:
-- `first_local_hour`, which is the number of the date's hour 0, plus the hour.
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
)
select
    cast(first_local_hour + hour as int) as local_hour,
    first_local_hour,
    day_hours.network, date, country, access,
    cast(hour as int) as hour,
    period_of(hour, peak_from, peak_until, off_peak_from, off_peak_until) as period,
    quarter_offset
from day_hours
join network_facts on network_facts.network = day_hours.network
