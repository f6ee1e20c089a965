-- What happened at what time of a day: traffic, users, set-ups, losses, round trips and stalls?
-- One row: a metric of one network, date and five minutes; of users_of_day and users_of_period, of
-- one date, or of one date and period.
-- Groups: hour, slot, metric
with all_connections as (
    select
        first_user_hour, first_local_hour, user_group, local_hour, local_period, local_quarter,
        first_slot, last_slot, by_mobile,
        ip_bytes_up + ip_bytes_down as ip_bytes
    from located_connections
    union all
    select
        first_user_hour, first_local_hour, user_group, local_hour, local_period, local_quarter,
        first_slot, last_slot, false,
        ip_bytes_up + ip_bytes_down
    from located_quic
),
-- The spans of slots in which a user has a connection open, without gaps. Of equal spans one is
-- enough; with two, the order of the windows' rows would not be defined.
following as (
    select
        *,
        max(last_slot) over (
            partition by first_user_hour
            order by first_slot, last_slot
            rows between unbounded preceding and 1 preceding
        ) as latest_slot
    from (
        select distinct
            first_user_hour, first_local_hour, user_group, first_slot, last_slot,
            local_quarter - first_slot // 3 as first_quarter
        from all_connections
    )
),
with_span as (
    select
        *,
        count(*) filter (where latest_slot is null or first_slot > latest_slot + 1) over (
            partition by first_user_hour
            order by first_slot, last_slot
            rows unbounded preceding
        ) as span
    from following
),
spans as (
    select
        first_local_hour, user_group,
        min(first_quarter) as first_quarter,
        min(first_slot) as first_slot, max(last_slot) as last_slot
    from with_span
    group by first_user_hour, first_local_hour, user_group, span
),
-- The bytes of a connection are spread over its time, but for the many small connections.
parts as (
    select
        *,
        unnest(generate_series(first_slot, if(ip_bytes > 102400, last_slot, first_slot))) as slot,
        if(ip_bytes > 102400, 1 + last_slot - first_slot, 1) as parts
    from all_connections
),
open_users as (
    select
        first_local_hour, user_group, first_quarter,
        unnest(generate_series(first_slot, last_slot)) as slot
    from spans
),
by_quarter as (
    select
        first_local_hour, user_group, first_quarter + slot // 3 as local_quarter, slot,
        'users' as metric, 1 as numerator
    from open_users
    union all
    select
        first_local_hour, user_group, local_quarter + slot // 3 - first_slot // 3, slot,
        'traffic', 8 * ip_bytes / parts
    from parts
    union all
    select
        first_local_hour, user_group, quarter_offset + quarter_hour(start_ts),
        slot_of(start_ts, stalls.date), 'stalls', 1
    from stalls
    join located_connections on located_connections.flow_id = stalls.flow_id
    where class not in ('data_unavailable', 'client_idle', 'zero_window')
),
of_time as (
    select
        first_local_hour + hour as local_hour, user_group, slot, metric, numerator,
        null as denominator
    from by_quarter
    join local_clock on local_clock.local_quarter = by_quarter.local_quarter
    union all
    select local_hour, user_group, first_slot, 'connections', 1, null
    from all_connections where by_mobile
    union all
    select local_hour, user_group, slot, metric, numerator, denominator
    from metric_terms
    union all
    select first_local_hour, user_group, null, 'users_of_day', 1, null
    from (select distinct first_user_hour, first_local_hour, user_group from all_connections)
    union all
    select local_period, user_group, null, 'users_of_period', 1, null
    from (select distinct first_user_hour, local_period, user_group from all_connections)
)
select
    -- int32 [h]: local hour of the five minutes; of users_of_period, the first one of the period;
    -- of users_of_day, 0
    local_hour,
    -- int32 or null: number of the five minutes since the date began (UTC), from 0; 288 and more on
    -- the next date, on which connections of this date go on. Null for users_of_day and
    -- users_of_period
    cast(slot as int) as slot,
    -- string: as in metrics, of the connections or periods that start in these five minutes; or
    -- connections: TCP connections that mobiles start; traffic: bits of TCP and QUIC at the IP layer, those
    -- of a connection spread evenly over its time if it has more than 100 KiB; users: users with a
    -- connection open; stalls: stalls that begin and depend on the path; users_of_day,
    -- users_of_period: users with a connection that starts on the date, or in the period
    metric,
    -- int64: number of connections, periods, users or stalls
    count(*) as measured,
    -- double: as in metrics; of connections, users and stalls their number, of traffic bits
    --
    -- Sums of integers do not depend on the order of the additions.
    cast(sum(cast(1e6 * numerator as hugeint)) as double) / 1e6 as numerator,
    -- double or null: the metric is the sum of numerator by the sum of this column. Null for numbers:
    -- the numerator is the metric
    cast(sum(cast(1e6 * denominator as hugeint)) as double) / 1e6 as denominator,
    bit_or(nth_bit(user_group % 64)) as user_groups,
    user_numbers_of(user_group) as user_numbers
from of_time
group by local_hour, slot, metric
