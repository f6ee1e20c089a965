"""A live Zeek on a link in a network namespace, for the tests: frames to send, files it wrote."""

import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

import pytest
import zstandard
from conftest import CAPTURES, ask
from scapy.layers.l2 import ARP, Ether

from spark_jobs.ingest.job import ingest_capture
from spark_jobs.ingest.publish import CaptureOutcome
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.store import Warehouse
from tests.helpers import zeek_program
from tests.helpers.capture_files import Frame, pcap
from tests.helpers.zeek_program import SCRIPTS, SUBSCRIBERS_SCRIPT

CAPTURE = CAPTURES / "aa-gprs/peak.pcap.zst"
ENTRIES = ("bare", "bare-headers")
ETHERNET = 1
PROBE = """
event arp_request(mac_src: string, mac_dst: string, spa: addr, sha: string, tpa: addr, tha: string)
    { close(open(fmt("%s/seen-%%s", tpa))); }
"""
"""Script by which a probe shows that Zeek has seen all that was sent before it. The probe must not
be an IP packet: the one before would be written for it."""
PROBER, PROBES = "02:00:00:00:00:01", count(1)
PATIENCE = 60
"""s"""


def until(met: Callable[[], object], what: str) -> None:
    """Wait until it is met."""
    deadline = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        time.sleep(0.02)


@dataclass
class Link:
    """Two ends of a cable, sender and monitor, in a network namespace that has nothing else."""

    namespace: str
    folder: Path

    def run(self, *command: str | Path, **options) -> subprocess.CompletedProcess:
        within = ["ip", "netns", "exec", self.namespace, *command]
        return subprocess.run(within, check=True, capture_output=True, text=True, **options)

    def sending(self, frames: list[Frame], *speed: str) -> subprocess.Popen:
        """Begin to send frames, at their recorded times if no speed is given."""
        path = self.folder / f"{len(list(self.folder.iterdir()))}.pcap"
        path.write_bytes(pcap(frames, ETHERNET))
        command = ["tcpreplay", "--quiet", "--timer=nano", "--intf1=sender", *speed, path]
        within = ["ip", "netns", "exec", self.namespace, *command]
        return subprocess.Popen(within, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def send(self, frames: list[Frame], *speed: str) -> None:
        assert self.sending(frames, *speed).wait(PATIENCE) == 0

    def arrived(self) -> int:
        """How many frames have come to the monitor's end."""
        name = "/sys/class/net/monitor/statistics/rx_packets"
        return int(self.run("cat", name).stdout)


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    if os.geteuid() or not zeek_program.tools_to_send():
        pytest.skip("no root, or no ip and tcpreplay: no network namespace to send in")
    folder = tmp_path / "sent"
    folder.mkdir()
    namespace = f"giscope-{os.getpid()}"
    added = subprocess.run(["ip", "netns", "add", namespace], capture_output=True, text=True)
    if added.returncode:
        pytest.skip(f"no network namespace: {added.stderr}")
    try:
        link = Link(namespace, folder)
        link.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")  # or the ends greet
        link.run("ip", "link", "add", "name", "sender", "type", "veth", "peer", "name", "monitor")
        for end in ("lo", "sender", "monitor"):
            link.run("ip", "link", "set", "dev", end, "up")
        yield link
    finally:
        subprocess.run(["ip", "netns", "delete", namespace], check=True)


@dataclass
class Zeek:
    """A live Zeek at the monitor's end."""

    process: subprocess.Popen
    link: Link
    beside: Path

    @property
    def errors(self) -> str:
        return (self.beside / "stderr").read_text()

    def seen(self) -> int:
        """Wait until it has seen all that has been sent; returns how many probes that took."""
        here = f"192.0.2.{next(PROBES)}"
        mark = self.beside / f"seen-{here}"
        question = ARP(hwsrc=PROBER, psrc="192.0.2.0", pdst=here)
        probe = bytes(Ether(src=PROBER, dst="ff:ff:ff:ff:ff:ff") / question)
        deadline = time.monotonic() + PATIENCE
        for probes in count(1):
            self.link.send([Frame(probe)])
            again = time.monotonic() + 1
            while time.monotonic() < again:
                if mark.exists():
                    return probes
                time.sleep(0.02)
            assert time.monotonic() < deadline, self.errors
        raise AssertionError

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)


