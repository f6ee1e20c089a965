"""What `giscope sql` may ask DuckDB; tests/dashboards/test_statements.py has what Superset may."""

import pytest

from spark_jobs.queries.guard import QueryRefused, require_query

COPY = "with x as (copy (select 1) to 'f') from x"
EXECUTED = f"json_execute_serialized_sql(json_serialize_sql($${COPY}$$))"
QUERIES = (
    "from read_parquet('flows/*/*/*.parquet')",
    "from 'f.parquet'",
    "from query('from flows -- ''all''')",
    "pivot flows on network using count(*);",
    "with x as (from flows) pivot x on network, date using count(*) as copied -- update",
    "describe (pivot flows on network using count(*))",
    "explain (analyze, format json) (from flows)",
    "explain analyze pivot (from 'f.parquet') on network using count(*)",
    "/* columns */ pragma table_info('flows')",
)
STATEMENTS = (
    COPY,
    f"from {EXECUTED}",
    f"from system.main.{EXECUTED}",
    f"pragma {EXECUTED}",
    f"explain analyze from {EXECUTED}",
    f"from query($q$from {EXECUTED}$q$)",
    "from query('copy flows to ' || '''f''')",
    "with x as (copy (select 1) to 'f') pivot x on i using count(*)",
    "with x as (with y as (from t) delete from t returning *) pivot x on i using count(*)",
    f"pivot (from {EXECUTED}) on i using count(*)",
    """pivot (from "Json_Execute_Serialized_SQL" /* */ ('{}')) on i using count(*)""",
    "explain analyze create table t as pivot flows on network using count(*)",
    "copy (pivot flows on network using count(*)) to 'f'",
    "call pragma_version()",
    "pragma enable_profiling",
    "explain (format json) copy flows to 'f'",
    "",
)


@pytest.mark.parametrize("sql", QUERIES)
def test_what_only_reads_passes(sql):
    require_query(sql, any_read=True)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_nothing_that_writes_passes(sql):
    with pytest.raises(QueryRefused):
        require_query(sql, any_read=True)
