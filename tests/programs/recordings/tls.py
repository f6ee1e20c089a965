"""HTTPS, and handshakes that come to nothing."""

import ssl
from contextlib import suppress
from pathlib import Path

from tests.programs.recordings.clients import Tls, connect, curl, sequential
from tests.programs.recordings.exchanges import Client, Exchange, Peer, Seen, carry_out
from tests.programs.recordings.network import Network, capture, program
from tests.programs.recordings.servers import NGINX, nginx
from tests.programs.recordings.wire import HOST, request

SMALL, MEDIUM = request("/small.txt"), request("/medium.txt")
TLS12 = "--http1.1 --tls-max 1.2"
DEMANDING = "a server that ends the handshake"


def hello_only(peer: Peer) -> Seen:
    """The client sends ClientHello, and closes when the server has answered."""
    outgoing = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=HOST)
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    with connect(peer) as connection:
        connection.sendall(outgoing.read())
        connection.recv(1)
    return Seen(0, 0)


def exchanges(scratch: Path) -> list[Exchange]:
    ca = scratch / "ca.crt"
    tls12, tls13 = Tls(ca, ssl.TLSVersion.TLSv1_2), Tls(ca, ssl.TLSVersion.TLSv1_3)

    def get(*paths: str, options: str = "--http1.1", trust: str = f"--cacert {ca}") -> Client:
        return curl(*paths, site=f"https://{HOST}", options=f"{trust} {options}")

    def certificate(name: str) -> str:
        return f"--cert {scratch}/{name}.crt --key {scratch}/{name}.key"

    return [
        Exchange("tls12_small", get("/small.txt", options=TLS12), 443),
        Exchange("tls12_large", get("/large.txt", options=TLS12), 443),
        Exchange("tls13_small", get("/small.txt"), 443),
        Exchange("tls13_large", get("/large.txt"), 443),
        Exchange("tls12_head", get("/large.txt", options=f"{TLS12} -I"), 443),
        Exchange("tls12_sequential", get(*["/medium.txt"] * 2, options=TLS12), 443),
        Exchange("tls13_sequential", get(*["/small.txt"] * 5), 443),
        Exchange("tls12_to_resume", sequential(SMALL, tls=tls12), 443),
        Exchange("tls12_resumed", sequential(MEDIUM, tls=tls12), 443),
        Exchange("tls12_resumed_2", sequential(SMALL, SMALL, tls=tls12), 443),
        Exchange("tls13_to_resume", sequential(SMALL, tls=tls13), 443),
        Exchange("tls13_resumed", sequential(MEDIUM, tls=tls13), 443),
        Exchange("tls13_resumed_2", sequential(SMALL, SMALL, tls=tls13), 443),
        Exchange("http_2", get("/medium.txt", options="--http2"), 443),
        Exchange("http_2_sequential", get(*["/small.txt"] * 3, options="--http2"), 443),
        Exchange(
            "http_2_parallel",
            get(*["/small.txt"] * 3, options="--http2 -Z --no-progress-meter"),
            443,
        ),
        Exchange("post", curl(f"https://{NGINX}/absent", options="-k --http1.1", body=4_000), 443),
        Exchange("client_known", get("/small.txt", options=certificate("client")), 9443),
        Exchange("client_unknown", get("/", options=certificate("stranger")), 9443),
        Exchange("client_unnamed", get("/"), 9443),
        Exchange("client_unnamed_alert", get("/"), 4433, remark=DEMANDING),
        Exchange("client_unnamed_alert_tls12", get("/", options=TLS12), 4433, remark=DEMANDING),
        Exchange("server_not_trusted", get("/", trust=""), 443),
        Exchange("server_not_trusted_tls12", get("/", trust="", options=TLS12), 443),
        Exchange("no_common_version", get("/", options=TLS12), 8443),
        Exchange("hello_only", hello_only, 443),
        Exchange("plain", sequential(SMALL), 443, remark="HTTP without TLS"),
    ]


def record(net: Network, pcap: Path, scratch: Path) -> list[dict[str, object]]:
    files = f"-cert {scratch}/server.crt -key {scratch}/server.key -CAfile {scratch}/ca.crt"
    demanding = f"openssl s_server -accept {NGINX}:4433 {files} -Verify 1 -verify_return_error -www"
    with (
        nginx(net, scratch),
        program(net.server, scratch / "s_server.log", "ACCEPT", demanding),
        capture(net, pcap, scratch),
    ):
        return carry_out(net, exchanges(scratch), at_once=1)
