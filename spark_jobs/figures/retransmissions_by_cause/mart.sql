-- What do servers retransmit, why, and was it needed (Rendón et al., Table 2)? How often do their
-- retransmission timers expire, and how often spuriously?
-- One row: the connections with known retransmissions of one network, date, local hour, pair of TCP
-- options and user group.
-- Groups: hour, sack, timestamps
with retransmitted_packets as (
    select
        local_hour, sack, timestamps, user_group, needed, new_data, spurious_rto, spurious_by,
        case when cause is null then 'unknown' when not new_data then cause end as cause
    from retransmissions
    join connections on connections.flow_id = retransmissions.flow_id
    where retransmissions is not null
),
retransmission_counts as (
    select
        local_hour, sack, timestamps, user_group,
        count(*) filter (where cause = 'fast') as fast,
        count(*) filter (where cause = 'fast' and not needed) as fast_spurious,
        count(*) filter (where cause = 'fast' and needed is null) as fast_undecided,
        count(*) filter (where cause = 'rto') as rto,
        count(*) filter (where cause = 'rto' and not needed) as rto_spurious,
        count(*) filter (where cause = 'rto' and needed is null) as rto_undecided,
        count(*) filter (where cause = 'slow_start') as slow_start,
        count(*) filter (where cause = 'slow_start' and not needed) as slow_start_spurious,
        count(*) filter (where cause = 'slow_start' and needed is null) as slow_start_undecided,
        count(*) filter (where cause = 'tlp') as tlp,
        count(*) filter (where cause = 'tlp' and not needed) as tlp_spurious,
        count(*) filter (where cause = 'tlp' and needed is null) as tlp_undecided,
        count(*) filter (where cause = 'pmtu') as pmtu,
        count(*) filter (where cause = 'pmtu' and not needed) as pmtu_spurious,
        count(*) filter (where cause = 'pmtu' and needed is null) as pmtu_undecided,
        count(*) filter (where cause = 'unknown') as unknown,
        count(*) filter (where cause = 'unknown' and not needed) as unknown_spurious,
        count(*) filter (where cause = 'unknown' and needed is null) as unknown_undecided,
        count(*) filter (where cause = 'synack') as synack,
        count(spurious_by) as spurious_rto_expiries
    from retransmitted_packets
    group by local_hour, sack, timestamps, user_group
),
connection_counts as (
    select
        local_hour, sack, timestamps, user_group,
        count(*) as flows,
        sum(data_packets_down) as data_packets,
        coalesce(sum(rto_expiries), 0) as rto_expiries
    from connections
    where retransmissions is not null
    group by local_hour, sack, timestamps, user_group
)
select
    connection_counts.local_hour,
    connection_counts.sack,
    connection_counts.timestamps,
    connection_counts.user_group,
    flows,
    -- int64 [packets] (Rendón, Casadevall and Faner, Table 2): downlink packets with data seen at
    -- Gi, retransmissions included
    data_packets,
    -- int64 [expiries] (RFC 6298): expiries of the servers' retransmission timers, backed off or
    -- not, for data or SYN ACKs, whether Gi saw what the servers sent then or not
    -- (flows.rto_expiries)
    rto_expiries,
    -- int64 [packets] (RFC 5681, 6298, 6675, 8985): retransmissions (data, FINs) seen at Gi that
    -- were sent on duplicate ACKs or SACK blocks, and in the rest of that recovery
    coalesce(fast, 0) as fast,
    -- int64 [packets] (RFC 3522): of these, spurious retransmissions: their data had arrived
    coalesce(fast_spurious, 0) as fast_spurious,
    -- int64 [packets]: of these, retransmissions that may be spurious or not, FINs among them
    coalesce(fast_undecided, 0) as fast_undecided,
    -- int64 [packets] (RFC 5681, 6298, 6675, 8985): retransmissions (data, FINs) seen at Gi that
    -- were sent after an RTO expiry
    coalesce(rto, 0) as rto,
    -- int64 [packets] (RFC 3522): of these, spurious retransmissions: their data had arrived
    coalesce(rto_spurious, 0) as rto_spurious,
    -- int64 [packets]: of these, retransmissions that may be spurious or not, FINs among them
    coalesce(rto_undecided, 0) as rto_undecided,
    -- int64 [packets] (RFC 5681, 6298, 6675, 8985): retransmissions (data, FINs) seen at Gi that
    -- were sent in the slow start after an RTO expiry, on ACKs
    coalesce(slow_start, 0) as slow_start,
    -- int64 [packets] (RFC 3522): of these, spurious retransmissions: their data had arrived
    coalesce(slow_start_spurious, 0) as slow_start_spurious,
    -- int64 [packets]: of these, retransmissions that may be spurious or not, FINs among them
    coalesce(slow_start_undecided, 0) as slow_start_undecided,
    -- int64 [packets] (RFC 5681, 6298, 6675, 8985): retransmissions (data, FINs) seen at Gi that
    -- were sent as a loss probe
    coalesce(tlp, 0) as tlp,
    -- int64 [packets] (RFC 3522): of these, spurious retransmissions: their data had arrived
    coalesce(tlp_spurious, 0) as tlp_spurious,
    -- int64 [packets]: of these, retransmissions that may be spurious or not, FINs among them
    coalesce(tlp_undecided, 0) as tlp_undecided,
    -- int64 [packets] (RFC 5681, 6298, 6675, 8985): retransmissions (data, FINs) seen at Gi that
    -- were sent on ICMP's message that packets were too big for the path
    coalesce(pmtu, 0) as pmtu,
    -- int64 [packets] (RFC 3522): of these, spurious retransmissions: their data had arrived
    coalesce(pmtu_spurious, 0) as pmtu_spurious,
    -- int64 [packets]: of these, retransmissions that may be spurious or not, FINs among them
    coalesce(pmtu_undecided, 0) as pmtu_undecided,
    -- int64 [packets] (RFC 5681, 6298, 6675, 8985): retransmissions (data, FINs) seen at Gi that
    -- were sent for an unknown cause
    coalesce(unknown, 0) as unknown,
    -- int64 [packets] (RFC 3522): of these, spurious retransmissions: their data had arrived
    coalesce(unknown_spurious, 0) as unknown_spurious,
    -- int64 [packets]: of these, retransmissions that may be spurious or not, FINs among them
    coalesce(unknown_undecided, 0) as unknown_undecided,
    -- int64 [packets]: retransmissions of SYN ACKs, which are never checked for being spurious
    coalesce(synack, 0) as synack,
    -- int64 [expiries] (RFC 5682, 3522, 3708): of rto, spurious RTO expiries by any sign
    -- (retransmissions.spurious_by)
    coalesce(spurious_rto_expiries, 0) as spurious_rto_expiries
from connection_counts
left join retransmission_counts
    on retransmission_counts.local_hour = connection_counts.local_hour
    and retransmission_counts.sack is not distinct from connection_counts.sack
    and retransmission_counts.timestamps is not distinct from connection_counts.timestamps
    and retransmission_counts.user_group = connection_counts.user_group
