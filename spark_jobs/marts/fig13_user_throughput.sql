-- Fig. 13: does a user receive faster when more runs beside a large transfer?
-- One row: the large transfers of one network, date, local hour, level of background traffic and
-- user throughput, in bins of 1 %.
select
    network, date, country, access, hour, period,
    cast(least(floor(3 * b_other / (b_tcp + b_other)), 2) as int) as background_thirds,
    cast(floor(100 * ln(user_throughput)) as int) as bin,
    count(*) as flows,
    sum(user_throughput) as user_throughput_sum
from connections
where user_throughput > 0
group by all
