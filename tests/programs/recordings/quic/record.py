"""Records a network: namespaces, programs, the emulation, and then the files."""

import csv
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from tests.programs.lab.emulator import TCP, Emulator
from tests.programs.lab.profile import Profile, read
from tests.programs.lab.record import PRIORITY, READY, mobile_side, server_side
from tests.programs.lab.truth import Truth
from tests.programs.recordings.quic.plan import FIRST_PORT, TRANSLATED, listening, plan
from tests.programs.recordings.quic.qlog import LONG, write_truth

NETWORKS = Path(__file__).parent / "networks"
OPTIONS = 3
SNAP, SHORT_SNAP = 1500, 60
"""Bytes kept of a packet, and of one whose QUIC header is short: enough for its connection ID."""
BEFORE = 8.0
"""Seconds until the capture begins."""
ENOUGH = 10
"""Packets up after which a NAT forgets a port."""
ICMP, UDP = 1, 17


class FromTheMiddle(Truth):
    """Has a capture that begins later than the emulation does."""

    def __init__(self, folder: Path, offset: float, begin: float) -> None:
        super().__init__(folder, folder, offset, SNAP)
        self.begin, self.earlier = begin, 0

    def frame(self, packet: bytes, now: float) -> int:
        if now >= self.begin:
            return super().frame(packet, now)
        self.earlier -= 1
        return self.earlier

    def kept(self, packet: bytes) -> bytes:
        is_short = packet[9] == UDP and packet[4 * (packet[0] & 15) + 8] < LONG
        return packet[:SHORT_SNAP] if is_short else packet

    def frame_lost(self, number: int, fate: str) -> None:
        if number > 0:
            super().frame_lost(number, fate)

    def unseen(self, where: str, down: bool, packet: bytes, now: float) -> None:
        if now >= self.begin:
            super().unseen(where, down, packet, now)


class Ends(Emulator):
    """Carries UDP and ICMP too, logs the datagrams at both ends, and is the NAT of some users."""

    carried = frozenset({ICMP, TCP, UDP})

    def __init__(
        self, profile: Profile, truth: Truth, servers: int, mobile: int, log: IO[str]
    ) -> None:
        super().__init__(profile, truth, servers, {OPTIONS: mobile})
        self.log = csv.writer(log, lineterminator="\n")
        self.log.writerow(
            ("t", "side", "event", "user", "port", "server", "server_port", "length", "head")
        )
        users = [user.address for user in plan(profile) if user.scenario == "rebind"]
        self.behind_nat = {bytes(map(int, address.split("."))) for address in users}
        self.sent: Counter[bytes] = Counter()

    def take(self, packet: bytes, down: bool, now: float) -> None:
        self.note("server" if down else "client", "sent", packet, now)
        super().take(packet if down else self.outside(packet, now), down, now)

    def hand_over(self, interface: int, packet: bytes, now: float) -> None:
        if interface == self.servers:
            self.note("server", "received", packet, now)
        else:
            packet = self.inside(packet)
            self.note("client", "received", packet, now)
        super().hand_over(interface, packet, now)

    def note(self, side: str, event: str, packet: bytes, now: float) -> None:
        """Logs a datagram, or the one that an ICMP error reports, with its first bytes."""
        quoted = packet[9] == ICMP
        inner = packet[28:] if quoted else packet
        if inner[9] != UDP:
            return
        header = 4 * (inner[0] & 15)
        ends = [(ip(inner[12:16]), inner[header : header + 2])]
        ends += [(ip(inner[16:20]), inner[header + 2 : header + 4])]
        if not ends[0][0].startswith("10."):
            ends.reverse()
        names = [each for name, port in ends for each in (name, int.from_bytes(port))]
        payload = inner[header + 8 :]
        what = (f"icmp_{event}", "", "") if quoted else (event, len(payload), payload[:5].hex())
        self.log.writerow((f"{now + self.truth.offset:.6f}", side, what[0], *names, *what[1:]))

    def outside(self, packet: bytes, now: float) -> bytes:
        """Returns a packet as the NAT sends it up."""
        if packet[12:16] not in self.behind_nat or packet[9] != UDP:
            return packet
        port = int.from_bytes(packet[20:22])
        self.sent[packet[12:22]] += 1
        if self.sent[packet[12:22]] == ENOUGH:
            self.truth.event(ip(packet[12:16]), f"port {port} -> {port + TRANSLATED}", now)
        if self.sent[packet[12:22]] < ENOUGH:
            return packet
        return with_port(packet, 20, port + TRANSLATED)

    def inside(self, packet: bytes) -> bytes:
        """Returns a packet as the NAT hands it to the mobile."""
        if packet[16:20] not in self.behind_nat or packet[9] != UDP:
            return packet
        port = int.from_bytes(packet[22:24])
        return (
            with_port(packet, 22, port - TRANSLATED) if port >= FIRST_PORT + TRANSLATED else packet
        )


