"""The quality checks of a day: what each detects, and which days are held."""

import gzip
import shutil
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest
import zstandard
from conftest import CAPTURES, DAY, NETWORKS_FILE, NOON, REPORTS, ask
from scapy.layers.inet import IP

from schemas import FLOWS, INGEST_LOG, QUALITY
from spark_jobs.base.errors import UserError
from spark_jobs.figures.tables import MARTS
from spark_jobs.ingest.job import ingest
from spark_jobs.jobs import quality
from spark_jobs.jobs.flows import publish_flows
from spark_jobs.jobs.marts import update_marts
from spark_jobs.quality.checks import evaluate
from spark_jobs.settings.networks import QualityLimits, load_networks
from spark_jobs.tables.flows import RATES as RATES_OF_TRANSFERS
from tests.helpers.capture_files import Frame, pcap
from tests.helpers.made_up import flow, publish

GOOD = {
    "unread_captures": [],
    "frames": 1000,
    "skipped": 0,
    "duplicates": 0,
    "clock_steps": 0,
    "clock_back_s": 0.0,
    "clock_forward_s": 0.0,
    "numbered": 1000,
    "copied": 0,
    "flows": 100,
    "flows_without_syn": 0,
    "flows_up_only": 0,
    "flows_down_only": 0,
    "flows_with_data": 100,
    "flows_losses_unknown": 0,
    "flows_sending_unknown": 0,
    "flows_split": 0,
    "flows_timed": 100,
    "flows_too_near": 0,
    "segments": 1000,
    "merged_segments": 0,
    "tcp_packets": 1000,
    "tcp_in_flows": 1000,
    "options_cut": 0,
    "ip_bytes": 1_000_000,
    "quic_begun": 100,
    "quic_cut": 40,
    "not_tcp_bytes": 0,
    "tunnel_bytes": 0,
    "packets": 1000,
    "ipv6_packets": 0,
    "leases": 0,
    "opened": 100,
    "opened_by_shared": 0,
    "shared_users": 0,
    "vlan_tuples": 0,
    "peak_flows": 10,
    "peak_from": 10,
    "peak_until": 12,
    "first_hour": 10,
    "last_hour": 11,
    "busiest_hour": 10,
    "default_hours": ((10, 12), (3, 7)),
    "acked_unseen_bytes": 0,
    "acked_bytes": 1_000_000,
    "volume": 5000,
    "usual_volume": 5000,
    "earlier_days": 4,
}
LIMITS = QualityLimits(skipped_share=0.01, acked_unseen_share=0.001, without_syn_share=0.2)


def failed(limits: QualityLimits = LIMITS, **measured: object) -> list[str]:
    return [c.measure for c in evaluate(GOOD | measured, limits) if not c.passed]


def test_good_day_passes():
    assert failed() == []


@pytest.mark.parametrize(
    ("measured", "check"),
    [
        ({"unread_captures": ["peak.pcap"]}, "unread_captures"),
        ({"skipped": 11}, "skipped_share"),
        ({"copied": 2, "copied_captures": ["a.pcap", "b.pcap"]}, "copied_share"),
        ({"acked_unseen_bytes": 1001}, "acked_unseen_share"),
        ({"flows_without_syn": 21}, "without_syn_share"),
        ({"flows_up_only": 4, "flows_down_only": 2}, "one_way_share"),
        ({"peak_flows": 0}, "peak_flows"),
        ({"volume": 2499}, "volume_ratio"),
        ({"volume": 10_001}, "volume_ratio"),
    ],
)
def test_each_check_fails_beyond_its_limit(measured, check):
    assert failed(**measured) == [check]


