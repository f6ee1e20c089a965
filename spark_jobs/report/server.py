"""The web server of `giscope serve`: the report, and pages of connections when asked for.

It writes nothing to the warehouse. It listens on the loopback interface only, and answers only
programs of its own user, who may read the warehouse's files anyway. A site in the user's browser
cannot read the pages: it would need another name for this machine (DNS rebinding), which the check
of the header Host refuses, or a frame or script of its own, which the other headers refuse.
"""

from __future__ import annotations

import re
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from os import getuid
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl

from spark_jobs.base.errors import UserError, withheld_lines
from spark_jobs.figures.connection_links import CONNECTIONS
from spark_jobs.report.build import REPORT_TABLES, fingerprint_inputs
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.store import Warehouse

if TYPE_CHECKING:
    from spark_jobs.report.connection import Connection

HOST = "127.0.0.1"
CONNECTION = re.compile(
    CONNECTIONS + r"/([A-Za-z0-9][A-Za-z0-9._-]*)/(\d{4}-\d\d-\d\d)/(\d{1,19})", re.ASCII
)
"""Path of a connection's page."""
SCRIPT_TYPE, PAGE_TYPE = "text/javascript; charset=utf-8", "text/html; charset=utf-8"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of each answer. Pages load nothing from elsewhere, and have their scripts in them."""
FETCH_HEADERS = ("Site", "Mode", "Dest")
OTHER_USER = "another user's program asked: giscope serve answers only the user who started it"
UNREADABLE = "the request is too long or damaged: begin at the page / of this server"
MAX_WAIT_S = 30
"""Time after which a connection to the server on which nothing comes is closed."""


class Answer(NamedTuple):
    """The answer to a request; to: the path to which the browser is sent."""

    content: str
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = PAGE_TYPE
    to: str = ""


@dataclass
class Site:
    """The pages of a warehouse, each made by a thread of its own.

    networks: see find_connections. The report is kept while it is up to date, and made once.
    """

    warehouse: Warehouse
    networks: Mapping[str, Network]
    _report_lock: Lock = field(default_factory=Lock)
    _report: tuple[str, str] = ("", "")

    def answer(self, path: str, query: str) -> Answer:
        """Return the answer to a request for a path."""
        from spark_jobs.report.search_page import search_page

        try:
            return self._page(path, query) or Answer(
                search_page("There is no such page", [path]), HTTPStatus.NOT_FOUND
            )
        except UserError as error:
            lines = str(error).splitlines()
            return Answer(search_page("This cannot be shown", lines), HTTPStatus.NOT_FOUND)

    def _page(self, path: str, query: str) -> Answer | None:
        if path == "/":
            with self._report_lock:
                return Answer(self._up_to_date_report())
        if path == CONNECTIONS:
            return self._search(query)
        if match := CONNECTION.fullmatch(path):
            return self._connection(match[1], match[2], int(match[3]))
        from spark_jobs.report.templates import shared_script_name

        if path == f"/{shared_script_name()}":
            from plotly.offline import get_plotlyjs

            return Answer(get_plotlyjs(), content_type=SCRIPT_TYPE)
        return None

    def _up_to_date_report(self) -> str:
        inputs = fingerprint_inputs(self.warehouse)
        if self._report[0] != inputs:
            from spark_jobs.report.page import page
            from spark_jobs.report.selection import select

            selection = select(self.warehouse, None, None, None, REPORT_TABLES)
            selection.served = True
            before = len(withheld_lines)
            text = page(selection)
            is_whole = len(withheld_lines) == before  # otherwise it is made again next time
            self._report = (inputs if is_whole else "", text)
        return self._report[1]

    def _connection(self, network: str, day: str, flow_id: int) -> Answer:
        from spark_jobs.report.connection import read_connections
        from spark_jobs.report.plot_page import page_of
        from spark_jobs.report.templates import shared_script_name

        place = (network, _date(day))
        found = []
        if flow_id < 1 << 63 and place in self.warehouse.days("day", network):
            found = read_connections(self.warehouse, [flow_id], [place])
        if not found:
            raise UserError(
                f"There is no connection {flow_id} of {network} on {day}.",
                "The day's flows were removed or made again since the link was made; giscope marts "
                "and giscope report make new links.",
            )
        try:
            return Answer(page_of(self.warehouse, found[0], f"/{shared_script_name()}"))
        except UserError as error:
            return _without_packets(found[0], error)

    def _search(self, query: str) -> Answer:
        from spark_jobs.report.find_connections import explain, find_connections, search_of
        from spark_jobs.report.search_page import FIELDS, search_page

        values: dict[str, str] = {}
        try:
            values = _values(query)
            if not any(values.values()):
                return Answer(search_page("Find a connection"))
            search = search_of(*map(values.get, FIELDS))
            found = find_connections(self.warehouse, search, self.networks)
        except UserError as error:
            page = search_page("Find a connection", str(error).splitlines(), values)
            return Answer(page, HTTPStatus.BAD_REQUEST)
        if only := found.only:
            path = f"{CONNECTIONS}/{only['network']}/{only['date']}/{only['flow_id']}"
            return Answer("", HTTPStatus.SEE_OTHER, to=path)
        first, *_ = explain(self.warehouse, search, found, bool(self.networks))
        status = HTTPStatus.OK if found.rows else HTTPStatus.NOT_FOUND
        return Answer(search_page("Find a connection", [first], values, found), status)


def _values(query: str) -> dict[str, str]:
    """Return the values of the form's fields; raise UserError if a query has anything else."""
    from spark_jobs.report.search_page import FIELDS

    with suppress(ValueError):
        values = dict(parse_qsl(query, True, True, errors="strict", max_num_fields=len(FIELDS)))
        if values.keys() <= FIELDS.keys():
            return values
    raise UserError("The link to this page is damaged: fill in the form")


