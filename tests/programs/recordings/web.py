"""HTTP without TLS, and what else may run at its ports."""

import smtplib
import socket
from contextlib import suppress
from pathlib import Path

from tests.programs.recordings.clients import Connection, by_hand, curl, sequential
from tests.programs.recordings.exchanges import Client, Exchange, Peer, Seen, carry_out
from tests.programs.recordings.network import PATIENCE, Network, capture
from tests.programs.recordings.servers import BY_HAND, NGINX, nginx, start_servers_by_hand
from tests.programs.recordings.wire import HOST, Step, frame, play, request, reset, text

UPLOAD = 50_000
SMALL, LARGE = request("/small.txt"), request("/large.txt")
POST = request("/post", "POST", body=text(4_000))
RANGES = [request("/large.txt", "GET", f"Range: bytes={i}000-{i}999") for i in (10, 11, 12)]
PROXY = f"-x http://{BY_HAND}:3128 --proxytunnel -k"
EXPECT, AT_ONCE = "-H Expect:100-continue", "-H Expect:"
CHUNKED = "-X POST -H Transfer-Encoding:chunked"
SPEAKS_FIRST = "not HTTP: the server speaks first"


def left_open(path: str, seconds: float) -> Client:
    """The client closes after some seconds, if the server has not."""

    def steps(c: Connection) -> None:
        c.exchange(request(path))
        c.socket.settimeout(seconds)
        with suppress(TimeoutError):
            c.reader.read(1)

    return by_hand(steps)


def pipelined(*requests: bytes) -> Client:
    def steps(c: Connection) -> None:
        c.ask(*requests)
        for _ in requests:
            c.hear()

    return by_hand(steps)


def pipelined_behind(c: Connection) -> None:
    """The second request is sent while the first's response is in flight."""
    c.ask(LARGE)
    c.reader.peek(1)
    c.exchange(SMALL)
    c.hear()


def stops_reading(*then: Step) -> Client:
    """Within a response."""

    def steps(c: Connection) -> None:
        c.ask(LARGE)
        c.reader.read(20_000)
        play(c.socket, *then)

    return by_hand(steps)


def gives_up(*then: Step) -> Client:
    """The client waits less long than the server takes."""

    def steps(c: Connection) -> None:
        c.ask(request("/late"))
        play(c.socket, 1, *then)

    return by_hand(steps)


def half_closed(c: Connection) -> None:
    c.ask(SMALL)
    c.socket.shutdown(socket.SHUT_WR)
    c.hear()


def unfinished(part: bytes) -> Client:
    return by_hand(lambda c: play(c.socket, part, 1))


def in_parts(*parts: bytes | float) -> Client:
    """One request, with pauses."""

    def steps(c: Connection) -> None:
        play(c.socket, *parts)
        c.requests += 1
        c.hear()

    return by_hand(steps)


def mail(peer: Peer) -> Seen:
    with smtplib.SMTP(*peer[2:], "mobile.example.test", PATIENCE, peer[:2]) as client:
        client.noop()
    return Seen(0, 0)