@pytest.mark.parametrize(
    "measured",
    [
        {"skipped": 10},
        {"duplicates": 999, "merged_segments": 999, "options_cut": 999},
        {"clock_steps": 9, "clock_back_s": 99.0},
        {"not_tcp_bytes": 999_000, "tunnel_bytes": 999_000},
        {"flows_up_only": 3, "flows_down_only": 2},
        {"acked_unseen_bytes": 1000},
        {"flows_without_syn": 20},
        {"volume": 2500},
        {"volume": 10_000},
        {"volume": 1, "earlier_days": 2},
        {"frames": None, "skipped": None, "acked_bytes": 0},
    ],
)
def test_at_the_limit_or_not_measurable_passes(measured):
    assert failed(**measured) == []


@pytest.mark.parametrize(("cut", "is_asked"), [(0, False), (10, False), (11, True), (1000, True)])
def test_many_cut_options_ask_for_a_larger_snap_length(cut, is_asked):
    measured = GOOD | {"options_cut": cut}
    [check] = (c for c in evaluate(measured, LIMITS) if c.measure == "options_cut_share")
    assert (check.value, check.passed) == (cut / 1000, True)
    assert ("raise the snap length" in check.finding) == is_asked


def test_packets_with_cut_options_are_measured(warehouse, tmp_path, network):
    """The count equals that of packets with options in the capture at full length."""
    path = REPORTS / "min_snap_54.pcap"
    [result] = ingest(warehouse, [(network, path)])
    assert (result.error, result.facts.skipped) == (None, {"options_cut": 24})
    quality.check(warehouse, [network], date(2023, 11, 14))
    asked = "select value from quality where measure = 'options_cut_share'"
    assert ask(warehouse, asked).fetchall() == [(1,)]


def test_limits_can_be_set_in_the_networks_file(tmp_path):
    text = NETWORKS_FILE.read_text() + "[network.quality]\npeak_flows = 0\n"
    (tmp_path / "networks.toml").write_text(text)
    networks = load_networks(tmp_path / "networks.toml")
    assert failed(networks["dd-lte"].quality, peak_flows=0) == []
    assert failed(networks["aa-gprs"].quality, peak_flows=0) == ["peak_flows"]


def test_measurements_of_a_day(warehouse, demo, network):
    unseen = {"acked_unseen_bytes": 30, "payload_bytes_down": 70}
    seen = {"acked_unseen_bytes": 0, "payload_bytes_down": 100}
    unknown = {"retransmissions": None, "rtt_access_min": None}
    rows = [
        flow(demo, **unseen, lost_internet=None, **unknown),
        flow(demo, **seen, initiator="unknown", directions_seen="up", **unknown),
        flow(demo, **seen, start_ts=flow(demo)["start_ts"] - timedelta(hours=9), **unknown),
    ]
    log = dict.fromkeys(INGEST_LOG.arrow.names)
    log |= {
        "front_end": "builtin",
        "bytes": 1,
        "seconds": 1.0,
        "content": "",
        "packets": 90,
        "ipv6_packets": 0,
        "rows": 90,
    }
    log |= {"first_ts": rows[0]["start_ts"], "last_ts": rows[0]["start_ts"], "frames": 100}
    skipped = [("not_ip", 5), ("malformed_ip", 3), ("short_capture", 2), ("duplicate", 30)]
    skipped += [("clock_backwards", 2), ("clock_backwards_us", 1_250_000)]
    logs = [
        log | {"capture": "a.pcap", "skipped": skipped},
        log | {"capture": "b.pcap", "skipped": [("corrupt_compression", 1)]},
    ]
    publish(warehouse, network.name, DAY, {FLOWS: rows, INGEST_LOG: logs})
    [verdict] = quality.check(warehouse, [network])
    found = dict(ask(warehouse, "select measure, value from quality").fetchall())
    assert found == {
        "unread_captures": 1,
        "skipped_share": 5 / 200,
        "duplicate_share": 30 / 200,
        "copied_share": None,
        "clock_steps": 2,
        "acked_unseen_share": 30 / 300,
        "one_way_share": pytest.approx(1 / 3),
        "no_flow_share": None,
        "losses_unknown_share": pytest.approx(1 / 3),
        "sending_unknown_share": 1,
        "split_share": 0,
        "near_share": None,
        "merged_share": 0,
        "options_cut_share": None,
        "quic_cut_share": None,
        "not_tcp_share": None,
        "tunnel_share": None,
        "ipv6_share": None,
        "shared_share": None,
        "vlan_tuples": 0,
        "without_syn_share": pytest.approx(1 / 3),
        "peak_flows": 2,
        "volume_ratio": None,
    }
    assert verdict.held
    assert any("b.pcap" in finding for finding in verdict.findings)
    asked = "select finding from quality where measure = 'clock_steps'"
    [(finding,)] = ask(warehouse, asked).fetchall()
    assert "stepped 2 times, back by 1.250 s and forward by 0.000 s in all" in finding


