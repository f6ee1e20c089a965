-- Not a mart: the connections, as far as marts read of them, with where, when and whose they are.
-- One row: a connection. `local_hour` is where and when it starts (see local_hours.sql), `part` the first local_hour of
-- the same date and period; with `day` and `clock` what happens later finds its own.
-- By its flow_id, a hash of all that it is, another table's row finds it, in whatever network.
with starting as (
    select *, quarter_hour(start_ts) as quarter
    from flows
)
select
    flow_id, utc_hour(start_ts) as utc_hour,
    day, users.clock,
    day + hour as local_hour,
    day + of_period as part,
    hours, user_group, user_bit,
    initiator = 'mobile' as by_mobile,
    server like '%:%' as ipv6,
    sack, timestamps, mss_class, max_ip_len, window_class, max_window,
    setup_class, setup_retransmission, setup_reset, reset_by, setup_delay, setup_background,
    syn_count, synack_count, rtt_access, rtt_internet, rtt_internet_min,
    ip_bytes_up, ip_bytes_down, payload_bytes_down, data_packets_down,
    lost_access, lost_access_expected, lost_internet_expected, bottleneck,
    retransmissions, rto_expiries, delay_spikes, parallel,
    single, request_response, b_tcp, b_other,
    throughput, throughput_received, goodput, user_throughput, user_throughput_received,
    limited_by, limited_channel, limited_receiver, limited_recovery,
    limited_slow_start, limited_server, limited_mobile
from starting
join users
    on users.network = starting.network
    and users.date = starting.date
    and users.user = starting.user
join clock on clock.moment = users.clock + quarter
