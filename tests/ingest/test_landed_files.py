"""Landed files: of a capture in several files the complete one counts, and the others are named. An
error in a file, or in a network, stops no other."""

import gzip
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from conftest import NETWORKS_FILE, ask, count
from scapy.layers.inet import IP, TCP

from spark_jobs.capture import FrontEnd
from spark_jobs.commands import cli
from spark_jobs.ingest import files, job
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.capture_files import NOON, Frame, pcap
from tests.helpers.zeek_logs import log

pytestmark = pytest.mark.usefixtures("in_this_process")

PACKETS = 400


def packets(first: int = 0, many: int = PACKETS) -> bytes:
    """Return a capture; another `first` gives other packets."""
    ip = IP(src="10.64.0.1", dst="198.51.100.1")
    each = [bytes(ip / TCP(sport=1, dport=80, seq=i)) for i in range(first, first + many)]
    return pcap([Frame(data, NOON + i) for i, data in enumerate(each, first)])


WHOLE = packets()
LOG = log({"ts": f"1078224001.{i:06}", "user": "10.64.0.1", "server": "198.51.100.1",
           "downlink": "F", "ip_proto": "1", "ip_len": "84", "ip_id": str(i), "ttl": "64",
           "dscp": "0", "ecn": "0"}
          for i in range(PACKETS)).encode()  # fmt: skip
COMPRESSED = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor(write_checksum=True).compress}
COMPRESSED[".gz of members"] = lambda data: gzip.compress(data[:9000]) + gzip.compress(data[9000:])


