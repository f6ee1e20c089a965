"""nginx, and servers by hand that do what nginx does not do."""

import base64
import hashlib
import re
import select
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from string import Template

from tests.programs.recordings.network import Network, program, threads
from tests.programs.recordings.wire import HOST, Step, frame, play, reset, response, text

NGINX, BY_HAND = "198.51.100.10", "198.51.100.20"
SMALL, MEDIUM, LARGE = 1_000, 20_000, 150_000

NGINX_CONF = Template("""
daemon off; master_process off; pid nginx.pid; error_log stderr notice;
events { }
http {
    access_log off; root .; default_type text/plain; if_modified_since before;
    client_body_temp_path body; proxy_temp_path proxy;
    fastcgi_temp_path a; uwsgi_temp_path b; scgi_temp_path c;
    ssl_certificate server.crt; ssl_certificate_key server.key; ssl_client_certificate ca.crt;
    ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:tls:1m;
    proxy_method GET; proxy_set_body "";
    server {
        listen $address:80; listen $address:8080; listen $address:8000;
        listen $address:12345; listen 127.0.0.1:80; listen $address:8082 http2;
        location = /chunked.txt { ssi on; ssi_types text/plain; alias large.txt; }
        location = /gzip.txt { gzip on; gzip_types text/plain; alias large.txt; }
        location = /nothing { return 204; }
        location = /moved { return 301 /small.txt; }
        location = /broken { return 503; }
        location = /silent { return 444; }
        location = /last.txt { keepalive_requests 1; alias small.txt; }
        location = /soon.txt { keepalive_timeout 1s; alias small.txt; }
        location = /post { proxy_pass http://127.0.0.1/small.txt; }
        location = /limited { client_max_body_size 10k; proxy_pass http://127.0.0.1/small.txt; }
    }
    server { listen $address:443 ssl http2; }
    server { listen $address:8443 ssl; ssl_protocols TLSv1.3; }
    server { listen $address:9443 ssl; ssl_verify_client on; }
}
""")


def nginx(net: Network, scratch: Path) -> AbstractContextManager[None]:
    for name, size in (("small", SMALL), ("medium", MEDIUM), ("large", LARGE)):
        (scratch / f"{name}.txt").write_bytes(text(size))
    certificates(scratch)
    (scratch / "nginx.conf").write_text(NGINX_CONF.substitute(address=NGINX))
    command = f"nginx -e stderr -p {scratch} -c nginx.conf"
    return program(net.server, scratch / "nginx.log", "using the", command)


def certificates(scratch: Path) -> None:
    """A CA with a server's and a client's certificate, and a client's that it did not sign."""
    new = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650"
    signed = f"-CA ca.crt -CAkey ca.key -addext subjectAltName=DNS:{HOST}"
    for name, subject, how in (
        ("ca", "ca", ""),
        ("server", HOST, signed),
        ("client", "client", signed),
        ("stranger", "stranger", ""),
    ):
        command = f"{new} -keyout {name}.key -out {name}.crt -subj /CN={subject} {how}"
        subprocess.run(command.split(), cwd=scratch, check=True, capture_output=True)


START, BODY = response("200 OK", f"Content-Length: {SMALL}"), text(SMALL)
PART = response("200 OK", f"Content-Length: {LARGE}") + text(60_000)
CHUNKED = response("200 OK", "Transfer-Encoding: chunked")
CHUNK, LAST_CHUNK = b"c8\r\n" + text(200) + b"\r\n", b"0\r\n\r\n"
HINTS = response("103 Early Hints", "Link: </style.css>; rel=preload; as=style")
ANSWERS: dict[bytes, tuple[Step, ...]] = {
    b"/without-length": (response("200 OK") + BODY,),
    b"/part": (PART,),
    b"/part-and-reset": (PART, 0.4, reset),
    b"/reset": (reset,),
    b"/body-late": (START, 1, BODY),
    b"/late": (3, START + BODY),
    b"/slow-chunks": (CHUNKED, CHUNK, 0.5, CHUNK, 0.5, CHUNK, 0.5, LAST_CHUNK, 0.5),
    b"/chunks-cut": (CHUNKED, b"400\r\n" + text(500)),
    b"/early-hints": (HINTS, 0.5, START + BODY),
}


def web_server(connection: socket.socket) -> None:
    """Answers one request as its path asks for."""
    asked = b""
    while b"\r\n\r\n" not in asked:
        if not (data := connection.recv(4096)):
            return
        asked += data
    method, target = asked.split()[:2]
    if method == b"CONNECT":
        tunnel(connection, target.decode())
    elif target == b"/web-socket":
        web_socket(connection, asked)
    else:
        play(connection, *ANSWERS[target])


def tunnel(connection: socket.socket, target: str) -> None:
    host, port = target.split(":")
    if port != "443":
        connection.sendall(response("403 Forbidden", "Content-Length: 0"))
        return
    with socket.create_connection((host, int(port))) as onward:
        connection.sendall(response("200 Connection established"))
        other = {connection: onward, onward: connection}
        while True:
            for each in select.select([*other], [], [])[0]:
                if not (data := each.recv(4096)):
                    return
                other[each].sendall(data)


def web_socket(connection: socket.socket, asked: bytes) -> None:
    """A frame for each that comes."""
    found = re.search(rb"Sec-WebSocket-Key: (\S+)", asked)
    key = (found[1] if found else b"") + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = f"Sec-WebSocket-Accept: {base64.b64encode(hashlib.sha1(key).digest()).decode()}"
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", accept)
    connection.sendall(response("101 Switching Protocols", *upgrade))
    while connection.recv(4096):
        connection.sendall(frame(text(300)))


def mail_server(connection: socket.socket) -> None:
    """Speaks first, and takes any mail."""
    connection.sendall(b"220 mail.example.test ESMTP\r\n")
    for line in connection.makefile("rb"):
        if line[:4].upper() == b"QUIT":
            connection.sendall(b"221 Bye\r\n")
            return
        connection.sendall(b"250 OK\r\n")


def banner_server(connection: socket.socket) -> None:
    connection.sendall(b"220 ready\r\n" + text(SMALL))


def echo_server(connection: socket.socket) -> None:
    while data := connection.recv(4096):
        connection.sendall(data)


Server = Callable[[socket.socket], None]
SERVERS_BY_HAND: dict[int, Server] = {
    80: web_server,
    3128: web_server,
    25: mail_server,
    2121: banner_server,
    8081: echo_server,
}


def start_servers_by_hand(net: Network) -> None:
    """Each port and each connection has its thread, until this program ends."""

    def start(serve: Server, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, suppress(OSError):
            serve(connection)

    def accept(serve: Server, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=start, args=(serve, connection), daemon=True).start()

    def listen(port: int) -> None:
        arguments = SERVERS_BY_HAND[port], socket.create_server((BY_HAND, port))
        threading.Thread(target=accept, args=arguments, daemon=True).start()

    with threads(net.server) as pool:
        list(pool.map(listen, SERVERS_BY_HAND))
