-- What do servers send again, why, and was it needed (Rendón et al., Table 2)? How often do their
-- timers go off, and how often too soon?
-- One row: the connections of one network, date, local hour, pair of TCP options and group of users of
-- which it is known what their servers sent again.
with causes as (
    select
        network, date, flow_id, needed, new_data, spurious_rto, spurious_by,
        case when cause is null then 'unknown' when not new_data then cause end as cause
    from retransmissions
),
counted as (
    select
        network, date, flow_id,
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
    from causes
    group by network, date, flow_id
)
select
    connections.network, connections.date, country, access, hour, period,
    sack, timestamps,
    user_group,
    count(*) as flows,
    sum(data_packets_down) as data_packets,
    coalesce(sum(fast), 0) as fast,
    coalesce(sum(fast_needless), 0) as fast_needless,
    coalesce(sum(fast_undecided), 0) as fast_undecided,
    coalesce(sum(rto), 0) as rto,
    coalesce(sum(rto_needless), 0) as rto_needless,
    coalesce(sum(rto_undecided), 0) as rto_undecided,
    coalesce(sum(slow_start), 0) as slow_start,
    coalesce(sum(slow_start_needless), 0) as slow_start_needless,
    coalesce(sum(slow_start_undecided), 0) as slow_start_undecided,
    coalesce(sum(tlp), 0) as tlp,
    coalesce(sum(tlp_needless), 0) as tlp_needless,
    coalesce(sum(tlp_undecided), 0) as tlp_undecided,
    coalesce(sum(unknown), 0) as unknown,
    coalesce(sum(unknown_needless), 0) as unknown_needless,
    coalesce(sum(unknown_undecided), 0) as unknown_undecided,
    coalesce(sum(synack), 0) as synack,
    coalesce(sum(new_data_probes), 0) as new_data_probes,
    coalesce(sum(timeouts), 0) as timeouts,
    coalesce(sum(spurious_timeouts), 0) as spurious_timeouts,
    coalesce(sum(frto_timeouts), 0) as frto_timeouts
from connections
left join counted
    on counted.network = connections.network
    and counted.date = connections.date
    and counted.flow_id = connections.flow_id
where resends is not null
group by all