def test_volume_is_compared_with_the_median_of_the_same_weekdays(warehouse, demo, network):
    """Published volumes: 100, 200 and 900 one to three weeks ago, 5000 yesterday; 1000 today."""
    table1 = next(table for table in MARTS if table.name == "table1_summary")
    query = "from table1_summary limit 1"
    [row] = ask(demo.warehouse, query).to_arrow_table().to_pylist()
    row = {name: row[name] for name in table1.arrow.names} | {"ip_bytes_up": 0}
    for days, volume in ((7, 100), (14, 200), (21, 900), (1, 5000)):
        rows = {table1: [row | {"ip_bytes_down": volume}]}
        publish(warehouse, network.name, DAY - timedelta(days=days), rows)
    today = [flow(demo, ip_bytes_up=400, ip_bytes_down=600)]
    publish(warehouse, network.name, DAY, {FLOWS: today})
    quality.check(warehouse, [network], DAY)
    asked = f"select value, passed from quality where measure = 'volume_ratio' and date = '{DAY}'"
    assert ask(warehouse, asked).fetchall() == [(1000 / 200, False)]


def test_held_day_keeps_its_marts_until_released(warehouse, demo, network):
    """Marts of a good day; then it has no connection in the peak hours, which the file sets."""
    network = network.model_copy(update={"peak_hours": (10, 12)})
    work = [(network, CAPTURES / "aa-gprs" / "peak.pcap.zst")]
    ingest(warehouse, work)
    publish(warehouse, network.name, DAY, {FLOWS: [flow(demo)]})
    assert not quality.check(warehouse, [network])[0].held
    assert update_marts(warehouse) == [(network.name, DAY)]

    def published() -> int:
        [[flows]] = ask(warehouse, "select sum(flows) from table1_summary").fetchall()
        return flows

    def leave(day: tuple[str, date]) -> bool:
        verdict = quality.verdict_of(warehouse, *day)
        return verdict is None or verdict.held

    def flows_seen() -> tuple[int, int]:
        asked = "select (select count(*) from flows), (select count(*) from published_flows)"
        return ask(warehouse, asked).fetchall()[0]

    earlier = flow(demo)["start_ts"] - timedelta(hours=6)
    bad = [flow(demo, start_ts=earlier), flow(demo, start_ts=earlier, flow_id=1)]
    publish(warehouse, network.name, DAY, {FLOWS: bad})
    assert update_marts(warehouse, leave) == []
    [verdict] = quality.check(warehouse, [network])
    assert (verdict.held, verdict.fresh) == (True, True)
    assert update_marts(warehouse, leave) == []
    assert (published(), flows_seen()) == (1, (2, 0))

    quality.release(warehouse, network, DAY, "holiday")
    [verdict] = quality.check(warehouse, [network])
    assert (verdict.held, verdict.fresh, verdict.released) == (False, False, "holiday")
    assert update_marts(warehouse, leave) == [(network.name, DAY)]
    assert (published(), flows_seen()) == (2, (2, 2))
    with pytest.raises(UserError, match="not held back"):
        quality.release(warehouse, network, DAY, "again")


