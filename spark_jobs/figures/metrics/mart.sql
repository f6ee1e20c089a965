-- How do networks, days and hours compare: set-up, round trips, channel, losses, rates?
-- One row: a metric of one network, date, local hour and user group. What happens to one user is
-- alike, so the spread of the groups gives confidence intervals. A user is always in the same
-- group, and a group names nobody.
-- Groups: hour, metric
select
    -- int32 [h]: local hour in which the connection or period starts
    local_hour,
    -- string: setup_delay: set-up delay, mean; setup_failed: share of set-ups that fail;
    -- rtt_access: RTT of the handshake on the access side, mean; rtt_internet: RTT of the handshake
    -- on the Internet side, mean; channel_rate: channel rate, mean over the time in which it was
    -- measured; loss_access: share of the data packets at Gi that were lost on the access side;
    -- loss_internet: share of the data packets sent that were lost on the Internet side;
    -- throughput: throughput of single transfers above 100 KiB, bytes that arrived, mean; goodput:
    -- goodput of transfers above 32 KiB, mean; parallel: share of connections with others of their
    -- user at once
    metric,
    user_group,
    -- int64: number of connections, or of periods of a channel rate
    count(*) as measured,
    -- double: the metric is the sum of this column divided by the sum of denominator: seconds,
    -- connections, packets, bits or bit/s
    sum(numerator) as numerator,
    -- double: number of connections; of channel_rate: seconds; of losses: packets
    sum(denominator) as denominator
from metric_terms
group by all
