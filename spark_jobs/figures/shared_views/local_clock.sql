-- Not a mart: the local hour in each quarter hour of UTC. A time zone differs from UTC by whole
-- quarter hours.
-- One row: a quarter hour of a network, from a day before its first date to two days after the
-- start of its last date or after its last packet. `local_quarter` is its number: the network's
-- `quarter_offset` plus the number of the quarter hour since 1970.
with dates as (
    select
        network,
        cast(min(date) as timestamp) as first_day,
        cast(max(date) as timestamp) as last_day
    from local_hours
    group by network
),
last_packets as (
    select network, max(end_ts) as end_ts
    from flows
    group by network
),
bounds as (
    select
        dates.network,
        quarter_hour(first_day) - 96 as first_quarter,
        greatest(quarter_hour(last_day), coalesce(quarter_hour(end_ts), 0)) + 192 as last_quarter
    from dates
    left join last_packets on last_packets.network = dates.network
),
quarters as (
    select network, unnest(generate_series(first_quarter, last_quarter)) as quarter
    from bounds
)
select
    quarter_offset + quarter as local_quarter,
    local_hour_of(quarter_begin(quarter), timezone) as hour
from quarters
join network_facts on network_facts.network = quarters.network
