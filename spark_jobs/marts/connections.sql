-- Not a mart: the rows that all marts count.
-- One row: a connection that the mobile opened, with its network's facts and the local hour in
-- which it starts (INFOCOM II: only connections initiated by the mobile host are considered).
with placed as (
    select
        flows.*,
        networks.country,
        networks.access,
        networks.peak_from,
        networks.peak_until,
        networks.off_peak_from,
        networks.off_peak_until,
        hour(from_utc_timestamp(flows.start_ts, networks.timezone)) as hour
    from flows
    join networks on networks.network = flows.network
    where flows.initiator = 'mobile'
)
select
    *,
    case
        when hour >= peak_from and hour < peak_until then 'peak'
        when hour >= off_peak_from and hour < off_peak_until then 'off_peak'
        else 'other'
    end as period
from placed
