"""The dashboards as their users meet them: started by make, opened in a browser, asked by REST."""

import os
import re
import stat
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from threading import Event

import duckdb
import pytest
from conftest import CHROMIUM, ROOT
from playwright.sync_api import APIRequestContext, Page, Response

from spark_jobs.dashboards.pages import DASHBOARD
from spark_jobs.figures.sql_functions import register
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.files import read_rows
from spark_jobs.warehouse.storage import VIEWS
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.listening import watched
from tests.helpers.superset_server import logged_in, new_user, open_page

QUERY_S = 0.3
PUBLISHED_S = 2.0
READER = "reader-of-aa"
TOTALS = "[data-test-chart-name=Totals] td"
"""Cells of the Overview's totals; the first has the number of connections."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def page(server, browser) -> Page:
    """Logged in as the administrator."""
    return open_page(server, browser, "admin", server.password, 4000)


def test_it_listens_on_loopback(server):
    with watched(server.process) as seen:
        server.sql("select 1 as one")  # meanwhile
    assert {address for _, address in seen.sockets} == {"127.0.0.1"}


@contextmanager
def chart_answers(page: Page) -> Iterator[list[tuple[dict, dict]]]:
    """What charts ask meanwhile, and the answers."""
    seen: list[tuple[dict, dict]] = []

    def keep(response: Response) -> None:
        if "/api/v1/chart/data" in response.url:
            asked = response.request.post_data_json
            if asked["form_data"].get("slice_id"):
                seen.append((asked, response.json()))

    page.on("response", keep)
    yield seen
    page.remove_listener("response", keep)


def is_empty(form: dict, query: str) -> bool:
    """Return whether a chart is about what the networks of 2004 do not have: QUIC or ECN."""
    has_table = form["viz_type"] in ("table", "pivot_table_v2")
    return "quic_beside_tcp" in query or ("ecn_marks" in query and not has_table)


@pytest.fixture(scope="module")
def opened(server, page) -> dict[str, list[tuple[dict, dict]]]:
    """Each tab's charts: what they asked and what they got, after they were drawn."""
    found = {}
    for tab in DASHBOARD.tabs:
        page.goto("about:blank")  # else Superset goes to the tab without the page's requests
        with chart_answers(page) as seen:
            page.goto(f"{server.address}/superset/dashboard/giscope/#TAB-{tab.key}")
            charts = len(tab.charts)
            page.wait_for_function(
                "n => document.querySelectorAll('.slice_container').length === n", arg=charts
            )
            page.wait_for_load_state("networkidle")
            page.wait_for_selector(".loading", state="detached")
            text = page.locator(".grid-container").inner_text()
        for sign in ("Error", "error", "No data", "NaN"):
            assert sign not in text, (tab.title, sign)
        assert len(seen) >= charts
        forms = {
            asked["form_data"]["slice_id"]: (asked["form_data"], answer["result"][0]["query"])
            for asked, answer in seen
        }
        without_rows = sum(is_empty(*form) for form in forms.values())
        assert text.count("No results") == without_rows, tab.title
        found[tab.key] = seen
    return found


def results(opened: dict[str, list[tuple[dict, dict]]]) -> Iterator[tuple[dict, dict]]:
    for seen in opened.values():
        for asked, answer in seen:
            for result in answer["result"]:
                yield asked, result


def test_password_and_key_are_random_and_private(server):
    for name in ("admin_password", "secret_key"):
        file = server.home / name
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert len(file.read_text().strip()) >= 43
    assert server.password not in (server.home / "server.log").read_text()


def test_every_chart_of_every_dashboard_has_data(opened):
    drawn = set()
    for asked, result in results(opened):
        assert result["status"] == "success", result
        assert result["error"] is None
        form = asked["form_data"]
        assert (result["rowcount"] > 0) != is_empty(form, result["query"]), result["query"]
        drawn.add(form["slice_id"])
    assert len(drawn) == len(DASHBOARD.charts)


def test_every_query_is_fast(server, opened):
    """In CPU seconds of one thread: whatever else the machine does."""
    slow = []
    with duckdb.connect(server.warehouse.root / VIEWS, read_only=True) as connection:
        register(connection)
        connection.execute("set threads = 1")
        for _, result in results(opened):
            took = []
            for _ in range(3):
                start = time.process_time()
                connection.sql(result["query"]).fetchall()
                took.append(time.process_time() - start)
            if min(took) >= QUERY_S:
                slow.append((took, result["query"]))
    assert slow == []