def echo(c: Connection) -> None:
    for size in (50, 500):
        c.socket.sendall(bytes(range(128, 178)) * (size // 50))
        c.reader.read(size)


def web_socket(c: Connection) -> None:
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    c.exchange(request("/web-socket", "GET", *upgrade, f"Sec-WebSocket-Key: {'A' * 22}=="))
    for size in (20, 200):
        play(c.socket, 0.5, frame(text(size), mask=b"mask"))
        c.reader.read(304)


EXCHANGES = [
    Exchange("small", curl("/small.txt")),
    Exchange("small_8080", curl("/small.txt"), 8080),
    Exchange("large", curl("/large.txt")),
    Exchange("large_8080", curl("/large.txt"), 8080),
    Exchange("connection_close", curl("/large.txt", options="-H Connection:close")),
    Exchange("client_closes_later", left_open("/small.txt", 2)),
    Exchange("server_closes_later", left_open("/soon.txt", 5)),
    Exchange("http_1_0", curl("/large.txt", options="-0")),
    Exchange("chunked", curl("/chunked.txt")),
    Exchange("gzip", curl("/gzip.txt", options="--compressed")),
    Exchange("head", curl("/large.txt", options="-I")),
    Exchange("status_204", curl("/nothing")),
    Exchange("status_304", curl("/large.txt", options="-z 20370101")),
    Exchange("status_301", curl("/moved")),
    Exchange("status_404", curl("/absent")),
    Exchange("status_503", curl("/broken")),
    Exchange("post", curl("/post", options=AT_ONCE, body=UPLOAD)),
    Exchange("post_chunked", curl("/post", options=CHUNKED, body=UPLOAD)),
    Exchange("expect_100", curl("/post", options=EXPECT, body=UPLOAD)),
    Exchange("early_hints", curl("/early-hints"), server=BY_HAND),
    Exchange("without_length", curl("/without-length"), server=BY_HAND),
    Exchange("slow_chunks", curl("/slow-chunks"), server=BY_HAND),
    Exchange("sequential_2", curl("/small.txt", "/large.txt")),
    Exchange("sequential_5", sequential(SMALL, SMALL, SMALL, SMALL, LARGE)),
    Exchange("sequential_post", sequential(SMALL, POST, SMALL)),
    Exchange("pipelined_3", pipelined(SMALL, SMALL, SMALL)),
    Exchange("pipelined_large", pipelined(LARGE, SMALL)),
    Exchange("pipelined_behind", by_hand(pipelined_behind)),
    Exchange(
        "pipelined_and_closed",
        pipelined(request("/last.txt"), SMALL, SMALL),
        remark="the server closes after the first response",
    ),
    Exchange("range", curl("/large.txt", options="-r 0-999")),
    Exchange("range_large", curl("/large.txt", options="-r 10000-129999")),
    Exchange("ranges_sequential", sequential(*RANGES)),
    Exchange("ranges_in_one", curl("/large.txt", options="-r 0-99,5000-5999")),
    Exchange("range_outside", curl("/large.txt", options="-r 999999-")),
    Exchange("closed_unanswered", curl("/silent")),
    Exchange("reset_unanswered", curl("/reset"), server=BY_HAND),
    Exchange("server_resets", curl("/part-and-reset"), server=BY_HAND),
    Exchange("length_too_long", curl("/part"), server=BY_HAND),
    Exchange("chunks_cut", curl("/chunks-cut"), server=BY_HAND),
    Exchange("client_resets", stops_reading(reset)),
    Exchange("client_closes_early", stops_reading(), remark="with unread data: RST"),
    Exchange("gives_up", gives_up(), server=BY_HAND),
    Exchange("gives_up_reset", gives_up(reset), server=BY_HAND),
    Exchange("half_closed", by_hand(half_closed)),
    Exchange("malformed", sequential(b"NONSENSE\r\n\r\n")),
    Exchange("host_missing", sequential(b"GET / HTTP/1.1\r\n\r\n")),
    Exchange("head_unfinished", unfinished(SMALL[:-10])),
    Exchange("body_unfinished", unfinished(POST[:-2_000])),
    Exchange("refused_413_sent_on", sequential(request("/limited", "POST", body=text(UPLOAD)))),
    Exchange(
        "refused_413_stopped",
        curl("/limited", options=AT_ONCE, body=2 * UPLOAD),
        remark="the client stops sending when it has the response",
    ),
    Exchange(
        "refused_413_expected",
        curl("/limited", options=EXPECT, body=UPLOAD),
        remark="the client sends the head only",
    ),
    Exchange("head_in_parts", in_parts(SMALL[:30], 0.5, SMALL[30:])),
    Exchange("body_later", in_parts(POST[:-4_000], 1, POST[-4_000:])),
    Exchange("body_in_parts", in_parts(POST[:-2_000], 1, POST[-2_000:])),
    Exchange("body_of_response_later", curl("/body-late"), server=BY_HAND),
    Exchange("mail", mail, 25, BY_HAND, SPEAKS_FIRST),
    Exchange("banner", by_hand(lambda c: c.reader.read()), 2121, BY_HAND, SPEAKS_FIRST),
    Exchange("echo", by_hand(echo), 8081, BY_HAND, "not HTTP"),
    Exchange(
        "connect",
        curl(f"https://{NGINX}/medium.txt", options=PROXY),
        3128,
        BY_HAND,
        "CONNECT, and one request in the tunnel",
    ),
    Exchange("connect_refused", curl(f"http://{NGINX}/", options=PROXY), 3128, BY_HAND),
    Exchange(
        "proxied",
        curl(f"http://{HOST}/small.txt", options=f"-x http://{NGINX}:8080"),
        8080,
        remark="a request of a proxy",
    ),
    Exchange("web_socket", by_hand(web_socket), 80, BY_HAND, "101, two frames each way"),
    Exchange("port_8000", curl("/large.txt"), 8000),
    Exchange("port_12345", curl("/large.txt"), 12345),
    Exchange("http_2", curl("/large.txt", options="--http2-prior-knowledge"), 8082),
]


def record(net: Network, pcap: Path, scratch: Path) -> list[dict[str, object]]:
    with nginx(net, scratch):
        start_servers_by_hand(net)
        with capture(net, pcap, scratch):
            return carry_out(net, EXCHANGES, at_once=6)
