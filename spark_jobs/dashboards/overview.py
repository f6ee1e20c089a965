"""The page that shows how much was measured, where and when."""

from schemas import SKIP_REASONS
from spark_jobs.dashboards.charts import bars, big_number, raw_table, table
from spark_jobs.dashboards.common import CONNECTIONS, COUNTRY, FRAMES, HOUR, HOURS, NETWORKS
from spark_jobs.dashboards.intervals import (
    estimate_table,
    share_ratio,
    text_metric,
    user_group_sums,
)
from spark_jobs.dashboards.parts import (
    Dashboard,
    Dataset,
    DateFilter,
    Metric,
    ValueFilter,
    label_sql,
)
from spark_jobs.report import table1

GROUP_COLUMNS = ["network", "country", "access", "hours"]
SUMMARY = Dataset(
    "summary",
    estimate_table(
        user_group_sums("table1_summary", ["flows", *table1.ROWS]),
        GROUP_COLUMNS,
        [share_ratio(f"{name}_share", name, "flows") for name in table1.ROWS],
        {"flows": "sum(flows)"},
    ),
    [
        Metric("flows", "max(flows)", "TCP connections", ",d"),
        *(text_metric(f"{name}_share", f"{label} [%]") for name, label in table1.ROWS.items()),
    ],
)
FRAMES_BY_FATE = Dataset(
    "capture_quality",
    f"""
with counted as (
    select network, date, 'kept as packets' as fate, packets as frames from ingest_log
    union all
    select network, date, entry.key, entry.value
    from (select network, date, unnest(map_entries(skipped)) as entry from ingest_log)
)
select counted.*, country, access,
    {label_sql("fate", SKIP_REASONS, "'rows of packets'")} as meaning
from counted join networks using (network)
""",
    [FRAMES],
)
CAPTURES = Dataset(
    "captures",
    """
select network, date, country, access, capture, frames, packets, first_ts, last_ts,
    error is not null as failed
from ingest_log join networks using (network)
""",
    [
        Metric("captures", "count(*)", "captures", ",d"),
        Metric("failed", "count_if(failed)", "unreadable captures", ",d"),
        FRAMES,
        Metric("packets", "sum(packets)", "packets kept", ",d"),
        Metric("kept", "sum(packets) / nullif(sum(frames), 0)", "frames kept", ".2%"),
    ],
)
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
HELD_DAYS_TITLE = "Held days"
OVERVIEW = Dashboard(
    "Overview",
    "giscope-overview",
    rows=[
        [
            raw_table(HELD_DAYS_TITLE, HELD_DAYS_DATASET,
                      ["date", "network", "state", "findings", "shown"],
                      order="state, date, network", height=32),
        ],
        [
            big_number("TCP connections", CONNECTIONS, "flows"),
            big_number("IP bytes, downlink", CONNECTIONS, "bytes_down"),
            big_number("IP bytes, uplink", CONNECTIONS, "bytes_up"),
            big_number("Networks", CONNECTIONS, "networks"),
        ],
        [
            table("Table I. Summary statistics, with 95 % intervals", SUMMARY,
                  ["access", "network", "hours"],
                  ["flows", *(f"{name}_share" for name in table1.ROWS)],
                  order="network || hours", height=92),
        ],
        [
            bars("TCP connections by day", CONNECTIONS, "date", "flows", "network", stacked=True),
            bars("IP bytes by day, downlink", CONNECTIONS, "date", "bytes_down", "network",
                 stacked=True),
        ],
        [
            bars("TCP connections by local hour", CONNECTIONS, "hour", "flows", "network",
                 x_title="Local hour [h]"),
            bars("IP bytes by local hour, downlink", CONNECTIONS, "hour", "bytes_down",
                 "network", x_title="Local hour [h]"),
        ],
        [
            table("Data quality: captures", CAPTURES, ["network", "date"],
                  ["captures", "failed", "frames", "packets", "kept"], order="date",
                  newest_first=True, height=40),
        ],
        [
            table("Data quality: frames, kept or skipped", FRAMES_BY_FATE,
                  ["network", "fate", "meaning"], ["frames"], order="network", height=40),
        ],
        [
            table("Suppressed groups: left out of all pages", SUPPRESSED_GROUPS,
                  ["network", "users", "mart"],
                  ["groups", "suppressed", "suppressed_share"], order="network || mart", height=40),
        ],
    ],
    filters=[COUNTRY, ValueFilter("access", "Access", CONNECTIONS), NETWORKS,
             DateFilter(excluded_charts=[HELD_DAYS_TITLE]), HOURS, HOUR],
)  # fmt: skip
