-- How long do pages take to load, over how many connections?
-- One row: the pages of one network, date, local hour, class of parallel connections and user
-- group.
-- Groups: hour, parallel
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
    -- int32 [h]: local hour in which the page starts
    local_hour,
    -- int64 [connections] (Kohlwes, Riihijärvi and Mähönen, Fig. 4): maximum number of connections
    -- of the page that were active at the same time: lower edge of 1, 2-3, 4-7, and 8 and more
    least(nth_bit(highest_bit(parallel)), 8) as parallel,
    user_group,
    -- int64 [pages]: number of pages
    count(*) as pages,
    -- double [s]: sum of the times from a page's start to the ACK of its last data
    sum(us) / 1e6 as load_time_sum,
    -- int64 [pages] (Nielsen, Usability Engineering, 5.5): of these, pages that load for more than
    -- 10 s
    count(*) filter (where us > 10000000) as above_10_s,
    -- int64 [B]: IP bytes of data to the mobile
    sum(ip_bytes) as ip_bytes,
    -- int64 [connections]: connections of the pages
    sum(connections) as connections
from located_pages
group by all
