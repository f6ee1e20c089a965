"""An object store whose answers get lost or cut, on loopback."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

CONDITIONS = "If-Match", "If-None-Match"


@contextmanager
def losing_answers(
    to: str,
    loses: Callable[[str], bool] = lambda path: False,
    cuts: Callable[[str], bool] = lambda path: False,
    announces_all: bool = True,
) -> Iterator[str]:
    """Start a proxy of the store at `to`; yield its URL. It carries out each conditional PUT of a
    path for which loses() is true, and answers 500 instead of the store's answer. To a GET of a
    path for which cuts() is true it sends half of the answer's body and closes the connection;
    announces_all: the header has the length of the whole body."""

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            store = http.client.HTTPConnection(urlsplit(to).netloc)
            store.request(self.command, self.path, body, dict(self.headers))
            answer = store.getresponse()
            content = answer.read()
            conditional = any(name in self.headers for name in CONDITIONS)
            lost = self.command == "PUT" and conditional and loses(self.path)
            self.send_response(500 if lost else answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                    self.send_header(name, value)
            content = b"" if lost else content
            is_cut = self.command == "GET" and cuts(self.path)
            half = content[: len(content) // 2]
            if is_cut and not announces_all:
                content = half
            length = answer.getheader("Content-Length", "0")
            self.send_header(
                "Content-Length", length if self.command == "HEAD" else str(len(content))
            )
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(half if is_cut else content)
            self.close_connection = self.close_connection or is_cut
            store.close()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    serving = Thread(target=server.serve_forever, daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    serving.join()
    server.server_close()
