-- Not a mart: the QUIC connections with their local hour and user, and the columns that marts read.
-- One row: a QUIC connection. The columns of place and time are those of located_connections.sql.
with starting as (
    select *, quarter_hour(start_ts) as quarter
    from quic_flows
)
select
    user_days.first_local_hour, first_user_hour, user_group,
    local_hour, local_period,
    user_days.quarter_offset + quarter as local_quarter,
    slot_of(start_ts, starting.date) as first_slot,
    slot_of(end_ts, starting.date) as last_slot,
    begin_seen, packets_up, packets_down, ip_bytes_up, ip_bytes_down,
    setup_class, setup_delay, rtt_access, rtt_internet, spin, spin_rtt_median
from starting
join user_days
    on user_days.network = starting.network
    and user_days.date = starting.date
    and user_days.user = starting.user
join local_clock on local_clock.local_quarter = user_days.quarter_offset + quarter
join local_hours on local_hours.local_hour = user_days.first_local_hour + local_clock.hour
