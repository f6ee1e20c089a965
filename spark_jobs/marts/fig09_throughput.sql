-- Fig. 9: how fast are large transfers that have the channel to themselves?
-- One row: the single transfers of one network, date, local hour and throughput, in bins of 1 %.
select
    network, date, country, access, hour, period,
    cast(floor(100 * ln(throughput)) as int) as bin,
    count(*) as flows,
    sum(throughput) as throughput_sum
from connections
where throughput > 0
group by all
