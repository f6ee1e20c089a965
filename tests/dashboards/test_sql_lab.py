"""SQL through Superset: administrators and analysts in SQL Lab, and in charts' expressions."""

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import CHROMIUM, ROOT
from playwright.sync_api import APIRequestContext

from spark_jobs.dashboards.example_queries import example_queries
from tests.helpers.superset_server import Server, logged_in, new_user, open_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
PYTHON = str(ROOT / ".venv-superset/bin/python")
NUMBERS = itertools.count()
BY_NETWORK = "select network, count(*)::int as n from flows group by network order by network"


@pytest.fixture(scope="module")
def admin(server, browser) -> Iterator[APIRequestContext]:
    with logged_in(server, browser, "admin", server.password) as request:
        yield request


@pytest.fixture(scope="module")
def databases(admin) -> dict[str, int]:
    listed = admin.get("/api/v1/database/").json()["result"]
    return {database["database_name"]: database["id"] for database in listed}


def user(server: Server, browser: Any, admin: APIRequestContext, *roles: str) -> Iterator:
    name = "-".join(roles).replace(" ", "-").lower()
    new_user(admin, name, set(roles))
    with logged_in(server, browser, name, name) as request:
        yield request


@pytest.fixture(scope="module")
def analyst(server, browser, admin) -> Iterator[APIRequestContext]:
    """Of country AA."""
    yield from user(server, browser, admin, "Analyst AA")


def asked(request: APIRequestContext, sql: str, database: int) -> tuple[int, Any]:
    """The status, and the rows or the answer instead."""
    data = {"database_id": database, "sql": sql, "client_id": f"q{next(NUMBERS)}"}
    answer = request.post("/api/v1/sqllab/execute/", data=data | {"schema": "main"})
    content = answer.json()
    return answer.status, content.get("data", content.get("errors", content))


def refused(request: APIRequestContext, sql: str, database: int) -> str:
    status, answer = asked(request, sql, database)
    assert status >= 400, (sql, answer)
    return str(answer)


def bytes_of(folder: Path) -> dict[Path, str]:
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def files(server) -> Iterator[dict[str, Path]]:
    """A published file of each network; none may have changed at the end."""
    before = bytes_of(server.warehouse.root)
    yield {
        path.parts[-3].removeprefix("network="): path
        for path in server.warehouse.root.glob("flows/*/*/*.parquet")
    }
    assert bytes_of(server.warehouse.root) == before


WAYS_TO_WRITE = (
    "copy (select 1 as i) to '{own}' (format parquet)",
    "/* select */ copy (select 1 as i) to '{own}' (format parquet)",
    "-- select 1\ncopy (select 1 as i) to '{own}' (format parquet)",
    "select 1; copy (select 1 as i) to '{own}' (format parquet)",
    "select 1 /*;*/; /* */ copy (select 1 as i) to '{own}' (format parquet)",
    "explain analyze copy (select 1 as i) to '{own}' (format parquet)",
    "select 1 as i, 2 as j; explain analyze copy (select 1 as i) to '{own}' (format parquet)",
    "install httpfs",
    "set enable_external_access = true",
    "create or replace temp view flows as select 1",
)
WAYS_TO_READ_FILES = (
    "select * from '{other}'",
    "select * from read_parquet('{other}')",
    "select * from read_parquet('{folder}/../../network=bb-gprs/*/*.parquet')",
    "select * from glob('{root}/*')",
    "explain analyze select * from read_parquet('{other}')",
    "select 1 as i, 2 as j; select * from '{other}'",
    "select * from read_text('/etc/passwd')",
    "{{% if true %}}select * from read_text('/etc/passwd'){{% endif %}}",
    "select * from read_duckdb('{root}/warehouse.duckdb', table_name = 'flows')",
    "attach '{root}/warehouse.duckdb' as whole",
)


