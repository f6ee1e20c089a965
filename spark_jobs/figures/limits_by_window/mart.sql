-- What limited transfers, by MSS, window and parallel connections (Kohlwes et al., Figs. 4 to 7)?
-- One row: the connections with known limits of one network, date, local hour, MSS, window and
-- number of parallel connections.
-- Groups: hour, mss, window_segments, parallel
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
    -- int32 or null [B] (RFC 9293, 3.7.1): maximum segment size, inferred from the largest IP
    -- packet less its fixed headers, rounded down to hundreds. Null if the downlink data fits into
    -- one such packet
    cast(floor(segment_size / 100) as int) * 100 as mss,
    -- int64 or null [segments] (Kohlwes, Riihijärvi and Mähönen, Figs. 5 to 7): the mobile's
    -- largest window in such segments, rounded: lower edge of 1, 2-3, 4-7, 8-15, ...; 0 below half
    -- a segment. Null if window or segment size is not known
    if(segments_in_window = 0, 0, nth_bit(highest_bit(segments_in_window))) as window_segments,
    -- int64 or null [connections] (Kohlwes, Riihijärvi and Mähönen, Figs. 4, 6 and 7): maximum
    -- number of the user's connections that were active at once, this one included
    -- (flows.parallel): lower edge of 1, 2, 3-4, 5-8, ... Null if it was never active
    least(parallel, 1 + nth_bit(highest_bit(parallel - 1))) as parallel,
    count(*) as flows,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    -- double [s] (Zhang et al., SIGCOMM 2002): time in which the access link was busy
    sum(limited_channel) as limited_channel,
    -- double [s] (Zhang et al., SIGCOMM 2002): time in which the mobile's window was full
    sum(limited_receiver) as limited_receiver,
    -- double [s] (Zhang et al., SIGCOMM 2002): time in which a loss was being repaired, or a loss
    -- or a mark of ECN had reduced the congestion window
    sum(limited_recovery) as limited_recovery,
    -- double [s] (Zhang et al., SIGCOMM 2002): time in which the congestion window had not yet
    -- grown to the link's capacity
    sum(limited_slow_start) as limited_slow_start,
    -- double [s] (Zhang et al., SIGCOMM 2002): time in which the server sent nothing though it had
    -- room or all data was acknowledged
    sum(limited_server) as limited_server,
    -- double [s] (Zhang et al., SIGCOMM 2002): time in which the mobile's window was closed, or the
    -- mobile had not requested more
    sum(limited_mobile) as limited_mobile,
    -- int64 [spikes]: number of delay spikes (flows.delay_spikes). Divided by the sum of the six
    -- times, it is their rate
    coalesce(sum(delay_spikes), 0) as delay_spikes,
    -- int64 [connections]: connections with a user throughput: above 100 KiB
    count(user_throughput) as user_throughput_flows,
    -- double [bit/s]: sum of the user throughputs
    coalesce(sum(user_throughput), 0) as user_throughput_sum,
    -- int64 [B]: IP bytes to the mobile
    sum(ip_bytes_down) as ip_bytes_down
from connections_with_window
group by all
