-- Not a mart: the networks' facts as the marts need them.
-- One row: a network. Its quarter hours have the numbers from `clock` on (see clock.sql).
select
    network, country, access, timezone,
    peak_from, peak_until, off_peak_from, off_peak_until,
    100000000 * cast(row_number() over (order by network) as bigint) as clock
from networks
