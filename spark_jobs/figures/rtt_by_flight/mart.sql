-- How does the RTT grow with the data in flight, and how much of it is time in a queue?
-- One row: the RTT samples on the access side of one network, date, local hour, bin of bytes in
-- flight (half powers of two), bin of the RTT (10 %), delayed or not.
-- Groups: hour, flight, delayed
with access_samples as (
    select *, quarter_hour(ts) as quarter, utc_hour(ts) as utc_hour
    from rtt_samples
    where side = 'access' and flight is not null and rtt is not null
),
located_samples as (
    select
        first_local_hour + local_clock.hour as local_hour,
        -- The largest edge floor(2 ^ (k / 2)) that is not above flight.
        cast(floor(power(2, highest_bit(cast(power(flight + 1e0, 2) as bigint) - 1) / 2)) as bigint)
            as flight,
        cast(floor(10 * ln(greatest(rtt, 1e-6))) as int) as bin,
        delayed,
        located_connections.user_group, located_connections.user_bit,
        rtt,
        rtt - links.rtt_min as queueing
    from access_samples
    join located_connections on located_connections.flow_id = access_samples.flow_id
    join local_clock
        on local_clock.local_quarter = located_connections.quarter_offset + quarter
    left join located_links as links
        on links.link_key = located_connections.link_key
        and links.utc_hour = access_samples.utc_hour
)
select
    -- int32 [h]: local hour in which the RTT sample ends
    local_hour,
    -- int64 [B]: lower edge of the bin of bytes in flight when the data packet passed Gi, its own
    -- included: half powers of two, rounded down (1024, 1448, 2048, 2896, ...)
    flight,
    -- int32: ten times the natural logarithm of the RTT in s, rounded down: bins of 10 %. A median
    -- interpolated within its bin has an error of a few per cent
    bin,
    -- bool (RFC 9293, 3.8.6.3): whether the ACK may be a delayed ACK: it answers a single segment
    delayed,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    -- int64 [RTT samples]: number of RTT samples
    count(*) as rtt_samples,
    -- double [s]: sum of the RTTs
    sum(rtt) as rtt_sum,
    -- int64 [RTT samples]: of these, samples for which the user's base RTT of the hour of UTC is
    -- known (links.rtt_min)
    count(queueing) as queueing_samples,
    -- double [s]: sum of the differences between their RTTs and the base RTT
    coalesce(sum(queueing), 0) as queueing_sum
from located_samples
group by all
