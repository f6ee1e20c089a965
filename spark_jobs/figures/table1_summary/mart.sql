-- Table I: which options, segment sizes and windows do the connections use?
-- One row: the connections of one network, date, local hour and user group, broken set-ups
-- included.
-- Groups: hour
select
    local_hour,
    user_group,
    count(*) as flows,
    -- int64 [connections]: connections with SACK permitted in both SYNs
    count(*) filter (where sack) as sack,
    -- int64 [connections]: connections with timestamps in both directions
    count(*) filter (where timestamps) as timestamps,
    -- int64 [connections]: connections whose set-up was completed: optimal or slight_problem
    count(*) filter (where setup_class in ('optimal', 'slight_problem')) as opened,
    -- int64 [connections]: of these, connections with SACK permitted in both SYNs
    count(*) filter (
        where sack and setup_class in ('optimal', 'slight_problem')
    ) as opened_sack,
    -- int64 [connections]: of these, connections with timestamps in both directions
    count(*) filter (
        where timestamps and setup_class in ('optimal', 'slight_problem')
    ) as opened_timestamps,
    -- int64 [connections]: connections with a largest IP packet of 400-600 B
    count(*) filter (where mss_class = 'low') as mss_low,
    -- int64 [connections]: connections with a largest IP packet of 1400-1600 B
    count(*) filter (where mss_class = 'high') as mss_high,
    -- int64 [connections]: connections with a largest window of the mobile < 10 000 B
    count(*) filter (where window_class = 'low') as window_low,
    -- int64 [connections]: connections with a largest window of the mobile of 10 000-20 000 B
    count(*) filter (where window_class = 'med') as window_med,
    -- int64 [connections]: connections with a largest window of the mobile > 20 000 B
    count(*) filter (where window_class = 'high') as window_high,
    -- int64 [B]: IP bytes from the mobile
    sum(ip_bytes_up) as ip_bytes_up,
    -- int64 [B]: IP bytes to the mobile
    sum(ip_bytes_down) as ip_bytes_down
from connections
group by local_hour, user_group
