-- How long are the RTOs of the servers, by TCP options, and how much longer than the round trip
-- (Rendón et al., Figs. 4 and 5)?
-- One row: the RTOs of one network, date, local hour, pair of TCP options, backed off or not, and
-- one bin (10 %) of one measure: of the RTO, or of its ratio to the round trip.
-- Groups: hour, sack, timestamps, backed_off, measure
with starting as (
    select *, quarter_hour(ts) as quarter
    from rto_values
),
located_rtos as (
    select
        first_local_hour + hour as local_hour,
        sack, timestamps, backed_off, rto, duration,
        user_group, user_bit,
        rto / nullif(rtt + rtt_internet_min, 0) as ratio
    from starting
    join located_connections on located_connections.flow_id = starting.flow_id
    join local_clock
        on local_clock.local_quarter = located_connections.quarter_offset + quarter
),
measured_rtos as (
    select *, if(is_ratio, ratio, rto) as value
    from located_rtos cross join (values (false), (true)) as measures(is_ratio)
)
select
    -- int32 [h]: local hour in which the RTO takes effect
    local_hour,
    sack,
    timestamps,
    -- bool (RFC 6298, 5.5): true: the RTO was doubled after an RTO expiry; false: a new RTT sample
    -- changed it (rto_values.backed_off)
    backed_off,
    -- string: rto: the RTO in s, for each RTO; rto_by_rtt: the RTO divided by the round trip, for
    -- each RTO for which both are known. The round trip is the connection's latest RTT on the
    -- access side (rtt_samples) plus its smallest RTT on the Internet side (flows.rtt_internet_min)
    if(is_ratio, 'rto_by_rtt', 'rto') as measure,
    -- int32: ten times the natural logarithm of the measure, rounded down: bins of 10 %. A median
    -- interpolated within its bin has an error of a few per cent
    cast(floor(10 * ln(value)) as int) as bin,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    -- int64 [RTOs]: number of RTOs: one each time that the RTO changed by 1/32 or more (rto_values)
    count(*) as changes,
    -- double [s]: sum of the times in which they held: until the next RTO, or until the
    -- connection's end
    sum(duration) as seconds,
    -- double: sum of the measure times this time. Divided by seconds, it is the mean
    sum(value * duration) as weighted_sum
from measured_rtos
where value is not null
group by all