def _date(text: str) -> date | None:
    """Return a date; None if there is no such day."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _without_packets(connection: Connection, error: UserError) -> Answer:
    from spark_jobs.report.search_page import search_page
    from spark_jobs.report.why import explanation

    lines = [
        f"{error}: they were removed (retention, giscope purge) or replaced, so the connection "
        "cannot be drawn. giscope ingest reads its capture again, unless the day was purged. The "
        "tables still have:",
        *explanation(connection),
    ]
    return Answer(search_page("The packets are gone", lines), HTTPStatus.NOT_FOUND)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = MAX_WAIT_S
    server_version, sys_version = "giscope", ""

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Return the method that answers requests, whatever their method (do_GET, do_POST)."""
        if name.startswith("do_"):
            return self._respond
        raise AttributeError(name)

    def _respond(self) -> None:
        refused = self._refusal()
        try:
            path, _, query = self.path.partition("?")
            answer = refused or self.server.site.answer(path, query)
        except Exception:
            traceback.print_exc(file=sys.stderr)
            answer = _plain("giscope serve failed; its terminal has the reason", 500)
        self._send(answer)

    def send_error(self, *_: object) -> None:
        """Answer a request that cannot be read, or whose first line has more than 64 KiB."""
        self._send(_plain(UNREADABLE, HTTPStatus.BAD_REQUEST))

    def _refusal(self) -> Answer | None:
        """Return the answer to a request that must not get a page."""
        if self.command not in ("GET", "HEAD"):
            return _plain("this server only reads", HTTPStatus.METHOD_NOT_ALLOWED)
        if not _is_of_this_user(self.client_address, self.server.server_port):
            return _plain(OTHER_USER, HTTPStatus.FORBIDDEN)
        names = [f"{name}:{self.server.server_port}" for name in (HOST, "localhost")]
        if self.headers.get_all("Host") not in [[name] for name in names]:
            return _plain(f"ask for http://{names[0]}/", HTTPStatus.FORBIDDEN)
        site, mode, dest = (self.headers.get(f"Sec-Fetch-{name}") for name in FETCH_HEADERS)
        is_link = mode == "navigate" and dest in (None, "document")
        if site in ("cross-site", "same-site") and not is_link:
            return _plain("only links may lead here from other sites", HTTPStatus.FORBIDDEN)
        return None

    def _send(self, answer: Answer) -> None:
        content = answer.content.encode()
        self.send_response(answer.status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(content)))
        if answer.to:
            self.send_header("Location", answer.to)
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing: requests may have addresses of subscribers."""


def _plain(text: str, status: int) -> Answer:
    return Answer(f"giscope: {text}\n", HTTPStatus(status), "text/plain; charset=utf-8")


def _is_of_this_user(client: tuple[str, int], port: int) -> bool:
    """Return whether the program at the other end of a connection is of this process's user.

    Linux lists the user of each socket; elsewhere every user of the machine is answered.
    """
    lists = [path for path in map(Path, ("/proc/net/tcp", "/proc/net/tcp6")) if path.exists()]
    ends = tuple(
        f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}:{number:04X}"
        for address, number in (client, (HOST, port))
    )
    for path in lists:
        for line in path.read_text().splitlines()[1:]:
            _, local, remote, _, _, _, _, user, *_ = line.split()
            if local.endswith(ends[0]) and remote.endswith(ends[1]):
                return int(user) == getuid()
    return not lists


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, site: Site, port: int):
        self.site = site
        super().__init__((HOST, port), _Handler)

    def server_bind(self) -> None:
        """Bind without the look-up of the host's name that HTTPServer makes."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def handle_error(self, *_: object) -> None:
        """Print nothing: the browser has closed the connection."""


def make_server(warehouse: Warehouse, networks: Mapping[str, Network], port: int) -> _Server:
    """Return a server of a warehouse's pages; port 0: any free one.

    Raises UserError if the port is in use.
    """
    try:
        return _Server(Site(warehouse, networks), port)
    except OSError as error:
        raise UserError(
            f"serve: port {port}: {error.strerror}: choose another one with --port"
        ) from error
