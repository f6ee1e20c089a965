-- Not a mart: the links with their local hour and user, and the columns that marts read.
-- One row: a link in one hour of UTC. `link_key` is a hash of the link. `local_hour` and
-- `local_period` are those in which this hour begins (see located_connections.sql).
with starting as (
    select *, quarter_hour(links.hour) as quarter
    from links
)
select
    local_hour, local_period,
    user_group, user_bit,
    hash(starting.network, starting.date, coalesce(link, starting.user)) as link_key,
    utc_hour(starting.hour) as utc_hour,
    rtt_min, rtt_max, rate, queue_s, queue_kind
from starting
join user_days
    on user_days.network = starting.network
    and user_days.date = starting.date
    and user_days.user = starting.user
join local_clock on local_clock.local_quarter = user_days.quarter_offset + quarter
join local_hours on local_hours.local_hour = user_days.first_local_hour + local_clock.hour