@dataclass
class Place:
    """Where a test's Zeeks write, and where their files land."""

    link: Link
    entry: str
    folder: Path
    landing: Path
    beside: Path
    running: list[Zeek]

    def start(self, *options: str, every: str = "1sec", **variables: str) -> Zeek:
        """A Zeek that listens."""
        also = self.beside / "also.zeek"
        also.write_text(SUBSCRIBERS_SCRIPT + PROBE % self.beside)
        entry = SCRIPTS / f"{self.entry}.zeek"
        command = ["zeek", "-b", "-C", "-O", "ZAM", "-i", "monitor", entry, also, *options]
        command += [f"GiScope::landing={self.landing}", f"GiScope::rotation_interval={every}"]
        with (self.beside / "stderr").open("w") as errors:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.link.namespace, *command],
                cwd=self.folder,
                env=os.environ | variables,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        zeek = Zeek(process, self.link, self.beside)
        self.running.append(zeek)
        until(lambda: "listening on" in zeek.errors or process.poll() is not None, "Zeek listens")
        assert process.poll() is None, zeek.errors
        return zeek

    def landed(self, kind: str = "packets") -> list[Path]:
        """In the order of their times."""
        return sorted(self.landing.glob(f"*/*giscope_{kind}.*"))

    def left(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} - {self.landing.name}


@pytest.fixture(params=ENTRIES)
def place(request: pytest.FixtureRequest, tmp_path: Path, link: Link) -> Iterator[Place]:
    folder = tmp_path / "zeek"
    landing = folder / "landing"
    landing.mkdir(parents=True)
    place = Place(link, request.param, folder, landing, tmp_path, [])
    try:
        yield place
    finally:
        for zeek in place.running:
            zeek.process.kill()
            zeek.process.wait()


@cache
def recorded() -> list[Frame]:
    """The packets of a capture behind Ethernet, filled up to their length on the wire: what Zeek
    gets live is as long as the interface says."""
    data = zstandard.ZstdDecompressor().stream_reader(CAPTURE.read_bytes()).read()
    frames, at = [], 24
    while at < len(data):
        seconds, us, kept, length = struct.unpack_from("<IIII", data, at)
        at += 16
        packet = data[at : at + kept] + bytes(length - kept)
        frames.append(Frame(bytes(12) + b"\x08\x00" + packet, seconds * 1_000_000 + us))
        at += kept
    return frames


def between(begin: float, end: float) -> list[Frame]:
    """Those of some seconds behind the capture's first packet."""
    first = recorded()[0].ts
    return [f for f in recorded() if begin <= (f.ts - first) / 1e6 < end]


def ingested(warehouse: Warehouse, network: Network, paths: Iterable[Path]) -> list[CaptureOutcome]:
    results = [ingest_capture(warehouse, network, path) for path in paths]
    assert [result.error for result in results] == [None] * len(results)
    warehouse.update_views()
    return results


def rows(warehouse: Warehouse) -> list[tuple]:
    """All columns but those of times, which sending does not keep, in the order of the times."""
    found = ask(
        warehouse,
        "select * exclude (ts, date, capture, frame, clock_steps) replace (sack::text as sack) "
        "from packets order by ts, capture, frame, downlink",
    )
    return found.fetchall()


@pytest.fixture
def expected(tmp_path: Path, network: Network) -> Callable[[list[Frame]], list[tuple]]:
    """Return a function that gives the built-in reader's rows of the frames that were sent."""

    def of(frames: list[Frame]) -> list[tuple]:
        path = tmp_path / "expected.pcap"
        path.write_bytes(pcap(frames, ETHERNET))
        warehouse = Warehouse(tmp_path / "expected")
        ingested(warehouse, network, [path])
        return rows(warehouse)

    return of


def monitored(paths: Iterable[Path]) -> dict[str, int]:
    """Sums of the monitor's counts."""
    lines = [line.split("\t") for path in paths for line in path.read_text().splitlines()]
    sums = {"received": 0, "dropped": 0}
    for line in lines:
        if line[0] == "#fields":
            names = line[1:]
        elif not line[0].startswith("#"):
            for name in sums:
                sums[name] += int(line[names.index(name)])
    return sums
