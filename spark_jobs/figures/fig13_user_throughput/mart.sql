-- Fig. 13: does a user receive faster when there is background traffic beside a large transfer?
-- One row: the large transfers of one network, date, local hour, level of background traffic, kind
-- of bytes counted (those that passed Gi, as in the paper, or those that arrived), user throughput,
-- in bins of 1 %, and user group.
with rates as (
    select *, 'passed' as counted, user_throughput as rate
    from connections
    union all
    select *, 'arrived' as counted, user_throughput_received as rate
    from connections
)
select
    local_hour,
    cast(least(floor(3 * b_other / nullif(b_tcp + b_other, 0)), 2) as int) as background_thirds,
    counted,
    cast(floor(100 * ln(rate)) as int) as bin,
    count(*) as flows,
    user_group,
    sum(rate) as user_throughput_sum
from rates
where rate > 0
group by all
