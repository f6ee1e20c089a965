-- How long are the servers' retransmission timeouts, by the TCP options, and how much longer than the
-- round trip (Rendón et al., Figs. 4 and 5)?
-- One row: the timeouts of one network, date, local hour, pair of TCP options, bin of the timeout and
-- bin of its ratio to the round trip (10 % each), backed off or not.
with timed as (
    select
        network, date, flow_id, ts, rto, backed_off, null as rtt,
        lead(ts) over (partition by network, date, flow_id order by ts, rto) as until
    from timers
    union all
    select network, date, flow_id, ts, null, null, rtt, null
    from round_trips
    where side = 'access'
),
-- A round trip, and the timeouts until the next, have the same number.
numbered as (
    select
        *,
        count(rtt) over (
            partition by network, date, flow_id
            order by ts, rto is not null, rtt
            rows between unbounded preceding and current row
        ) as trip
    from timed
),
known as (
    select *, max(rtt) over (partition by network, date, flow_id, trip) as latest_rtt
    from numbered
),
placed as (
    select
        known.network, known.date, country, access,
        peak_from, peak_until, off_peak_from, off_peak_until,
        local_hour(known.ts, timezone) as hour,
        sack, timestamps, backed_off, rto,
        rto / nullif(latest_rtt + rtt_internet_min, 0) as ratio,
        user_group(flows.user) as user_group,
        greatest(unix_micros(coalesce(until, end_ts)) - unix_micros(known.ts), 0) / 1e6 as seconds
    from known
    join flows
        on flows.network = known.network
        and flows.date = known.date
        and flows.flow_id = known.flow_id
    join places on places.network = known.network
    where rto is not null
)
select
    network, date, country, access, hour,
    period_of(hour, peak_from, peak_until, off_peak_from, off_peak_until) as period,
    sack, timestamps, backed_off,
    cast(floor(10 * ln(rto)) as int) as bin,
    cast(floor(10 * ln(ratio)) as int) as ratio_bin,
    bit_or(nth_bit(user_group)) as user_groups,
    count(*) as changes,
    sum(seconds) as seconds,
    sum(rto * seconds) as rto_seconds
from placed
group by all
