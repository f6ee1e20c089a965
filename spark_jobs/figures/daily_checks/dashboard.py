"""The days that are held back, and the state of every day."""

from spark_jobs.figures.charts import raw_table
from spark_jobs.figures.daily_checks.numbers import DAYS_SQL, FRESHNESS_SQL
from spark_jobs.figures.dashboard_parts import Dataset, Metric

PAGE = "giscope-overview"
HELD_DAYS_DATASET = Dataset(
    "held",
    f"""
with days as (
    {DAYS_SQL}
)
select network, date, country, access, state, reason from days where held
union all
select networks.network, max(date) as date, networks.country, networks.access,
    if(max(date) is null, 'not checked yet', 'no held days; last day') as state, '' as reason
from networks left join days using (network)
where network not in (select network from days where held)
group by all
""",
    [Metric("held", "count_if(starts_with(state, 'HELD'))", "held days", ",d")],
)
DAYS = Dataset("days", DAYS_SQL, [Metric("checked", "count(*)", "days", ",d")], "days")
FRESHNESS = Dataset("freshness", FRESHNESS_SQL, [Metric("networks", "count(*)", "networks", ",d")])
FRESHNESS_TITLE = "Data of each network"
DAYS_TITLE = "Days: held days first, then the newest"
HELD_DAYS_TITLE = "Held days"
ROWS = [
    [
        raw_table(HELD_DAYS_TITLE, HELD_DAYS_DATASET, ["date", "network", "state", "reason"],
                  order="state, date desc, network", height=32, width=7),
        raw_table(FRESHNESS_TITLE, FRESHNESS,
                  ["network", "data up to", "held days", "days without captures"],
                  order="network", height=32),
    ],
]  # fmt: skip
