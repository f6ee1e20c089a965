"""`make lint` reports locked packages with known vulnerabilities; a stand-in answers for OSV."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from conftest import ROOT

from infra.audit import ACCEPTED, main
from tests.helpers.spark_programs import free_port

UV = ROOT / ".tools/bin/uv"
ID = "PYSEC-2026-1"
VULNERABLE = {
    "vulns": [
        {
            "id": ID, "modified": "2026-01-01T00:00:00Z", "aliases": [], "summary": "bad",
            "affected": [{"package": {"name": "flask", "ecosystem": "PyPI"}, "ranges": []}],
        }
    ]
}  # fmt: skip


class Osv(ThreadingHTTPServer):
    """Stand-in for OSV: knows one vulnerable package; fails after a number of answers."""

    def __init__(self, vulnerable: str | None, answers: int = 10_000):
        super().__init__(("127.0.0.1", 0), Answer)
        self.vulnerable, self.answers = vulnerable, answers
        self.asked: set[str] = set()


class Answer(BaseHTTPRequestHandler):
    server: Osv

    def do_GET(self) -> None:
        self.send_error(405)

    def do_POST(self) -> None:
        name = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["package"]["name"]
        self.server.asked.add(name)
        if len(self.server.asked) > self.server.answers:
            self.send_error(503)
            return
        content = json.dumps(VULNERABLE if name == self.server.vulnerable else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(*settings: object) -> Iterator[Osv]:
    with Osv(*settings) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def audit(port: int) -> subprocess.CompletedProcess:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {"GISCOPE_OSV": f"http://127.0.0.1:{port}/v1/query", "PATH": programs}
    settings |= {"UV": str(UV)} if UV.exists() else {}
    return subprocess.run(
        [sys.executable, ROOT / "infra/audit.py"],
        env=os.environ | settings, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_vulnerable_package_fails():
    with serving("duckdb") as osv:
        done = audit(osv.server_port)
    assert done.returncode == 1
    reported = re.findall(r"^audit: (\S+):$", done.stderr, re.MULTILINE)
    assert reported == ["uv.lock", "infra/superset/requirements.txt"]
    assert len(re.findall(rf"^duckdb .* {ID}", done.stderr, re.MULTILINE)) == len(reported)
    assert {"pyspark", "moto", "apache-airflow", "apache-superset"} <= osv.asked
    assert "giscope" not in osv.asked


def test_accepted_vulnerabilities_pass(monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("UV", str(UV) if UV.exists() else "uv")
    with serving("duckdb") as osv:
        monkeypatch.setattr("infra.audit.OSV", f"http://127.0.0.1:{osv.server_port}/")
        monkeypatch.setitem(ACCEPTED, ID, "of a function that is never called")
        assert main() == 0


def test_unreachable_osv_passes_with_one_line():
    done = audit(free_port())
    assert done.returncode == 0
    assert "audit: locked packages were not looked up at http://127.0.0.1:" in done.stderr
    assert "Connection refused" in done.stderr
    with serving(None, 3) as osv:
        done = audit(osv.server_port)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)
    assert "audit: locked packages were not looked up at http://127.0.0.1:" in done.stderr
