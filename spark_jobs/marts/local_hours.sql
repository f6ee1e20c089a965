-- Not a mart: where and when what marts count was, so that they group by one number.
-- One row: an hour of the local clock on a date of a network. `local_hour` is its number, that of the
-- date's first hour (`day`) and the hour.
with days as (
    select network, date from flows
    union
    select network, date from links
),
numbered as (
    select *, 24 * cast(row_number() over (order by network, date) as int) as day
    from days
),
hours as (
    select *, explode(sequence(0, 23)) as hour
    from numbered
)
select
    cast(day + hour as int) as local_hour,
    day,
    hours.network, date, country, access,
    cast(hour as int) as hour,
    period_of(hour, peak_from, peak_until, off_peak_from, off_peak_until) as period,
    clock
from hours
join places on places.network = hours.network
