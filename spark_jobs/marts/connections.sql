-- Not a mart: the rows that all marts of connections count.
-- One row: a connection that the mobile opened, with its network's facts, its user's group
-- (user_group: see functions.py) and the local hour in which it starts (INFOCOM II: only connections initiated by the mobile host are considered).
with placed as (
    select
        flows.*,
        user_group(flows.user) as user_group,
        places.country,
        places.access,
        places.peak_from,
        places.peak_until,
        places.off_peak_from,
        places.off_peak_until,
        local_hour(flows.start_ts, places.timezone) as hour
    from flows
    join places on places.network = flows.network
    where flows.initiator = 'mobile'
)
select *, period_of(hour, peak_from, peak_until, off_peak_from, off_peak_until) as period
from placed
