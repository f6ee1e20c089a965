-- What do servers retransmit, why, and was it needed (Rendón et al., Table 2)? How often do their
-- timers go off, and how often too soon?
-- One row: the connections of one network, date, local hour, pair of TCP options and group of users of
-- which it is known what their servers retransmitted.
with retransmitted as (
    select
        local_hour, sack, timestamps, user_group, needed, new_data, spurious_rto, spurious_by,
        case when cause is null then 'unknown' when not new_data then cause end as cause
    from retransmissions
    join connections on connections.flow_id = retransmissions.flow_id
    where retransmissions is not null
),
counted as (
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
        count(*) filter (where cause = 'unknown') as unknown,
        count(*) filter (where cause = 'unknown' and not needed) as unknown_spurious,
        count(*) filter (where cause = 'unknown' and needed is null) as unknown_undecided,
        count(*) filter (where cause = 'synack') as synack,
        count(*) filter (where new_data) as new_data_probes,
        count(spurious_by) as spurious_rto_expiries,
        count(*) filter (where spurious_rto) as frto_rto_expiries
    from retransmitted
    group by local_hour, sack, timestamps, user_group
),
sent as (
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
    sent.local_hour, sent.sack, sent.timestamps, sent.user_group,
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
    coalesce(unknown, 0) as unknown,
    coalesce(unknown_spurious, 0) as unknown_spurious,
    coalesce(unknown_undecided, 0) as unknown_undecided,
    coalesce(synack, 0) as synack,
    coalesce(new_data_probes, 0) as new_data_probes,
    coalesce(spurious_rto_expiries, 0) as spurious_rto_expiries,
    coalesce(frto_rto_expiries, 0) as frto_rto_expiries
from sent
left join counted
    on counted.local_hour = sent.local_hour
    and counted.sack is not distinct from sent.sack
    and counted.timestamps is not distinct from sent.timestamps
    and counted.user_group = sent.user_group
