-- Which connection is the best example of a limit, or of a class of stalls?
-- One row: the connection of one network, date and local hour that a limit, or stalls of a class,
-- held up the longest.
-- Groups: hour, kind, cause
with held_up_times as (
    select
        local_hour, flow_id,
        'limit' as kind,
        limited_by as cause,
        case limited_by
            when 'channel' then limited_channel
            when 'receiver' then limited_receiver
            when 'recovery' then limited_recovery
            when 'slow_start' then limited_slow_start
            when 'server' then limited_server
            when 'mobile' then limited_mobile
        end as held_up
    from connections
    where limited_by is not null
    union all
    select
        local_hour, flow_id,
        'stall' as kind,
        class as cause,
        sum(epoch_us(end_ts) - epoch_us(start_ts)) / 1e6 as held_up
    from (
        select local_hour, stalls.flow_id, class, stalls.start_ts, stalls.end_ts
        from stalls
        join connections on connections.flow_id = stalls.flow_id
    )
    group by all
),
longest as (
    select local_hour, kind, cause, max(held_up) as held_up
    from held_up_times
    group by all
)
select
    held_up_times.local_hour,
    -- string: limit or stall. The example of a limit is one of the connections that this limit held
    -- up longer than other limits (flows.limited_by)
    held_up_times.kind,
    -- string: the limit, as in flows.limited_by, or the class of the stalls
    held_up_times.cause,
    -- int64: the connection, as in flows, for `giscope why` and `giscope plot`
    min(flow_id) as flow_id,
    -- double [s]: total time for which it was held up
    held_up_times.held_up
from held_up_times
join longest
    on longest.local_hour = held_up_times.local_hour
    and longest.kind = held_up_times.kind
    and longest.cause = held_up_times.cause
    and longest.held_up = held_up_times.held_up
group by all
