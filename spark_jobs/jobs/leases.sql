-- leases: which subscriber had which address on one day ($midnight to $next_midnight, UTC).
--
-- Reads `messages`, the rows of accounting of the day and some days around it. One row of the result
-- is a lease, cut to the day.
--
-- A session begins with its first message, or Acct-Session-Time before one of its messages if that is
-- earlier. It ends with its stop message. Without one, it ends when its access server restarts, or
-- $silence after its last message. An address belongs to the subscriber who got it last: a lease ends
-- when the next lease of its address begins.
with lease_messages as (
    select * from messages
    where status <> 'accepted'
        or not exists (select 1 from messages as other where other.status <> 'accepted')
),
sessions as (
    select nas, coalesce(session, ts::varchar) as session, address, subscriber,
        any_value(user_partition) as user_partition,
        min(ts - to_microseconds(cast(1e6 * coalesce(session_time, 0) as bigint))) as start_ts,
        max(ts) as last_message_ts,
        max(ts) filter (status = 'stop') as stop_ts
    from lease_messages
    where address is not null
    group by all
),
restarts as (
    select s.nas, s.session, s.address, s.subscriber, min(t.ts) as restart_ts
    from sessions as s
    join lease_messages as t on t.nas = s.nas and t.status = 'nas' and t.ts > s.last_message_ts
    group by all
),
ended as (
    select sessions.*,
        coalesce(stop_ts, least(last_message_ts + to_microseconds($silence), restart_ts)) as end_ts
    from sessions left join restarts using (nas, session, address, subscriber)
),
leases as (
    select user_partition, address, subscriber, start_ts,
        least(end_ts, lead(start_ts) over (
            partition by address order by start_ts, last_message_ts, subscriber, nas, session
        )) as end_ts
    from ended
)
select user_partition, address, subscriber,
    greatest(start_ts, $midnight) as start_ts, least(end_ts, $next_midnight) as end_ts
from leases
where start_ts < $next_midnight and end_ts > $midnight and start_ts < end_ts
order by user_partition, address, start_ts
