-- Not a mart: what each connection, or period of a channel rate, adds to the metrics by which
-- hours, days and networks are compared.
-- One row: the terms of one connection or period in one metric. The metric is the sum of
-- `numerator` divided by the sum of `denominator`.
with connection_terms as (
    select *, 'setup_delay' as metric, setup_delay as numerator, 1 as denominator
    from connections where setup_delay is not null
    union all
    select
        *, 'setup_failed',
        case when setup_class in ('optimal', 'slight_problem') then 0 else 1 end, 1
    from connections where setup_class is not null
    union all
    select *, 'rtt_access', rtt_access, 1
    from connections where rtt_access is not null
    union all
    select *, 'rtt_internet', rtt_internet, 1
    from connections where rtt_internet is not null
    union all
    select *, 'loss_access', lost_access_expected, data_packets_down
    from connections where lost_access_expected is not null and data_packets_down > 0
    union all
    select *, 'loss_internet', lost_internet_expected, data_packets_down + lost_internet_expected
    from connections where lost_internet_expected is not null and data_packets_down > 0
    union all
    select *, 'throughput', throughput_received, 1
    from connections where throughput_received is not null
    union all
    select *, 'goodput', goodput, 1
    from connections where goodput is not null and payload_bytes_down > 32768
    union all
    select *, 'parallel', case when parallel > 1 then 1 else 0 end, 1
    from connections where parallel is not null
)
select
    local_hour, first_slot as slot, user_group,
    sack, timestamps, mss_class, window_class,
    metric, cast(numerator as double) as numerator, cast(denominator as double) as denominator
from connection_terms
union all
select
    local_hour, slot, user_group,
    null as sack, null as timestamps, null as mss_class, null as window_class,
    'channel_rate' as metric, cast(8 * ip_bytes as double) as numerator, seconds as denominator
from rate_periods
where seconds > 0