def filled(sql: str, files: dict[str, Path], root: Path) -> str:
    own, other = files["aa-gprs"], files["bb-gprs"]
    return sql.format(
        own=own, folder=own.parents[0], other=other, stem=other.with_suffix(""), root=root
    )


@pytest.mark.parametrize("sql", WAYS_TO_WRITE + WAYS_TO_READ_FILES)
def test_only_queries_of_tables_are_run_for_administrators(server, admin, databases, files, sql):
    answer = refused(admin, filled(sql, files, server.warehouse.root), databases["analysis"])
    assert "root:x:0" not in answer


def test_of_several_statements_the_last_is_shown(admin, databases):
    """Also if they have other columns."""
    for first, last, rows in (
        ("select network from flows", "select 1 as n, 2 as m", [{"n": 1, "m": 2}]),
        ("select 1 as n, 2 as m", "select 3 as o", [{"o": 3}]),
    ):
        assert asked(admin, f"{first}; {last}", databases["analysis"]) == (200, rows)


@pytest.mark.parametrize(
    ("limit", "rows"),
    [
        ("limit 2", 2), ("limit 1 + 1", 2), ("fetch first 2 rows only", 2), ("limit 0", 0),
        ("limit 0.2%", 4), ("limit 2 offset 1999", 1), ("limit 1500", 1000), ("", 1000),
    ],
)  # fmt: skip
def test_a_querys_own_limit_holds(admin, databases, limit, rows):
    """Among 2,000 rows, with the limit of the menu, 1,000."""
    sql = f"select i from range(2000) as t(i) order by i {limit}"
    data = {"database_id": databases["analysis"], "sql": sql, "queryLimit": 1000}
    answer = admin.post("/api/v1/sqllab/execute/", data=data).json()
    first = 1999 if "offset" in limit else 0
    assert [row["i"] for row in answer["data"]] == list(range(first, first + rows))


def test_the_steps_of_a_plan_are_rows(server, admin, databases):
    status, rows = asked(admin, f"explain analyze {BY_NETWORK}", databases["analysis"])
    assert status == 200
    scans = [row for row in rows if "Function: READ_PARQUET" in row["details"]]
    assert sum(row["rows"] for row in scans) == sum(row["n"] for row in server.sql(BY_NETWORK))


SAVED = "/api/v1/saved_query/"


def test_an_analyst_finds_the_queries_of_the_documentation(server, analyst, admin, databases):
    listed = analyst.get(f"{SAVED}?q=(page_size:100)").json()["result"]
    found = {query["label"]: analyst.get(f"{SAVED}{query['id']}").json() for query in listed}
    assert {label: query["result"]["sql"] for label, query in found.items()} == {
        example.question: example.sql for example in example_queries()
    }
    for query in found.values():
        status, rows = asked(analyst, query["result"]["sql"], databases["analysis"])
        assert status == 200, rows
        assert rows, query
        assert "bb-gprs" not in str(rows)


def test_an_analyst_changes_no_example_and_sees_no_others_queries(admin, analyst, databases):
    [example, *_] = analyst.get(SAVED).json()["result"]
    data = {"db_id": databases["analysis"], "label": "of the administrator", "sql": "select 1"}
    theirs = admin.post(SAVED, data=data).json()["id"]
    assert analyst.get(f"{SAVED}{theirs}").status == 404
    for number in (example["id"], theirs):
        assert analyst.put(f"{SAVED}{number}", data={"sql": "select 2"}).status == 404
        assert analyst.delete(f"{SAVED}{number}").status == 404
        assert analyst.delete(f"{SAVED}?q=!({number})").status == 404
    assert analyst.post(f"{SAVED}import/", data={}).status == 403
    assert admin.delete(f"{SAVED}{theirs}").status == 200


