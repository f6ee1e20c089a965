"""Zeek live, on a link in a network namespace: all packets that are sent land in finished files;
few are lost where Zeek is killed, too slow, or out of disk space, and the loss is reported."""

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.helpers.live import PATIENCE, Place, between, ingested, monitored, rows, until

pytestmark = pytest.mark.usefixtures("zeek_plugin")


def whole(path: Path) -> bool:
    """Whether the last thing in a log is its end."""
    return path.suffix == ".pcap" or path.read_text().splitlines()[-1].startswith("#close")


SPEEDS = [
    pytest.param((100, 103), (), id="as recorded"),
    pytest.param((100, 140), ("--pps=5000",), id="faster"),
    pytest.param((0, 600), ("--topspeed",), id="as fast as can be", marks=pytest.mark.slow),
]
"""Seconds of the capture, and how fast they are sent. What is not read at once waits in a buffer of
128 MB: more than all of it."""


@pytest.mark.parametrize(("seconds", "speed"), SPEEDS)
def test_all_packets_land_in_finished_files(place, warehouse, network, expected, seconds, speed):
    frames = between(*seconds)
    zeek = place.start()
    sizes: dict[Path, int] = {}
    sending = place.link.sending(frames, *speed)
    while sending.poll() is None:
        sizes = {path: path.stat().st_size for path in place.landed()} | sizes
        time.sleep(0.01)
    probes = zeek.seen()
    assert zeek.stop() == 0
    files = place.landed()
    assert sizes or "--topspeed" in speed
    assert {path: path.stat().st_size for path in sizes} == sizes
    assert all(map(whole, [*files, *place.landed("monitor")]))
    assert place.left() == set()
    ingested(warehouse, network, files)
    assert rows(warehouse) == expected(frames)
    sums = monitored(place.landed("monitor"))
    assert sums == {"received": len(frames) + probes, "dropped": 0}


def test_without_packets_nothing_lands(place):
    zeek = place.start()
    until(lambda: place.landed("monitor"), "it says that there was nothing")
    assert zeek.stop() == 0
    assert place.landed() == []
    assert place.left() == set()
    assert monitored(place.landed("monitor")) == {"received": 0, "dropped": 0}


def is_written(place: Place) -> bool:
    """Whether the open file has packets."""
    return any(path.stat().st_size > 1000 for path in place.folder.glob("giscope_packets.[lp]*"))


def test_files_of_a_killed_zeek_are_landed_by_the_next_one(
    place, warehouse, network, expected, record_property
):
    frames = between(100, 130)
    zeek = place.start(every="2sec")
    sending = place.link.sending(frames, "--pps=400")
    until(lambda: place.landed() and is_written(place), "a file has landed, another is written")
    further = place.link.arrived() + 200
    until(lambda: place.link.arrived() > further, "more packets")
    sending.kill()
    sending.wait()
    zeek.stop(signal.SIGKILL)
    sent = place.link.arrived()
    before = {path: path.read_bytes() for path in place.landed()}
    zeek = place.start()
    zeek.seen()
    until(lambda: len(place.landed()) > len(before), "the next one lands the file that was left")
    assert zeek.stop() == 0
    assert place.left() == set()
    assert {path: path.read_bytes() for path in before} == before
    (left,) = set(place.landed()) - set(before)
    (result,) = ingested(warehouse, network, [left])
    assert result.facts.skipped == ({"not_closed": 1} if left.suffix == ".log" else {})
    ingested(warehouse, network, before)
    found, all_rows = rows(warehouse), expected(frames[:sent])
    assert found == all_rows[: len(found)]
    lost = len(all_rows) - len(found)
    record_property("lost", lost)
    print(f"{place.entry}: {lost} of {sent} packets lost")
    assert lost <= 1000


def waits(place: Place) -> int:
    """How many files of packets wait for the landing folder."""
    return len(list(place.folder.glob("giscope_packets[-.]2*")))


@pytest.mark.parametrize(
    "stopped",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["goes on", "is started again"],
)
def test_files_wait_while_the_landing_folder_is_missing(
    place, warehouse, network, expected, stopped
):
    """As long as a file is in its place."""
    frames = between(100, 103)
    away = place.beside / "away"
    zeek = place.start()
    sending = place.link.sending(frames)
    until(place.landed, "the first file has landed")
    place.landing.rename(away)
    place.landing.write_text("in the way")
    until(lambda: waits(place) > 1, "files wait")
    assert sending.wait(PATIENCE) == 0
    zeek.seen()
    if stopped:
        assert zeek.stop() == 0
        assert "cannot create directory" in zeek.errors
        place.landing.unlink()
        away.rename(place.landing)
        zeek = place.start()
    else:
        place.landing.unlink()
        away.rename(place.landing)
    zeek.seen()
    until(lambda: not waits(place), "they have landed")
    assert zeek.stop() == 0
    assert place.left() == set()
    ingested(warehouse, network, place.landed())
    assert rows(warehouse) == expected(frames)


