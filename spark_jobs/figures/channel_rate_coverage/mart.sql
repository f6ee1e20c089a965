-- Fig. 7: of how much traffic is the channel rate known?
-- One row: the connections of more than 100 KiB of one network, date, local hour, class of window
-- and user group.
-- Groups: hour, window_class
with rated_connections as (
    select distinct flow_id from channel_rates
)
select
    local_hour,
    -- string or null: low, med or high, as in flows. Null if the window is not known
    window_class,
    user_group,
    count(*) as flows,
    -- int64 [connections]: of these, connections with a period in channel_rates
    count(rated_connections.flow_id) as flows_with_rate,
    -- int64 [B]: IP bytes to the mobile, of all connections
    sum(ip_bytes_down) as ip_bytes,
    -- int64 [B]: IP bytes to the mobile, of connections with a period in channel_rates
    coalesce(sum(if(rated_connections.flow_id is null, 0, ip_bytes_down)), 0) as ip_bytes_with_rate
from connections
left join rated_connections on rated_connections.flow_id = connections.flow_id
where payload_bytes_down > 102400
group by all
