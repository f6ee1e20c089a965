"""`giscope serve`: its pages, and the requests that it refuses."""

import http.client
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from conftest import CHROMIUM, DAY, NETWORKS_FILE

from spark_jobs.report import server as serve
from spark_jobs.report.connection import read_connection
from spark_jobs.report.why import explanation
from spark_jobs.warehouse.store import Warehouse

Response = tuple[int, dict[str, str], str]


@contextmanager
def serving(warehouse: Warehouse, networks: dict) -> Iterator[int]:
    """Serve a warehouse in this process, and yield the port."""
    with serve.make_server(warehouse, networks, 0) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def port(demo, networks) -> Iterator[int]:
    with serving(demo.warehouse, networks) as number:
        yield number


def ask(port: int, path: str, method: str = "GET", **headers: str) -> Response:
    """Return the status, the headers and the text of an answer; `_` in headers stands for `-`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode()


def test_report_leads_to_the_pages_of_its_connections(port):
    status, _, report = ask(port, "/")
    assert status == 200
    links = set(re.findall(r'href="(/connections/[^"]+)"', report))
    assert len(links) > 40
    assert "127.0.0.1:8765" not in report
    assert 'href="plots/' not in report
    for link in sorted(links)[:3]:
        flow_id = link.rpartition("/")[2]
        status, _, page = ask(port, link)
        assert status == 200
        assert f'<section id="flow-{flow_id}">' in page
    (script,) = set(re.findall(r'<script src="([^"]+)"', page))
    status, headers, text = ask(port, script)
    assert (status, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert len(text) > 1_000_000


def test_report_is_made_again_when_the_warehouse_changes(demo, networks, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr("spark_jobs.report.page.page", lambda of: made.append(of) or f"{len(made)}")
    inputs = ["a"]
    monkeypatch.setattr(serve, "fingerprint_inputs", lambda _: inputs[0])
    site = serve.Site(demo.warehouse, networks)
    assert [site.answer("/", "").content for _ in range(2)] == ["1", "1"]
    inputs[0] = "b"
    assert site.answer("/", "").content == "2"
    assert all(selection.served for selection in made)


def test_a_slow_page_does_not_block_another(demo, networks, monkeypatch):
    """The report waits until other pages were answered."""
    begun, others_answered = Event(), Event()

    def slow_page(_: object) -> str:
        begun.set()
        return f"{others_answered.wait(60)}"

    monkeypatch.setattr("spark_jobs.report.page.page", slow_page)
    with serving(demo.warehouse, networks) as port, ThreadPoolExecutor() as pool:
        slow = pool.submit(ask, port, "/")
        assert begun.wait(60)
        for path, status in (("/connections", 200), ("/connections?port=80", 200), ("/x", 404)):
            assert ask(port, path)[0] == status
        assert not slow.done()
        others_answered.set()
        assert slow.result()[2] == "True"


def test_pages_that_are_made_at_the_same_time_are_those_made_one_after_another(port):
    links = sorted(set(re.findall(r'href="(/connections/[^"]+)"', ask(port, "/")[2])))[:4]
    paths = [*links, "/", "/connections?port=80", "/connections?address=10.64.0.7"]
    alone = [ask(port, path)[2] for path in paths]
    with ThreadPoolExecutor(len(paths)) as pool:
        assert [*pool.map(lambda path: ask(port, path)[2], 2 * paths)] == 2 * alone


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("filter=" + "(" * 60_000, "--filter: 60,000 characters: use at most 4,096"),
        ("address=" + "a" * 5000, "--address: 5,000 characters: use at most 4,096"),
        *[(text, "The link to this page is damaged: fill in the form") for text in (
            "x=1", "filter", "filter=tcp.port==80&&port=80", "port=%ff", "&" * 1000,
        )],
        ("port=80&time=%00%E2%80%A8", "--time \\x00: not a time such as"),
        ("filter=" + "%28" * 30_000, serve.UNREADABLE),
    ],
)  # fmt: skip
def test_queries_that_are_too_long_or_damaged_get_a_line_and_status_400(port, capfd, query, reason):
    status, _, page = ask(port, f"/connections?{query}")
    assert status == 400
    lines = re.findall("<p>(.*)</p>", page)[:-1] if "<h1>" in page else page.splitlines()
    assert [line for line in lines if reason in line] == lines != []
    assert capfd.readouterr() == ("", "")


def test_a_search_leads_to_the_only_connection_or_lists_them(demo, port):
    row = demo.warehouse.connect().sql("""
        select flow_id, network, server, server_port, user_port from flows
        where network = 'bb-gprs' order by flow_id limit 1
    """)  # fmt: skip
    ((flow_id, network, server, server_port, user_port),) = row.fetchall()
    text = f"ip.addr=={server}%26%26tcp.port=={user_port}%26%26tcp.port=={server_port}"
    status, headers, _ = ask(port, f"/connections?filter={text}&network={network}")
    assert status == 303
    assert headers["Location"] == f"/connections/{network}/{DAY}/{flow_id}"
    status, _, page = ask(port, f"/connections?port={server_port}&address=&time=")
    assert status == 200
    assert len(set(re.findall(r'href="(/connections/[^"]+)"', page))) == 20
    status, _, page = ask(port, "/connections?address=192.0.2.250")
    assert (status, "no such connection" in page) == (404, True)
    status, _, page = ask(port, "/connections?port=%3Cscript%3E")
    assert (status, "--port &lt;script&gt;: not a port" in page) == (400, True)
    assert "<script>:" not in page
    assert ask(port, "/connections")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/report.html", "/catalog.sqlite", "/plots/", "/connections/", "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/connections/../aa-gprs/2004-03-02/1",
        "/connections/aa-gprs/2004-03-02/1/", "/connections/aa-gprs/2004-03-02/-1",
        "/connections/aa-gprs/2004-03-02/1'",
        "/connections/aa-gprs/2004-03-02/99999999999999999999",
        "/connections/aa-gprs/2004-03-02/9999999999999999999", "/connections/aa-gprs/2004-02-30/1",
        "/connections/aa-gprs/2004-03-02/7", "/connections/zz/2004-03-02/7",
    ],
)  # fmt: skip
def test_other_paths_have_no_page(port, path):
    status, _, page = ask(port, path)
    assert status == 404
    assert "<h1>" in page
    assert "root:" not in page


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_nothing_can_be_changed(port, method):
    status, headers, text = ask(port, "/", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert text == "giscope: this server only reads\n"


def test_head_has_the_headers_only(port):
    of_get, of_head = (ask(port, "/connections", method) for method in ("GET", "HEAD"))
    assert (of_head[0], of_head[2]) == (200, "")
    assert (
        of_head[1]["Content-Length"] == of_get[1]["Content-Length"] == str(len(of_get[2].encode()))
    )


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:{}", "127.0.0.1", "[::1]:{}", ""),
        *("127.0.0.1:{}.evil.example", "127.0.0.1:{}@evil.example"),
    ],
)
def test_other_names_of_this_machine_are_refused(port, host):
    """DNS rebinding: a site's name is made to lead here, and its scripts may read its pages."""
    status, _, text = ask(port, "/connections", Host=host.format(port))
    assert (status, text) == (403, f"giscope: ask for http://127.0.0.1:{port}/\n")