@pytest.mark.parametrize(
    "expression",
    [
        "max((select content from read_text('/etc/passwd')))",
        "1) from flows; copy (select 1 as i) to '{own}' (format parquet) --",
        "1) from flows; attach '{folder}/new.duckdb' as new --",
        "max((select 1 from query('copy (select 1 as i) to ''{own}''')))",
    ],
)
def test_charts_expressions_are_no_way_around(server, admin, databases, files, expression):
    [dataset, *_] = admin.get("/api/v1/dataset/").json()["result"]
    sql = filled(expression, files, server.warehouse.root)
    metric = {"expressionType": "SQL", "sqlExpression": sql, "label": "m"}
    answer = admin.post(
        "/api/v1/chart/data",
        data={
            "datasource": {"id": dataset["id"], "type": "table"},
            "queries": [{"metrics": [metric], "columns": [], "row_limit": 10}],
        },
    )
    [got] = answer.json().get("result", [{}])
    assert not got.get("data"), answer.text()


def test_a_dataset_of_another_kind_of_statement_gives_nothing(server, admin, databases, files):
    sql = filled("copy (select 1 as i) to '{own}' (format parquet)", files, server.warehouse.root)
    made = admin.post(
        "/api/v1/dataset/",
        data={"database": databases["analysis"], "schema": "main", "table_name": "x", "sql": sql},
    )
    assert made.status >= 400, made.text()


def test_an_analyst_sees_his_countrys_rows_in_every_table(server, analyst, databases):
    database = databases["analysis"]
    own = [row for row in server.sql(BY_NETWORK) if row["network"] == "aa-gprs"]
    assert asked(analyst, BY_NETWORK, database) == (200, own)
    _, views = asked(analyst, "show tables", database)
    assert len(views) == len(server.sql("show tables"))
    for view in views:
        sql = f"select distinct network from {view['name']}"
        status, rows = asked(analyst, sql, database)
        assert status == 200
        assert rows in ([], [{"network": "aa-gprs"}]), view


@pytest.mark.parametrize("sql", WAYS_TO_WRITE + WAYS_TO_READ_FILES)
def test_an_analyst_runs_queries_only(server, analyst, databases, files, sql):
    refused(analyst, filled(sql, files, server.warehouse.root), databases["analysis"])


@pytest.mark.parametrize(
    "sql",
    [
        "select * from networks",
        "select * from main.networks",
        "select * from warehouse.main.networks",
        "with networks as (from main.networks) select * from networks",
        "select * from networks where country <> 'AA' or true",
        "select * from networks --' and country = 'AA'",
        "select * from networks union all select * from networks",
        "select (select string_agg(network) from networks) as all_of_them",
        "select string_agg(sql) from duckdb_views()",
        "select string_agg(view_definition) from information_schema.views",
        "select * from duckdb_databases()",
        "select current_setting('allowed_directories')",
        "summarize networks",
        "explain select * from networks",
        "explain analyze select * from networks",
        "select network, country from networks; explain analyze select * from networks",
        "pivot networks on network in ('aa-gprs', 'cc-dialup') using count(*)",
        "select distinct network from ({{ dataset(1) }})",
    ],
)
def test_no_query_shows_an_analyst_another_country(analyst, databases, sql):
    status, rows = asked(analyst, sql, databases["analysis"])
    assert status == 200, rows
    assert rows
    assert "bb-gprs" not in str(rows)
    if "pivot" in sql:
        assert [row["cc-dialup"] for row in rows] == [0] * len(rows)
    else:
        assert "cc-dialup" not in str(rows)


@pytest.mark.parametrize("sql", ["select * from flows", "summarize flows", "show tables"])
def test_the_pages_database_is_not_asked_in_sql_lab(analyst, admin, databases, sql):
    for request in (analyst, admin):
        status, answer = asked(request, sql, databases["giscope"])
        assert (status, answer) == (403, {"message": "SQL Lab cannot query the database giscope"})


def test_other_databases_are_none(analyst, databases):
    for number in set(range(max(databases.values()) + 3)) - set(databases.values()):
        assert "flow" not in refused(analyst, "select 1 as flow", number)


