-- Who restarts a transfer after a silence, and how long does the recovery take, above all after
-- the mobile network interrupted the link (Wennström, Brunstrom and Rendón, preemption by
-- calls)?
-- One row: the stalls with data in flight of one network, date, local hour, kind of interruption,
-- end that restarted the transfer, by an RTO expiry or not, and bin of the recovery time (10 %).
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
    local_hour, interruption, ended_by, slow_start,
    case
        when recovery is not null then cast(floor(10 * ln(greatest(recovery, 1e-6))) as int)
    end as bin,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    count(*) as stalls,
    sum(us) / 1e6 as seconds,
    coalesce(sum(cast(round(1e6 * recovery) as bigint)), 0) / 1e6 as recovery_sum,
    sum(segments) as segments,
    coalesce(sum(lost), 0) as lost
from located_stalls
group by all
