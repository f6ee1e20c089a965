-- Not a mart: what the clock shows where a network is. From UTC it differs by whole quarter hours.
-- One row: a quarter hour of a network, from a day before its dates to some days after what began on
-- them. `moment` is its number: the network's `clock` and the quarter_hour. `of_period` is the first
-- hour that is of the same period as `hour`.
with dates as (
    select
        network,
        cast(min(date) as timestamp) as first_day,
        cast(max(date) as timestamp) as last_day
    from local_hours
    group by network
),
ends as (
    select network, max(end_ts) as end_ts
    from flows
    group by network
),
bounds as (
    select
        dates.network,
        quarter_hour(first_day) - 96 as first_quarter,
        greatest(quarter_hour(last_day), coalesce(quarter_hour(end_ts), 0)) + 192 as last_quarter
    from dates
    left join ends on ends.network = dates.network
),
quarters as (
    select network, explode(sequence(first_quarter, last_quarter)) as quarter
    from bounds
),
shown as (
    select
        quarters.network,
        clock + quarter as moment,
        local_hour_of(quarter_begin(quarter), timezone) as hour,
        peak_from, peak_until, off_peak_from, off_peak_until
    from quarters
    join places on places.network = quarters.network
),
of_periods as (
    select
        network, moment, hour,
        period_of(hour, peak_from, peak_until, off_peak_from, off_peak_until) as period
    from shown
),
periods as (
    select network, period, min(hour) as first_hour
    from local_hours
    group by network, period
)
select moment, hour, first_hour as of_period
from of_periods
join periods on periods.network = of_periods.network and periods.period = of_periods.period
