-- How does the round trip grow with the data in flight, and how much of it is waiting in a queue?
-- One row: the access side's round trips of one network, date, local hour, bin of bytes in flight
-- (half powers of two), bin of the round trip (10 %), delayed or not.
with timed as (
    select *, quarter_hour(ts) as quarter, utc_hour(ts) as utc_hour
    from rtt_samples
    where side = 'access'
),
trips as (
    select
        day + clock.hour as local_hour,
        -- The greatest edge floor(2 ^ (k / 2)) that is not above flight.
        floor(power(2, highest_bit(cast(power(flight + 1e0, 2) as bigint) - 1) / 2)) as flight,
        cast(floor(10 * ln(greatest(rtt, 1e-6))) as int) as bin,
        delayed,
        placed.user_bit,
        rtt,
        rtt - links.rtt_min as queueing
    from timed
    join placed on placed.flow_id = timed.flow_id
    join clock on clock.moment = placed.clock + quarter
    left join placed_links as links on links.user_hour = hours + timed.utc_hour
)
select
    local_hour, flight, bin, delayed,
    bit_or(user_bit) as user_groups,
    count(*) as rtt_samples,
    sum(rtt) as rtt_sum,
    count(queueing) as queueing_samples,
    coalesce(sum(queueing), 0) as queueing_sum
from trips
group by all