def part(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


@pytest.fixture
def giscope(capfd, monkeypatch):
    """Run a command in this process: its exit status, and its lines on stderr."""
    monkeypatch.setattr("spark_jobs.commands.text_grid.PIPE_WIDTH", 500)

    def run(*args: object) -> tuple[int, list[str]]:
        status = 0
        try:
            cli.main([str(arg) for arg in args])
        except SystemExit as end:
            status = int(end.code or 0)
        return status, capfd.readouterr().err.splitlines()

    return run


@pytest.fixture
def ingested(giscope, tmp_path):
    def run(*paths: Path, options: tuple = ()) -> tuple[int, list[str]]:
        store = ("--warehouse", tmp_path / "w", "--networks", NETWORKS_FILE, *options)
        return giscope("ingest", *store, "--network", "aa-gprs", *paths)

    return run


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """Make a landing folder with a capture of one network."""
    folder = tmp_path / "captures"
    (folder / "bb-gprs").mkdir(parents=True)
    (folder / "bb-gprs" / "good.pcap").write_bytes(packets())
    return folder


@pytest.fixture
def packets_only(tmp_path, monkeypatch) -> None:
    """Let `giscope run` end after the packets."""
    for step in ("flows.bring_up_to_date", "marts.update_marts"):
        monkeypatch.setattr(f"spark_jobs.jobs.{step}", lambda *_: None)
    monkeypatch.setattr("spark_jobs.jobs.quality.check", lambda *_: [])
    monkeypatch.setattr("spark_jobs.commands.summary.table1_summary", lambda _: "")
    monkeypatch.setattr("spark_jobs.jobs.run.write_pages", lambda _: tmp_path)


@pytest.fixture
def ran(giscope, tmp_path, landing, packets_only):
    """Run `giscope run` up to the packets: its status, its stderr lines, and packets by network."""

    def run(*options: object) -> tuple[int, list[str], dict[str, int]]:
        store = ("--warehouse", tmp_path / "w", "--networks", NETWORKS_FILE)
        status, lines = giscope("run", *store, *options, landing)
        query = "select network, count(*) from packets group by all"
        return status, lines, dict(ask(Warehouse(tmp_path / "w"), query).fetchall())

    return run


def test_the_other_file_is_named_in_a_line_without_an_error(ingested, tmp_path):
    plain, packed = tmp_path / "x.pcap", tmp_path / "x.pcap.gz"
    plain.write_bytes(WHOLE)
    packed.write_bytes(part(gzip.compress(WHOLE)))
    line = f"giscope: {packed}: skipped: {plain} is read instead"
    for _ in range(2):
        assert ingested(packed, plain) == (0, [line])
        assert count(Warehouse(tmp_path / "w")) == PACKETS


@pytest.mark.parametrize("front_end", [FrontEnd.AUTO, FrontEnd.ZEEK_LOG])
def test_the_whole_one_of_two_logs_counts(warehouse, network, tmp_path, front_end):
    (tmp_path / "giscope_packets.log").write_bytes(LOG)
    (tmp_path / "giscope_packets.log.gz").write_bytes(part(gzip.compress(LOG)))
    work = [(network, path) for path in files.find_captures(tmp_path, front_end).files]
    assert len(work) == 2
    (result,) = job.ingest(warehouse, work, front_end)
    assert (result.path.name, result.facts.packets) == ("giscope_packets.log", PACKETS)


def test_a_published_capture_is_not_replaced_by_an_incomplete_file(ingested, tmp_path):
    """A capture that was ingested is compressed, and the plain file removed at last; then it is
    unpacked again."""
    plain, packed = tmp_path / "x.pcap", tmp_path / "x.pcap.gz"
    plain.write_bytes(WHOLE)
    whole = gzip.compress(WHOLE)
    steps = [(WHOLE, None), (WHOLE, b""), (WHOLE, part(whole)), (WHOLE, whole), (None, whole),
             (b"", whole), (part(WHOLE), whole), (WHOLE, whole)]  # fmt: skip
    for step in steps:
        for path, data in zip((plain, packed), step, strict=True):
            path.unlink(missing_ok=True)
            if data is not None:
                path.write_bytes(data)
        assert ingested(*(path for path in (plain, packed) if path.exists()))[0] == 0
        assert count(Warehouse(tmp_path / "w")) == PACKETS


def test_a_folder_of_an_unknown_network_stops_no_other(ran, landing):
    (landing / "zz").mkdir()
    (landing / "zz" / "x.pcap").write_bytes(WHOLE)
    status, lines, found = ran()
    assert (status, found) == (2, {"bb-gprs": PACKETS})
    assert "no network 'zz'" in lines[-1]


@pytest.mark.parametrize("which", ["aa-gprs", "aa-gprs/2004-03-02"])
def test_a_folder_that_cannot_be_read_stops_no_other(ran, landing, monkeypatch, which):
    (landing / which).mkdir(parents=True)
    list_folder = files.list_folder

    def refused(folder: Path, follow_links: bool = False):
        if folder == landing / which:
            raise PermissionError(13, "Permission denied", str(folder))
        return list_folder(folder, follow_links)

    monkeypatch.setattr(files, "list_folder", refused)
    status, lines, found = ran()
    assert (status, found) == (2, {"bb-gprs": PACKETS})
    assert lines[-1] == f"giscope: {landing / which}: Permission denied"


def test_a_refused_network_stops_no_other(ran, landing, network, tmp_path):
    """Its users are plain addresses in the warehouse; reported once, though it has two captures."""
    (landing / "aa-gprs").mkdir()
    (landing / "aa-gprs" / "a.pcap").write_bytes(packets(9000))
    plain = Network(**network.model_dump() | {"pseudonyms": "none"})
    job.ingest(Warehouse(tmp_path / "w"), [(plain, landing / "aa-gprs" / "a.pcap")])
    (landing / "aa-gprs" / "b.pcap").write_bytes(packets(20_000))
    status, lines, found = ran()
    assert (status, found) == (2, {"aa-gprs": PACKETS, "bb-gprs": PACKETS})
    assert sum("are plain addresses" in line for line in lines) == 1


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Make the folder that links lead to."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "secret.pcap").write_bytes(packets(9000))
    return folder


@pytest.mark.parametrize(
    "link", ["aa-gprs", "aa-gprs/2004-03-02", "aa-gprs/x.pcap", "aa-gprs/x.log"]
)
def test_links_are_followed_only_with_the_option(ran, landing, elsewhere, link):
    path = landing / link
    path.parent.mkdir(exist_ok=True)
    of_file = path.suffix in (".pcap", ".log")
    path.symlink_to(elsewhere / "secret.pcap" if of_file else elsewhere)
    status, lines, found = ran()
    assert (status, found) == (2, {"bb-gprs": PACKETS})
    why = "symbolic links are not followed without --follow-links"
    assert lines[-1] == f"giscope: {path.parent}: {why}: {path.name}"
    if path.suffix != ".log":
        status, lines, found = ran("--follow-links")
        assert (status, found) == (0, {"aa-gprs": PACKETS, "bb-gprs": PACKETS})


def test_a_link_named_on_the_command_line_is_followed(giscope, landing, tmp_path, packets_only):
    (tmp_path / "link").symlink_to(landing)
    store = ("--warehouse", tmp_path / "w", "--networks", NETWORKS_FILE)
    assert giscope("run", *store, tmp_path / "link")[0] == 0
    (tmp_path / "x.pcap").symlink_to(landing / "bb-gprs" / "good.pcap")
    assert giscope("ingest", *store, "--network", "aa-gprs", tmp_path / "x.pcap")[0] == 0


def test_circular_links_do_not_make_an_endless_search(ran, landing):
    (landing / "bb-gprs" / "2004-03-02").symlink_to(landing)
    (landing / "bb-gprs" / "loop.pcap").symlink_to("loop.pcap")
    status, lines, found = ran("--follow-links")
    assert (status, found) == (2, {"bb-gprs": PACKETS})
    assert [line for line in lines if line.endswith("loop.pcap: is not a regular file")]


@pytest.fixture
def fails_if_it_waits() -> Iterator[None]:
    """Fail a test that waits for a minute."""

    def fail(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def make_irregular_file(kind: str, path: Path) -> Path:
    """Make a file that is no regular file."""
    if kind == "pipe":
        os.mkfifo(path)
    if kind == "socket":
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's path is short
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
        os.chdir(here)
    if kind == "device":
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize(
    ("kind", "front_end"),
    [
        ("pipe", "auto"),
        ("pipe", "builtin"),
        ("pipe", "zeek-log"),
        ("socket", "auto"),
        ("device", "auto"),
    ],
)
def test_a_file_that_is_not_regular_is_refused_by_name(
    ingested, tmp_path, fails_if_it_waits, kind, front_end
):
    path = make_irregular_file(kind, tmp_path / "x.pcap")
    good = tmp_path / "good.pcap"
    good.write_bytes(WHOLE)
    status, lines = ingested(path, good, options=("--front-end", front_end))
    assert status == 2
    assert lines[0] == f"giscope: {path}: is not a regular file"
    assert count(Warehouse(tmp_path / "w")) == (0 if front_end == "zeek-log" else PACKETS)


def test_files_that_are_not_regular_are_refused_in_a_folder(ran, landing, fails_if_it_waits):
    make_irregular_file("pipe", landing / "bb-gprs" / "x.pcap")
    make_irregular_file("socket", landing / "bb-gprs" / "x.log")
    make_irregular_file("pipe", landing / "bb-gprs" / "notes")
    status, lines, found = ran()
    assert (status, found) == (2, {"bb-gprs": PACKETS})
    assert lines[-2:] == [
        f"giscope: {landing}/bb-gprs/{name}: is not a regular file" for name in ("x.log", "x.pcap")
    ]


def test_a_pipe_of_the_shell_is_refused_before_workers_open_it(
    ingested, tmp_path, fails_if_it_waits, monkeypatch
):
    monkeypatch.setattr(job, "_read_and_publish", lambda _, items, *__: dict.fromkeys(items, 1 / 0))
    read, write = os.pipe()
    os.write(write, WHOLE[:4000])
    os.close(write)
    status, lines = ingested(Path(f"/dev/fd/{read}"))
    os.close(read)
    assert (status, lines) == (2, [f"giscope: /dev/fd/{read}: is not a regular file"])
