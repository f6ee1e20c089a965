"""Captures into packets: once, whole, and the good ones whatever state the others are in."""

from dataclasses import replace
from pathlib import Path

from conftest import CAPTURES, ask, count
from scapy.layers.inet import IP, TCP

from spark_jobs.engine.memory import WORKER_KILLED
from spark_jobs.ingest.job import ingest, ingest_capture
from spark_jobs.settings.networks import Network
from tests.helpers.capture_files import Frame, pcap

US = 1_000_000
MIDNIGHT = 1_078_272_000 * US
"""2004-03-03 00:00 UTC."""


def packet(ts: int, seq: int = 1, user: str = "10.64.0.1", ttl: int = 64) -> Frame:
    """Return a packet of a sender that numbers its packets by the microsecond."""
    ip = IP(src=user, dst="198.51.100.1", id=1 + ts % 0xFFFF, ttl=ttl)
    return Frame(bytes(ip / TCP(sport=1, dport=80, seq=seq)), ts)


def write(path: Path, *frames: Frame) -> Path:
    path.write_bytes(pcap(frames))
    return path


def test_unchanged_capture_is_not_read_again(warehouse, tmp_path, network):
    capture = write(tmp_path / "a.pcap", packet(MIDNIGHT))
    ingest_capture(warehouse, network, capture)
    (again,) = ingest(warehouse, [(network, capture)])
    assert again.unchanged
    assert (again.facts.frames, again.facts.packets) == (1, 1)


def test_a_capture_whose_worker_is_killed_has_its_reason(warehouse, tmp_path, network, monkeypatch):
    """The others are read."""
    paths = [write(tmp_path / f"{name}.pcap", packet(MIDNIGHT)) for name in "ab"]

    def run(task, items, on_done, on_killed):
        on_killed(0)
        on_done(1, task(items[1]))

    monkeypatch.setattr("spark_jobs.engine.processes.run", run)
    killed, read = ingest(warehouse, [(network, path) for path in paths])
    assert (read.error, count(warehouse)) == (None, 1)
    assert killed.error == f"{paths[0]}: {WORKER_KILLED.format('ingest')}"
    found = ask(warehouse, "select error from ingest_log where capture = 'a.pcap'").fetchall()
    assert found == [(killed.error,)]


def test_unchanged_capture_still_shows_what_was_skipped(warehouse, tmp_path, network):
    capture = write(tmp_path / "a.pcap", packet(MIDNIGHT), Frame(bytes(60), MIDNIGHT + 1))
    (first,) = ingest(warehouse, [(network, capture)])
    (again,) = ingest(warehouse, [(network, capture)])
    assert again.unchanged
    assert first.facts.skipped == again.facts.skipped == {"malformed_ip": 1}


def test_packet_captured_on_both_sides_of_a_router_counts_once(warehouse, tmp_path, network):
    before, after = packet(MIDNIGHT, ttl=64), packet(MIDNIGHT, ttl=63)
    capture = write(tmp_path / "a.pcap", before, replace(after, ts=MIDNIGHT + 9000))
    result = ingest_capture(warehouse, network, capture)
    assert (result.facts.frames, result.facts.packets, result.facts.skipped) == (
        2,
        1,
        {"duplicate": 1},
    )
    query = "select ttl, skipped['duplicate'] from packets, ingest_log"
    assert ask(warehouse, query).fetchall() == [(64, 1)]


def test_corrected_capture_replaces_its_packets(warehouse, tmp_path, network):
    ingest_capture(warehouse, network, write(tmp_path / "a.pcap", *map(packet, [MIDNIGHT] * 3)))
    result = ingest_capture(
        warehouse, network, write(tmp_path / "a.pcap", packet(MIDNIGHT + 86_400 * US))
    )
    assert count(warehouse) == 1
    assert [day.isoformat() for day in result.dates] == ["2004-03-03", "2004-03-04"]


