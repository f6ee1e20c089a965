-- How do QUIC's connections compare with TCP's in number, volume, set-up and RTT?
-- One row: the connections of one network, date, local hour, protocol, measure, category or bin of
-- 2 %, and user group. Only days on which the network has QUIC connections.
with starting as (
    select *, quarter_hour(start_ts) as quarter
    from quic_flows
),
quic_connections as (
    select
        first_local_hour,
        first_local_hour + hour as local_hour,
        user_group,
        if(begin_seen, 'QUIC', 'partial') as protocol,
        packets_up, packets_down, ip_bytes_up, ip_bytes_down,
        setup_class, setup_delay, rtt_access, rtt_internet,
        spin, if(spin = 'spins', spin_rtt_median, null) as spin_rtt
    from starting
    join user_days
        on user_days.network = starting.network
        and user_days.date = starting.date
        and user_days.user = starting.user
    join local_clock on local_clock.local_quarter = user_days.quarter_offset + quarter
),
both_protocols as (
    select
        local_hour, user_group, 'TCP' as protocol,
        packets_up, packets_down, ip_bytes_up, ip_bytes_down,
        setup_class, setup_delay, rtt_access, rtt_internet,
        null as spin, null as spin_rtt
    from connections
    where first_local_hour in (select first_local_hour from quic_connections)
    union all
    select * exclude (first_local_hour)
    from quic_connections
),
measured as (
    select
        *, 'connection' as measure, setup_class as category, cast(null as double) as value
    from both_protocols
    union all
    select *, 'spin', spin, null
    from both_protocols where protocol = 'QUIC' and spin is not null
    union all
    select *, 'spin_rtt', null, spin_rtt
    from both_protocols where protocol = 'QUIC' and spin_rtt is not null
    union all
    select *, 'setup_delay', null, setup_delay
    from both_protocols where setup_delay is not null
    union all
    select *, 'rtt_access', null, rtt_access
    from both_protocols where rtt_access is not null
    union all
    select *, 'rtt_internet', null, rtt_internet
    from both_protocols where rtt_internet is not null
)
select
    local_hour, protocol, measure, category,
    case when value is not null then cast(floor(50 * ln(greatest(value, 1e-6))) as int) end as bin,
    user_group,
    count(*) as flows,
    coalesce(sum(packets_up) filter (where measure = 'connection'), 0) as packets_up,
    coalesce(sum(packets_down) filter (where measure = 'connection'), 0) as packets_down,
    coalesce(sum(ip_bytes_up) filter (where measure = 'connection'), 0) as ip_bytes_up,
    coalesce(sum(ip_bytes_down) filter (where measure = 'connection'), 0) as ip_bytes_down,
    coalesce(sum(value), 0) as value_sum,
    min(value) as lowest,
    max(value) as highest
from measured
group by all
