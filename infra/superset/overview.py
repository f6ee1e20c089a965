"""The page of how much was measured, where and when."""

from infra.superset.charts import bars, big_number, listed, table
from infra.superset.common import CONNECTIONS, COUNTRY, FRAMES, HOUR, HOURS, NETWORKS
from infra.superset.intervals import as_told, share_of, sums, tabled
from infra.superset.parts import Choice, Dashboard, Dataset, Dates, Metric, labelled
from schemas import SKIP_REASONS
from spark_jobs.report import table1

CELLS = ["network", "country", "access", "hours"]
SUMMARY = Dataset(
    "summary",
    tabled(
        sums("table1_summary", ["flows", *table1.ROWS]),
        CELLS,
        [share_of(f"{name}_share", name, "flows") for name in table1.ROWS],
        {"flows": "sum(flows)"},
    ),
    [
        Metric("flows", "max(flows)", "TCP connections", ",d"),
        *(as_told(f"{name}_share", f"{label} [%]") for name, label in table1.ROWS.items()),
    ],
)
QUALITY = Dataset(
    "capture_quality",
    f"""
with counted as (
    select network, date, 'kept as packets' as fate, packets as frames from ingest_log
    union all
    select network, date, entry.key, entry.value
    from (select network, date, unnest(map_entries(skipped)) as entry from ingest_log)
)
select counted.*, country, access,
    {labelled("fate", SKIP_REASONS, "'rows of packets'")} as meaning
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
HELD = Dataset(
    "held",
    """
with days as (
    select network, date, bool_and(passed or released is not null) as published,
        string_agg(finding, '; ' order by measure) filter (not passed) as amiss
    from quality group by all
), held as (
    select network, date, 'HELD BACK' as state, amiss from days where not published
), shown as (
    select distinct network, date, true as earlier from metrics
), told as (
    select network, date, state, amiss,
        if(coalesce(earlier, false), 'what was last published of it', 'nothing of it') as shown
    from held left join shown using (network, date)
    union all
    select network, max(date) as date, if(max(date) is null, 'not checked yet',
            'no day is held back; the last one checked') as state,
        '' as amiss, '' as shown
    from networks left join days using (network)
    where network not in (select network from held) group by network
)
select told.*, country, access from told join networks using (network)
""",
    [Metric("held", "count_if(state = 'HELD BACK')", "days held back", ",d")],
)
SMALL = Dataset(
    "small_groups",
    """
select network, date, country, access, mart, 'fewer than ' || min_users as users, groups, suppressed
from suppressed_groups
union all
select distinct network, date, country, access, 'every mart', 'no min_users is set', 0, 0
from table1_summary where (network, date) not in (select network, date from suppressed_groups)
""",
    [
        Metric("groups", "sum(groups)", "groups", ",d"),
        Metric("suppressed", "sum(suppressed)", "groups left out", ",d"),
        Metric(
            "suppressed_share",
            "coalesce(sum(suppressed) / nullif(sum(groups), 0), 0)",
            "left out of groups",
            ".1%",
        ),
    ],
)
HELD_DAYS = "Days held back"
OVERVIEW = Dashboard(
    "Overview",
    "giscope-overview",
    rows=[
        [
            listed(HELD_DAYS, HELD, ["date", "network", "state", "amiss", "shown"],
                   order="state, date, network", height=32),
        ],
        [
            big_number("TCP connections", CONNECTIONS, "flows"),
            big_number("IP bytes to the mobiles", CONNECTIONS, "bytes_down"),
            big_number("IP bytes from the mobiles", CONNECTIONS, "bytes_up"),
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
            bars("IP bytes to the mobiles by day", CONNECTIONS, "date", "bytes_down", "network",
                 stacked=True),
        ],
        [
            bars("TCP connections by local hour", CONNECTIONS, "hour", "flows", "network",
                 x_title="Local hour [h]"),
            bars("IP bytes to the mobiles by local hour", CONNECTIONS, "hour", "bytes_down",
                 "network", x_title="Local hour [h]"),
        ],
        [
            table("Data quality: captures", CAPTURES, ["network", "date"],
                  ["captures", "failed", "frames", "packets", "kept"], order="date",
                  newest_first=True, height=40),
        ],
        [
            table("Data quality: what became of the frames", QUALITY,
                  ["network", "fate", "meaning"], ["frames"], order="network", height=40),
        ],
        [
            table("Small groups: groups left out of all pages", SMALL, ["network", "users", "mart"],
                  ["groups", "suppressed", "suppressed_share"], order="network || mart", height=40),
        ],
    ],
    filters=[COUNTRY, Choice("access", "Access", CONNECTIONS), NETWORKS,
             Dates(apart=[HELD_DAYS]), HOURS, HOUR],
)  # fmt: skip
