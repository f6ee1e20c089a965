-- How long do pages take to load, over how many connections?
-- One row: the pages of one network, date, local hour, class of parallel connections and user
-- group.
with starting as (
    select *, quarter_hour(start_ts) as quarter, epoch_us(end_ts) - epoch_us(start_ts) as us
    from pages
),
located_pages as (
    select first_local_hour + hour as local_hour, user_group, parallel, connections, ip_bytes, us
    from starting
    join user_days
        on user_days.network = starting.network
        and user_days.date = starting.date
        and user_days.user = starting.user
    join local_clock on local_clock.local_quarter = user_days.quarter_offset + quarter
)
select
    local_hour,
    least(nth_bit(highest_bit(parallel)), 8) as parallel,
    user_group,
    count(*) as pages,
    sum(us) / 1e6 as load_time_sum,
    count(*) filter (where us > 10000000) as above_10_s,
    sum(ip_bytes) as ip_bytes,
    sum(connections) as connections
from located_pages
group by all
