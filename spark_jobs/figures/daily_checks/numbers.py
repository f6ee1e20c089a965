"""The state of every day of a network: its checks, and whether its figures are shown."""

from schemas.quality import FAILED
from spark_jobs.figures.names import PEAK_HOURS_SQL

HELD = "HELD"
"""Beginning of the states of held days."""
DAYS_SQL = f"""
with checked as (
    select network, date, bool_and(passed) as passed, max(released) as released,
        string_agg(finding, '; ' order by measure) filter (not passed) as findings
    from quality where date is not null and not (passed and measure = '{FAILED}') group by all
), shown as (
    select distinct network, date from metrics
), known as (
    select network, date from checked union select network, date from shown
), days as (
    select network, unnest(generate_series(min(date), max(date), interval 1 day))::date as date
    from known group by network
)
select days.network, days.date, country, access, case
        when checked.date is null and shown.date is null then 'no captures'
        when checked.date is null then 'not checked'
        when passed then if(shown.date is null, 'passed, figures not made yet', 'published')
        when released is not null then 'released in spite of a failed check'
        when shown.date is null then '{HELD}, not shown'
        else '{HELD}, shown although it failed its checks'
    end as state,
    starts_with(state, '{HELD}') as held,
    concat_ws('; ', findings, released) as reason,
    {PEAK_HOURS_SQL} as "peak hours"
from days
left join checked on checked.network = days.network and checked.date = days.date
left join shown on shown.network = days.network and shown.date = days.date
left join peak_hours on peak_hours.network = days.network and peak_hours.date = days.date
join networks on networks.network = days.network
"""
"""SQL with a row for each day from a network's first to its last."""
FRESHNESS_SQL = f"""
with days as (
    {DAYS_SQL}
), last_days as (
    select network, max(date) as date
    from table1_summary group by network
)
select networks.network, networks.country, networks.access, last_days.date,
    coalesce(strftime(last_days.date, '%Y-%m-%d'), 'none') as "data up to",
    count(*) filter (where held) as "held days",
    count(*) filter (where state = 'no captures') as "days without captures"
from networks
left join last_days using (network)
left join days on days.network = networks.network
group by all
"""
"""SQL with a row for each network: the last day with figures, and the days that are missing."""
