"""QUIC servers and clients by aioquic, and what answers TCP: `aioquic_ends servers FOLDER`, with
`clients` what FOLDER/plan.txt says; like quinn/src/main.rs."""

import asyncio
import csv
import json
import random
import signal
import socket
import ssl
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import HandshakeCompleted, QuicEvent, StreamDataReceived
from aioquic.quic.logger import QuicLogger
from aioquic.quic.packet import QuicProtocolVersion

from tests.programs.lab.endpoints import Log, Servers
from tests.programs.recordings.quic.plan import MOVED, STACKS, User, listening, server

PROTOCOL = "objects"
MANY = [f"a-protocol-that-the-server-does-not-know-{k}" for k in range(30)]
"""As many as make the first message longer than a datagram, as post-quantum keys do."""
UNKNOWN_VERSION = 0x1A2A3A4A
V1, V2 = int(QuicProtocolVersion.VERSION_1), int(QuicProtocolVersion.VERSION_2)
VERSIONS = {
    "negotiation": (UNKNOWN_VERSION, [UNKNOWN_VERSION, V1]),
    "version2": (V2, [V2]),
    "upgrade": (V1, [V2, V1]),
}
"""The version that a client offers first, and those that it knows."""
PAUSES = (0.2, 1.0, 5.0, 0.5, 2.5)
"""Seconds, within a connection."""
PATIENCE = 10.0
"""Seconds until a client tries TCP."""
COLUMNS = (
    *("user", "port", "server", "server_port", "scenario", "offered_version"),
    *("answered", "zero_rtt", "zero_rtt_accepted", "moved_to"),
)


class Logs:
    """qlogs, written when the program ends."""

    def __init__(self, folder: Path, side: str) -> None:
        self.folder, self.side = folder, side
        self.traces: list[tuple[str, dict]] = []

    def add(self, connection: QuicConnection, client: tuple, server: tuple) -> None:
        names = f"{client[0]}-{client[1]}-{server[0]}-{server[1]}"
        path = f"aioquic-{self.side}-{names}-{len(self.traces)}.qlog"
        self.traces.append((path, connection._quic_logger))

    def write(self) -> None:
        for path, trace in self.traces:
            Path(self.folder, path).write_text(json.dumps(trace.to_dict(), default=str))


class Answering(QuicConnectionProtocol):
    """The server's side of a connection: `GET /bytes/N`, after what the client uploads."""

    logs: Logs
    logged = False

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.ends: defaultdict[int, bytes] = defaultdict(bytes)

    def datagram_received(self, data: bytes, addr: tuple) -> None:
        if not self.logged:
            self.logged = True
            self.logs.add(self._quic, addr, self._transport.get_extra_info("sockname"))
        super().datagram_received(data, addr)

    def quic_event_received(self, event: QuicEvent) -> None:
        if not isinstance(event, StreamDataReceived):
            return
        self.ends[event.stream_id] = (self.ends[event.stream_id] + event.data)[-100:]
        if event.end_stream:
            size = int(self.ends.pop(event.stream_id).split(b"/")[-1])
            self._quic.send_stream_data(event.stream_id, bytes(size), end_stream=True)


async def servers(folder: Path) -> None:
    Answering.logs = logs = Logs(folder, "server")
    tickets: dict[bytes, object] = {}
    for each in listening("aioquic"):
        settings = QuicConfiguration(is_client=False, alpn_protocols=[PROTOCOL])
        settings.quic_logger = QuicLogger()
        settings.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        address, _, port = each.partition("/")[0].partition(":")
        await serve(
            address,
            int(port),
            configuration=settings,
            create_protocol=Answering,
            session_ticket_fetcher=lambda label: tickets.pop(label, None),
            session_ticket_handler=lambda ticket: tickets.update({ticket.ticket: ticket}),
            retry=each.endswith("/retry"),
        )
    silent = [socket.socket(type=socket.SOCK_DGRAM) for _ in STACKS]
    for stack, own in zip(STACKS, silent, strict=True):
        own.bind((server(stack, "drop"), 443))
    tcp = Servers(Log(folder / "tcp.csv", ()), 0)
    await asyncio.start_server(tcp.answer, "0.0.0.0", 443)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    logs.write()


class Coin:
    """A spin bit that is random in each packet."""

    def __lshift__(self, by: int) -> int:
        return random.getrandbits(1) << by


class ConstantSpin(QuicConnection):
    _spin_bit = property(lambda self: False, lambda self, value: None)


class RandomSpin(QuicConnection):
    _spin_bit = property(lambda self: Coin(), lambda self, value: None)


KINDS = {"constant": ConstantSpin, "random": RandomSpin}


