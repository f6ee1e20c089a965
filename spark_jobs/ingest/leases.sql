-- leases: which subscriber had which address on one day ($midnight to $next_midnight, UTC).
--
-- Reads `messages`, the rows of accounting of the day and some days around it. One row of the result
-- is a lease, cut to the day.
--
-- A session begins with its first message, or Acct-Session-Time before one of its messages if that is
-- earlier. It ends with its stop message. Without one, it ends when its access server restarts, or
-- $silence after its last message. An address belongs to the subscriber who got it last: a lease ends
-- when the next lease of its address begins.
--
-- A bearer is what has one access link: the sessions of a subscriber at one access server that share an
-- address, a 3GPP-Charging-Id or an Acct-Multi-Session-Id. If a subscriber has several bearers in
-- these days, each is a link of its own, named after the subscriber and one of its sessions.
--
-- A message that names other labels than those before it in its session cuts the session's leases. A
-- label that a message does not name stays; the first that is named holds from the session's begin.
with lease_messages as (
    select * from messages
    where status <> 'accepted'
        or not exists (select 1 from messages as other where other.status <> 'accepted')
),
named_messages as (
    select * replace (coalesce(session, ts::varchar) as session)
    from lease_messages
    where address is not null
),
sessions as (
    select nas, session, address, subscriber,
        any_value(user_partition) as user_partition,
        any_value(charging) as charging, any_value(multi_session) as multi_session,
        min(ts) as first_message_ts,
        min(ts - to_microseconds(cast(1e6 * coalesce(session_time, 0) as bigint))) as begin_ts,
        max(ts) as last_message_ts,
        max(ts) filter (status = 'stop') as own_stop_ts
    from named_messages
    group by nas, session, address, subscriber
),
-- A stop ends all addresses of its session, also those that it does not name. An address that a
-- later message adds begins with this message.
begun as (
    select *,
        if(
            first_message_ts = min(first_message_ts) over (partition by nas, session, subscriber),
            begin_ts, first_message_ts
        ) as start_ts
    from sessions
),
stops as (
    select nas, session, subscriber, ts as session_stop_ts from named_messages where status = 'stop'
),
timed as (
    select begun.*, coalesce(own_stop_ts, session_stop_ts) as stop_ts
    from begun asof left join stops
        on stops.nas = begun.nas and stops.session = begun.session
        and stops.subscriber = begun.subscriber and begun.last_message_ts <= session_stop_ts
),
restarts as (
    select s.nas, s.session, s.address, s.subscriber, min(t.ts) as restart_ts
    from timed as s
    join lease_messages as t on t.nas = s.nas and t.status = 'nas' and t.ts > s.last_message_ts
    group by all
),
ended as (
    select timed.*,
        coalesce(stop_ts, least(last_message_ts + to_microseconds($silence), restart_ts)) as end_ts
    from timed left join restarts using (nas, session, address, subscriber)
),
related as (
    select *, least(
        min(session) over (partition by nas, subscriber, address),
        if(charging is null, session, min(session) over (partition by nas, subscriber, charging)),
        if(multi_session is null, session,
            min(session) over (partition by nas, subscriber, multi_session))
    ) as first_session
    from ended
),
bearers as (
    select *, min(first_session) over (partition by nas, subscriber, session) as bearer
    from related
),
links as (
    select *, min(nas || bearer) over of_subscriber <> max(nas || bearer) over of_subscriber
        as several
    from bearers
    window of_subscriber as (partition by subscriber)
),
leases as (
    select user_partition, address, subscriber, nas, session,
        if(several, subscriber || '/' || bearer, subscriber) as link, start_ts,
        least(end_ts, lead(start_ts) over (
            partition by address order by start_ts, last_message_ts, subscriber, nas, session
        )) as end_ts
    from links
),
known as (
    select nas, session, subscriber, ts,
        {last_labels}
    from named_messages
    window until_now as (
        partition by nas, session, subscriber order by ts rows unbounded preceding
    ),
    from_now as (
        partition by nas, session, subscriber
        order by ts rows between current row and unbounded following
    )
),
changes as (
    select *, lead(ts) over of_session as until_ts, row_number() over of_session = 1 as is_first
    from (
        select * from known
        qualify ({labels}) is distinct from lag(({labels})) over (
            partition by nas, session, subscriber order by ts
        ) or row_number() over (partition by nas, session, subscriber order by ts) = 1
    )
    window of_session as (partition by nas, session, subscriber order by ts)
),
pieces as (
    select leases.* replace (
        if(is_first, start_ts, greatest(start_ts, ts)) as start_ts,
        least(end_ts, coalesce(until_ts, end_ts)) as end_ts
    ), {labels}
    from leases join changes using (nas, session, subscriber)
)
select user_partition, address, subscriber, link,
    greatest(start_ts, $midnight) as start_ts, least(end_ts, $next_midnight) as end_ts,
    {labels}
from pieces
where start_ts < $next_midnight and end_ts > $midnight and start_ts < end_ts
order by user_partition, address, start_ts
