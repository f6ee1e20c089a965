-- Fig. 7: of how much traffic is the channel rate known?
-- One row: the connections of more than 100 KiB of one network, date, local hour, class of window
-- and user group.
with rated_connections as (
    select distinct flow_id from channel_rates
)
select
    local_hour,
    window_class,
    user_group,
    count(*) as flows,
    count(rated_connections.flow_id) as flows_with_rate,
    sum(ip_bytes_down) as ip_bytes,
    coalesce(sum(if(rated_connections.flow_id is null, 0, ip_bytes_down)), 0) as ip_bytes_with_rate
from connections
left join rated_connections on rated_connections.flow_id = connections.flow_id
where payload_bytes_down > 102400
group by all
