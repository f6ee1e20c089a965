"""The programs at both ends: `python -m tests.programs.lab.endpoints servers FOLDER OFFSET`, and
with `mobiles` and the number of their options at the end.

Servers answer `GET /bytes/N` and `GET /seconds/S`, and write what their kernel reports about each
connection; mobiles fetch what the profile's loads say. Both write CSV files into the folder, as
`tests.programs.lab` says.
"""

import asyncio
import csv
import itertools
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.programs.lab.profile import Group, read

SERVER_PORT = 80
PATIENCE = 300.0
"""Seconds without a byte after which a mobile gives up."""
BLOCK = bytes(4096)

TCP_INFO = struct.Struct("=8B24I4Q2I4IQ3Q2I2Q4I2I2HI")
"""linux/tcp.h, struct tcp_info, Linux 6.7 and later; its fields: NAMES."""
NAMES = """
    state ca_state retransmits probes backoff options wscale flags

    rto ato snd_mss rcv_mss unacked sacked lost retrans fackets last_data_sent last_ack_sent
    last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd advmss
    reordering rcv_rtt rcv_space total_retrans

    pacing_rate max_pacing_rate bytes_acked bytes_received segs_out segs_in notsent_bytes min_rtt
    data_segs_in data_segs_out delivery_rate busy_time rwnd_limited sndbuf_limited delivered
    delivered_ce bytes_sent bytes_retrans dsack_dups reord_seen rcv_ooopack snd_wnd rcv_wnd rehash
    total_rto total_rto_recoveries total_rto_time
"""
REPORTED = """
    state ca_state retransmits backoff rto rtt rttvar min_rtt snd_mss snd_cwnd snd_ssthresh snd_wnd
    unacked sacked lost retrans total_retrans bytes_acked bytes_sent bytes_retrans data_segs_out
    notsent_bytes busy_time rwnd_limited sndbuf_limited dsack_dups reord_seen total_rto
    total_rto_recoveries total_rto_time
"""
CHANGES = ("state", "ca_state", "retransmits", "backoff", "total_retrans", "total_rto")
FIN_WAIT1, FIN_WAIT2, TIME_WAIT, CLOSE, LAST_ACK, CLOSING = 4, 5, 6, 7, 9, 11
LOOKS = 0.05
"""Seconds between looks at a connection."""
LEARNING = 1000
"""Times that a window is clamped from a connection's begin on, each 5 ms."""


class Log:
    """A CSV file, written row by row."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.file = path.open("w", newline="")
        self.rows = csv.writer(self.file, lineterminator="\n")
        self.rows.writerow(columns)

    def write(self, *row: object) -> None:
        self.rows.writerow(row)
        self.file.flush()


class Servers:
    """One program for all servers' addresses."""

    def __init__(self, log: Log, offset: float) -> None:
        self.log, self.offset = log, offset

    async def run(self) -> None:
        server = await asyncio.start_server(self.answer, "0.0.0.0", SERVER_PORT, backlog=1024)
        await server.serve_forever()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = writer.get_extra_info("socket").dup()
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 4 * len(BLOCK))
        writer.transport.set_write_buffer_limits(len(BLOCK))
        watching = asyncio.create_task(self.watch(own))
        try:
            while request := await reader.readline():
                await reader.readuntil(b"\r\n")
                await self.send(writer, request.split()[1].decode())
            writer.write_eof()
            await watching
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def send(self, writer: asyncio.StreamWriter, path: str) -> None:
        """Sends chunks, so that a reader knows where an object ends whose length nobody knows
        before."""
        _, kind, amount = path.split("/")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        until = time.time() + float(amount) if kind == "seconds" else float("inf")
        left = int(amount) if kind == "bytes" else sys.maxsize
        while left > 0 and time.time() < until:
            part = BLOCK[: min(left, len(BLOCK))]
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            left -= len(part)
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def watch(self, own: socket.socket) -> None:
        """Logs a connection until all is acknowledged, or it has ended."""
        names = (*own.getpeername()[:2], *own.getsockname()[:2])
        before, logged_at = None, 0.0
        with own:
            while True:
                info = tcp_info(own)
                over = info["state"] in (FIN_WAIT2, TIME_WAIT, CLOSE) or (
                    info["state"] in (FIN_WAIT1, LAST_ACK, CLOSING)
                    and not info["unacked"] + info["notsent_bytes"]
                )
                now, mark = time.time(), [info[name] for name in CHANGES]
                if over or mark != before or now - logged_at >= 1:
                    before, logged_at = mark, now
                    values = (info[name] for name in REPORTED.split())
                    self.log.write(f"{now + self.offset:.6f}", *names, int(over), *values)
                if over:
                    return
                await asyncio.sleep(LOOKS)


