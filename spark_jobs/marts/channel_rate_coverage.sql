-- Fig. 7: of which traffic is the channel rate known?
-- One row: the connections of more than 100 KB of one network, date, local hour, class of window and
-- group of users.
with rated as (
    select distinct flow_id from channel_rates
)
select
    local_hour,
    window_class,
    user_group,
    count(*) as flows,
    count(rated.flow_id) as flows_with_rate,
    sum(ip_bytes_down) as ip_bytes,
    coalesce(sum(if(rated.flow_id is null, 0, ip_bytes_down)), 0) as ip_bytes_with_rate
from connections
left join rated on rated.flow_id = connections.flow_id
where payload_bytes_down > 102400
group by all