def test_a_landed_file_is_never_overwritten(place):
    now = int(time.time())
    suffix = {"bare": "log", "bare-headers": "pcap"}[place.entry]
    for at in (datetime.fromtimestamp(now + s, UTC) for s in range(2 * PATIENCE)):
        day = place.landing / at.date().isoformat()
        day.mkdir(exist_ok=True)
        (day / f"zeek-giscope_packets.{at:%Y-%m-%d-%H-%M-%S}.{suffix}").write_text("taken")
    taken = place.landed()
    zeek = place.start(every="1hr")
    place.link.send(between(100, 101), "--pps=1000")
    zeek.seen()
    assert zeek.stop() == 0
    assert {path.read_text() for path in taken} == {"taken"}
    (path,) = set(place.landed()) - set(taken)
    assert path.stem.endswith("-2")


@pytest.fixture
def filler(place: Place) -> Iterator[Path]:
    """A file that fills most of a small file system, in which Zeek writes and its files land."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "giscope", place.folder]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted")
    try:
        place.landing.mkdir()
        filler = place.folder / "filler"
        filler.write_bytes(bytes(800_000))
        yield filler
    finally:
        for zeek in place.running:
            zeek.process.kill()
            zeek.process.wait()
        subprocess.run(["umount", place.folder], check=True)


@pytest.mark.parametrize("place", ["bare"], indirect=True)
def test_a_full_disk_ends_zeek_when_it_writes_a_log(place, filler, warehouse, network, expected):
    frames = between(100, 130)
    zeek = place.start(every="1hr")
    place.link.send(frames, "--pps=5000")
    assert zeek.process.wait(PATIENCE) == -signal.SIGABRT
    assert "No space left on device" in zeek.errors
    filler.unlink()
    zeek = place.start()
    zeek.seen()
    until(place.landed, "the next one lands what was written")
    assert zeek.stop() == 0
    assert place.left() == set()
    (result,) = ingested(warehouse, network, place.landed())
    assert result.facts.skipped == {"not_closed": 1, "truncated_file": 1}
    found = rows(warehouse)
    assert 1000 < len(found) < len(frames)
    assert found == expected(frames)[: len(found)]


@pytest.mark.parametrize("place", ["bare-headers"], indirect=True)
def test_on_a_full_disk_the_plugin_keeps_running_and_leaves_no_packet_cut(
    place, filler, warehouse, network, expected
):
    """Until the next row of a log, which is an hour away."""
    frames, later = between(100, 130), between(130, 132)
    zeek = place.start(every="1hr")
    place.link.send(frames, "--pps=2000")
    zeek.seen()
    assert "No space left on device; packets are lost" in zeek.errors
    filler.unlink()
    place.link.send(later, "--pps=5000")
    zeek.seen()
    assert zeek.stop() == 0
    assert place.left() == set()
    (result,) = ingested(warehouse, network, place.landed())
    # Between the two replays, time passes for the monitor, but not for the senders.
    assert set(result.facts.skipped) <= {"clock_forwards", "clock_forwards_us"}
    found, sent = rows(warehouse), expected(frames + later)
    assert found[-len(later) :] == sent[-len(later) :]
    assert 1000 < len(found) < len(sent)
    assert not Counter(found) - Counter(sent)


def test_packets_that_the_interface_dropped_are_counted(place, warehouse, network):
    """While Zeek stands still its buffer of 1 MB runs over."""
    frames = between(100, 140)
    zeek = place.start("Pcap::bufsize=1")
    zeek.process.send_signal(signal.SIGSTOP)
    place.link.send(frames, "--topspeed")
    zeek.process.send_signal(signal.SIGCONT)
    probes = zeek.seen()
    assert zeek.stop() == 0
    sums = monitored(place.landed("monitor"))
    assert place.link.arrived() == len(frames) + probes
    assert sums["dropped"] > 1000
    assert sums["received"] + sums["dropped"] == len(frames) + probes
    ingested(warehouse, network, place.landed())
    assert sums["received"] - probes <= len(rows(warehouse)) < sums["received"]


def test_files_land_by_the_day_and_time_of_utc(place):
    """Whatever the time zone: here it is yesterday."""
    zeek = place.start(TZ="YESTERDAY+24")
    before = datetime.now(UTC).replace(microsecond=0)
    place.link.send(between(100, 100.5))
    zeek.seen()
    after = datetime.now(UTC)
    assert zeek.stop() == 0
    for path in place.landed():
        opened = datetime.strptime(path.stem.split(".")[1] + "+0000", "%Y-%m-%d-%H-%M-%S%z")
        assert before - timedelta(seconds=1) <= opened <= after
        assert path.parent.name == opened.date().isoformat()
    assert place.landed()


def test_zeeks_that_share_a_landing_folder_have_names_of_their_own(place, tmp_path):
    other = replace(place, folder=tmp_path / "other/zeek", beside=tmp_path / "other")
    other.folder.mkdir(parents=True)
    zeeks = [place.start("peer_description=a"), other.start("peer_description=b")]
    place.link.send(between(100, 101))
    for zeek in zeeks:
        zeek.seen()
    assert [zeek.stop() for zeek in zeeks] == [0, 0]
    names = {peer: [p for p in place.landed() if p.name.startswith(f"{peer}-")] for peer in "ab"}
    assert all(names.values())
    assert sum(map(len, names.values())) == len(place.landed())
