"""The SQL of the marts, for DuckDB: each `<figure>/mart.sql` with the functions and views it needs.

The rows of a mart's SQL have one number, `local_hour`, instead of the columns of place and time
(see local_hours.sql): grouping by one number takes half the time.
"""

from collections.abc import Collection, Iterator

from schemas import Table
from spark_jobs.figures import FOLDER
from spark_jobs.figures.mart_columns import GROUPS, MAX_USERS_WITH_NUMBERS

SHARED_VIEWS_FOLDER = FOLDER / "shared_views"
FUNCTIONS = {
    "user_group(key)": f"cast('0x' || substr(md5(key), 1, 2) as int) % {GROUPS}",
    "user_number(key)": f"{GROUPS} * (1 + cast('0x' || substr(md5(key), 3, 6) as int)) "
    "+ user_group(key)",
    "user_group_among(users, key)": f"""
        if(users <= {MAX_USERS_WITH_NUMBERS}, user_number(key), user_group(key))""",
    "user_numbers_of(n)": f"list_sort(list_distinct(list(n) filter (where n >= {GROUPS})))",
    "local_hour_of(ts, zone)": "cast(hour(timezone(zone, ts)) as int)",
    "quarter_hour(ts)": "epoch_us(ts) // 900000000",
    "quarter_begin(quarter)": "make_timestamptz(900000000 * quarter)",
    "slot_of(ts, day)": """cast(
        (epoch_us(ts) - epoch_us(cast(day as timestamp))) // 300000000 as int)""",
    "utc_hour(ts)": "epoch_us(ts) // 3600000000",
    # The hours may be over midnight.
    "is_within(hour, first, until)": """
        if(first < until, hour >= first and hour < until, hour >= first or hour < until)""",
    "period_of(hour, peak_from, peak_until, off_peak_from, off_peak_until)": """case
        when coalesce(peak_from, off_peak_from) is null then 'all'
        when is_within(hour, peak_from, peak_until) then 'peak'
        when is_within(hour, off_peak_from, off_peak_until) then 'off_peak'
        else 'other'
    end""",
    "nth_bit(n)": """case
        when n = 63 then -9223372036854775807 - 1
        else cast(power(2, n) as bigint)
    end""",
    # Rounding may make a logarithm reach the next bit.
    "highest_bit(n)": """case
        when n <= 1 then 0
        else cast(floor(log2(n)) as int)
            - if(n < cast(power(2, floor(log2(n))) as bigint), 1, 0)
    end""",
}
"""Functions of the marts' SQL, each with the SQL that computes it."""
SHARED_VIEWS = (
    "network_facts", "local_hours", "local_clock", "user_days", "located_connections",
    "located_links", "located_quic", "connections", "rate_periods", "metric_terms",
)  # fmt: skip
"""Views that marts read beside the tables, in order: a view may read those before it."""
SMALL_VIEWS = ("network_facts", "local_hours", "local_clock")
"""Shared views of few rows, which are made as tables."""
CACHED_VIEWS = (
    "user_days", "located_connections", "located_links", "located_quic", "rate_periods",
)  # fmt: skip
"""Shared views of many rows that several marts read, so that their rows are computed once."""
LOCAL_HOUR_COLUMNS = ("network", "date", "country", "access", "hour", "period")
"""Columns of marts that come from the view `local_hours`."""


def view_statements(stored: Collection[str]) -> Iterator[str]:
    """Yield the statements that create the FUNCTIONS and the SHARED_VIEWS in DuckDB.

    stored: names of views whose rows are computed once, when the view is created.
    """
    for signature, body in FUNCTIONS.items():
        yield f"create or replace temp macro {signature} as {body}"
    for name in SHARED_VIEWS:
        kind = "table" if name in stored else "view"
        sql = (SHARED_VIEWS_FOLDER / f"{name}.sql").read_text()
        yield f"create or replace temp {kind} {name} as {sql}"


def mart_query(mart: Table) -> str:
    """Return the SQL of a mart's rows, with place and time instead of the number `local_hour`."""
    names = mart.arrow_with_partitions.names
    columns = ", ".join(
        f"{'local_hours' if name in LOCAL_HOUR_COLUMNS else 'mart'}.{name}" for name in names
    )
    sql = (FOLDER / mart.name / "mart.sql").read_text()
    return f"""
        select {columns}
        from ({sql}) as mart
        join local_hours on local_hours.local_hour = mart.local_hour
    """
