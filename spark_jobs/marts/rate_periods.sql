-- Not a mart: the periods in which a channel rate was measured, as the marts need them.
-- One row: a period, with where and when it starts (see placed.sql).
with starting as (
    select *, quarter_hour(start_ts) as quarter
    from channel_rates
)
select
    day + hour as local_hour,
    day + of_period as part,
    user_group, user_bit,
    hours + utc_hour(start_ts) as user_hour,
    rate,
    (unix_micros(end_ts) - unix_micros(start_ts)) / 1e6 as seconds,
    ip_bytes
from starting
join users
    on users.network = starting.network
    and users.date = starting.date
    and users.user = starting.user
join clock on clock.moment = users.clock + quarter