def table1(opened) -> tuple[dict, dict]:
    return next(
        (asked, result) for asked, result in results(opened) if "window_low" in result["colnames"]
    )


def test_the_api_gives_each_charts_rows(server, browser, opened):
    asked = {asked["form_data"]["slice_id"]: asked for seen in opened.values() for asked, _ in seen}
    with logged_in(server, browser, "admin", server.password) as admin:
        for chart, of_page in asked.items():
            answer = admin.get(f"/api/v1/chart/{chart}/data/")
            assert answer.status == 200, answer.text()
            [result] = answer.json()["result"]
            form = of_page["form_data"]
            assert bool(result["data"]) != is_empty(form, result["query"]), form
    assert len(asked) == len(DASHBOARD.charts)


def connections_shown(page: Page) -> str:
    return page.locator(TOTALS).first.inner_text()


def choose(page: Page, column: str, value: str) -> None:
    page.locator(f"input#NATIVE_FILTER-{column}").click()
    page.keyboard.type(value)
    page.locator(f".ant-select-item-option[title='{value}']").click()
    page.keyboard.press("Escape")


@pytest.mark.parametrize(
    ("column", "value", "where"),
    [
        ("network", "bb-gprs", "network = 'bb-gprs'"),
        ("country", "AA", "country = 'AA'"),
    ],
)
def test_a_filter_changes_the_numbers_to_those_of_giscope_sql(server, page, column, value, where):
    page.goto("about:blank")
    page.goto(f"{server.address}/superset/dashboard/giscope/")
    of_access = "select sum(flows)::bigint as n from table1_summary where access = 'gprs'"
    everything = server.sql(of_access)[0]["n"]
    page.get_by_text(f"{everything:,}", exact=True).first.wait_for()
    choose(page, column, value)
    page.get_by_role("button", name="Apply filters").click()
    chosen = server.sql(f"select sum(flows)::bigint as n from table1_summary where {where}")
    page.get_by_text(f"{chosen[0]['n']:,}", exact=True).first.wait_for()
    assert connections_shown(page) == f"{chosen[0]['n']:,}"


def test_a_click_on_a_value_filters_the_other_charts(server, page, opened):
    page.goto("about:blank")
    page.goto(f"{server.address}/superset/dashboard/giscope/")
    page.locator("[data-test-chart-name^='Table I.'] td", has_text="bb-gprs").first.click()
    chosen = server.sql(
        "select sum(flows)::bigint as n from table1_summary where network = 'bb-gprs'"
    )
    page.locator(TOTALS, has_text=re.compile(f"^{chosen[0]['n']:,}$")).wait_for()


def test_the_address_has_the_tab_and_the_filters(server, page, browser, opened):
    """A filter stays when another tab is opened; another user sees both by the address."""
    page.goto("about:blank")
    page.goto(f"{server.address}/superset/dashboard/giscope/")
    page.wait_for_selector(".slice_container")
    choose(page, "network", "bb-gprs")
    page.get_by_role("button", name="Apply filters").click()
    page.locator('[data-node-key="TAB-setup"]').click()
    page.wait_for_load_state("networkidle")
    assert re.search(r"\?native_filters_key=[\w-]+#TAB-setup$", page.url)
    with logged_in(server, browser, "admin", server.password) as admin:
        new_user(admin, "colleague", {"All countries"})
    other = open_page(server, browser, "colleague", "colleague", 1200)
    with chart_answers(other) as seen:
        other.goto(page.url)
        other.wait_for_selector(".slice_container")
        other.wait_for_load_state("networkidle")
    assert other.locator('[data-node-key="TAB-setup"].ant-tabs-tab-active').count() == 1
    asked = [query["queries"][0]["filters"] for query, _ in seen]
    chosen = {"col": "network", "op": "IN", "val": ["bb-gprs"]}
    assert any(chosen in filters for filters in asked)
    other.close()


def test_a_link_of_the_summary_opens_its_tab_with_the_filters(server, page, opened):
    page.goto("about:blank")
    page.goto(f"{server.address}/superset/dashboard/giscope/#TAB-overview")
    page.get_by_role("link", name="Limits", exact=True).click()
    page.wait_for_selector('[data-node-key="TAB-why"].ant-tabs-tab-active')
    assert page.url.endswith("#TAB-why")