def test_requests_without_or_with_two_names_are_refused(port):
    for lines in (b"", b"Host: 127.0.0.1:%d\r\nHost: evil.example\r\n" % port):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n" + lines + b"\r\n")
            assert b" 403 " in connection.makefile("rb").readline()


def test_other_sites_may_only_link_here(port):
    site = {"Sec_Fetch_Site": "cross-site"}
    assert ask(port, "/connections", **site, Sec_Fetch_Mode="navigate")[0] == 200
    frame = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}
    assert ask(port, "/connections", **site, **frame)[0] == 403
    for mode in ("no-cors", "cors", "websocket"):
        assert ask(port, "/connections", **site, Sec_Fetch_Mode=mode)[0] == 403
    headers = ask(port, "/connections")[1]
    assert headers["X-Frame-Options"] == "DENY"
    assert "Access-Control-Allow-Origin" not in headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"


def test_programs_of_other_users_are_refused(port, monkeypatch):
    me = serve.getuid()
    monkeypatch.setattr(serve, "getuid", lambda: me + 1)
    status, _, text = ask(port, "/connections")
    assert (status, text) == (403, f"giscope: {serve.OTHER_USER}\n")


def test_it_listens_on_the_loopback_interface_only(demo, networks):
    with serve.make_server(demo.warehouse, networks, 0) as server:
        assert server.socket.getsockname()[0] == "127.0.0.1"


