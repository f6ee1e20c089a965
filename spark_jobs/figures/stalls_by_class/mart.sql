-- What do connections stall for, for how long, and how many users at once?
-- One row: the stalls of one network, date, local hour, class, length (half powers of two) and
-- number of users that stalled at the same time.
-- Groups: hour, class, users_at_once
with starting as (
    select *, quarter_hour(start_ts) as quarter
    from stalls
),
located_stalls as (
    select
        starting.flow_id, first_local_hour,
        class, lost, slow_start,
        first_user_hour, user_group, user_bit,
        first_local_hour + hour as local_hour,
        class not in ('data_unavailable', 'client_idle', 'zero_window') as is_path_stall,
        epoch_us(start_ts) as begin_us,
        epoch_us(end_ts) as end_us
    from starting
    join located_connections on located_connections.flow_id = starting.flow_id
    join local_clock
        on local_clock.local_quarter = located_connections.quarter_offset + quarter
),
-- One row: a stall in one of the ten-second slots that it touches. Stalls that overlap in time
-- share a slot. previous_end_us is the latest end of the user's earlier stalls.
stall_slots as (
    select
        first_local_hour, flow_id, begin_us, end_us, previous_end_us, first_slot,
        unnest(generate_series(first_slot, last_slot)) as slot
    from (
        select
            *,
            cast(floor(begin_us / 1e7) as bigint) as first_slot,
            cast(floor(end_us / 1e7) as bigint) as last_slot,
            max(end_us) over (
                partition by first_user_hour
                order by begin_us, end_us
                rows between unbounded preceding and 1 preceding
            ) as previous_end_us
        from located_stalls
        where is_path_stall
    )
),
-- One row: a stall with the number of users whose stalls overlap it. Each user counts once, by the
-- first overlapping stall, in the first slot that both stalls touch.
overlap_counts as (
    select stall.flow_id, stall.begin_us, count(*) as users
    from stall_slots as stall
    join stall_slots as other
        on other.first_local_hour = stall.first_local_hour
        and other.slot = stall.slot
        and other.begin_us < stall.end_us
        and other.end_us > stall.begin_us
        and (other.previous_end_us is null or other.previous_end_us <= stall.begin_us)
    where stall.slot = greatest(stall.first_slot, other.first_slot)
    group by stall.flow_id, stall.begin_us
),
counted_stalls as (
    select
        local_hour,
        class,
        user_group, user_bit,
        end_us - located_stalls.begin_us as us,
        (end_us - located_stalls.begin_us) / 1e6 as seconds,
        lost,
        slow_start,
        overlap_counts.users
    from located_stalls
    left join overlap_counts
        on overlap_counts.flow_id = located_stalls.flow_id
        and overlap_counts.begin_us = located_stalls.begin_us
        and is_path_stall
)
select
    -- int32 [h]: local hour in which the stall begins
    local_hour,
    -- string: class of the stalls, as in stalls
    class,
    -- double [s]: lower edge of the bin of the stall's duration: 0.1 s times half powers of two
    -- (0.1, 0.141, 0.2, 0.283, ...). 0 below 0.1 s
    --
    -- The binary logarithm of the square is twice that of the length.
    case
        when seconds < 0.1 then 0
        else round(power(2, highest_bit(cast(floor(power(10 * seconds, 2)) as bigint)) / 2) / 10, 3)
    end as bin,
    -- int64 or null [users]: number of users of the network with a stall that overlaps this one in
    -- time, its own user included and each user counted once: lower edge of 1, 2, 3-4, 5-8, 9-16,
    -- ... Many users at once suggest that a radio cell is the cause. Only stalls of the date that
    -- depend on the path count. data_unavailable, client_idle and zero_window depend on the hosts:
    -- they do not count and have null here
    --
    -- The lower edges are 1 and 1 + 2 ^ k: k is the highest bit of n - 1.
    least(users, 1 + nth_bit(highest_bit(users - 1))) as users_at_once,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    -- int64 [stalls]: number of stalls
    count(*) as stalls,
    -- double [s]: sum of their durations
    sum(us) / 1e6 as seconds,
    -- int64 [segments] (INFOCOM V): segments in flight in these that were lost on the access side
    coalesce(sum(lost), 0) as lost,
    -- int64 [stalls] (RFC 5681, 3.1): of all, stalls that an RTO expiry ended, so that the server
    -- is in slow start (stalls.slow_start)
    count(*) filter (where slow_start) as rto_stalls
from counted_stalls
group by all