@pytest.fixture(scope="module")
def reader(server, browser) -> Iterator[APIRequestContext]:
    """A user with no role but that of country AA."""
    password = "only-for-this-test"
    server.run(
        "sh", "infra/superset/superset.sh", "fab", "create-user", "--role", "Country AA",
        "--username", READER, "--firstname", "A", "--lastname", "A",
        "--email", f"{READER}@localhost", "--password", password,
    )  # fmt: skip
    with logged_in(server, browser, READER, password) as request:
        yield request


def test_a_reader_of_aa_sees_rows_of_aa_only(server, opened, reader):
    asked_of = 0
    for seen in opened.values():
        for asked, _ in seen:
            answer = reader.post("/api/v1/chart/data", data=asked)
            assert answer.status == 200, answer.text()
            assert "bb-gprs" not in answer.text()
            assert "cc-dialup" not in answer.text()
            for result in answer.json()["result"]:
                assert "country = 'AA'" in result["query"]
                assert (result["rowcount"] > 0) != is_empty(asked["form_data"], result["query"])
                asked_of += 1
    assert asked_of >= len(DASHBOARD.charts)
    _, everything = table1(opened)
    asked, _ = table1(opened)
    mine = reader.post("/api/v1/chart/data", data=asked).json()["result"][0]
    assert mine["data"] == [r for r in everything["data"] if r["network"] == "aa-gprs"]


def test_a_role_of_a_country_has_no_way_around_it(server, opened, reader):
    asked, _ = table1(opened)
    database = 1
    sql = "select * from table1_summary"
    lab = reader.post(
        "/api/v1/sqllab/execute/",
        data={"database_id": database, "sql": sql, "client_id": "a1", "runAsync": False},
    )
    assert lab.status == 403, lab.text()
    for expression in (
        "(select sum(flows) from table1_summary where country = 'BB')",
        "(select max(content) from read_text('/etc/passwd'))",
        "1) from table1_summary --",
    ):
        metric = {"expressionType": "SQL", "sqlExpression": expression, "label": "m"}
        query = asked["queries"][0] | {"metrics": [metric], "columns": [], "orderby": []}
        tried = reader.post("/api/v1/chart/data", data=asked | {"queries": [query]})
        got = tried.json().get("result", [{}])[0]
        assert not got.get("data"), (expression, tried.text())
    changed = reader.put(
        f"/api/v1/dataset/{asked['datasource']['id']}", data={"sql": "select 'AA' as country"}
    )
    assert changed.status == 403, changed.text()
    assert reader.get("/api/v1/rowlevelsecurity/").status == 403


def test_a_role_of_a_country_sees_no_other_networks_names(reader):
    paths = ["/api/v1/dashboard/?q=(page_size:100)", "/api/v1/chart/?q=(page_size:100)"]
    paths += [f"/api/v1/dashboard/{DASHBOARD.slug}", f"/api/v1/dashboard/{DASHBOARD.slug}/charts"]
    for chart in reader.get(paths[1]).json()["result"][:3]:
        paths.append(f"/api/v1/chart/{chart['id']}")
    for path in paths:
        answer = reader.get(path)
        assert answer.status == 200, answer.text()
        assert "bb-gprs" not in answer.text(), path
        assert "cc-dialup" not in answer.text(), path
    assert "aa-gprs, off-peak" in reader.get(paths[2]).text()
    assert reader.get("/api/v1/dashboard/export/?q=!(1)").status == 403


def test_filters_reach_what_is_summed_before_superset_sees_it(server, opened, reader):
    asked, _ = table1(opened)
    for column, value, where in (
        ("hour", [11], "hour = 11"),
        ("hours", ["peak"], "period = 'peak'"),
    ):
        query = asked["queries"][0]
        chosen = [*query["filters"], {"col": column, "op": "IN", "val": value}]
        answer = reader.post(
            "/api/v1/chart/data", data=asked | {"queries": [query | {"filters": chosen}]}
        )
        rows = answer.json()["result"][0]["data"]
        sql = f"select sum(flows)::bigint as n from table1_summary where {where}"
        expected = server.sql(f"{sql} and network = 'aa-gprs'")[0]["n"]
        assert sum(row["flows"] for row in rows) == (expected or 0), answer.text()
    never = {"col": "date", "op": "TEMPORAL_RANGE", "val": "1999-01-01 : 1999-02-01"}
    query = asked["queries"][0] | {"filters": [never]}
    answer = reader.post("/api/v1/chart/data", data=asked | {"queries": [query]})
    assert answer.json()["result"][0]["data"] == []


