-- How long are the RTOs of the servers, by TCP options, and how much longer than the round trip
-- (Rendón et al., Figs. 4 and 5)?
-- One row: the RTOs of one network, date, local hour, pair of TCP options, backed off or not, and
-- one bin (10 %) of one measure: of the RTO, or of its ratio to the round trip.
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
    local_hour, sack, timestamps, backed_off,
    if(is_ratio, 'rto_by_rtt', 'rto') as measure,
    cast(floor(10 * ln(value)) as int) as bin,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    count(*) as changes,
    sum(duration) as seconds,
    sum(value * duration) as weighted_sum
from measured_rtos
where value is not null
group by all
