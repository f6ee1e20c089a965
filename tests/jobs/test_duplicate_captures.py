"""The same packets in two files count once; packets of their own count, whatever they look like."""

import errno
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from conftest import ask, count
from scapy.layers.inet import IP, TCP

import spark_jobs.jobs.ingest as job
from schemas import PACKETS
from spark_jobs.capture import packet_sample
from spark_jobs.jobs import publish_capture
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.capture_files import Frame, pcap, pcap_header, pcap_record, pcapng
from tests.programs.bench.mix import EXCHANGE, FIRST_USER, RECORD, short_exchanges

pytestmark = pytest.mark.usefixtures("in_this_process")

SMALL, LARGE = 30, 4_000
"""Users; with LARGE, captures are compared by their samples."""
HEADERS = 40


def traffic(folder: Path, users: int, first_user: int = FIRST_USER) -> list[Frame]:
    """Return an exchange of each user within an hour, with payload."""
    path = folder / "traffic"
    short_exchanges(path, first_user + np.arange(users))
    records = np.fromfile(path, RECORD, offset=24)
    ts = records["s"].astype(int) * 1_000_000 + records["us"]
    data, size = records.tobytes(), RECORD.itemsize
    packets = [data[i * size + 16 : (i + 1) * size] for i in range(len(records))]
    path.unlink()
    return [
        Frame(packet + bytes(int(length) - HEADERS), int(at))
        for packet, length, at in zip(packets, records["ip_len"], ts, strict=True)
    ]


def nanoseconds(frames: list[Frame]) -> bytes:
    records = [pcap_record(f, fraction=1000 * (f.ts % 1_000_000) + 999) for f in frames]
    return pcap_header(101, magic=0xA1B23C4D) + b"".join(records)


