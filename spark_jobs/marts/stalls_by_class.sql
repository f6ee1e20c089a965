-- What do connections stall for, for how long, and how many users at once?
-- One row: the stalls of one network, date, local hour, class, length (half powers of two) and number
-- of users that stalled while they lasted.
with users_stalls as (
    select
        stalls.*,
        flows.user,
        class not in ('data_unavailable', 'client_idle', 'zero_window') as of_path,
        unix_micros(stalls.start_ts) as begun,
        unix_micros(stalls.end_ts) as ended
    from stalls
    join flows
        on flows.network = stalls.network
        and flows.date = stalls.date
        and flows.flow_id = stalls.flow_id
),
-- A stall in each ten seconds that it touches: stalls that overlap meet in some. user_until is when
-- the last of the user's earlier stalls had ended.
slots as (
    select
        network, date, flow_id, begun, ended, user_until, first_slot,
        explode(sequence(first_slot, last_slot)) as slot
    from (
        select
            *,
            cast(floor(begun / 1e7) as bigint) as first_slot,
            cast(floor(ended / 1e7) as bigint) as last_slot,
            max(ended) over (
                partition by network, date, users_stalls.user
                order by begun, ended
                rows between unbounded preceding and 1 preceding
            ) as user_until
        from users_stalls
        where of_path
    )
),
-- Of each other user, the first stall that overlaps counts, and in the first slot in which both are.
overlapping as (
    select one.network, one.date, one.flow_id, one.begun, count(*) as users
    from slots as one
    join slots as other
        on other.network = one.network
        and other.date = one.date
        and other.slot = one.slot
        and other.begun < one.ended
        and other.ended > one.begun
        and (other.user_until is null or other.user_until <= one.begun)
    where one.slot = greatest(one.first_slot, other.first_slot)
    group by one.network, one.date, one.flow_id, one.begun
),
placed as (
    select
        users_stalls.network,
        users_stalls.date,
        places.country,
        places.access,
        places.peak_from,
        places.peak_until,
        places.off_peak_from,
        places.off_peak_until,
        local_hour(start_ts, places.timezone) as hour,
        class,
        user_group(users_stalls.user) as user_group,
        (ended - users_stalls.begun) / 1e6 as seconds,
        lost,
        slow_start,
        interruption,
        overlapping.users
    from users_stalls
    join places on places.network = users_stalls.network
    left join overlapping
        on overlapping.network = users_stalls.network
        and overlapping.date = users_stalls.date
        and overlapping.flow_id = users_stalls.flow_id
        and overlapping.begun = users_stalls.begun
        and of_path
)
select
    network, date, country, access, hour,
    period_of(hour, peak_from, peak_until, off_peak_from, off_peak_until) as period,
    class,
    -- Twice the binary logarithm is that of the square.
    case
        when seconds < 0.1 then 0
        else round(power(2, highest_bit(cast(floor(power(10 * seconds, 2)) as bigint)) / 2) / 10, 3)
    end as bin,
    -- n - 1 has so many binary digits more than one.
    least(users, 1 + nth_bit(highest_bit(users - 1))) as users_at_once,
    bit_or(nth_bit(user_group)) as user_groups,
    count(*) as stalls,
    sum(seconds) as seconds,
    count(lost) as lost_stalls,
    coalesce(sum(lost), 0) as lost,
    count(*) filter (where slow_start) as timeout_stalls,
    count(*) filter (where interruption = 'pause') as pauses,
    count(*) filter (where interruption = 'flush') as flushes
from placed
group by all
