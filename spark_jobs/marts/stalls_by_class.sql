-- What do connections stall for, for how long, and how many users at once?
-- One row: the stalls of one network, date, local hour, class, length (half powers of two) and number
-- of users that stalled while they lasted.
with starting as (
    select *, quarter_hour(start_ts) as quarter
    from stalls
),
users_stalls as (
    select
        starting.flow_id, day,
        class, lost, slow_start, interruption,
        hours, user_bit,
        day + hour as local_hour,
        class not in ('data_unavailable', 'client_idle', 'zero_window') as of_path,
        unix_micros(start_ts) as begun,
        unix_micros(end_ts) as ended
    from starting
    join placed on placed.flow_id = starting.flow_id
    join clock on clock.moment = placed.clock + quarter
),
-- A stall in each ten seconds that it touches: stalls that overlap meet in some. user_until is when
-- the last of the user's earlier stalls had ended.
slots as (
    select
        day, flow_id, begun, ended, user_until, first_slot,
        explode(sequence(first_slot, last_slot)) as slot
    from (
        select
            *,
            cast(floor(begun / 1e7) as bigint) as first_slot,
            cast(floor(ended / 1e7) as bigint) as last_slot,
            max(ended) over (
                partition by hours
                order by begun, ended
                rows between unbounded preceding and 1 preceding
            ) as user_until
        from users_stalls
        where of_path
    )
),
-- Of each other user, the first stall that overlaps counts, and in the first slot in which both are.
overlapping as (
    select one.flow_id, one.begun, count(*) as users
    from slots as one
    join slots as other
        on other.day = one.day
        and other.slot = one.slot
        and other.begun < one.ended
        and other.ended > one.begun
        and (other.user_until is null or other.user_until <= one.begun)
    where one.slot = greatest(one.first_slot, other.first_slot)
    group by one.flow_id, one.begun
),
beside as (
    select
        local_hour,
        class,
        user_bit,
        ended - users_stalls.begun as us,
        (ended - users_stalls.begun) / 1e6 as seconds,
        lost,
        slow_start,
        interruption,
        overlapping.users
    from users_stalls
    left join overlapping
        on overlapping.flow_id = users_stalls.flow_id
        and overlapping.begun = users_stalls.begun
        and of_path
)
select
    local_hour,
    class,
    -- Twice the binary logarithm is that of the square.
    case
        when seconds < 0.1 then 0
        else round(power(2, highest_bit(cast(floor(power(10 * seconds, 2)) as bigint)) / 2) / 10, 3)
    end as bin,
    -- n - 1 has so many binary digits more than one.
    least(users, 1 + nth_bit(highest_bit(users - 1))) as users_at_once,
    bit_or(user_bit) as user_groups,
    count(*) as stalls,
    sum(us) / 1e6 as seconds,
    count(lost) as lost_stalls,
    coalesce(sum(lost), 0) as lost,
    count(*) filter (where slow_start) as rto_stalls,
    count(*) filter (where interruption = 'pause') as pauses,
    count(*) filter (where interruption = 'flush') as flushes
from beside
group by all
