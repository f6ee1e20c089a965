-- Not a mart: the facts about networks that the marts need.
-- One row: a network. `quarter_offset` numbers its quarter hours (see local_clock.sql).
select
    network, country, access, timezone,
    100000000 * cast(row_number() over (order by network) as bigint) as quarter_offset
from networks