def test_capture_across_midnight_lies_in_both_dates(warehouse, tmp_path, network):
    capture = write(tmp_path / "a.pcap", packet(MIDNIGHT - 1), packet(MIDNIGHT))
    ingest_capture(warehouse, network, capture)
    days = ask(warehouse, "select date, count(*) from packets group by all").fetchall()
    assert sorted((day.isoformat(), n) for day, n in days) == [("2004-03-02", 1), ("2004-03-03", 1)]


def test_unreadable_file_is_named_and_the_others_are_ingested(warehouse, tmp_path, network):
    bad = tmp_path / "bad.pcap"
    bad.write_text("this is no capture")
    good = write(tmp_path / "good.pcap", packet(MIDNIGHT))
    missing = tmp_path / "missing.pcap"
    results = [ingest_capture(warehouse, network, path) for path in (bad, good, missing)]
    assert str(bad) in results[0].error
    assert results[1].error is None
    assert results[2].error == f"{missing}: No such file or directory"
    assert count(warehouse) == 1
    logged = ask(warehouse, "select capture from ingest_log order by all").fetchall()
    assert logged == [("bad.pcap",), ("good.pcap",)]


def test_file_that_breaks_later_does_not_remove_its_good_packets(warehouse, tmp_path, network):
    capture = write(tmp_path / "a.pcap", packet(MIDNIGHT))
    ingest_capture(warehouse, network, capture)
    capture.write_bytes(b"")
    assert ingest_capture(warehouse, network, capture).error
    assert count(warehouse) == 1


def test_packets_of_no_subscriber_are_counted_not_kept(warehouse, tmp_path, network):
    capture = write(tmp_path / "a.pcap", packet(MIDNIGHT), packet(MIDNIGHT, user="192.0.2.1"))
    result = ingest_capture(warehouse, network, capture)
    assert (result.facts.packets, result.facts.skipped) == (1, {"not_subscriber": 1})


def test_capture_is_read_again_when_subscriber_prefixes_change(warehouse, tmp_path, network):
    capture = write(tmp_path / "a.pcap", packet(MIDNIGHT), packet(MIDNIGHT, user="192.0.2.1"))
    ingest_capture(warehouse, network, capture)
    wider = Network(**{**network.model_dump(), "subscribers": ["10.0.0.0/8", "192.0.2.0/24"]})
    (result,) = ingest(warehouse, [(wider, capture)])
    assert result.facts.packets == count(warehouse) == 2


def test_row_groups_hold_one_partition_and_rows_are_sorted(demo):
    import pyarrow.parquet as pq

    from schemas import PACKETS

    for path in demo.warehouse.files(PACKETS):
        file = pq.ParquetFile(path)
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, columns=["user_partition", "user", "ts", "frame"])
            assert len(set(table["user_partition"].to_pylist())) == 1
            keys = list(
                zip(*(table[name].to_pylist() for name in ("user", "ts", "frame")), strict=True)
            )
            assert keys == sorted(keys)


def test_packets_take_at_most_16_bytes(demo):
    from schemas import PACKETS

    size = sum(path.stat().st_size for path in demo.warehouse.files(PACKETS))
    assert size / count(demo.warehouse) <= 16


def test_every_frame_of_the_shipped_captures_is_a_row(whole_demo):
    for result in whole_demo.ingested:
        assert result.error is None
        assert result.facts.frames == result.facts.packets > 50_000
        assert result.facts.skipped == {}
    assert len(whole_demo.ingested) == len(list(CAPTURES.glob("*/*.pcap*")))


def test_packets_beyond_400_dates_are_counted_not_kept(warehouse, tmp_path, network):
    frames = [packet(MIDNIGHT + day * 86_400 * US) for day in range(403)]
    result = ingest_capture(warehouse, network, write(tmp_path / "a.pcap", *frames))
    assert result.facts.packets == count(warehouse) == 400
    assert result.facts.skipped == {"implausible_time": 3}
