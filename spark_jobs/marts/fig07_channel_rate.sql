-- Fig. 7: at which rates is the channel served, and for how long?
-- One row: the measurement periods of one network, date, local hour and rate, in bins of 1 %.
with periods as (
    select
        channel_rates.network,
        channel_rates.date,
        places.country,
        places.access,
        places.period_of,
        hour(from_utc_timestamp(channel_rates.start_ts, places.timezone)) as hour,
        user_group(channel_rates.user) as user_group,
        cast(floor(100 * ln(channel_rates.rate)) as int) as bin,
        (unix_micros(channel_rates.end_ts) - unix_micros(channel_rates.start_ts)) / 1e6 as seconds,
        channel_rates.ip_bytes
    from channel_rates
    join places on places.network = channel_rates.network
)
select
    network, date, country, access, hour,
    period_of[hour] as period,
    bin,
    count(*) as periods,
    bit_or(shiftleft(1L, user_group)) as user_groups,
    sum(seconds) as seconds,
    sum(ip_bytes) as ip_bytes
from periods
group by all
