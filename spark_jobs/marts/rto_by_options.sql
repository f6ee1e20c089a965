-- How long are the servers' retransmission timeouts, by the TCP options, and how much longer than the
-- round trip (Rendón et al., Figs. 4 and 5)?
-- One row: the timeouts of one network, date, local hour, pair of TCP options, bin of the timeout and
-- bin of its ratio to the round trip (10 % each), backed off or not.
with timed as (
    select network, date, flow_id, ts, rto, backed_off, null as rtt
    from timers
    union all
    select network, date, flow_id, ts, null, null, rtt
    from round_trips
    where side = 'access'
),
known as (
    select
        *,
        last(rtt ignore nulls) over (
            partition by network, date, flow_id order by ts, rto is not null, rtt, rto
            rows between unbounded preceding and current row
        ) as latest_rtt,
        first(if(rto is null, null, ts) ignore nulls) over (
            partition by network, date, flow_id order by ts, rto is not null, rtt, rto
            rows between 1 following and unbounded following
        ) as until
    from timed
),
timed_flows as (
    select
        flows.network, flows.date, flow_id, country, access, timezone,
        peak_from, peak_until, off_peak_from, off_peak_until,
        sack, timestamps, rtt_internet_min, end_ts,
        user_group(flows.user) as user_group
    from flows
    join places on places.network = flows.network
),
placed as (
    select
        known.network, known.date, country, access,
        peak_from, peak_until, off_peak_from, off_peak_until,
        local_hour(known.ts, timezone) as hour,
        sack, timestamps, backed_off, rto, user_group,
        rto / nullif(latest_rtt + rtt_internet_min, 0) as ratio,
        greatest(unix_micros(coalesce(until, end_ts)) - unix_micros(known.ts), 0) / 1e6 as seconds
    from known
    join timed_flows
        on timed_flows.network = known.network
        and timed_flows.date = known.date
        and timed_flows.flow_id = known.flow_id
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
