"""The captures that were read, and the frames that were skipped."""

from schemas import SKIP_REASONS
from spark_jobs.figures.charts import table
from spark_jobs.figures.dashboard_parts import Dataset, Metric, label_sql

TAB = "overview"
FRAMES = Metric("frames", "sum(frames)", "frames", ",d")
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
ROWS = [
    [
        table("Data quality: captures", CAPTURES, ["network", "date"],
              ["captures", "failed", "frames", "packets", "kept"], order="date",
              newest_first=True, height=40),
    ],
    [
        table("Data quality: frames, kept or skipped", FRAMES_BY_FATE,
              ["network", "fate", "meaning"], ["frames"], order="network", height=40),
    ],
]  # fmt: skip
