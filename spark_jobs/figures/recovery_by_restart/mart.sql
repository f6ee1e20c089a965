-- Who restarts a transfer after a silence, and how long does the recovery take, above all after the
-- mobile network interrupted the link (Wennström, Brunstrom and Rendón, preemption by calls)?
-- One row: the stalls with data in flight of one network, date, local hour, kind of interruption,
-- end that restarted the transfer, by an RTO expiry or not, and bin of the recovery time (10 %).
-- Groups: hour, interruption, ended_by, slow_start
with starting as (
    select *, quarter_hour(start_ts) as quarter
    from stalls
    where segments > 0
),
located_stalls as (
    select
        first_local_hour + hour as local_hour,
        interruption, ended_by, slow_start, recovery, segments, lost,
        user_group, user_bit,
        epoch_us(end_ts) - epoch_us(start_ts) as us
    from starting
    join located_connections on located_connections.flow_id = starting.flow_id
    join local_clock
        on local_clock.local_quarter = located_connections.quarter_offset + quarter
)
select
    -- int32 [h]: local hour in which the stall begins
    local_hour,
    -- string or null (Wennström, Brunstrom and Rendón, GPRS preempted by calls): pause (a
    -- reselection or a handover) or flush (a preemption), as in stalls. Null if no interruption
    -- shows
    interruption,
    -- string (Wennström, Brunstrom and Rendón, GPRS preempted by calls): end that restarted the
    -- transfer: mobile (by an ACK) or server (by a retransmission or new data)
    ended_by,
    -- bool (RFC 5681, 3.1): whether an RTO expiry ended the stall, so that the server is in slow
    -- start
    slow_start,
    -- int32 or null: ten times the natural logarithm of the recovery time in s (stalls.recovery),
    -- rounded down: bins of 10 %. A median interpolated within its bin has an error of a few per
    -- cent. Null if the data is never acknowledged
    case
        when recovery is not null then cast(floor(10 * ln(greatest(recovery, 1e-6))) as int)
    end as bin,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    -- int64 [stalls]: number of stalls
    count(*) as stalls,
    -- double [s]: sum of their durations
    sum(us) / 1e6 as seconds,
    -- double [s]: sum of their recovery times; 0 if bin is null
    coalesce(sum(cast(round(1e6 * recovery) as bigint)), 0) / 1e6 as recovery_sum,
    -- int64 [segments]: segments in flight when they began
    sum(segments) as segments,
    -- int64 [segments] (INFOCOM V): of these, segments known to be lost on the access side
    coalesce(sum(lost), 0) as lost
from located_stalls
group by all
