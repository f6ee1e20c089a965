-- How long do packets wait for the access link at worst, user by user (Wennström et al.,
-- Electronics Letters 2004, Fig. 2)?
-- One row: the users of one network, date and local hour, each counted once an hour, of one bin of
-- the largest RTT on the access side and one bin of the wait in the full queue (10 % each), and of
-- one kind of queue.
-- Groups: hour, queue_kind
--
-- The sums are ordered, because the order of the join's rows differs from plan to plan, and the
-- last digit of a sum with it.
select
    -- int32 [h]: local hour in which the RTT samples end
    local_hour,
    -- int32: ten times the natural logarithm of the user's largest RTT of the hour in s
    -- (links.rtt_max), rounded down: bins of 10 %. A median interpolated within its bin has an
    -- error of a few per cent
    cast(floor(10 * ln(greatest(rtt_max, 1e-6))) as int) as bin,
    -- string or null (RFC 7567): the kind of queue (links.queue_kind): fifo, early_drop or fair.
    -- Null if not known
    queue_kind,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    -- int64 [user-hours] (Wennström et al., Electronics Letters 2004, Fig. 2): number of users and
    -- hours: a user counts once in every hour with RTT samples
    count(*) as links,
    -- double [s]: sum of their largest RTTs
    sum(rtt_max order by rtt_max) as rtt_max_sum,
    -- double [s]: sum of their base RTTs: largest RTT less base RTT is queueing delay
    sum(rtt_min order by rtt_min) as rtt_min_sum
from located_links
where rtt_max is not null and rtt_min is not null
group by all
