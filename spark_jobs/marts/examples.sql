-- Which connection shows best what a limit, or a class of stalls, costs?
-- One row: the connection of one network, date and local hour that it held up the longest.
with held as (
    select
        network, date, country, access, hour, period, flow_id,
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
        network, date, country, access, hour, period, flow_id,
        'stall' as kind,
        class as cause,
        sum(unix_micros(end_ts) - unix_micros(start_ts)) / 1e6 as held_up
    from (
        select
            connections.network, connections.date, country, access, hour, period,
            stalls.flow_id, class, stalls.start_ts, stalls.end_ts
        from stalls
        join connections
            on connections.network = stalls.network
            and connections.date = stalls.date
            and connections.flow_id = stalls.flow_id
    )
    group by all
),
ranked as (
    select
        *,
        row_number() over (
            partition by network, date, hour, kind, cause order by held_up desc, flow_id
        ) as place
    from held
)
select network, date, country, access, hour, period, kind, cause, flow_id, held_up
from ranked
where place = 1