REWRITTEN: dict[str, Callable[[list[Frame]], bytes]] = {
    "as pcapng": pcapng,
    "in nanoseconds": nanoseconds,
    "cut at a snap length": lambda frames: pcap([frame.cut(HEADERS) for frame in frames]),
    "one byte more": lambda frames: pcap(frames) + b"\0",
    "one packet less": lambda frames: pcap(frames[:-1]),
    "its first tenth": lambda frames: pcap(frames[: len(frames) // 10]),
    "its last part": lambda frames: pcap(frames[len(frames) // 3 :]),
    "the packets of some": lambda frames: pcap([f for f in frames if f.data[12:20].count(7)]),
}


def ingested(
    warehouse: Warehouse, network: Network, **files: bytes
) -> dict[str, publish_capture.CaptureOutcome]:
    """Ingest captures of these bytes, one after the other; return their outcomes."""
    found = {}
    for name, data in files.items():
        path = warehouse.root.parent / f"{name}.pcap"
        path.write_bytes(data)
        found[name] = job.ingest_capture(warehouse, network, path)
    return found


def logged(warehouse: Warehouse) -> dict[str, tuple[int, str | None]]:
    """Return the packets of each capture, and the capture that it duplicates."""
    rows = ask(warehouse, "select capture, packets, duplicate_of from ingest_log")
    return {capture: (packets, of) for capture, packets, of in rows.fetchall()}


LARGE_TOO = ("as pcapng", "its first tenth", "the packets of some")


@pytest.mark.parametrize(
    ("way", "users"), [*((way, SMALL) for way in REWRITTEN), *((way, LARGE) for way in LARGE_TOO)]
)
def test_capture_whose_packets_are_all_ingested_is_refused(
    warehouse, network, tmp_path, way, users
):
    frames = traffic(tmp_path, users)
    found = ingested(warehouse, network, a=pcap(frames), b=REWRITTEN[way](frames))
    assert "b.pcap: 100% of its packets are in a.pcap, ingested already" in found["b"].error
    assert count(warehouse) == len(frames) == users * len(EXCHANGE)
    assert logged(warehouse) == {"a.pcap": (len(frames), None), "b.pcap": (0, "a.pcap")}


@pytest.mark.parametrize(
    ("way", "users"),
    [("one packet less", SMALL), ("its first tenth", LARGE), ("its last part", LARGE)],
)
def test_capture_replaces_an_ingested_part_of_it(warehouse, network, tmp_path, way, users):
    frames = traffic(tmp_path, users)
    found = ingested(warehouse, network, part=REWRITTEN[way](frames), whole=pcapng(frames))
    assert found["whole"].error is None
    [note] = found["whole"].notes
    assert note.endswith("whole.pcap: replaces part.pcap, whose packets it contains")
    assert count(warehouse) == len(frames)
    assert logged(warehouse) == {"part.pcap": (0, "whole.pcap"), "whole.pcap": (len(frames), None)}


@pytest.mark.parametrize("order", [("part", "whole"), ("whole", "part")])
def test_whole_capture_counts_when_ingested_with_its_part(warehouse, network, tmp_path, order):
    frames = traffic(tmp_path, SMALL)
    (tmp_path / "whole.pcap").write_bytes(pcap(frames))
    (tmp_path / "part.pcap").write_bytes(pcap(frames[:100]))
    work = [(network, tmp_path / f"{name}.pcap") for name in order]
    for _ in range(2):  # the second time, the part is refused
        results = {result.capture: result for result in job.ingest(warehouse, work)}
        assert results["whole.pcap"].error is None
        assert "part.pcap" in results["part.pcap"].error
        assert "are in whole.pcap" in results["part.pcap"].error
        assert results["part.pcap"].facts.packets == 0
        assert count(warehouse) == len(frames)


def test_packets_ingested_by_two_jobs_at_once_count_once(warehouse, network, tmp_path):
    """Each job has read its file before either may publish."""
    frames = traffic(tmp_path, SMALL)
    paths = [tmp_path / "whole.pcap", tmp_path / "part.pcap"]
    for path, some in zip(paths, (frames, frames[:100]), strict=True):
        path.write_bytes(pcap(some))
    threads = [Thread(target=job.ingest_capture, args=(warehouse, network, p)) for p in paths]
    with warehouse.locked(f"content-{network.name}"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(1)
        assert all(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join()
    assert count(warehouse) == len(frames)
    assert logged(warehouse)["part.pcap"] == (0, "whole.pcap")


def test_capture_merged_of_ingested_captures_is_refused(warehouse, network, tmp_path):
    frames = traffic(tmp_path, SMALL)
    parts = {"a": pcap(frames[:100]), "b": pcap(frames[100:])}
    found = ingested(warehouse, network, **parts, merged=pcap(frames))
    assert "100% of its packets are in a.pcap, b.pcap, ingested" in found["merged"].error
    assert count(warehouse) == len(frames)


def test_capture_with_most_packets_of_another_and_some_of_its_own_is_refused(
    warehouse, network, tmp_path
):
    """Neither has all packets of the other: the ingested one stays; the new one is no duplicate."""
    frames = traffic(tmp_path, SMALL)
    found = ingested(warehouse, network, a=pcap(frames[:200]), b=pcap(frames[60:260]))
    assert "b.pcap: 70% of its packets are in a.pcap, ingested already" in found["b"].error
    assert logged(warehouse) == {"a.pcap": (200, None), "b.pcap": (0, None)}


def test_capture_with_more_of_each_packet_replaces_a_cut_one(warehouse, network, tmp_path):
    """Cut after the TCP header without options, it has no timestamps."""
    ip = partial(IP, src="10.64.0.1", dst="198.51.100.1")
    tcp = partial(TCP, sport=1, dport=80, options=[("Timestamp", (1, 2))])
    frames = [Frame(bytes(ip(id=1 + i) / tcp(seq=i)), 1_000_000 * i) for i in range(9)]
    cut = pcap([frame.cut(HEADERS) for frame in frames])
    found = ingested(warehouse, network, cut=cut, whole=pcap(frames), again=cut)
    assert [bool(result.error) for result in found.values()] == [False, False, True]
    assert logged(warehouse) == {
        "cut.pcap": (0, "whole.pcap"),
        "whole.pcap": (9, None),
        "again.pcap": (0, "whole.pcap"),
    }
    assert count(warehouse, "packets where ts_val is not null") == 9


def two_directions(frames: list[Frame]) -> tuple[list[Frame], list[Frame]]:
    up = [frame.data[12] == 10 for frame in frames]
    return (
        [frame for frame, is_up in zip(frames, up, strict=True) if is_up],
        [frame for frame, is_up in zip(frames, up, strict=True) if not is_up],
    )


def one_after_the_other(frames: list[Frame]) -> tuple[list[Frame], list[Frame]]:
    """The second file begins with the last tenth of the first."""
    half, tenth = len(frames) // 2, len(frames) // 20
    return frames[:half], frames[half - tenth :]


def mirrored_on_two_ports(frames: list[Frame]) -> tuple[list[Frame], list[Frame]]:
    """The quality check copied_share reports these."""
    return frames, [replace(frame, ts=frame.ts + 3) for frame in frames]


def retransmitted_later(frames: list[Frame]) -> tuple[list[Frame], list[Frame]]:
    """The same bytes, but for the identification, 3 s later."""
    other = [frame.data[:4] + b"\xea\x60" + frame.data[6:] for frame in frames]
    later = [Frame(data, f.ts + 3_000_000) for data, f in zip(other, frames, strict=True)]
    return frames, later


@pytest.mark.parametrize("users", [SMALL, LARGE])
@pytest.mark.parametrize(
    "taken", [two_directions, one_after_the_other, mirrored_on_two_ports, retransmitted_later]
)
def test_captures_with_packets_of_their_own_all_count(warehouse, network, tmp_path, users, taken):
    a, b = taken(traffic(tmp_path, users))
    found = ingested(warehouse, network, a=pcap(a), b=pcap(b))
    assert [result.error for result in found.values()] == [None, None]
    assert count(warehouse) == len(a) + len(b)


@pytest.mark.parametrize("users", [SMALL, LARGE])
def test_two_taps_at_the_same_time_both_count(warehouse, network, tmp_path, users):
    one = pcap(traffic(tmp_path, users))
    other = pcap(traffic(tmp_path, users, FIRST_USER + users))
    found = ingested(warehouse, network, a=one, b=other)
    assert [result.error for result in found.values()] == [None, None]
    assert count(warehouse) == 2 * users * len(EXCHANGE)


def test_name_of_a_replaced_part_may_hold_other_packets(warehouse, network, tmp_path):
    frames = traffic(tmp_path, SMALL)
    others = traffic(tmp_path, SMALL, FIRST_USER + SMALL)
    ingested(warehouse, network, part=pcap(frames[:100]), whole=pcap(frames))
    found = ingested(warehouse, network, part=pcap(others))
    assert found["part"].error is None
    assert count(warehouse) == len(frames) + len(others)


def test_job_killed_while_it_replaces_a_part_is_finished_by_the_next(
    warehouse, network, tmp_path, monkeypatch
):
    frames = traffic(tmp_path, SMALL)
    ingested(warehouse, network, part=pcap(frames[:100]))

    def killed(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publish_capture, "_publish_replaced", killed)
        with pytest.raises(KeyboardInterrupt):
            ingested(warehouse, network, whole=pcap(frames))
    [again] = job.ingest(warehouse, [(network, tmp_path / "whole.pcap")])
    assert again.unchanged
    assert count(warehouse) == len(frames)


def test_a_capture_that_could_not_be_published_takes_no_place(
    warehouse, network, tmp_path, monkeypatch
):
    frames = traffic(tmp_path, SMALL)
    ingested(warehouse, network, part=pcap(frames[:100]))
    publish = Warehouse.publish

    def without_space(self, unit, files, *others) -> None:
        if any(file.belongs_to(PACKETS) for file in files):
            raise OSError(errno.ENOSPC, "No space left on device")
        publish(self, unit, files, *others)

    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, "publish", without_space)
        assert ingested(warehouse, network, whole=pcap(frames))["whole"].error
    (tmp_path / "whole.pcap").unlink()
    job.ingest(warehouse, [(network, tmp_path / "part.pcap")])
    assert logged(warehouse) == {"part.pcap": (100, None), "whole.pcap": (0, None)}


def test_captures_without_a_sample_are_compared_too(warehouse, network, tmp_path, monkeypatch):
    frames = traffic(tmp_path, LARGE)
    with monkeypatch.context() as patch:
        patch.setattr(packet_sample, "METADATA_KEY", "of no use")
        ingested(warehouse, network, a=pcap(frames))
    found = ingested(warehouse, network, b=pcapng(frames))
    assert "100% of its packets are in a.pcap" in found["b"].error
