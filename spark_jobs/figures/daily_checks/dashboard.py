"""The days that are held back, and the state of every day."""

from spark_jobs.figures.charts import raw_table
from spark_jobs.figures.dashboard_parts import Dataset, Metric

PAGE = "giscope-overview"
HELD_DAYS_DATASET = Dataset(
    "held",
    """
with days as (
    select network, date, bool_and(passed or released is not null) as published,
        string_agg(finding, '; ' order by measure) filter (not passed) as findings
    from quality group by all
), held as (
    select network, date, 'HELD' as state, findings from days where not published
), shown as (
    select distinct network, date, true as earlier from metrics
), states as (
    select network, date, state, findings,
        if(coalesce(earlier, false), 'its last published version', 'nothing') as shown
    from held left join shown using (network, date)
    union all
    select network, max(date) as date, if(max(date) is null, 'not checked yet',
            'no held days; last checked day') as state,
        '' as findings, '' as shown
    from networks left join days using (network)
    where network not in (select network from held) group by network
)
select states.*, country, access from states join networks using (network)
""",
    [Metric("held", "count_if(state = 'HELD')", "held days", ",d")],
)
DAYS = Dataset(
    "days",
    """
select network, date, country, access,
    case when bool_and(passed) then 'published' when bool_and(passed or released is not null)
        then 'released in spite of a failed check' else 'HELD' end as state,
    state = 'HELD' as held,
    coalesce(string_agg(finding, '; ' order by measure) filter (not passed), 'none') as findings,
    max(released) as released
from quality join networks using (network) group by all
""",
    [Metric("checked", "count(*)", "days", ",d")],
)
DAYS_TITLE = "Days: held days first, then the newest"
HELD_DAYS_TITLE = "Held days"
ROWS = [
    [
        raw_table(HELD_DAYS_TITLE, HELD_DAYS_DATASET,
                  ["date", "network", "state", "findings", "shown"],
                  order="state, date, network", height=32),
    ],
]  # fmt: skip
