"""The groups of fewer than min_users users, which are left out of all pages."""

from spark_jobs.figures.charts import table
from spark_jobs.figures.dashboard_parts import Dataset, Metric

TAB = "overview"
SUPPRESSED_GROUPS = Dataset(
    "suppressed_groups",
    """
select network, date, country, access, mart, 'fewer than ' || min_users as users, groups, suppressed
from suppressed_groups
union all
select distinct network, date, country, access, 'every mart', 'min_users is not set', 0, 0
from table1_summary where (network, date) not in (select network, date from suppressed_groups)
""",
    [
        Metric("groups", "sum(groups)", "groups", ",d"),
        Metric("suppressed", "sum(suppressed)", "suppressed groups", ",d"),
        Metric(
            "suppressed_share",
            "coalesce(sum(suppressed) / nullif(sum(groups), 0), 0)",
            "share of groups",
            ".1%",
        ),
    ],
)
ROWS = [
    [
        table("Suppressed groups: left out of all pages", SUPPRESSED_GROUPS,
              ["network", "users", "mart"], ["groups", "suppressed", "suppressed_share"],
              order="network || mart", height=40),
    ],
]  # fmt: skip
