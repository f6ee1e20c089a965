-- Fig. 7: at which rates does the channel serve users, and for how long?
-- One row: the measurement periods of one network, date, local hour and rate, in bins of 1 %.
select
    local_hour,
    cast(floor(100 * ln(rate)) as int) as bin,
    count(*) as periods,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    sum(seconds) as seconds,
    sum(ip_bytes) as ip_bytes
from rate_periods
where rate > 0
group by all
