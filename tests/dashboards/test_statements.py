"""What Superset may ask DuckDB: the check of every statement, without Superset."""

import re

import duckdb
import pytest

from infra.superset.query_plans import statement_of_plan, steps_of_plan
from spark_jobs.dashboards.assets import assets
from spark_jobs.queries.guard import QueryRefused, require_query
from spark_jobs.warehouse.store import Warehouse

QUERIES = (
    "select 1;",
    "from flows",
    "FROM Main.flows -- of all",
    'select "user" from warehouse.main.flows order by 1 limit 3 offset 1',
    "with recursive r(n) as (select 1 union all select n + 1 from r where n < 4) from r",
    "select * from (values (1), (2)) as t(i) join range(3) r(i) using (i)",
    "select network, unnest([1, 2]), {'a': 1} from flows group by all having count(*) > 1",
    "select x::decimal(9, 2), date '2004-03-02' from flows where x = any (select 1)",
    "pivot flows on network in ('aa-gprs') using count(*)",
    "select 'copy t to ''f''; attach' as text /* copy t to 'f' */",
    "show tables",
    "describe flows",
    "summarize flows",
    "select column_name from duckdb_columns() where table_name = 'flows'",
    "select * from information_schema.tables",
    "explain select * from flows",
    "EXPLAIN /* its steps */ ANALYZE from flows -- 'as \N{LATIN SMALL LETTER E WITH ACUTE}'",
)
STATEMENTS = (
    "copy (select 1) to 'f.parquet'",
    "copy flows to 'f.parquet' (format parquet)",
    "COPY\n/* */ flows TO 'f.csv'",
    "-- select 1\ncopy flows to 'f'",
    "/* select 1 */ export database 'f'",
    "export database 'f'",
    "import database 'f'",
    "attach 'f.duckdb' as f",
    "detach warehouse",
    "use memory",
    "install httpfs",
    "load httpfs",
    "set threads = 1",
    "set global allowed_directories = ['/']",
    "reset threads",
    "pragma threads = 1",
    "pragma table_info('flows')",
    "call pragma_version()",
    "checkpoint",
    "vacuum",
    "create table t as select 1",
    "create temp view v as select 1",
    "create macro m() as 1",
    "create secret s (type http)",
    "insert into t values (1)",
    "update t set i = 1",
    "delete from t",
    "drop view flows",
    "alter view flows rename to f",
    "comment on view flows is ''",
    "prepare p as copy flows to 'f'",
    "execute p",
    "explain copy flows to 'f'",
    "explain analyze copy flows to 'f'",
    "explain (analyze) copy flows to 'f'",
    "explain analyze -- select 1\n create table t as select 1",
    "explain analyze with x as (delete from t returning *) from x",
    "explain analyze pivot flows on network using count(*)",
    "explain analyze execute p",
    "explain select 1; select 2",
    "begin",
    "select 1; copy flows to 'f'",
    "select 1; select 2",
    "with x as (copy (select 1) to 'f') select 1",
    "with x as (insert into t values (1) returning *) from x",
    "with x as (delete from t returning *) from x",
    "select (with x as (copy (select 1) to 'f') select 1)",
    "",
    "-- nothing",
)
FILES = (
    "from 'f.parquet'",
    'from "f.csv"',
    "from f.parquet",
    'from "/srv/f".parquet',
    'from "/srv/f".main.parquet',
    "from 'https://example.com/f.parquet'",
    "describe 'f.parquet'",
    "summarize 'f.parquet'",
    "with x as (describe 'f.parquet') from x",
    "select (select max(content) from read_text('/etc/passwd'))",
    "from system.main.read_text('/etc/passwd')",
    "from READ_BLOB('f')",
    "from \"read_csv\"('f')",
    "from read_parquet(['f'])",
    "from parquet_scan('f')",
    "from parquet_metadata('f')",
    "from read_json('f')",
    "from read_duckdb('f')",
    "from sniff_csv('f')",
    "from glob('*')",
    "from query('copy flows to ''f''')",
    "from query_table(['f.parquet'])",
    "from json_execute_serialized_sql('{}')",
    "from histogram_values('f.parquet', i)",
    "select 1 where exists (from read_text('f'))",
    "with x as (from read_text('f')) from x",
    "select 1 order by (select size from read_text('f'))",
    "from flows union all from read_text('f')",
    "from flows, lateral (from glob(flows.network))",
    "pivot (from read_text('f')) on size in (1)",
    "from checkpoint()",
    "from enable_logging()",
    "explain from 'f.parquet'",
    "explain analyze select (select max(content) from read_text('/etc/passwd'))",
)


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_of_tables_passes(sql):
    require_query(sql)


@pytest.mark.parametrize("sql", STATEMENTS + FILES)
def test_nothing_else_does(sql):
    with pytest.raises(QueryRefused):
        require_query(sql)


@pytest.mark.parametrize(
    ("sql", "advice"),
    [
        ("select 1; select 2", "one query at a time, not 2 statements"),
        (
            "pivot flows on network using count(*)",
            "list the values, as in pivot flows on network in",
        ),
        ("explain (format json) select 1", "explain QUERY and explain analyze QUERY, no options"),
    ],
)
def test_a_refusal_says_what_to_do(sql, advice):
    with pytest.raises(QueryRefused, match=advice):
        require_query(sql)


def plan(sql: str) -> list[dict]:
    require_query(sql)
    connection = duckdb.connect()
    connection.execute("create table t as select range as i from range(7)")
    [(_, text)] = connection.execute(statement_of_plan(sql) or "").fetchall()
    return steps_of_plan(text)


def test_a_plan_has_a_row_for_each_step_above_what_it_reads():
    aggregate, *_, scan = plan("explain select count(*) from t where i > 2")
    assert "AGGREGATE" in aggregate["step"]
    assert scan["step"].startswith("\N{NO-BREAK SPACE}")
    assert "SCAN" in scan["step"]
    assert "i>2" in scan["details"].replace(" ", "")
    assert (aggregate["rows"], aggregate["seconds"]) == (None, None)


def test_a_plan_with_analyze_has_the_rows_and_times_of_each_step():
    *_, scan = plan("explain analyze select sum(i) from t where i > 2")
    assert scan["rows"] == 4
    assert 0 <= scan["seconds"] < 10


def test_other_queries_ask_for_no_plan():
    assert statement_of_plan("select 'explain'") is None


def test_what_duckdb_cannot_parse_is_not_run():
    with pytest.raises(duckdb.ParserException):
        require_query("select 1 into outfile 'f'")


def test_the_dashboards_ask_nothing_else():
    datasets = {
        path: re.sub(r"{[%{].*?[%}]}", "", content["sql"])
        for path, content in assets().items()
        if path.startswith("datasets/")
    }
    assert datasets
    for sql in datasets.values():
        require_query(sql)


def test_no_function_that_reads_or_runs_passes(tmp_path):
    """Of all that this DuckDB has: those that give rows, by their names."""
    connection = Warehouse(tmp_path).connect()
    answer = connection.execute("""
        select distinct function_name from duckdb_functions()
        where function_type in ('table', 'table_macro')
    """)
    names = {name for (name,) in answer.fetchall()}
    assert {"read_parquet", "query", "glob"} <= names
    passed = set()
    for name in names:
        try:
            require_query(f"from {name}()")
        except QueryRefused:
            continue
        passed.add(name)
    of_the_catalog = {name for name in passed if name.startswith("duckdb_")}
    assert passed - of_the_catalog == {"generate_series", "range", "unnest"}
    assert not {name for name in of_the_catalog if re.search("log|secret|file|setting", name)}