def test_what_an_analyst_exports_and_saves_is_of_his_country(analyst, admin, databases):
    database = databases["analysis"]
    for request, name in ((analyst, "mine"), (admin, "theirs")):
        data = {"database_id": database, "sql": BY_NETWORK, "client_id": name, "schema": "main"}
        assert request.post("/api/v1/sqllab/execute/", data=data).status == 200
    assert "bb-gprs" in admin.get("/api/v1/sqllab/export/theirs/").text()
    assert "aa-gprs" in analyst.get("/api/v1/sqllab/export/mine/").text()
    for name in ("mine", "theirs"):
        assert "bb-gprs" not in analyst.get(f"/api/v1/sqllab/export/{name}/").text()
    query = {"db_id": database, "label": "saved", "schema": "main", "sql": BY_NETWORK}
    saved = admin.post("/api/v1/saved_query/", data=query).json()["id"]
    assert analyst.get(f"/api/v1/saved_query/{saved}").status == 404
    mine = analyst.post("/api/v1/saved_query/", data=query).json()["id"]
    read = analyst.get(f"/api/v1/saved_query/{mine}").json()["result"]["sql"]
    assert [row["network"] for row in asked(analyst, read, database)[1]] == ["aa-gprs"]


def test_an_analyst_changes_nothing_in_superset(analyst, databases):
    dataset = {"database": databases["analysis"], "schema": "main", "table_name": "flows"}
    assert analyst.post("/api/v1/dataset/", data=dataset).status == 403
    database = {"database_name": "mine", "sqlalchemy_uri": "duckdb:///warehouse.duckdb"}
    assert analyst.post("/api/v1/database/", data=database).status == 403
    changed = {"expose_in_sqllab": True}
    assert analyst.put(f"/api/v1/database/{databases['giscope']}", data=changed).status == 403
    assert analyst.get("/api/v1/rowlevelsecurity/").status == 403
    assert analyst.get("/api/v1/security/users/").status == 403


@pytest.mark.parametrize(
    ("roles", "asked_for", "on_pages"),
    [
        (["Analyst AA", "Analyst CC"], ["aa-gprs", "cc-dialup"], ["aa-gprs", "cc-dialup"]),
        (["Analyst AA", "Country BB"], ["aa-gprs"], ["aa-gprs", "bb-gprs"]),
        (["Analyst all countries"],) + (["aa-gprs", "bb-gprs", "cc-dialup"],) * 2,
    ],
)
def test_roles_add_up(server, browser, admin, databases, roles, asked_for, on_pages):
    datasets = admin.get("/api/v1/dataset/?q=(page_size:100)").json()["result"]
    [connections] = [d["id"] for d in datasets if d["table_name"] == "connections"]
    for request in user(server, browser, admin, *roles):
        _, rows = asked(request, BY_NETWORK, databases["analysis"])
        assert [row["network"] for row in rows] == asked_for
        answer = request.post(
            "/api/v1/chart/data",
            data={
                "datasource": {"id": connections, "type": "table"},
                "queries": [{"columns": ["network"], "metrics": ["flows"], "row_limit": 10}],
            },
        )
        [got] = answer.json()["result"]
        assert sorted(row["network"] for row in got["data"]) == on_pages


def test_a_reader_has_no_sql_lab(server, browser, admin, databases):
    for request in user(server, browser, admin, "Country CC"):
        for database in databases.values():
            assert asked(request, "select 1", database)[0] == 403
        listed = request.get("/api/v1/database/").json()["result"]
        assert [database["database_name"] for database in listed] == ["giscope"]


def test_an_analyst_queries_in_the_browser(server, browser, analyst):
    page = open_page(server, browser, "analyst-aa", "analyst-aa", 900)
    page.goto(f"{server.address}/sqllab/?new=true")
    page.locator(".ace_content").first.click()
    page.keyboard.press("Control+A")
    page.keyboard.type("select network, count(*) as connections from flows group by all")
    page.keyboard.press("Control+Enter")
    page.get_by_text("aa-gprs").last.wait_for()
    own = server.sql("select count(*) as n from flows where network = 'aa-gprs'")[0]["n"]
    assert str(own) in page.locator("body").inner_text().replace(",", "")
    page.close()


