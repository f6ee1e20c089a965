-- Not a mart: the users of each date, with their groups and numbers.
-- One row: a user of a network on one date. `first_user_hour` plus an hour of UTC (utc_hour) is
-- the number of that hour of the user. `user_bit` is the user's bit in `user_groups`.
-- `user_group` is the user's own number if the date has few users.
-- `first_local_hour`: see local_hours.sql; `quarter_offset`: see local_clock.sql.
with seen as (
    select network, date, flows.user from flows
    union
    select network, date, quic_flows.user from quic_flows
    union
    select network, date, links.user from links
    union
    select network, date, channel_rates.user from channel_rates
),
numbered as (
    select
        network, date, seen.user,
        10000000 * cast(row_number() over (order by network, date, seen.user) as bigint)
            as first_user_hour,
        user_group(seen.user) as bit,
        user_group_among(count(*) over (partition by network, date), seen.user) as user_group
    from seen
)
select
    numbered.network, numbered.date, numbered.user, first_user_hour, user_group,
    nth_bit(bit) as user_bit,
    first_local_hour, quarter_offset
from numbered
join local_hours
    on local_hours.network = numbered.network
    and local_hours.date = numbered.date
    and local_hours.hour = 0
