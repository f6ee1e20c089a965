-- What limited transfers, by MSS, window and parallel connections (Kohlwes et al., Figs. 4 to 7)?
-- One row: the connections with known limits of one network, date, local hour, MSS, window and
-- number of parallel connections.
with connections_with_segment_size as (
    select
        *,
        case
            when payload_bytes_down > max_ip_len
                then max_ip_len - if(ipv6, 60, 40)
        end as segment_size
    from connections
    where limited_channel + limited_receiver + limited_recovery + limited_slow_start + limited_server
        + limited_mobile is not null
),
connections_with_window as (
    select *, cast(round(max_window / segment_size) as bigint) as segments_in_window
    from connections_with_segment_size
)
select
    local_hour,
    cast(floor(segment_size / 100) as int) * 100 as mss,
    if(segments_in_window = 0, 0, nth_bit(highest_bit(segments_in_window))) as window_segments,
    least(parallel, 1 + nth_bit(highest_bit(parallel - 1))) as parallel,
    count(*) as flows,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    sum(limited_channel) as limited_channel,
    sum(limited_receiver) as limited_receiver,
    sum(limited_recovery) as limited_recovery,
    sum(limited_slow_start) as limited_slow_start,
    sum(limited_server) as limited_server,
    sum(limited_mobile) as limited_mobile,
    count(*) filter (where limited_by = 'channel') as flows_channel,
    count(*) filter (where limited_by = 'receiver') as flows_receiver,
    count(*) filter (where limited_by = 'recovery') as flows_recovery,
    count(*) filter (where limited_by = 'slow_start') as flows_slow_start,
    count(*) filter (where limited_by = 'server') as flows_server,
    count(*) filter (where limited_by = 'mobile') as flows_mobile,
    coalesce(sum(delay_spikes), 0) as delay_spikes,
    count(throughput) as throughput_flows,
    coalesce(sum(throughput), 0) as throughput_sum,
    count(user_throughput) as user_throughput_flows,
    coalesce(sum(user_throughput), 0) as user_throughput_sum,
    sum(ip_bytes_down) as ip_bytes_down
from connections_with_window
group by all
