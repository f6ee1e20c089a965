"""A Superset for the tests, as make starts it, and its users' REST."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from playwright.sync_api import APIRequestContext, Browser, Page

from spark_jobs.warehouse.store import Warehouse

ROOT = Path(__file__).parents[2]
START_S = 600
PATIENCE_MS = 120_000


@dataclass
class Server:
    """A started Superset."""

    address: str
    home: Path
    warehouse: Warehouse
    environment: dict[str, str]
    process: subprocess.Popen

    @property
    def password(self) -> str:
        return (self.home / "admin_password").read_text().strip()

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def sql(self, query: str) -> list[dict[str, Any]]:
        """What `giscope sql` answers."""
        command = (
            str(Path(sys.executable).with_name("giscope")),
            "sql",
            "--warehouse",
            str(self.warehouse.root),
            "--format",
            "json",
        )
        return json.loads(self.run(*command, query))


@pytest.fixture(scope="session")
def server(demo, tmp_path_factory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("superset")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "SUPERSET_HOME": str(home),
        "GISCOPE_WAREHOUSE": str(demo.warehouse.root),
        "GISCOPE_QUERY_MEMORY": "512MiB",
    }
    log = home / "make.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            ["make", "dashboards", f"WAREHOUSE={demo.warehouse.root}", f"PORT={port}"],
            cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        address = f"http://127.0.0.1:{port}"
        started = Server(address, home, demo.warehouse, environment, process)
        until = time.monotonic() + START_S
        while not answers(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(1)
        yield started
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=START_S) as answer:
            return answer.status == 200
    except OSError:
        return False


def open_page(server: Server, browser: Browser, user: str, password: str, height: int) -> Page:
    """Logged in."""
    page = browser.new_page(viewport={"width": 1440, "height": height})
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{server.address}/login/")
    # What it reports of itself would be answered with another session's cookie.
    page.wait_for_load_state("networkidle")
    page.locator("input#username").fill(user)
    page.locator("input#password").fill(password)
    page.keyboard.press("Enter")
    page.wait_for_url(lambda address: "login" not in address)
    return page


@contextmanager
def logged_in(
    server: Server, browser: Browser, user: str, password: str
) -> Iterator[APIRequestContext]:
    """REST as a user."""
    context = browser.new_context(base_url=server.address)
    context.set_default_timeout(PATIENCE_MS)
    answer = context.request.post(
        "/api/v1/security/login",
        data={"username": user, "password": password, "provider": "db"},
    )
    token = answer.json()["access_token"]
    headers = {"Authorization": f"Bearer {token}", "Referer": server.address}
    context.set_extra_http_headers(headers)
    csrf = context.request.get("/api/v1/security/csrf_token/").json()["result"]
    context.set_extra_http_headers(headers | {"X-CSRFToken": csrf})
    yield context.request
    context.close()


def new_user(admin: APIRequestContext, name: str, roles: set[str]) -> None:
    """With a password that is its name."""
    known = admin.get("/api/v1/security/roles/?q=(page_size:1000)").json()["result"]
    made = admin.post(
        "/api/v1/security/users/",
        data={
            "username": name, "first_name": name, "last_name": name, "active": True,
            "email": f"{name}@localhost", "password": name,
            "roles": [role["id"] for role in known if role["name"] in roles],
        },
    )  # fmt: skip
    assert made.status == 201, made.text()
