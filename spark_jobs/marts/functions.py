"""The functions of the marts' SQL, beside those that Spark and DuckDB both have."""

from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.estimators.by_user import GROUPS

HEX = "0123456789abcdef"


@dataclass(frozen=True)
class Function:
    """A function of SQL; duckdb: its body there, where it is not Spark's."""

    name: str
    arguments: dict[str, str]
    returns: str
    body: str
    duckdb: str = ""


FUNCTIONS = (
    Function(
        "user_group",
        {"key": "string"},
        "int",
        f"""(16 * (instr('{HEX}', substr(md5(key), 1, 1)) - 1)
            + instr('{HEX}', substr(md5(key), 2, 1)) - 1) % {GROUPS}""",
    ),
    Function(
        "local_hour_of",
        {"ts": "timestamp", "zone": "string"},
        "int",
        "hour(from_utc_timestamp(ts, zone))",
        duckdb="cast(hour(timezone(zone, ts)) as int)",
    ),
    Function(
        "quarter_hour",
        {"ts": "timestamp"},
        "bigint",
        "unix_micros(ts) div 900000000",
        duckdb="epoch_us(ts) // 900000000",
    ),
    Function(
        "quarter_begin",
        {"quarter": "bigint"},
        "timestamp",
        "timestamp_micros(900000000 * quarter)",
        duckdb="make_timestamptz(900000000 * quarter)",
    ),
    Function(
        "utc_hour",
        {"ts": "timestamp"},
        "bigint",
        "unix_micros(ts) div 3600000000",
        duckdb="epoch_us(ts) // 3600000000",
    ),
    Function(
        "period_of",
        dict.fromkeys(
            ("hour", "peak_from", "peak_until", "off_peak_from", "off_peak_until"), "int"
        ),
        "string",
        """case
            when hour >= peak_from and hour < peak_until then 'peak'
            when hour >= off_peak_from and hour < off_peak_until then 'off_peak'
            else 'other'
        end""",
    ),
    Function(
        "nth_bit",
        {"n": "int"},
        "bigint",
        "case when n = 63 then -9223372036854775807 - 1 else cast(power(2, n) as bigint) end",
    ),
    Function(
        "highest_bit",
        {"n": "bigint"},
        "int",
        "length(bin(n)) - 1",
        # A logarithm may be rounded up to the next bit's.
        duckdb="""case
            when n <= 1 then 0
            else cast(floor(log2(n)) as int)
                - if(n < cast(power(2, floor(log2(n))) as bigint), 1, 0)
        end""",
    ),
)
OF_SPARK = {
    "unix_micros(ts)": "epoch_us(ts)",
    "sequence(first, last)": "generate_series(first, last)",
    "explode(items)": "unnest(items)",
}
"""What Spark has, as DuckDB has it."""

OF_DUCKDB = {"ignore nulls) over": ") ignore nulls over"}
"""What DuckDB says in another place than Spark."""


def as_spark(query: str) -> str:
    """The marts' SQL as Spark has it."""
    for ours, theirs in OF_DUCKDB.items():
        query = query.replace(ours, theirs)
    return query


def for_spark() -> Iterator[str]:
    """Statements that make the functions in a session of Spark."""
    for function in FUNCTIONS:
        arguments = ", ".join(f"{name} {type_}" for name, type_ in function.arguments.items())
        yield (
            f"create or replace temporary function {function.name}({arguments}) "
            f"returns {function.returns} return {function.body}"
        )


def for_duckdb() -> Iterator[str]:
    """Statements that make the functions in a connection of DuckDB."""
    macros = {
        f"{function.name}({', '.join(function.arguments)})": function.duckdb or function.body
        for function in FUNCTIONS
    }
    for signature, body in (macros | OF_SPARK).items():
        yield f"create or replace temporary macro {signature} as {body}"
