-- Not a mart: the connections with their local hour and user, and the columns that marts read.
-- One row: a connection. `local_hour` is that in which it starts (see local_hours.sql);
-- `local_period` is the first local hour of the same date and period. For later events of the
-- connection, `first_local_hour` and `quarter_offset` give the local hour (see local_clock.sql).
-- `first_slot` and `last_slot` are the five minutes since the date began.
-- `link_key` is a hash of its access link, as in located_links.sql.
-- Another table's row is joined by flow_id alone: it is unique in all networks and dates.
with starting as (
    select *, quarter_hour(start_ts) as quarter
    from flows
)
select
    flow_id, utc_hour(start_ts) as utc_hour,
    user_days.first_local_hour, user_days.quarter_offset,
    local_hour, local_period,
    user_days.quarter_offset + quarter as local_quarter,
    slot_of(start_ts, starting.date) as first_slot,
    slot_of(end_ts, starting.date) as last_slot,
    first_user_hour, user_group, user_bit,
    hash(starting.network, starting.date, coalesce(link, starting.user)) as link_key,
    initiator = 'mobile' as by_mobile,
    server like '%:%' as ipv6,
    sack, timestamps, mss_class, max_ip_len, window_class, max_window,
    setup_class, setup_retransmission, setup_reset, reset_by, setup_delay, setup_background,
    syn_count, synack_count, rtt_access, rtt_internet, rtt_internet_min,
    packets_up, packets_down, ip_bytes_up, ip_bytes_down, payload_bytes_down, data_packets_down,
    lost_access, lost_access_expected, lost_access_min, lost_access_max,
    ecn, ect_down, ce_down, marks_access, ecn_episodes_access, ecn_episodes_internet,
    lost_internet_expected, bottleneck,
    retransmissions, rto_expiries, delay_spikes, parallel,
    single, request_response, b_tcp, b_other,
    throughput, throughput_received, goodput, user_throughput, user_throughput_received,
    limited_by, limited_channel, limited_receiver, limited_recovery,
    limited_slow_start, limited_server, limited_mobile
from starting
join user_days
    on user_days.network = starting.network
    and user_days.date = starting.date
    and user_days.user = starting.user
join local_clock on local_clock.local_quarter = user_days.quarter_offset + quarter
join local_hours on local_hours.local_hour = user_days.first_local_hour + local_clock.hour
