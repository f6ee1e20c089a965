-- Not a mart: the networks' facts as the marts need them.
-- One row: a network; period_of has the period of each of its local hours, from 0 on.
select
    network,
    country,
    access,
    timezone,
    transform(
        sequence(0, 23),
        hour -> case
            when hour >= peak_from and hour < peak_until then 'peak'
            when hour >= off_peak_from and hour < off_peak_until then 'off_peak'
            else 'other'
        end
    ) as period_of
from networks