def test_two_countries_roles_see_both(server, browser, opened):
    with logged_in(server, browser, "admin", server.password) as admin:
        new_user(admin, "both", {"Country AA", "Country CC"})
    asked, everything = table1(opened)
    with logged_in(server, browser, "both", "both") as request:
        mine = request.post("/api/v1/chart/data", data=asked).json()["result"][0]
        assert mine["data"] == [
            row for row in everything["data"] if row["network"] in ("aa-gprs", "cc-dialup")
        ]


def test_a_role_of_all_countries_sees_them_all(server, browser, opened):
    password = "only-for-this-test"
    server.run(
        "sh", "infra/superset/superset.sh", "fab", "create-user", "--role", "All countries",
        "--username", "manager", "--firstname", "M", "--lastname", "M",
        "--email", "manager@localhost", "--password", password,
    )  # fmt: skip
    asked, everything = table1(opened)
    with logged_in(server, browser, "manager", password) as request:
        mine = request.post("/api/v1/chart/data", data=asked).json()["result"][0]
        assert mine["data"] == everything["data"]


def test_a_second_import_changes_nothing(server, browser):
    def there() -> dict[str, list[tuple]]:
        with logged_in(server, browser, "admin", server.password) as request:
            return {
                kind: sorted(
                    (item["id"], item[name])
                    for item in request.get(f"/api/v1/{kind}/?q=(page_size:1000)").json()["result"]
                )
                for kind, name in {
                    "database": "database_name", "dataset": "table_name", "chart": "slice_name",
                    "dashboard": "dashboard_title", "rowlevelsecurity": "name",
                    "security/roles": "name",
                }.items()
            }  # fmt: skip

    before = there()
    assert len(before["dashboard"]) == 1
    assert [name for _, name in before["rowlevelsecurity"]] == [
        "Country AA", "Country BB", "Country CC", "Country DD",
    ]  # fmt: skip
    server.run("sh", "infra/superset/import.sh", "infra/networks.toml")
    assert there() == before


def test_a_warehouse_that_is_not_there_is_refused_in_one_line(tmp_path):
    done = subprocess.run(
        ["sh", "infra/superset/start.sh", tmp_path, "infra/networks.toml", "0"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"dashboards: {tmp_path}: no warehouse.duckdb in this folder: "
        "name a warehouse, or run giscope run first\n"
    )


def publish_marts_again(warehouse: Warehouse) -> None:
    """The same rows in files of other names."""
    for commit in warehouse.published_units("marts"):
        with warehouse.staging() as staging:
            for target in commit.files:
                name, network, *_ = target.split("/")
                network = network.removeprefix("network=")
                rows = read_rows(TABLES[name], [warehouse.root / target])
                staging.write(TABLES[name], network, commit.unit.day, "again", rows)
            warehouse.publish(commit.unit, staging.files, commit.facts)
    warehouse.update_views()


def test_charts_have_their_answers_while_jobs_publish(server, browser, opened):
    asked, expected = table1(opened)
    stop, rounds = Event(), []
    warehouse = Warehouse(server.warehouse.root, grace_time=timedelta(seconds=PUBLISHED_S))

    def publish() -> None:
        while not stop.is_set():
            publish_marts_again(warehouse)
            rounds.append(1)

    with (
        logged_in(server, browser, "admin", server.password) as admin,
        ThreadPoolExecutor() as pool,
    ):
        publishing = pool.submit(publish)
        until = time.monotonic() + 10 * PUBLISHED_S
        answers = 0
        while time.monotonic() < until or len(rounds) < 5:
            answer = admin.post("/api/v1/chart/data", data=asked | {"force": True})
            assert answer.status == 200, answer.text()
            assert answer.json()["result"][0]["data"] == expected["data"]
            answers += 1
        stop.set()
        publishing.result()
    assert answers > 10


def test_a_warehouse_that_superset_could_write_to_is_refused_in_one_line(tmp_path):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / VIEWS).touch()
    done = subprocess.run(
        ["sh", "infra/superset/start.sh", tmp_path / "w", "infra/networks.toml", "0"],
        cwd=ROOT, env=os.environ | {"SUPERSET_HOME": str(tmp_path)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"dashboards: {tmp_path}/w: the warehouse is inside SUPERSET_HOME, "
        "where Superset may write: move one of them\n"
    )
