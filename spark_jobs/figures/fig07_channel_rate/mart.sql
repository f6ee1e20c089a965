-- Fig. 7: at which rates does the channel serve users, and for how long?
-- One row: the measurement periods of one network, date, local hour and rate, in bins of 1 %.
-- Groups: hour
select
    -- int32 [h]: local hour in which the period starts
    local_hour,
    -- int32: hundred times the natural logarithm of the rate in bit/s, rounded down: bins of 1 %
    cast(floor(100 * ln(rate)) as int) as bin,
    -- int64 [periods]: number of measurement periods
    count(*) as periods,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    -- double [s]: sum of their durations
    sum(seconds) as seconds,
    -- int64 [B]: IP bytes sent in them
    sum(ip_bytes) as ip_bytes
from rate_periods
where rate > 0
group by all
