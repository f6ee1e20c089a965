-- Not a mart: the periods in which a channel rate was measured, as the marts need them.
-- One row: a period, with its network's facts and the local hour in which it starts.
with placed as (
    select
        channel_rates.network,
        channel_rates.date,
        user_group(channel_rates.user) as user_group,
        places.country,
        places.access,
        places.peak_from,
        places.peak_until,
        places.off_peak_from,
        places.off_peak_until,
        local_hour(channel_rates.start_ts, places.timezone) as hour,
        channel_rates.rate,
        (unix_micros(channel_rates.end_ts) - unix_micros(channel_rates.start_ts)) / 1e6 as seconds,
        channel_rates.ip_bytes
    from channel_rates
    join places on places.network = channel_rates.network
)
select *, period_of(hour, peak_from, peak_until, off_peak_from, off_peak_until) as period
from placed
