"""curl, and a client by hand that does what curl does not do."""

import http.client
import io
import json
import socket
import ssl
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.programs.recordings.exchanges import Client, Peer, Seen
from tests.programs.recordings.network import PATIENCE
from tests.programs.recordings.wire import HOST, text


def curl(*targets: str, site: str = "", options: str = "", body: int = 0) -> Client:
    """curl gets whole URLs, or paths at the site, one after another; body: bytes that it sends to
    each. The site, a scheme and a host, is at the exchange's server and port."""

    def client(peer: Peer) -> Seen:
        here = f"{site or 'http://' + peer.server}:{peer.server_port}"
        command = ["curl", "-s", "-m", str(PATIENCE), "-w", "%{json}\n", *options.split()]
        command += ["--interface", peer.client, "--local-port", str(peer.client_port)]
        command += ["--resolve", f"{HOST}:{peer.server_port}:{peer.server}"]
        for target in targets:
            command += ["-o", "/dev/null", target if "://" in target else here + target]
        if body:
            command += ["--data-binary", "@-"]
        done = subprocess.run(command, input=text(body), stdout=subprocess.PIPE, check=False)
        transfers = [json.loads(line) for line in done.stdout.splitlines()]
        if sum(each["num_connects"] for each in transfers) > 1:
            raise RuntimeError(f"more than one connection: {command}")
        failed = f"curl: exit status {done.returncode}" if done.returncode else ""
        return Seen(*counted(transfers, body), failed)

    return client


def counted(transfers: Sequence[dict[str, int]], body: int) -> tuple[int, int]:
    """Requests and responses of curl's transfers; a CONNECT before them counts too."""
    connects = sum(each["http_connect"] >= 200 for each in transfers)
    if any(each["http_connect"] >= 300 for each in transfers):
        return connects, connects
    sent = sum(each["size_request"] > 0 and each["size_upload"] >= body for each in transfers)
    got = sum(each["exitcode"] == 0 and each["http_code"] >= 200 for each in transfers)
    return connects + sent, connects + got


class Tls:
    """A client's settings, and the session that its next connection resumes."""

    def __init__(self, ca: Path, version: ssl.TLSVersion) -> None:
        self.context = ssl.create_default_context(cafile=ca)
        self.context.minimum_version = self.context.maximum_version = version
        self.session: ssl.SSLSession | None = None

    def wrap(self, connection: socket.socket) -> ssl.SSLSocket:
        return self.context.wrap_socket(connection, server_hostname=HOST, session=self.session)

    def keep(self, connection: socket.socket) -> str:
        """Keeps the first connection's session; says whether this one resumed it."""
        assert isinstance(connection, ssl.SSLSocket)
        self.session = self.session or connection.session
        return "resumed" if connection.session_reused else "full handshake"


class Reader(io.BufferedReader):
    """One buffer for all responses of a connection: http.client would take one for each."""

    def makefile(self, *_: str) -> "Reader":
        return self

    def close(self) -> None:
        """The next response is still to be read."""


def connect(peer: Peer) -> socket.socket:
    source, server = peer[:2], peer[2:]
    return socket.create_connection(server, PATIENCE, source)


class Connection:
    """By hand; http.client reads the responses."""

    def __init__(self, peer: Peer, tls: Tls | None) -> None:
        self.requests = self.responses = 0
        self.socket = connect(peer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap(self.socket)
        self.reader = Reader(socket.SocketIO(self.socket, "r"))

    def ask(self, *requests: bytes) -> None:
        """Whole requests, in as few segments as they fit in."""
        self.socket.sendall(b"".join(requests))
        self.requests += len(requests)

    def hear(self) -> None:
        """The next final response, or 101."""
        response = http.client.HTTPResponse(self.reader)  # type: ignore[arg-type]
        response.begin()
        response.read()
        self.responses += response.status >= 200

    def exchange(self, *requests: bytes) -> None:
        """One after another."""
        for each in requests:
            self.ask(each)
            self.hear()


def by_hand(steps: Callable[[Connection], object], tls: Tls | None = None) -> Client:
    """A client that takes steps until one fails."""

    def client(peer: Peer) -> Seen:
        remark = ""
        connection = Connection(peer, tls)
        try:
            steps(connection)
            if tls:
                remark = tls.keep(connection.socket)
        except (OSError, http.client.HTTPException) as error:
            remark = f"client: {type(error).__name__}"
        finally:
            connection.socket.close()
        return Seen(connection.requests, connection.responses, remark)

    return client


def sequential(*requests: bytes, tls: Tls | None = None) -> Client:
    return by_hand(lambda c: c.exchange(*requests), tls)
