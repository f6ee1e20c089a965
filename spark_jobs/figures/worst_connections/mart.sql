-- Which connections were the slowest, stalled longest, or lost the largest share of packets?
-- One row: one of the 20 worst connections of one network, date and local hour in one respect. The
-- worst of several hours, days or networks are among the worst of each.
-- Groups: hour, worst_by, flow_id, limited_by
with stall_times as (
    select flow_id, sum(epoch_us(end_ts) - epoch_us(start_ts)) / 1e6 as stalled
    from stalls
    group by flow_id
),
measured as (
    select
        local_hour, connections.flow_id,
        payload_bytes_down, goodput, data_packets_down, limited_by,
        coalesce(stalled, 0) as stalled,
        (lost_access_expected + lost_internet_expected)
            / nullif(data_packets_down + lost_internet_expected, 0) as loss
    from connections
    left join stall_times on stall_times.flow_id = connections.flow_id
),
badness as (
    select *, 'slowest' as worst_by, -goodput as how_bad
    from measured where goodput is not null and payload_bytes_down > 32768
    union all
    select *, 'most_stalled', stalled
    from measured where stalled > 0
    union all
    select *, 'most_lossy', loss
    from measured where loss > 0 and data_packets_down >= 20
)
select
    local_hour,
    -- string: slowest (least goodput, of more than 32 KiB), most_stalled (longest time in stalls)
    -- or most_lossy (largest loss, of at least 20 data packets)
    worst_by,
    -- int64: the connection, as in flows, for `giscope serve`, `why` and `plot`
    flow_id,
    -- int64 [B]: distinct payload bytes to the mobile, as in flows
    payload_bytes_down,
    -- double or null [bit/s]: distinct payload per second, as in flows
    goodput,
    -- double [s]: total time of its stalls
    stalled,
    -- int64 [packets]: packets with payload to the mobile, as in flows
    data_packets_down,
    -- double or null: share of the data packets to the mobile that were lost on either side
    -- (expected losses). Null if the losses are not known
    loss,
    -- string or null: the limit of the transfer, as in flows
    limited_by
from badness
qualify row_number() over (partition by local_hour, worst_by order by how_bad desc, flow_id) <= 20
