-- Not a mart: the networks' facts as the marts need them.
-- One row: a network.
select
    network, country, access, timezone,
    peak_from, peak_until, off_peak_from, off_peak_until
from networks
