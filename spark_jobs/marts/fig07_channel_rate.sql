-- Fig. 7: at which rates is the channel served, and for how long?
-- One row: the measurement periods of one network, date, local hour and rate, in bins of 1 %.
with periods as (
    select
        channel_rates.network,
        channel_rates.date,
        networks.country,
        networks.access,
        hour(from_utc_timestamp(channel_rates.start_ts, networks.timezone)) as hour,
        networks.peak_from, networks.peak_until, networks.off_peak_from, networks.off_peak_until,
        cast(floor(100 * ln(channel_rates.rate)) as int) as bin,
        (unix_micros(channel_rates.end_ts) - unix_micros(channel_rates.start_ts)) / 1e6 as seconds,
        channel_rates.ip_bytes
    from channel_rates
    join networks on networks.network = channel_rates.network
)
select
    network, date, country, access, hour,
    case
        when hour >= peak_from and hour < peak_until then 'peak'
        when hour >= off_peak_from and hour < off_peak_until then 'off_peak'
        else 'other'
    end as period,
    bin,
    count(*) as periods,
    sum(seconds) as seconds,
    sum(ip_bytes) as ip_bytes
from periods
group by all
