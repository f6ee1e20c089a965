-- How long are the servers' retransmission rto_expiries, by the TCP options, and how much longer than the
-- round trip (Rendón et al., Figs. 4 and 5)?
-- One row: the rto_expiries of one network, date, local hour, pair of TCP options, backed off or not, and
-- one bin (10 %) of one measure: of the timeout, or of its ratio to the round trip.
with starting as (
    select *, quarter_hour(ts) as quarter
    from rto_values
),
timed as (
    select
        day + hour as local_hour,
        sack, timestamps, backed_off, rto, duration,
        user_bit,
        rto / nullif(rtt + rtt_internet_min, 0) as ratio
    from starting
    join placed on placed.flow_id = starting.flow_id
    join clock on clock.moment = placed.clock + quarter
),
measured as (
    select *, if(of_rtt, ratio, rto) as value
    from timed cross join (values (false), (true)) as measures(of_rtt)
)
select
    local_hour, sack, timestamps, backed_off,
    if(of_rtt, 'rto_by_rtt', 'rto') as measure,
    cast(floor(10 * ln(value)) as int) as bin,
    bit_or(user_bit) as user_groups,
    count(*) as changes,
    sum(duration) as seconds,
    sum(value * duration) as weighted_sum
from measured
where value is not null
group by all
