-- How long are the servers' retransmission timeouts, by the TCP options, and how much longer than the
-- round trip (Rendón et al., Figs. 4 and 5)?
-- One row: the timeouts of one network, date, local hour, pair of TCP options, backed off or not, and
-- one bin (10 %) of one measure: of the timeout, or of its ratio to the round trip.
with timed as (
    select
        network, date, flow_id, sack, timestamps, rtt_internet_min,
        user_group(flows.user) as user_group
    from flows
),
placed as (
    select
        timers.network, timers.date, country, access,
        peak_from, peak_until, off_peak_from, off_peak_until,
        local_hour(timers.ts, timezone) as hour,
        sack, timestamps, backed_off, rto, lasted,
        user_group,
        rto / nullif(rtt + rtt_internet_min, 0) as ratio
    from timers
    join timed
        on timed.network = timers.network
        and timed.date = timers.date
        and timed.flow_id = timers.flow_id
    join places on places.network = timers.network
),
measured as (
    select *, measure, if(measure = 'rto', rto, ratio) as value
    from placed cross join (values ('rto'), ('rto_by_rtt')) as measures(measure)
)
select
    network, date, country, access, hour,
    period_of(hour, peak_from, peak_until, off_peak_from, off_peak_until) as period,
    sack, timestamps, backed_off, measure,
    cast(floor(10 * ln(value)) as int) as bin,
    bit_or(nth_bit(user_group)) as user_groups,
    count(*) as changes,
    sum(lasted) as seconds,
    sum(value * lasted) as weighted_sum
from measured
where value is not null
group by all
