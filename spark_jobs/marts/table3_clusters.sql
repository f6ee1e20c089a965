-- Table III, Figs. 14 to 17: how does goodput differ with MSS, window, SACK and timestamps?
-- One row: the single greedy transfers above 32 KB of one network, date, local hour, cluster of
-- options, class of size, group of users and channel rate: the median of what its user's channel gave
-- in the hour (UTC) in which the transfer starts, in bins of 1 %; null where nothing told it.
with rated as (
    select user_hour, median(rate) as rate
    from rate_periods
    where rate > 0
    group by all
),
transfers as (
    select
        connections.*,
        highest_bit(payload_bytes_down) as size_class,
        cast(floor(100 * ln(rated.rate)) as int) as rate_bin
    from connections
    left join rated on rated.user_hour = hours + utc_hour
    where single and request_response and payload_bytes_down > 32768 and goodput > 0
        and mss_class is not null and window_class is not null and sack is not null
)
select
    local_hour,
    mss_class, window_class, sack, timestamps, size_class, user_group, rate_bin,
    count(*) as flows,
    sum(goodput) as goodput_sum,
    sum(goodput * goodput) as goodput_squares,
    sum(ln(goodput)) as log_goodput_sum
from transfers
group by all
