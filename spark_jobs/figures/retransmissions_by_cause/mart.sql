-- What do servers retransmit, why, and was it needed (Rendón et al., Table 2)? How often do their
-- retransmission timers expire, and how often spuriously?
-- One row: the connections with known retransmissions of one network, date, local hour, pair of
-- TCP options and user group.
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
        count(*) filter (where new_data) as new_data_probes,
        count(spurious_by) as spurious_rto_expiries,
        count(*) filter (where spurious_rto) as frto_rto_expiries
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
    connection_counts.local_hour, connection_counts.sack, connection_counts.timestamps,
    connection_counts.user_group,
    flows, data_packets, rto_expiries,
    coalesce(fast, 0) as fast,
    coalesce(fast_spurious, 0) as fast_spurious,
    coalesce(fast_undecided, 0) as fast_undecided,
    coalesce(rto, 0) as rto,
    coalesce(rto_spurious, 0) as rto_spurious,
    coalesce(rto_undecided, 0) as rto_undecided,
    coalesce(slow_start, 0) as slow_start,
    coalesce(slow_start_spurious, 0) as slow_start_spurious,
    coalesce(slow_start_undecided, 0) as slow_start_undecided,
    coalesce(tlp, 0) as tlp,
    coalesce(tlp_spurious, 0) as tlp_spurious,
    coalesce(tlp_undecided, 0) as tlp_undecided,
    coalesce(pmtu, 0) as pmtu,
    coalesce(pmtu_spurious, 0) as pmtu_spurious,
    coalesce(pmtu_undecided, 0) as pmtu_undecided,
    coalesce(unknown, 0) as unknown,
    coalesce(unknown_spurious, 0) as unknown_spurious,
    coalesce(unknown_undecided, 0) as unknown_undecided,
    coalesce(synack, 0) as synack,
    coalesce(new_data_probes, 0) as new_data_probes,
    coalesce(spurious_rto_expiries, 0) as spurious_rto_expiries,
    coalesce(frto_rto_expiries, 0) as frto_rto_expiries
from connection_counts
left join retransmission_counts
    on retransmission_counts.local_hour = connection_counts.local_hour
    and retransmission_counts.sack is not distinct from connection_counts.sack
    and retransmission_counts.timestamps is not distinct from connection_counts.timestamps
    and retransmission_counts.user_group = connection_counts.user_group
