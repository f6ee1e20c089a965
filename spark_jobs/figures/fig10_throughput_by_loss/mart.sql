-- Fig. 10: how much throughput does loss cost a large single transfer?
-- One row: the single transfers of one network, date, local hour, class of loss and user group. The
-- class is the ratio of the packets lost on both sides to the packets sent.
-- Groups: hour, loss_class
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
    -- int32 [%] (INFOCOM VI.A): lower edge of the class of the ratio of lost packets to data
    -- packets sent: 0, 1, 2 or 3 (3 % and more)
    cast(least(floor(loss), 3) as int) as loss_class,
    user_group,
    count(*) as flows,
    -- double [bit/s]: sum of the single-flow throughputs: bytes that passed Gi
    sum(throughput) as throughput_sum,
    -- double [bit/s]: sum of the throughputs of the bytes that arrived (flows.throughput_received)
    sum(throughput_received) as received_sum,
    -- double [bit/s]: sum of the goodputs
    sum(goodput) as goodput_sum
from transfers
where loss is not null
group by local_hour, loss_class, user_group
