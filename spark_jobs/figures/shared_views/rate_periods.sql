-- Not a mart: the periods in which a channel rate was measured, with their local hour and user.
-- One row: a period. `local_hour` and `local_period` are those in which it starts (see
-- located_connections.sql).
with starting as (
    select *, quarter_hour(start_ts) as quarter
    from channel_rates
)
select
    local_hour, local_period,
    slot_of(start_ts, starting.date) as slot,
    user_group, user_bit,
    first_user_hour + utc_hour(start_ts) as user_hour,
    rate,
    (epoch_us(end_ts) - epoch_us(start_ts)) / 1e6 as seconds,
    ip_bytes
from starting
join user_days
    on user_days.network = starting.network
    and user_days.date = starting.date
    and user_days.user = starting.user
join local_clock on local_clock.local_quarter = user_days.quarter_offset + quarter
join local_hours on local_hours.local_hour = user_days.first_local_hour + local_clock.hour
