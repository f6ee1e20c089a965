-- Table I: which options, segment sizes and windows do the connections use?
-- One row: the connections of one network, date, local hour and user group, broken set-ups
-- included.
select
    local_hour,
    user_group,
    count(*) as flows,
    count(*) filter (where sack) as sack,
    count(*) filter (where timestamps) as timestamps,
    count(*) filter (where mss_class = 'low') as mss_low,
    count(*) filter (where mss_class = 'high') as mss_high,
    count(*) filter (where window_class = 'low') as window_low,
    count(*) filter (where window_class = 'med') as window_med,
    count(*) filter (where window_class = 'high') as window_high,
    sum(ip_bytes_up) as ip_bytes_up,
    sum(ip_bytes_down) as ip_bytes_down
from connections
group by local_hour, user_group