def run(server: Server, *arguments: str, **environment: str) -> None:
    """Superset's Python, with its settings."""
    settings = environment | {"SUPERSET_CONFIG_PATH": f"{ROOT}/infra/superset/superset_config.py"}
    server.run("env", *(f"{name}={value}" for name, value in settings.items()), PYTHON, *arguments)


LAST_LINE = """
import sys
sys.path[:0] = ["infra/superset", "."]
import duckdb_connections as server
import query_worker
query_worker.require_query = lambda sql: None
folder = server.country_views_folder(None, server.VIEWS, server.HOME / "views")
query_worker.Session(folder / server.VIEWS.name).execute(
    f"copy (select 1 as i) to '{sys.argv[1]}' (format parquet, use_tmp_file {sys.argv[2]})"
)
"""


@pytest.mark.parametrize("through_another_file", ["true", "false"])
def test_the_last_line_alone_stops_a_write(server, files, through_another_file):
    """With the check of statements off, at the least."""
    script, new = server.home / "last_line.py", files["aa-gprs"].with_name("new.parquet")
    script.write_text(LAST_LINE)
    confined = ["infra/superset/run_confined.py", str(server.home), PYTHON]
    with pytest.raises(AssertionError, match="Permission denied"):
        run(server, *confined, str(script), str(files["aa-gprs"]), through_another_file)
    # Nothing else is in the way.
    run(server, str(script), str(new), through_another_file)
    new.unlink()


def test_the_server_is_confined(server):
    """As far as it shows: a confined process can gain no rights."""
    workers = [
        process
        for process in psutil.process_iter(["cmdline"])
        if "gunicorn" in " ".join(process.info["cmdline"] or [])
        and process.environ().get("SUPERSET_HOME") == str(server.home)
    ]
    assert len(workers) >= 3
    for process in workers:
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        assert process.environ()["TMPDIR"] == f"{server.home}/tmp"


CROSS_JOIN = "range(10000000) a(i), range(10000000) b(j)"
FOR_EVER = f"select count(*) from {CROSS_JOIN} where hash(i + j) = 3"
ALL_MEMORY = f"select list(i) from {CROSS_JOIN}"
LARGE_ROW = "select list({'a': i % 2 = 0, 'b': null}) from range(100000000) t(i)"
"""As it is in Python, where DuckDB does not see it."""
OUT_OF_MEMORY = "stopped: it needs more than 0.5 GiB of memory, or 2 GiB of temporary files"


def test_a_query_that_would_take_all_memory_is_stopped(server, admin, databases):
    """In SQL Lab, as a chart's expression, and as a row that Python would make large."""
    database = databases["analysis"]
    assert OUT_OF_MEMORY in refused(admin, ALL_MEMORY, database)
    assert OUT_OF_MEMORY in refused(admin, LARGE_ROW, database)
    assert asked(admin, BY_NETWORK, database) == (200, server.sql(BY_NETWORK))
    [dataset, *_] = admin.get("/api/v1/dataset/").json()["result"]
    every = "len(list(range(1000000)))"
    metric = {"expressionType": "SQL", "sqlExpression": every, "label": "m"}
    answer = admin.post(
        "/api/v1/chart/data",
        data={
            "datasource": {"id": dataset["id"], "type": "table"},
            "queries": [{"metrics": [metric], "columns": [], "row_limit": 10}],
        },
    )
    assert OUT_OF_MEMORY in answer.text()


