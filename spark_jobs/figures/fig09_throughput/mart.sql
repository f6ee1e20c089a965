-- Fig. 9: how fast are large transfers without background traffic?
-- One row: the single transfers of one network, date, local hour, kind of bytes counted (those that
-- passed Gi, as in the paper, or those that arrived) and throughput, in bins of 1 %.
-- Groups: hour, counted
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
    -- int32: hundred times the natural logarithm of the rate in bit/s, rounded down: bins of 1 %
    cast(floor(100 * ln(rate)) as int) as bin,
    count(*) as flows,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    -- double [bit/s]: sum of the single-flow throughputs
    sum(rate) as throughput_sum
from rates
where rate > 0
group by all