def test_a_release_lasts_when_the_same_flows_are_made_again(warehouse, few_captures, network):
    """Each day's flows are made again when the next day's packets come."""
    strict = network.model_copy(update={"quality": QualityLimits(peak_flows=1_000_000)})
    ingest(warehouse, [(strict, few_captures / "aa-gprs/peak.pcap")])
    publish_flows(warehouse, [(strict, DAY)])
    assert quality.check(warehouse, [strict])[0].held
    quality.release(warehouse, strict, DAY, "holiday")
    assert update_marts(warehouse) == [(network.name, DAY)]
    before = warehouse.files(FLOWS)
    publish_flows(warehouse, [(strict, DAY)])
    assert warehouse.files(FLOWS) != before
    [verdict] = quality.check(warehouse, [strict])
    assert (verdict.held, verdict.released) == (False, "holiday")
    assert update_marts(warehouse) == []


def test_unreadable_file_counts_for_the_day_of_its_folder(warehouse, tmp_path, network):
    folder = tmp_path / DAY.isoformat()
    folder.mkdir()
    (folder / "peak.pcap").write_bytes(b"no capture at all")
    [result] = ingest(warehouse, [(network, folder / "peak.pcap")])
    assert result.error
    [verdict] = quality.check(warehouse, [network], DAY)
    assert any(f"{DAY}/peak.pcap" in finding for finding in verdict.findings)
    assert len(warehouse.files(QUALITY, network.name, DAY)) == 1


def test_files_of_one_name_on_two_days_are_two_captures(warehouse, tmp_path: Path, network):
    source = CAPTURES / "aa-gprs" / "peak.pcap.zst"
    work = []
    for day in (DAY, DAY + timedelta(days=1)):
        folder = tmp_path / day.isoformat()
        folder.mkdir()
        work.append((network, Path(shutil.copy(source, folder))))
    results = ingest(warehouse, work)
    assert [result.capture for result in results] == [
        "2004-03-02/peak.pcap", "2004-03-03/peak.pcap",
    ]  # fmt: skip
    assert sorted(bool(result.error) for result in results) == [False, True]  # the same packets


@pytest.mark.usefixtures("in_this_process")
def test_duplicate_captures_hold_no_day(warehouse, tmp_path: Path, network):
    """The duplicate has the same bytes, compressed."""
    data = pcap(Frame(bytes(IP(src="10.64.0.1", id=i)), NOON * 10**6 + i) for i in range(1, 9))
    for name, some in (("a.pcap", data), ("b.pcap", gzip.compress(data))):
        (tmp_path / name).write_bytes(some)
    work = [(network, tmp_path / name) for name in ("a.pcap", "b.pcap")]
    [first, second] = ingest(warehouse, work)
    assert (first.error, second.facts.duplicate_of) == (None, "a.pcap")
    assert second.error == (
        f"{tmp_path}/b.pcap: holds the same packets as a.pcap, which is ingested already"
    )
    quality.check(warehouse, [network], DAY)
    asked = "select value, passed from quality where measure = 'unread_captures'"
    assert ask(warehouse, asked).fetchall() == [(0, True)]


def thinned(target: Path, keep: Callable[[int, bool], bool], later: int = 0) -> Path:
    """Write a shipped capture with only the packets that `keep` chooses by number and direction,
    some µs later (within their second)."""
    packed = (CAPTURES / "bb-gprs/peak.pcap.zst").read_bytes()
    data = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    kept, place, number = [data[:24]], 24, 0
    while place < len(data):
        end = place + 16 + int.from_bytes(data[place + 8 : place + 12], "little")
        by_mobile = data[place + 16 + 12] == 10  # of the source address, 10.64.0.0/14
        if keep(number, by_mobile):
            us = min(int.from_bytes(data[place + 4 : place + 8], "little") + later, 999_999)
            kept.append(data[place : place + 4] + us.to_bytes(4, "little") + data[place + 8 : end])
        place, number = end, number + 1
    target.write_bytes(b"".join(kept))
    return target