LIMITED = """
import sys
import threading
import time
from contextlib import closing
sys.path[:0] = ["infra/superset", "."]
import duckdb_connections

def ask(sql):
    with closing(duckdb_connections.connect(None)) as connection:
        cursor = connection.cursor()
        cursor.execute(sql)
        return cursor.fetchall()

"""
LONG_QUERY = LIMITED + f"ask({FOR_EVER!r})"
ONE_VALUE = "select levenshtein(repeat('a', 2000000), repeat('b', 2000000))"
"""Takes hours for one value: DuckDB looks at an interrupt before and after."""
LONG_VALUE = LIMITED + f"ask({ONE_VALUE!r})"
LONG_FETCH = (
    LIMITED
    + f"""
cursor = duckdb_connections.connect(None).cursor()
cursor.execute("select i, j from {CROSS_JOIN}")
while cursor.fetchmany(1000):
    pass
"""
)
TWO_ANALYSTS = (
    LIMITED
    + """
stopped = []
def keep_busy():
    try:
        ask(sys.argv[1])
    except duckdb_connections.QueryRefused as error:
        stopped.append(str(error))
ask("select 1")
busy = threading.Thread(target=keep_busy)
began = time.monotonic()
busy.start()
answers = 0
while busy.is_alive():
    assert ask("select count(*) from flows")[0][0] > 1000
    answers += 1
assert answers >= 2, answers
assert time.monotonic() - began < 3 + 5
assert "stopped after 3 s" in stopped[0], stopped
assert len(duckdb_connections.IDLE) == 2
for worker in duckdb_connections.IDLE:
    worker._process.kill()  # as the kernel does if the machine has no memory left
    worker._process.wait()
assert ask("select 1") == [(1,)]
"""
)
MEANS = f"""
    select mean_interval([i, i + 1, i + 2], [1, 1, 1], [j, 5, 5]).value from {CROSS_JOIN}
"""
LONG_MEANS = LIMITED + f"ask({f'select count(*) from ({MEANS}) t(v) where v < 0'!r})"


@pytest.mark.parametrize(
    "script",
    [LONG_QUERY, LONG_FETCH, LONG_MEANS, LONG_VALUE],
    ids=["runs", "is fetched", "calls Python", "computes one value"],
)
def test_a_long_query_is_stopped(server, script):
    seconds = {"GISCOPE_QUERY_SECONDS": "1"}
    with pytest.raises(AssertionError, match=r"stopped after 1 s: .* GISCOPE_QUERY_SECONDS"):
        run(server, "-c", script, **seconds)


@pytest.mark.parametrize("busy", [FOR_EVER, ONE_VALUE], ids=["many rows", "one value"])
def test_another_analysts_query_goes_on_meanwhile(server, busy):
    run(server, "-c", TWO_ANALYSTS, busy, GISCOPE_QUERY_SECONDS="3")


EVERY_TYPE = """
    select 1::tinyint, 1.5::decimal(38, 9), 170141183460469231731687303715884105727, 0.1::float,
        'nan'::double, timestamptz '2004-03-02 01:00', timestamp_ns '2004-03-02 01:00:00.123456',
        'infinity'::timestamp, date '290000-01-01', timetz '10:00:00+02', interval '1 month 2 days',
        {'a': [1, null]}, map {'k': 2}, union_value(n := 'x'), [1, 2]::int[2], 'x'::enum('x', 'y'),
        '00000000-0000-0000-0000-000000000001'::uuid, '101'::bit, 'a'::blob, '{}'::json, true, null
"""
TYPES = (
    LIMITED
    + f"""
import duckdb
connection = duckdb.connect()
connection.execute("set timezone = 'UTC'")
direct = connection.execute({EVERY_TYPE!r}).fetchall()
assert repr(ask({EVERY_TYPE!r})) == repr(direct), direct
"""
)


def test_values_are_those_that_duckdb_gives(server):
    run(server, "-c", TYPES)


MEANS_AT_ONCE = (
    LIMITED
    + f"""
from concurrent.futures import ThreadPoolExecutor
sql = {f"select sum(v) from ({MEANS} limit 300000) t(v)"!r}
with ThreadPoolExecutor(4) as threads:
    first, *others = threads.map(ask, [sql] * 8)
assert others == [first] * 7
assert len(duckdb_connections.IDLE) <= 4
"""
)