class Client(QuicConnectionProtocol):
    """The client's side of a connection."""

    def __init__(self, quic: QuicConnection) -> None:
        super().__init__(quic)
        self.refused = asyncio.Event()
        self.early_data_accepted = False
        self.passed: Callable[[int], None] = lambda size: None
        """Called with the size of what has come."""

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        if self._transport:  # it moves
            self._quic.change_connection_id()
        super().connection_made(transport)

    def error_received(self, exc: Exception) -> None:
        if isinstance(exc, ConnectionRefusedError):
            self.refused.set()

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, HandshakeCompleted):
            self.early_data_accepted = event.early_data_accepted
        if isinstance(event, StreamDataReceived):
            self.passed(len(event.data))
        super().quic_event_received(event)

    async def move(self, address: tuple[str, int], peer: tuple[str, int]) -> None:
        """Goes on from another address, with another connection ID."""
        old = self._transport
        own = bound(address, peer)
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=own)
        self.transmit()
        old.close()

    async def fetch(self, size: int, upload: int) -> None:
        reader, writer = await self.create_stream()
        writer.write(bytes(upload) + f"GET /bytes/{size}\r\n".encode())
        writer.write_eof()
        await reader.read()


def bound(address: tuple[str, int], peer: tuple[str, int]) -> socket.socket:
    """Returns a connected socket: one that gets to know ICMP errors."""
    own = socket.socket(type=socket.SOCK_DGRAM)
    own.setblocking(False)
    own.bind(address)
    own.connect(peer)
    return own


class Clients:
    """All users of the plan."""

    def __init__(self, folder: Path) -> None:
        self.logs = Logs(folder, "client")
        self.log = Log(folder / "clients-aioquic.csv", COLUMNS)

    async def run(self, users: list[User]) -> None:
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        running = [asyncio.ensure_future(self.user(user)) for user in users]
        await ended.wait()
        unfinished = sum(not each.done() for each in running)
        if unfinished:
            print(f"aioquic: {unfinished} users have not finished", file=sys.stderr)
        self.logs.write()

    async def user(self, user: User) -> None:
        tickets: list = []
        await asyncio.sleep(user.start)
        for number in range(user.times):
            address, peer = (user.address, user.first_port + number), (user.server, user.port)
            first, known = VERSIONS.get(user.scenario, (V1, [V1, V2]))
            settings = QuicConfiguration(
                alpn_protocols=[PROTOCOL, *(MANY if user.scenario == "long-hello" else ())],
                server_name="server.example",
                verify_mode=ssl.CERT_NONE,
                quic_logger=QuicLogger(),
                original_version=first,
                supported_versions=known,
                session_ticket=tickets[-1] if tickets else None,
            )
            keep = tickets.append if user.scenario == "zero-rtt" else None
            kind = KINDS.get(user.scenario, QuicConnection)
            connection = kind(configuration=settings, session_ticket_handler=keep)
            _, client = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda connection=connection: Client(connection), sock=bound(address, peer)
            )
            self.logs.add(connection, address, peer)
            early = settings.session_ticket is not None
            answered = await self.connection(user, client, peer, early)
            moved = address[1] + MOVED if answered and user.scenario == "migrate" else ""
            row = (*address, *peer, user.scenario, hex(first), int(answered), int(early))
            self.log.write(*row, int(client.early_data_accepted), moved)
            if not answered:
                await over_tcp(user)
            await asyncio.sleep(user.pause)

    async def connection(self, user: User, client: Client, peer: tuple, early: bool) -> bool:
        """Fetches a connection's objects; returns false if there was no connection."""
        client.connect(peer, transmit=not early)
        if not early:
            both = (client.wait_connected(), client.refused.wait())
            waits = [asyncio.ensure_future(each) for each in both]
            done, others = await asyncio.wait(
                waits, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED
            )
            for each in others:
                each.cancel()
            if waits[0] not in done:
                client._connected_waiter = None
                client.close()
                client._transport.close()
                return False
        for number in range(user.objects):
            if number:
                await asyncio.sleep(PAUSES[number % len(PAUSES)])
            if number == 1 and user.scenario == "migrate":
                self.move_in_the_middle(user, client, peer)
            if number == 1 and user.scenario == "newid":
                client.change_connection_id()
            if user.scenario == "upload":
                await client.fetch(0, user.bytes)
            else:
                await client.fetch(user.bytes, 0)
        client.close()
        await client.wait_closed()
        client._transport.close()
        return True

    def move_in_the_middle(self, user: User, client: Client, peer: tuple) -> None:
        """Lets a client move when half of the next object has come."""
        address = client._transport.get_extra_info("sockname")
        left = user.bytes // 2

        def passed(size: int) -> None:
            nonlocal left
            if left > 0 and (left := left - size) <= 0:
                self.moving = asyncio.ensure_future(
                    client.move((address[0], address[1] + MOVED), peer)
                )

        client.passed = passed


async def over_tcp(user: User) -> None:
    """Fetches an object over TCP from the same server."""
    with suppress(OSError):
        reader, writer = await asyncio.open_connection(
            user.server, user.port, local_addr=(user.address, 0)
        )
        writer.write(f"GET /bytes/{user.bytes} HTTP/1.1\r\n\r\n".encode())
        writer.write_eof()
        await reader.read()
        writer.close()


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "servers":
        asyncio.run(servers(folder))
        return
    rows = csv.reader((folder / "plan.txt").open(), delimiter=" ")
    kinds = User.__annotations__.values()
    users = [User(*(kind(word) for kind, word in zip(kinds, row, strict=True))) for row in rows]
    asyncio.run(Clients(folder).run([user for user in users if user.stack == "aioquic"]))


if __name__ == "__main__":
    main()
