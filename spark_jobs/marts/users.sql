-- Not a mart: whose what marts count was.
-- One row: a user of a date of a network. The user's hours (utc_hour) have the numbers from `hours`
-- on; `user_bit` is that of the `user_group` in `user_groups`; `day` and `clock`: see `local_hours`.
with seen as (
    select network, date, flows.user from flows
    union
    select network, date, links.user from links
    union
    select network, date, channel_rates.user from channel_rates
),
numbered as (
    select
        network, date, seen.user,
        10000000 * cast(row_number() over (order by network, date, seen.user) as bigint) as hours,
        user_group(seen.user) as user_group
    from seen
)
select
    numbered.network, numbered.date, numbered.user, hours, user_group,
    nth_bit(user_group) as user_bit,
    day, clock
from numbered
join local_hours on local_hours.network = numbered.network and local_hours.date = numbered.date and local_hours.hour = 0