def tcp_info(connection: socket.socket) -> dict[str, int]:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO.size)
    return dict(zip(NAMES.split(), TCP_INFO.unpack(info.ljust(TCP_INFO.size, b"\0")), strict=True))


class Fetch(NamedTuple):
    """A fetch: the user's address, the group, the number of the load."""

    user: str
    group: Group
    load: int


class Mobiles:
    """All mobiles of one pair of options."""

    def __init__(self, log: Log, offset: float) -> None:
        self.log, self.offset = log, offset
        self.learning: set[asyncio.Task] = set()

    async def run(self, users: Sequence[tuple[str, Group]]) -> None:
        await asyncio.gather(*(self.user(address, group) for address, group in users))

    async def user(self, address: str, group: Group) -> None:
        load = group.load
        await asyncio.sleep(load.start)
        for number in itertools.count(1) if load.times is None else range(1, load.times + 1):
            objects = iter(range(1, (load.objects or load.connections) + 1))
            fetch = Fetch(address, group, number)
            await asyncio.gather(
                *(self.connection(fetch, each, objects) for each in range(load.connections))
            )
            await asyncio.sleep(load.pause)

    async def connection(self, fetch: Fetch, number: int, objects: Iterator[int]) -> None:
        """Fetches objects until there are none left, each with a row of the log."""
        server = f"198.51.100.{1 + (int(fetch.user.split('.')[2]) + number) % 200}"
        started, connected, port = time.time(), 0.0, 0
        try:
            own = await self.connect(fetch, server)
            port, connected = own.getsockname()[1], time.time()
            if window := fetch.group.receive_window:
                learning = asyncio.create_task(keep_clamped(own, window))
                learning.add_done_callback(self.learning.discard)
                self.learning.add(learning)
            reader, writer = await asyncio.open_connection(sock=own, limit=2**16)
        except (OSError, TimeoutError) as error:
            self.row(
                fetch,
                (port, server),
                next(objects, 0),
                (started, connected, 0, type(error).__name__),
            )
            return
        for each in objects:
            got, result = 0, "ok"
            try:
                got = await ask(reader, writer, fetch.group)
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                result = type(error).__name__
            self.row(fetch, (port, server), each, (started, connected, got, result))
            if result != "ok":
                break
            started = time.time()
        writer.close()

    async def connect(self, fetch: Fetch, server: str) -> socket.socket:
        own = socket.socket()
        own.setblocking(False)
        if fetch.group.mss:
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, fetch.group.mss)
        if window := fetch.group.receive_window:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2 * window)
            clamp(own, window)
        own.bind((fetch.user, 0))
        await asyncio.wait_for(
            asyncio.get_running_loop().sock_connect(own, (server, SERVER_PORT)), PATIENCE
        )
        return own

    def row(
        self, fetch: Fetch, ends: tuple[int, str], number: int, seen: tuple[float, float, int, Any]
    ) -> None:
        (port, server), (started, connected, got, result) = ends, seen
        times = [f"{t + self.offset:.6f}" if t else "" for t in (started, connected, time.time())]
        where = (fetch.user, port, server, SERVER_PORT, fetch.group.name, fetch.load, number)
        self.log.write(*where, *times, got, result)


def clamp(connection: socket.socket, window: int) -> None:
    """Keeps the offered window from growing beyond this, until Linux learns that segments take
    less memory than it thought."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, window)


async def keep_clamped(connection: socket.socket, window: int) -> None:
    """Clamps the window repeatedly while Linux learns most."""
    for _ in range(LEARNING):
        if connection.fileno() < 0:
            return
        clamp(connection, window)
        await asyncio.sleep(0.005)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, group: Group) -> int:
    """Fetches one object over an open connection; returns its bytes."""
    own, window = writer.get_extra_info("socket"), group.receive_window
    writer.write(f"GET {group.load.path} HTTP/1.1\r\n\r\n".encode())
    got = 0
    await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    while size := int(await asyncio.wait_for(reader.readline(), PATIENCE), 16):
        got += len(await asyncio.wait_for(reader.readexactly(size + 2), PATIENCE)) - 2
        if window:
            clamp(own, window)
    await reader.readline()
    return got


def main() -> None:
    what, folder, offset, *options = sys.argv[1:]
    profile = read(Path(folder, "profile.toml"))
    if what == "servers":
        columns = ("t", "user", "sport", "server", "port", "last", *REPORTED.split())
        log = Log(Path(folder, "sender.csv"), columns)
        asyncio.run(Servers(log, float(offset)).run())
    else:
        number = int(options[0])
        users = [(address, group) for address, group in profile.users() if group.options == number]
        columns = "user port server server_port group load object start connected end bytes result"
        log = Log(Path(folder, f"clients{number}.csv"), columns.split())
        asyncio.run(Mobiles(log, float(offset)).run(users))


if __name__ == "__main__":
    main()
