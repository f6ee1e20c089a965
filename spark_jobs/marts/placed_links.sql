-- Not a mart: the links as the marts need them.
-- One row: a user's link in an hour (UTC), with where and when it begins (see placed.sql).
with starting as (
    select *, quarter_hour(links.hour) as quarter
    from links
)
select
    day + clock.hour as local_hour,
    day + of_period as part,
    user_group, user_bit,
    hours + utc_hour(starting.hour) as user_hour,
    rtt_min, rtt_max, queue_s
from starting
join users
    on users.network = starting.network
    and users.date = starting.date
    and users.user = starting.user
join clock on clock.moment = users.clock + quarter
