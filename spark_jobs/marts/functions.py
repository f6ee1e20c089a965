"""Functions of the marts' SQL that Spark or DuckDB does not have."""

from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.estimators.by_user import GROUPS

HEX = "0123456789abcdef"


@dataclass(frozen=True)
class Function:
    """A function of SQL.

    body: its SQL in Spark, and in DuckDB unless `duckdb` is set; duckdb: its SQL in DuckDB.
    """

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
        # Rounding may make a logarithm reach the next bit.
        duckdb="""case
            when n <= 1 then 0
            else cast(floor(log2(n)) as int)
                - if(n < cast(power(2, floor(log2(n))) as bigint), 1, 0)
        end""",
    ),
)
SPARK_FUNCTIONS_IN_DUCKDB = {
    "unix_micros(ts)": "epoch_us(ts)",
    "sequence(first, last)": "generate_series(first, last)",
    "explode(items)": "unnest(items)",
}
"""Functions of Spark, each with the SQL that computes it in DuckDB."""


def spark_statements() -> Iterator[str]:
    """Yield the statements that create the functions in a session of Spark."""
    for function in FUNCTIONS:
        arguments = ", ".join(f"{name} {type_}" for name, type_ in function.arguments.items())
        yield (
            f"create or replace temporary function {function.name}({arguments}) "
            f"returns {function.returns} return {function.body}"
        )


def duckdb_statements() -> Iterator[str]:
    """Yield the statements that create the functions in a connection of DuckDB."""
    macros = {
        f"{function.name}({', '.join(function.arguments)})": function.duckdb or function.body
        for function in FUNCTIONS
    }
    for signature, body in (macros | SPARK_FUNCTIONS_IN_DUCKDB).items():
        yield f"create or replace temporary macro {signature} as {body}"
