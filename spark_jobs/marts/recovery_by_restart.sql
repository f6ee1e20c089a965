-- Who restarts a transfer after a silence, and how long does it take to recover, above all where the
-- mobile network interrupted the link (Wennström, Brunstrom and Rendón, preemption by calls)?
-- One row: the stalls with data under way of one network, date, local hour, kind of interruption, who
-- ended them, timeout or not, and bin of the time of recovery (10 %).
with placed as (
    select
        stalls.network, stalls.date, country, access,
        peak_from, peak_until, off_peak_from, off_peak_until,
        local_hour(stalls.start_ts, timezone) as hour,
        interruption, ended_by, slow_start, recovery, segments, lost,
        user_group(flows.user) as user_group,
        (unix_micros(stalls.end_ts) - unix_micros(stalls.start_ts)) / 1e6 as seconds
    from stalls
    join flows
        on flows.network = stalls.network
        and flows.date = stalls.date
        and flows.flow_id = stalls.flow_id
    join places on places.network = stalls.network
    where segments > 0
)
select
    network, date, country, access, hour,
    period_of(hour, peak_from, peak_until, off_peak_from, off_peak_until) as period,
    interruption, ended_by, slow_start,
    case
        when recovery is not null then cast(floor(10 * ln(greatest(recovery, 1e-6))) as int)
    end as bin,
    bit_or(nth_bit(user_group)) as user_groups,
    count(*) as stalls,
    sum(seconds) as seconds,
    coalesce(sum(recovery), 0) as recovery_sum,
    sum(segments) as segments,
    coalesce(sum(lost), 0) as lost
from placed
group by all
