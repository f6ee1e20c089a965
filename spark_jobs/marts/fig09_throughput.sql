-- Fig. 9: how fast are large transfers that have the channel to themselves?
-- One row: the single transfers of one network, date, local hour, what is counted (what passed Gi, as
-- the paper has it, or what arrived) and throughput, in bins of 1 %.
with rates as (
    select *, 'passed' as counted, throughput as rate
    from connections
    union all
    select *, 'arrived' as counted, throughput_received as rate
    from connections
)
select
    local_hour,
    counted,
    cast(floor(100 * ln(rate)) as int) as bin,
    count(*) as flows,
    bit_or(user_bit) as user_groups,
    sum(rate) as throughput_sum
from rates
where rate > 0
group by all
