"""Alerts on metrics and reports of charts, sent to a webhook of this machine."""

import csv
import io
import os
import re
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from conftest import CHROMIUM, ROOT

from tests.helpers.superset_server import Server, logged_in, new_user

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed"),
]
WAIT_S = 180
[LOSS] = re.findall(
    r"^```sql\n(.*?)^```$", (ROOT / "docs/dashboards.md").read_text(), re.MULTILINE | re.DOTALL
)
"""The documentation's example: the loss at peak of the last day."""
CHART = "Table II. Packet loss: loss on the access side by local hour"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of localhost, with its key."""
    file = tmp_path / "localhost.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-keyout", file, "-out", tmp_path / "certificate", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    file.write_text(file.read_text() + (tmp_path / "certificate").read_text())
    return file


@pytest.fixture
def webhook(certificate: Path) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the bodies of what it received."""
    received: list[str] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()

    server = HTTPServer(("localhost", 0), Receiver)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://localhost:{server.server_port}/giscope", received
    server.shutdown()
    server.server_close()


@pytest.fixture
def alerts(server: Server, certificate: Path) -> Iterator[None]:
    """Alerts are checked, as `make alerts` does it."""
    environment = server.environment | {"REQUESTS_CA_BUNDLE": str(certificate)}
    port = server.address.rpartition(":")[2]
    process = subprocess.Popen(
        ["sh", "infra/superset/alerts.sh", server.warehouse.root, port],
        cwd=ROOT, env=environment, start_new_session=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    yield
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)


def test_an_alert_above_its_limit_and_a_report_reach_a_webhook(server, browser, webhook, alerts):
    address, received = webhook
    [[lost]] = [row.values() for row in server.sql(LOSS)]
    with logged_in(server, browser, "admin", server.password) as admin:
        charts = admin.get("/api/v1/chart/?q=(page_size:1000)").json()["result"]
        [chart] = [item["id"] for item in charts if item["slice_name"] == CHART]
        databases = admin.get("/api/v1/database/").json()["result"]
        [database] = [item["id"] for item in databases if item["database_name"] == "analysis"]
        common = {
            "chart": chart, "crontab": "* * * * *", "creation_method": "alerts_reports",
            "recipients": [
                {"type": "Webhook", "recipient_config_json": {"target": address}}
            ],
        }  # fmt: skip
        schedules = [
            common | {
                "type": "Alert", "name": name, "database": database, "sql": LOSS,
                "validator_type": "operator",
                "validator_config_json": {"op": ">", "threshold": threshold},
            }
            for name, threshold in (("below", 0.99 * lost), ("above", 1.01 * lost))
        ]  # fmt: skip
        schedules.append(common | {"type": "Report", "name": "every day", "report_format": "CSV"})
        made = [admin.post("/api/v1/report/", data=schedule) for schedule in schedules]
        assert [answer.status for answer in made] == [201] * 3, [a.text() for a in made]
        until = time.monotonic() + WAIT_S
        while not any("report.csv" in body for body in received):
            log = (server.home / "alerts.log").read_text()
            assert time.monotonic() < until, log[-3000:]
            time.sleep(1)
        for answer in made:
            admin.delete(f"/api/v1/report/{answer.json()['id']}")
        data = admin.get(f"/api/v1/chart/{chart}/data/").json()["result"][0]["data"]
    alert, report = sorted(received, key=lambda body: "report.csv" in body)[:2]
    assert f'"below: {CHART}"' in alert
    assert not any("above" in body for body in received)
    text = re.split(r"\r?\n\r?\n", report.partition("report.csv")[2])[1]
    rows = [*csv.DictReader(io.StringIO(text))]
    assert [float(row["hour"]) for row in rows] == [row["hour"] for row in data]


def test_readers_and_analysts_make_no_alerts(server, browser):
    with logged_in(server, browser, "admin", server.password) as admin:
        new_user(admin, "curious", {"Analyst AA", "Country AA"})
    with logged_in(server, browser, "curious", "curious") as request:
        assert request.post("/api/v1/report/", data={"type": "Alert"}).status == 403
        assert request.get("/api/v1/report/").status == 403
