-- What do servers send again, why, and was it needed (Rendón et al., Table 2)? How often do their
-- timers go off, and how often too soon?
-- One row: the connections of one network, date, local hour, pair of TCP options and group of users of
-- which it is known what their servers sent again.
with resent as (
    select
        cell, sack, timestamps, user_group, needed, new_data, spurious_rto, spurious_by,
        case when cause is null then 'unknown' when not new_data then cause end as cause
    from retransmissions
    join connections on connections.flow_id = retransmissions.flow_id
    where resends is not null
),
counted as (
    select
        cell, sack, timestamps, user_group,
        count(*) filter (where cause = 'fast') as fast,
        count(*) filter (where cause = 'fast' and not needed) as fast_needless,
        count(*) filter (where cause = 'fast' and needed is null) as fast_undecided,
        count(*) filter (where cause = 'rto') as rto,
        count(*) filter (where cause = 'rto' and not needed) as rto_needless,
        count(*) filter (where cause = 'rto' and needed is null) as rto_undecided,
        count(*) filter (where cause = 'slow_start') as slow_start,
        count(*) filter (where cause = 'slow_start' and not needed) as slow_start_needless,
        count(*) filter (where cause = 'slow_start' and needed is null) as slow_start_undecided,
        count(*) filter (where cause = 'tlp') as tlp,
        count(*) filter (where cause = 'tlp' and not needed) as tlp_needless,
        count(*) filter (where cause = 'tlp' and needed is null) as tlp_undecided,
        count(*) filter (where cause = 'unknown') as unknown,
        count(*) filter (where cause = 'unknown' and not needed) as unknown_needless,
        count(*) filter (where cause = 'unknown' and needed is null) as unknown_undecided,
        count(*) filter (where cause = 'synack') as synack,
        count(*) filter (where new_data) as new_data_probes,
        count(spurious_by) as spurious_timeouts,
        count(*) filter (where spurious_rto) as frto_timeouts
    from resent
    group by cell, sack, timestamps, user_group
),
sent as (
    select
        cell, sack, timestamps, user_group,
        count(*) as flows,
        sum(data_packets_down) as data_packets,
        coalesce(sum(timeouts), 0) as timeouts
    from connections
    where resends is not null
    group by cell, sack, timestamps, user_group
)
select
    sent.cell, sent.sack, sent.timestamps, sent.user_group,
    flows, data_packets, timeouts,
    coalesce(fast, 0) as fast,
    coalesce(fast_needless, 0) as fast_needless,
    coalesce(fast_undecided, 0) as fast_undecided,
    coalesce(rto, 0) as rto,
    coalesce(rto_needless, 0) as rto_needless,
    coalesce(rto_undecided, 0) as rto_undecided,
    coalesce(slow_start, 0) as slow_start,
    coalesce(slow_start_needless, 0) as slow_start_needless,
    coalesce(slow_start_undecided, 0) as slow_start_undecided,
    coalesce(tlp, 0) as tlp,
    coalesce(tlp_needless, 0) as tlp_needless,
    coalesce(tlp_undecided, 0) as tlp_undecided,
    coalesce(unknown, 0) as unknown,
    coalesce(unknown_needless, 0) as unknown_needless,
    coalesce(unknown_undecided, 0) as unknown_undecided,
    coalesce(synack, 0) as synack,
    coalesce(new_data_probes, 0) as new_data_probes,
    coalesce(spurious_timeouts, 0) as spurious_timeouts,
    coalesce(frto_timeouts, 0) as frto_timeouts
from sent
left join counted
    on counted.cell = sent.cell
    and counted.sack is not distinct from sent.sack
    and counted.timestamps is not distinct from sent.timestamps
    and counted.user_group = sent.user_group
