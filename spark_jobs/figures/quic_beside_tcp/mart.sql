-- How do QUIC's connections compare with TCP's in number, volume, set-up and RTT?
-- One row: the connections of one network, date, local hour, protocol, measure, category or bin of
-- 2 %, and user group. Only days on which the network has QUIC connections.
-- Groups: hour, protocol, measure, category
with quic_connections as (
    select
        first_local_hour, local_hour, user_group,
        if(begin_seen, 'QUIC', 'partial') as protocol,
        packets_up, packets_down, ip_bytes_up, ip_bytes_down,
        setup_class, setup_delay, rtt_access, rtt_internet,
        spin, if(spin = 'spins', spin_rtt_median, null) as spin_rtt
    from located_quic
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
    local_hour,
    -- string: TCP (connections that the mobile opened), QUIC, or partial (QUIC connections whose
    -- beginning was not seen; they have no measure but connection)
    protocol,
    -- string: connection (every connection once); spin (those whose spin bit has a class); or a
    -- time: setup_delay, rtt_access or rtt_internet, as in flows and quic_flows, or spin_rtt
    -- (quic_flows.spin_rtt_median of the spin bits that spin)
    measure,
    -- string or null: of connection: setup_class, as in flows and quic_flows, null if not known; of
    -- spin: as in quic_flows. Null for times
    category,
    -- int32 or null: of a time: fifty times its natural logarithm in s, rounded down: bins of 2 %.
    -- Else null
    case when value is not null then cast(floor(50 * ln(greatest(value, 1e-6))) as int) end as bin,
    user_group,
    count(*) as flows,
    -- int64 [packets]: packets from the mobile; 0 but for the measure connection
    coalesce(sum(packets_up) filter (where measure = 'connection'), 0) as packets_up,
    -- int64 [packets]: packets to the mobile; 0 but for the measure connection
    coalesce(sum(packets_down) filter (where measure = 'connection'), 0) as packets_down,
    -- int64 [B]: IP bytes from the mobile; 0 but for the measure connection
    coalesce(sum(ip_bytes_up) filter (where measure = 'connection'), 0) as ip_bytes_up,
    -- int64 [B]: IP bytes to the mobile; 0 but for the measure connection
    coalesce(sum(ip_bytes_down) filter (where measure = 'connection'), 0) as ip_bytes_down,
    -- double [s]: sum of their times; else 0
    coalesce(sum(value), 0) as value_sum,
    -- double or null [s]: smallest of their times
    min(value) as lowest,
    -- double or null [s]: largest of their times
    max(value) as highest
from measured
group by all