THINNED = {
    "up only": (lambda number, by_mobile: by_mobile, "one_way_share"),
    "down only": (lambda number, by_mobile: not by_mobile, "one_way_share"),
    "one in ten": (lambda number, by_mobile: number % 10 == 0, "acked_unseen_share"),
    "one in two": (lambda number, by_mobile: number % 2 == 0, "acked_unseen_share"),
    "nine in ten": (lambda number, by_mobile: number % 10 > 0, "acked_unseen_share"),
}
LOSSES = {"lost_access", "lost_access_expected", "lost_internet", "bottleneck"}
RATES = {"b_tcp", "b_other", *RATES_OF_TRANSFERS}
SENDING = {
    "retransmissions",
    "rto_expiries",
    "busy",
    "rwnd_limited",
    "limited_by",
    "rtt_internet_median",
}
OF_BOTH = {"timestamps", "single", "parallel", "setup_background", "setup_delay", "rtt_access_min"}
NULL_IN = {
    "up only": LOSSES | RATES | SENDING | OF_BOTH,
    "down only": LOSSES | RATES | SENDING | OF_BOTH,
    "one in ten": LOSSES | RATES | SENDING,
    "one in two": LOSSES | RATES | SENDING,
    "nine in ten": LOSSES | RATES,
}


@pytest.mark.parametrize("what", THINNED)
def test_capture_that_misses_packets_gives_no_estimate_that_needs_them(
    warehouse, tmp_path, network, what
):
    """Connections that continued: the set-up's ACK, or data, shows that there were answers."""
    keep, check = THINNED[what]
    network = network.model_copy(update={"quality": QualityLimits(without_syn_share=1)})
    ingest(warehouse, [(network, thinned(tmp_path / "thinned.pcap", keep))])
    publish_flows(warehouse, [(network, DAY)])
    [verdict] = quality.check(warehouse, [network])
    connection = warehouse.connect()
    failed = connection.sql("select measure from quality where not passed").fetchall()
    assert (check,) in failed
    assert verdict.held
    one_way = what in ("up only", "down only")
    most = 0.01 if what == "nine in ten" else 0.1
    unseen = f"acked_unseen_bytes > {most} * (payload_bytes_down + acked_unseen_bytes)"
    missed = "directions_seen <> 'both'" if one_way else unseen
    names = sorted(NULL_IN[what])
    counted_columns = ", ".join(f"count({name})" for name in names)
    [(rows, *counts)] = connection.sql(
        f"select count(*), {counted_columns} from flows where {missed}"
    ).fetchall()
    assert rows > 1000
    assert {name: n for name, n in zip(names, counts, strict=True) if n} == {}
    if what == "up only":
        [(unseen,)] = connection.sql("select sum(acked_unseen_bytes) from flows").fetchall()
        # What the whole capture carries, but for what was not acknowledged before its end.
        assert unseen == pytest.approx(63_842_500, rel=0.02)


@pytest.mark.parametrize(("shared", "copied"), [(0, 0), (1, 2 / 3)], ids=["halves", "both whole"])
def test_packets_of_two_mirrored_ports_in_two_files_are_detected(
    warehouse, tmp_path, network, shared, copied
):
    """Two files with every second packet each; or one with all, the other with every second: of
    three rows two are of one packet, as IP IDs show."""
    network = network.model_copy(update={"quality": QualityLimits(without_syn_share=1)})
    a = thinned(tmp_path / "a.pcap", lambda number, by_mobile: number % 2 == 0)
    b = thinned(tmp_path / "b.pcap", lambda number, by_mobile: number % 2 == 1 or shared, 3)
    work = [(network, a), (network, b)]
    ingest(warehouse, work)
    publish_flows(warehouse, [(network, DAY)])
    quality.check(warehouse, [network])
    asked = "select value, passed from quality where measure = 'copied_share'"
    [(value, passed)] = ask(warehouse, asked).fetchall()
    assert value == pytest.approx(copied / 2, abs=0.02)
    assert passed == (not shared)
