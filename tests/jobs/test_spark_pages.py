"""No subscriber and no key of the pseudonyms is in Spark's pages, logs or command lines:
subscribers with IPv4 and IPv6 addresses, every byte that can be read."""

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit
from urllib.request import ProxyHandler, build_opener

import pytest
from conftest import NETWORKS_FILE, ROOT, ask
from scapy.layers.inet import TCP
from scapy.layers.inet6 import IPv6

from spark_jobs.capture.users import SECRET_VARIABLE
from spark_jobs.settings.networks import load_networks
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.capture_files import pcap, timed
from tests.helpers.listening import Seen, watched
from tests.helpers.subscribers_found import Finder, subscribers

pytestmark = pytest.mark.slow
KEY = random.Random(7).randbytes(32)
SIX = """
[[network]]
name = "six"
country = "AA"
access = "lte"
timezone = "UTC"
subscribers = ["2001:db8:6400::/40"]
"""
REST = (
    "jobs", "stages?details=true&withSummaries=true", "executors", "allexecutors", "environment",
    "sql?details=true&planDescription=true&length=1000", "storage/rdd", "streaming/statistics",
    "executors/driver/threads", "allmiscellaneousprocess",
)  # fmt: skip
JOBS = """
import sys
from spark_jobs.commands import cli
from spark_jobs.engine import spark
spark.SETTINGS |= {
    "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.log.level": "INFO",
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": sys.argv[1],
    "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
}
cli.main(sys.argv[2:])
session = spark.spark_session()
print("pages at", session.sparkContext.uiWebUrl, flush=True)
for planted in sys.stdin:
    session.sparkContext.setJobDescription(planted.strip())
    session.sparkContext.parallelize(range(3)).count()
    print("planted", flush=True)
"""


def six_subscribers(file: Path) -> None:
    """Write a capture in which twenty IPv6 subscribers ask a server."""
    chance, packets = random.Random(6), []
    for _ in range(20):
        user = IPv6Address((0x20010DB864 << 88) | chance.getrandbits(88))
        port = chance.randrange(2**15, 2**16)
        up = IPv6(src=str(user), dst="2001:db8:ffff::7"), {"sport": port, "dport": 80}
        down = IPv6(src="2001:db8:ffff::7", dst=str(user)), {"sport": 80, "dport": port}
        for (ip, ports), flags, seq, ack, data in (
            (up, "S", 99, 0, b""), (down, "SA", 499, 100, b""), (up, "A", 100, 500, b""),
            (up, "PA", 100, 500, bytes(200)), (down, "PA", 500, 300, bytes(1000)),
            (up, "FA", 300, 1500, b""), (down, "FA", 1500, 301, b""), (up, "A", 301, 1501, b""),
        ):  # fmt: skip
            packets.append(bytes(ip / TCP(**ports, flags=flags, seq=seq, ack=ack) / data))
    file.write_bytes(pcap(timed(packets, 20_000)))


@dataclass
class Run:
    """The main job by Spark, done, its process still there with its pages."""

    process: subprocess.Popen
    folder: Path
    seen: Seen
    known: set[str]
    pages: str = ""
    said: str = field(default="")

    def fetched(self) -> dict[str, bytes]:
        """Fetch every page that links lead to, in one order of its rows, and REST's answers."""
        opener, found = build_opener(ProxyHandler({})), {}
        [app] = re.findall(r'"id" : "([\w-]+)"', opener.open(f"{self.pages}/api/v1/applications")
                           .read().decode())  # fmt: skip
        waiting = [f"{self.pages}/jobs/"]
        waiting += [f"{self.pages}/api/v1/applications/{app}/{what}" for what in REST]
        while waiting:
            address = waiting.pop()
            if address in found or re.search(r"/kill/|[.]sort=|[.](?:js|css|png)$", address):
                continue
            try:
                with opener.open(address, timeout=60) as answer:
                    found[address] = answer.read()
            except HTTPError as error:
                found[address] = error.read()
            links = re.findall(r"""(?:href|src)=["']([^"'#]+)""", found[address].decode("latin-1"))
            of_pages = (urljoin(address, link.replace("&amp;", "&")) for link in links)
            waiting += [one for one in of_pages if urlsplit(one).netloc == self.pages[7:]]
        return found

    def plant(self, text: str) -> None:
        """Let a job have this text as its description."""
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "planted\n"


@pytest.fixture(scope="module")
def run(few_captures, tmp_path_factory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("pages")
    captures, networks, events = folder / "captures", folder / "networks.toml", folder / "events"
    for made in (captures / "aa-gprs", captures / "six", events):
        made.mkdir(parents=True)
    shutil.copy(few_captures / "aa-gprs/peak.pcap", captures / "aa-gprs")
    six_subscribers(captures / "six/noon.pcap")
    networks.write_text(NETWORKS_FILE.read_text() + SIX)
    known = set[str]()
    for path in captures.glob("*/*"):
        known |= subscribers(path, load_networks(networks)[path.parent.name])
    assert sum(":" in address for address in known) == 20
    command = ["run", "--warehouse", folder / "w", "--networks", networks, captures]
    settings = {"GISCOPE_MASTER": "local[2]", SECRET_VARIABLE: KEY.hex(), "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", JOBS, events, *command], env=os.environ | settings,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    with watched(process) as seen:
        found = Run(process, folder, seen, known)
        for line in process.stdout:
            found.said += line
            if line.startswith("pages at "):
                found.pages = line.split()[-1].rstrip("/")
                break
        assert found.pages, (folder / "log").read_text()[-2000:]
        yield found
        process.stdin.close()
        process.wait(60)


def test_no_page_log_or_file_has_a_subscriber_or_the_key(run):
    finder = Finder(run.known, KEY)
    pages = run.fetched()
    assert len(pages) > 50
    assert {name for name in ("jobs", "stages", "executors", "environment", "SQL", "storage")
            if not any(f"/{name}/" in page for page in pages)} == set()  # fmt: skip
    assert [page for page, content in pages.items() if finder.finds(content)] == []
    assert finder.in_folder(run.folder / "w") == []
    assert finder.in_folder(run.folder / "events") == []
    assert not finder.finds(run.said.encode() + (run.folder / "log").read_bytes())
    assert not finder.finds("\n".join(run.seen.commands).encode())
    assert run.seen.beyond_loopback == set()
    users = ask(
        Warehouse(run.folder / "w"),
        """select count(distinct "user") from flows where network = 'six'""",
    )
    assert users.fetchone() == (20,)


def test_what_is_planted_is_found_on_pages_and_in_events(run):
    for planted in (min(run.known), IPv6Address(max(run.known)).exploded, KEY.hex()):
        finder = Finder(run.known, KEY)
        (before,) = (sum(map(finder.finds, run.fetched().values())),)
        run.plant(f"of {planted} and no other")
        assert sum(map(finder.finds, run.fetched().values())) > before
        assert planted in (next((run.folder / "events").iterdir())).read_text()
    assert len(finder.in_folder(run.folder / "events")) == 1
