-- Fig. 10: how much throughput does loss cost a large single transfer?
-- One row: the single transfers of one network, date, local hour, class of loss and user
-- group. The class is the ratio of the packets lost on both sides to the packets sent.
with transfers as (
    select
        *,
        100 * (lost_access_expected + lost_internet_expected)
            / nullif(data_packets_down + lost_internet_expected, 0) as loss
    from connections
    where single and request_response
        and throughput is not null and throughput_received is not null and goodput is not null
)
select
    local_hour,
    cast(least(floor(loss), 3) as int) as loss_class,
    user_group,
    count(*) as flows,
    sum(throughput) as throughput_sum,
    sum(throughput_received) as received_sum,
    sum(goodput) as goodput_sum
from transfers
where loss is not null
group by local_hour, loss_class, user_group
