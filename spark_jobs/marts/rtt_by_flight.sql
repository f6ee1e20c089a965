-- How does the round trip grow with the data in flight, and how much of it is waiting in a queue?
-- One row: the access side's round trips of one network, date, local hour, bin of bytes in flight
-- (half powers of two), bin of the round trip (10 %), delayed or not.
with users as (
    select network, date, flow_id, flows.user, nth_bit(user_group(flows.user)) as user_bit
    from flows
),
trips as (
    select
        round_trips.network,
        round_trips.date,
        places.country,
        places.access,
        places.peak_from,
        places.peak_until,
        places.off_peak_from,
        places.off_peak_until,
        local_hour(round_trips.ts, places.timezone) as hour,
        -- The greatest edge floor(2 ^ (k / 2)) that is not above flight.
        floor(power(2, highest_bit(cast(power(flight + 1e0, 2) as bigint) - 1) / 2)) as flight,
        cast(floor(10 * ln(greatest(rtt, 1e-6))) as int) as bin,
        delayed,
        user_bit,
        rtt,
        rtt - links.rtt_min as queueing
    from round_trips
    join users
        on users.network = round_trips.network
        and users.date = round_trips.date
        and users.flow_id = round_trips.flow_id
    join places on places.network = round_trips.network
    left join links
        on links.network = users.network
        and links.date = users.date
        and links.user = users.user
        and links.hour = date_trunc('hour', round_trips.ts)
    where round_trips.side = 'access'
)
select
    network, date, country, access, hour,
    period_of(hour, peak_from, peak_until, off_peak_from, off_peak_until) as period,
    flight, bin, delayed,
    bit_or(user_bit) as user_groups,
    count(*) as round_trips,
    sum(rtt) as rtt_sum,
    count(queueing) as queueing_round_trips,
    coalesce(sum(queueing), 0) as queueing_sum
from trips
group by all
