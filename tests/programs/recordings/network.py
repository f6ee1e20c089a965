"""Subscribers, the Gi interface and servers, as network namespaces of one host."""

import ctypes
import fcntl
import heapq
import itertools
import os
import select
import signal
import struct
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

MOBILES, ACCESS_SERVERS = MOBILE_SIDE = "10.64.0.0/14", "192.0.2.0/25"
SERVERS, AAA = SERVER_SIDE = "198.51.100.0/24", "192.0.2.128/25"
PATIENCE = 20.0
"""Seconds that anything may take."""


def run(command: str) -> None:
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)


@contextmanager
def namespace(name: str) -> Iterator[str]:
    """A network namespace of this process, by its name."""
    unique = f"{name}-{os.getpid()}"
    run(f"ip netns add {unique}")
    try:
        run(f"ip -n {unique} link set lo up")
        run(f"ip netns exec {unique} sysctl -qw net.ipv6.conf.default.disable_ipv6=1")
        run(f"ip netns exec {unique} sysctl -qw net.ipv4.tcp_no_metrics_save=1")
        yield unique
    finally:
        run(f"ip netns del {unique}")


def enter(name: str) -> None:
    """This thread, its sockets, threads and programs go into the namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/run/netns", name).open() as file:
        if libc.setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")


def threads(inside: str, count: int = 1) -> ThreadPoolExecutor:
    """Threads in a namespace; the others of this process stay where they are."""
    return ThreadPoolExecutor(count, initializer=enter, initargs=(inside,))


@contextmanager
def program(inside: str, log: Path, says: str, command: str) -> Iterator[None]:
    """A program that runs in a namespace; it is ready when its output has `says`."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            f"ip netns exec {inside} {command}".split(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        until = time.monotonic() + PATIENCE
        while says not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{command}\n{log.read_text(errors='replace')}")
            time.sleep(0.05)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def tun(name: str, inside: str, routes: Sequence[str]) -> int:
    """A TUN interface in a namespace: whole IP packets, as nothing is offloaded to it."""
    set_interface, ip_without_header = 0x400454CA, 0x1001
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    asked = struct.pack("16sH", b"giscope%d", ip_without_header)
    made = fcntl.ioctl(file, set_interface, asked)[:16].rstrip(b"\0").decode()
    run(f"ip link set {made} netns {inside} name {name}")
    run(f"ip -n {inside} link set {name} up")
    for route in routes:
        run(f"ip -n {inside} route add {route} dev {name}")
    return file


class Link(threading.Thread):
    """Carries packets between two TUN interfaces, the mobile's side first, with a delay and a rate
    for each mobile and direction. In user space, as not every kernel has netem."""

    def __init__(self, ends: tuple[int, int], delay: float, rate: float) -> None:
        super().__init__(daemon=True)
        self.ends, self.delay, self.rate = ends, delay, rate
        self.free: dict[tuple[int, bytes], float] = defaultdict(float)
        self.in_flight: list[tuple[float, int, int, bytes]] = []
        self.count = itertools.count()
        self.done, self.wake = os.pipe()

    def run(self) -> None:
        while True:
            due = self.in_flight[0][0] - time.monotonic() if self.in_flight else None
            ready, _, _ = select.select([*self.ends, self.done], [], [], due and max(due, 0))
            if self.done in ready:
                return
            for end in ready:
                self.take(self.ends.index(end))
            self.deliver()

    def take(self, side: int) -> None:
        with suppress(BlockingIOError):
            while packet := os.read(self.ends[side], 2048):
                mobile = packet[16:20] if side else packet[12:16]
                start = max(time.monotonic(), self.free[side, mobile])
                sent = self.free[side, mobile] = start + 8 * len(packet) / self.rate
                arrival = sent + self.delay
                heapq.heappush(self.in_flight, (arrival, next(self.count), 1 - side, packet))

    def deliver(self) -> None:
        while self.in_flight and self.in_flight[0][0] <= time.monotonic():
            _, _, side, packet = heapq.heappop(self.in_flight)
            with suppress(OSError):
                os.write(self.ends[side], packet)

    def stop(self) -> None:
        os.write(self.wake, b".")
        self.join()
        for file in (*self.ends, self.done, self.wake):
            os.close(file)


class Network(NamedTuple):
    """mobile == access link == gi == Internet == server, by the names of the namespaces."""

    mobile: str
    gi: str
    server: str


@contextmanager
def network() -> Iterator[Network]:
    with ExitStack() as stack:
        net = Network(*(stack.enter_context(namespace(name)) for name in Network._fields))
        run(f"ip netns exec {net.gi} sysctl -qw net.ipv4.ip_forward=1")
        access = tun("access", net.mobile, ["default"]), tun("access", net.gi, MOBILE_SIDE)
        internet = tun("internet", net.gi, SERVER_SIDE), tun("internet", net.server, ["default"])
        for name, addresses in ((net.mobile, MOBILE_SIDE), (net.server, SERVER_SIDE)):
            for each in addresses:  # all of them are this host's
                run(f"ip -n {name} route add local {each} dev lo")
        for link in (Link(access, delay=0.08, rate=1e6), Link(internet, delay=0.01, rate=100e6)):
            link.start()
            stack.callback(link.stop)
        yield net


@contextmanager
def capture(net: Network, pcap: Path, scratch: Path) -> Iterator[None]:
    """tcpdump at the Gi interface, until the last packets have passed. It must not miss any: the
    truth would be of other packets than the capture's."""
    log = scratch / "tcpdump.log"
    command = f"tcpdump -i internet -n -s 0 -B 16384 -Z root -w {pcap} ip"
    with program(net.gi, log, "listening on", command):
        yield
        time.sleep(2)
    if "\n0 packets dropped by kernel" not in log.read_text():
        raise RuntimeError(f"{pcap}: {log.read_text()}")
