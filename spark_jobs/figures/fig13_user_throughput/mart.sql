-- Fig. 13: does a user receive faster when there is background traffic beside a large transfer?
-- One row: the large transfers of one network, date, local hour, level of background traffic, kind
-- of bytes counted (those that passed Gi, as in the paper, or those that arrived), user throughput,
-- in bins of 1 %, and user group.
-- Groups: hour, background_thirds, counted
with rates as (
    select *, 'passed' as counted, user_throughput as rate
    from connections
    union all
    select *, 'arrived' as counted, user_throughput_received as rate
    from connections
)
select
    local_hour,
    -- int32 (INFOCOM VI.B): level of background traffic, b_other / (b_tcp + b_other): 0 (below
    -- 1/3), 1 (from 1/3 to 2/3) or 2 (2/3 and more)
    cast(least(floor(3 * b_other / nullif(b_tcp + b_other, 0)), 2) as int) as background_thirds,
    counted,
    -- int32: hundred times the natural logarithm of the rate in bit/s, rounded down: bins of 1 %
    cast(floor(100 * ln(rate)) as int) as bin,
    count(*) as flows,
    user_group,
    -- double [bit/s]: sum of the user throughputs
    sum(rate) as user_throughput_sum
from rates
where rate > 0
group by all
