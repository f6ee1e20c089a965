-- How long do packets wait for the access link at worst, user by user (Wennström et al.,
-- Electronics Letters 2004, Fig. 2)?
-- One row: the users of one network, date and local hour, each counted once an hour, of one bin of
-- the largest RTT on the access side and one bin of the wait in the full queue (10 % each), and of
-- one kind of queue. The sums are ordered, because the order of the join's rows differs from plan to
-- plan, and the last digit of a sum with it.
select
    local_hour,
    cast(floor(10 * ln(greatest(rtt_max, 1e-6))) as int) as bin,
    case
        when queue_s is not null then cast(floor(10 * ln(greatest(queue_s, 1e-6))) as int)
    end as queue_bin,
    queue_kind,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    count(*) as links,
    sum(rtt_max order by rtt_max) as rtt_max_sum,
    sum(rtt_min order by rtt_min) as rtt_min_sum,
    coalesce(sum(queue_s order by queue_s), 0) as queue_sum
from located_links
where rtt_max is not null and rtt_min is not null
group by all