def test_a_connection_without_packets_says_what_to_do(demo, networks, tmp_path):
    root = tmp_path / "w"
    shutil.copytree(demo.warehouse.root, root)
    warehouse = Warehouse(root)
    ((flow_id,),) = (
        warehouse.connect().sql("select min(flow_id) from flows where network = 'aa-gprs'")
    ).fetchall()
    for published in warehouse.published_units("capture", "aa-gprs"):
        warehouse.publish(published.unit, {}, published.facts)
    with serving(warehouse, networks) as port:
        status, _, page = ask(port, f"/connections/aa-gprs/{DAY}/{flow_id}")
    assert status == 404
    assert f"no packets of flow {flow_id}: they were removed (retention, giscope purge)" in page
    assert explanation(read_connection(warehouse, flow_id))[0] in page


def test_nothing_is_written_to_the_warehouse(demo, networks, tmp_path):
    root = tmp_path / "w"
    shutil.copytree(demo.warehouse.root, root)
    before = contents(root)
    with serving(Warehouse(root), networks) as port:
        link = re.findall(r'href="(/connections/[^"]+)"', ask(port, "/")[2])[0]
        assert ask(port, link)[0] == 200
        assert ask(port, "/connections?port=80")[0] == 200
    assert contents(root) == before


def contents(root: Path) -> dict[Path, bytes]:
    return {
        path: path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.suffix not in (".sqlite-shm", ".sqlite-wal")
    }


def test_pages_and_printed_lines_have_no_address_of_a_subscriber(plain_demo, demo, port):
    """The report names nobody; a connection's page has the pseudonym."""
    rows = plain_demo.warehouse.connect().sql('select distinct "user" from flows').fetchall()
    report = ask(port, "/")[2]
    page = ask(port, re.findall(r'href="(/connections/[^"]+)"', report)[0])[2]
    names = demo.warehouse.connect().sql('select distinct "user" from flows').fetchall()
    assert not any(name in report for (name,) in names)
    assert any(name in page for (name,) in names)
    assert not any(re.search(rf"\b{address}\b", report + page) for (address,) in rows)


@contextmanager
def start(*arguments: object) -> Iterator[subprocess.Popen]:
    """Start the command as a terminal does, and end it if the test has not."""
    program = str(Path(sys.executable).with_name("giscope"))
    with subprocess.Popen(
        [program, "serve", *map(str, arguments)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def test_ctrl_c_ends_it_quietly_and_a_used_port_is_a_line(demo):
    with start(
        "--warehouse", demo.warehouse.root, "--networks", NETWORKS_FILE, "--port", 0
    ) as first:
        assert first.stdout is not None
        port = int(re.match(r"http://127\.0\.0\.1:(\d+)/ ", first.stdout.readline())[1])
        assert ask(port, "/connections?port=80")[0] == 200
        with start("--warehouse", demo.warehouse.root, "--port", port) as second:
            _, err = second.communicate(timeout=60)
        assert second.returncode == 2
        assert err == (
            f"giscope: serve: port {port}: Address already in use: choose another one with --port\n"
        )
        first.send_signal(signal.SIGINT)
        assert first.communicate(timeout=60) == ("", "")
    assert first.returncode == 130


@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
def test_a_browser_draws_the_page_under_its_policy(port, browser):
    """And nothing is loaded from elsewhere."""
    page = browser.new_page()
    problems, hosts = [], set()
    page.on(
        "console",
        lambda message: problems.append(message.text) if message.type == "error" else None,
    )
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.goto(f"http://127.0.0.1:{port}/")
    page.locator("#worst-connections a").first.click()
    page.wait_for_selector(".js-plotly-plot .main-svg")
    assert f"127.0.0.1:{port}/connections/" in page.url
    assert problems == []
    assert {host for host in hosts if host} <= {f"127.0.0.1:{port}"}
    page.close()