def ip(packed: bytes) -> str:
    return ".".join(map(str, packed))


def with_port(packet: bytes, at: int, port: int) -> bytes:
    """Returns a UDP packet with another port and the checksum that fits (RFC 1624)."""
    changed = bytearray(packet)
    old, checksum = (int.from_bytes(packet[k : k + 2]) for k in (at, 26))
    total = (~checksum & 0xFFFF) + (~old & 0xFFFF) + port
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    struct.pack_into(">H", changed, at, port)
    struct.pack_into(">H", changed, 26, ~total & 0xFFFF)
    return bytes(changed)


def record(network: str, folder: Path, quinn: Path) -> None:
    """Records a network into a folder; quinn: the program of the servers and clients by quinn."""
    profile = read(NETWORKS / f"{network}.toml")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(NETWORKS / f"{network}.toml", folder / "profile.toml")
    _priority(PRIORITY)
    with ExitStack() as stack, TemporaryDirectory() as scratch:
        _certificate(Path(scratch))
        lines = [" ".join(map(str, user)) for user in plan(profile)]
        Path(scratch, "plan.txt").write_text("\n".join(lines) + "\n")
        servers, to_servers = stack.enter_context(server_side(profile))
        mobiles, to_mobiles = stack.enter_context(mobile_side(OPTIONS))
        log = stack.enter_context(Path(scratch, "datagrams.csv").open("w"))
        aioquic = [sys.executable, "-m", "tests.programs.recordings.quic.aioquic_ends"]
        with ExitStack() as running:
            for command in (
                [*aioquic, "servers", scratch],
                [str(quinn), "servers", scratch, *listening("quinn")],
            ):
                running.enter_context(_program(servers, command))
            time.sleep(2 * READY)
            for command in (
                [*aioquic, "clients", scratch],
                [str(quinn), "clients", scratch],
            ):
                running.enter_context(_program(mobiles, command))
            now = time.time()
            offset = profile.start.timestamp() - now
            with FromTheMiddle(folder, offset, now + BEFORE) as truth:
                emulator = Ends(profile, truth, to_servers, to_mobiles, log)
                emulator.run(profile.seconds)
        log.flush()
        (folder / "emulator.json").write_text(emulator.report() + "\n")
        write_truth(Path(scratch), folder, offset, now + BEFORE + offset)


def _certificate(folder: Path) -> None:
    """Writes cert.pem and key.pem; as many names as make the certificate as long as usual ones."""
    names = ",".join(f"DNS:server{k}.with-a-long-name.example" for k in range(50))
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30"
    options = ("-subj", "/CN=server.example", "-addext", "basicConstraints=critical,CA:FALSE")
    more = ("-addext", f"subjectAltName=DNS:server.example,{names}")
    files = ("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"))
    subprocess.run([*command.split(), *options, *more, *files], check=True, capture_output=True)


def _priority(real_time: int) -> None:
    """Puts this process above what else the machine does."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(real_time))


@contextmanager
def _program(inside: str, command: list[str]) -> Iterator[None]:
    lower = partial(_priority, PRIORITY - 1)
    process = subprocess.Popen(["ip", "netns", "exec", inside, *command], preexec_fn=lower)
    try:
        yield
        if process.poll():
            raise RuntimeError(f"{command}: exit status {process.returncode}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
