"""The monitor's clock steps: packets keep the order in which they passed.

A script is packets in the order in which they passed, with their true times. Their times and order
in the capture are known by construction: by how much the clock was wrong, or in which order they
were written.
"""

import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from ipaddress import ip_address, ip_network
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import ROOT, ask

from schemas import PACKETS
from spark_jobs.capture.addresses import subscriber_prefixes
from spark_jobs.capture.clock import MAX_CLOCK_STEPS, correct_clock_steps
from spark_jobs.capture.reader import ReadStats, read_capture
from spark_jobs.capture.zeek_log import read_zeek_log
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.jobs.flows import publish_flows
from spark_jobs.settings.networks import Network, Subscribers
from spark_jobs.users.packets import Span, read_packets
from spark_jobs.warehouse.row_groups import row_groups
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.capture_files import NOON, Frame, pcap, pcapng
from tests.helpers.zeek_logs import log

MS = 1000
SECOND = 1_000_000
HOUR = 3600 * SECOND
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
REPORTED = ROOT / "tests/data/reports/min_clock_back.pcap"


@dataclass(frozen=True)
class Packet:
    """us: its true time, after noon."""

    us: int
    downlink: bool
    flags: int
    seq: int
    ack: int
    data: int = 0
    user: int = 1
    udp: bool = False
    ts_val: int | None = None
    window: int = 8192

    def later(self, us: int) -> "Packet":
        return replace(self, us=self.us + us)

    @property
    def bytes(self) -> bytes:
        mobile = (ip_address(f"10.64.{self.user >> 8}.{self.user & 255}").packed, 40_000)
        server = (ip_address("198.51.100.7").packed, 80)
        source, target = (server, mobile) if self.downlink else (mobile, server)
        ports = struct.pack(">HH", source[1], target[1])
        if self.udp:
            above = ports + struct.pack(">HH", 8 + self.data, 0)
        else:
            numbers = struct.pack(">II", self.seq % 2**32, self.ack % 2**32)
            option = b""
            if self.ts_val is not None:
                option = struct.pack(">BBBBII", 1, 1, 8, 10, self.ts_val % 2**32, 0)
            words = 5 + len(option) // 4
            above = (
                ports + numbers + struct.pack(">BBHHH", words << 4, self.flags, self.window, 0, 0)
            )
            above += option
        length = 20 + len(above) + self.data
        proto = 17 if self.udp else 6
        fixed = struct.pack(">BBHHHBBH", 0x45, 0, length, 0, 0x4000, 60, proto, 0)
        return fixed + source[0] + target[0] + above + bytes(self.data)


def transfer(
    begin: int = 0, packets: int = 20, every: int = 40 * MS, user: int = 1, isn: int = 1000
) -> list[Packet]:
    """Make a connection: handshake, request, a segment and its ACK in turn; every: µs from
    packet to packet."""
    up, down = isn, isn + 2**31
    script = [
        (False, SYN, up, 0, 0),
        (True, SYN | ACK, down, up + 1, 0),
        (False, ACK, up + 1, down + 1, 0),
        (False, ACK | PSH, up + 1, down + 1, 100),
    ]
    up, down = up + 101, down + 1
    while len(script) < packets:
        script += [(True, ACK, down, up, 1000), (False, ACK, up, down + 1000, 0)]
        down += 1000
    return [
        Packet(begin + i * every, *packet, user=user) for i, packet in enumerate(script[:packets])
    ]


def many(connections: int = 30, packets: int = 40, every: int = 40 * MS) -> list[Packet]:
    """Make transfers that begin 7 ms after each other, in the order in which their packets pass."""
    each = [
        transfer(7 * MS * k, packets, every, user=k + 1, isn=2**32 - 5000 + 77 * k)
        for k in range(connections)
    ]
    return sorted((p for script in each for p in script), key=lambda p: p.us)


def with_timestamps(script: Iterable[Packet], tick: int) -> list[Packet]:
    """Return the packets with timestamps of their ends (RFC 7323); tick: µs from tick to tick."""
    return [
        replace(p, ts_val=(p.us + (7 + p.user) * HOUR * (1 + p.downlink)) // tick) for p in script
    ]


def back(size: int, *froms: int) -> Callable[[Packet], int]:
    """Return the stamps of a clock that steps back by `size` at each of these times."""
    return lambda packet: packet.us - size * sum(packet.us >= at for at in froms)


@dataclass
class Corrected:
    """The rows of a file after the correction of clock steps, in the order of the file."""

    rows: np.ndarray
    skipped: dict[str, int]

    @property
    def us(self) -> list[int]:
        return (self.rows["ts"] - NOON).tolist()

    @property
    def steps(self) -> list[int]:
        return self.rows["clock_steps"].tolist()

    @property
    def order(self) -> list[int]:
        """The frames by time."""
        return self.rows["frame"][np.lexsort((self.rows["frame"], self.rows["ts"]))].tolist()

    @property
    def keeps_order(self) -> bool:
        return self.order == self.rows["frame"].tolist()


def frames(script: Iterable[Packet], stamp: Callable[[Packet], int] = lambda p: p.us):
    return [Frame(packet.bytes, NOON + stamp(packet)) for packet in script]


def corrected(
    tmp_path: Path, records: Sequence[Frame], write=pcap, batch_packets: int = 1 << 20
) -> Corrected:
    path = tmp_path / "c.pcap"
    path.write_bytes(write(records))
    reading = ReadStats()
    prefixes = subscriber_prefixes([ip_network("10.64.0.0/14")])
    runs = correct_clock_steps(read_capture(path, prefixes, reading, batch_packets), reading)
    return Corrected(np.concatenate([run.rows.copy() for run in runs]), dict(reading.skipped))


def assert_one_step(found: Corrected, script: list[Packet], at: int, size: int) -> None:
    """Assert that the order is kept: packets before the step have their times; those from `at` on
    are early by the time between the last packet before and the first one after, and no more."""
    place = next(i for i, packet in enumerate(script) if packet.us >= at)
    gap = script[place].us - script[place - 1].us
    assert found.us == [p.us - gap * (i >= place) for i, p in enumerate(script)]
    assert found.steps == [int(i >= place) for i in range(len(script))]
    assert found.skipped == {"clock_backwards": 1, "clock_backwards_us": size - gap}
    assert found.keeps_order


@pytest.mark.parametrize("size", [300 * MS, SECOND, 61 * SECOND, HOUR])
@pytest.mark.parametrize("write", [pcap, pcapng])
def test_step_in_one_transfer_keeps_its_order(tmp_path, size, write):
    script = transfer()
    records = frames(script, back(size, 10 * 40 * MS))
    assert_one_step(corrected(tmp_path, records, write), script, 10 * 40 * MS, size)


@pytest.mark.parametrize(
    ("size", "every"),
    [(20 * MS, 5 * MS), (45 * MS, 40 * MS), (300 * MS, 5 * MS), (SECOND, 40 * MS), (HOUR, 40 * MS)],
)
def test_step_among_many_connections_keeps_their_order(tmp_path, size, every):
    script = many(packets=200, every=every)
    records = frames(script, back(size, 900 * MS))
    assert_one_step(corrected(tmp_path, records), script, 900 * MS, size)


def test_small_step_that_no_packet_contradicts_is_left(tmp_path):
    """Packets of a connection are 40 ms apart, the step is of 20: their order stays by itself."""
    script = many()
    found = corrected(tmp_path, frames(script, back(20 * MS, 900 * MS)))
    assert set(found.steps) == {0}
    for user in range(30):
        own = found.rows[[p.user == user + 1 for p in script]]
        assert (np.diff(own["ts"]) > 0).all()


@pytest.mark.parametrize("packet", [1, 2, 3])
def test_step_within_the_handshake_keeps_the_order(tmp_path, packet):
    script = transfer()
    at = script[packet].us
    records = frames(script, back(300 * MS, at))
    assert_one_step(corrected(tmp_path, records), script, at, 300 * MS)


def test_ack_before_its_data_is_a_step_that_neither_direction_alone_shows(tmp_path):
    """Packets of one direction are 80 ms apart, the step is of 60."""
    script = transfer()
    found = corrected(tmp_path, frames(script, back(60 * MS, script[7].us)))
    assert_one_step(found, script, script[7].us, 60 * MS)


def test_data_before_an_ack_of_other_data_is_no_step(tmp_path):
    """The step is at a segment, which needs no ACK to be sent."""
    script = transfer()
    found = corrected(tmp_path, frames(script, back(60 * MS, script[8].us)))
    assert (set(found.steps), found.skipped) == ({0}, {})


@pytest.mark.parametrize("batch_packets", [1, 8, 100, 600])
def test_step_near_the_end_of_a_run_keeps_the_order(tmp_path, batch_packets):
    """The reader hands on runs of at least a walk's frames: here the file is cut into them."""
    script = many()
    records = frames(script, back(300 * MS, 900 * MS))
    path = tmp_path / "c.pcap"
    path.write_bytes(pcap(records))
    prefixes = subscriber_prefixes([ip_network("10.64.0.0/14")])
    reading = ReadStats()

    def cut():
        for run in read_capture(path, prefixes, reading):
            room = np.empty(batch_packets, run.rows.dtype)  # used again, as the reader's is
            for at in range(0, len(run.rows), batch_packets):
                piece = room[: len(run.rows[at : at + batch_packets])]
                piece[:] = run.rows[at : at + batch_packets]
                yield replace(run, rows=piece)

    runs = [run.rows.copy() for run in correct_clock_steps(cut(), reading)]
    found = Corrected(np.concatenate(runs), dict(reading.skipped))
    assert_one_step(found, script, 900 * MS, 300 * MS)


def test_several_steps_add_up(tmp_path):
    script = many()
    ats = (600 * MS, 900 * MS, 1300 * MS)
    found = corrected(tmp_path, frames(script, back(200 * MS, *ats)))
    assert found.steps == [sum(p.us >= at for at in ats) for p in script]
    assert found.skipped["clock_backwards"] == 3
    assert found.keeps_order


def test_steps_beyond_the_range_of_the_column_are_corrected_and_counted(tmp_path):
    script = many(4, 4000, 10 * MS)
    ats = range(SECOND, 31 * SECOND, 100 * MS)
    found = corrected(tmp_path, frames(script, back(50 * MS, *ats)))
    assert found.skipped["clock_backwards"] == len(ats)
    assert found.steps[-1] == MAX_CLOCK_STEPS
    assert found.keeps_order


def test_step_during_a_pause_is_corrected_where_packets_contradict_it(tmp_path):
    """A minute's pause: the clock is set back by half a minute, which no packet contradicts,
    or by two, which packets from before the pause contradict."""
    script = transfer()
    script = script[:10] + [packet.later(60 * SECOND) for packet in script[10:]]
    at = script[10].us
    found = corrected(tmp_path, frames(script, back(30 * SECOND, at)))
    assert (found.skipped, found.keeps_order, found.steps) == ({}, True, [0] * 20)
    assert_one_step(
        corrected(tmp_path, frames(script, back(120 * SECOND, at))), script, at, 120 * SECOND
    )


def test_step_in_a_recovery_keeps_the_order(tmp_path):
    """Of segments 10 to 29 in flight, 10, 13, 16, ... are retransmitted after the step."""
    rows = transfer(packets=4)
    base, up = 2**31 + 1001, 1101
    rows += [Packet(400 * MS + i * MS, True, ACK, base + 1000 * i, up, 1000) for i in range(30)]
    rows += [Packet(450 * MS + i, False, ACK, up, base + 10_000) for i in range(5)]
    holes = range(10, 30, 3)
    rows += [
        Packet(460 * MS + i * MS, True, ACK, base + 1000 * n, up, 1000) for i, n in enumerate(holes)
    ]
    rows += [Packet(500 * MS, False, ACK, up, base + 30_000)]
    rows += [Packet(510 * MS, True, ACK, base + 30_000, up, 1000)]
    found = corrected(tmp_path, frames(rows, back(300 * MS, 460 * MS)))
    assert_one_step(found, rows, 460 * MS, 300 * MS)


def forward(size: int, at: int) -> Callable[[Packet], int]:
    """Return the stamps of a clock that is set forward by `size` at a time."""
    return lambda packet: packet.us + size * (packet.us >= at)


def assert_step_forward(found: Corrected, script: list[Packet], at: int, size: int) -> None:
    """Assert that packets from `at` on count as behind a step, and keep their times."""
    place = next(i for i, packet in enumerate(script) if packet.us >= at)
    gap = script[place].us - script[place - 1].us
    assert found.us == [p.us + size * (i >= place) for i, p in enumerate(script)]
    assert found.steps == [int(i >= place) for i in range(len(script))]
    assert found.skipped == {"clock_forwards": 1, "clock_forwards_us": size + gap}


@pytest.mark.parametrize("size", [200 * MS, SECOND, 61 * SECOND, HOUR])
@pytest.mark.parametrize("tick", [1, MS, 10 * MS])
def test_step_forward_is_found_by_timestamps(tmp_path, size, tick):
    """Two connections, whose ends count time in µs, ms or 10 ms."""
    script = with_timestamps(many(2, every=8 * MS), tick)
    found = corrected(tmp_path, frames(script, forward(size, 200 * MS)))
    assert_step_forward(found, script, 200 * MS, size)


@pytest.mark.parametrize("size", [3 * SECOND, HOUR])
def test_step_forward_is_found_by_timers_that_did_not_expire(tmp_path, size):
    script = many(2)
    at = next(p.us for i, p in enumerate(script) if p.us > 600 * MS and script[i - 1].downlink)
    found = corrected(tmp_path, frames(script, forward(size, at)))
    assert_step_forward(found, script, at, size)


def test_pause_is_no_step_forward(tmp_path):
    """Nothing is sent for a minute; timestamps show it. Without them, nothing waits for an ACK."""
    plain = many(3)
    at = next(i for i, p in enumerate(plain) if p.us > 900 * MS and not plain[i - 1].downlink)
    later = plain[:at] + [p.later(61 * SECOND) for p in plain[at:]]
    for script in (with_timestamps(later, MS), with_timestamps(later, 10 * MS)):
        assert corrected(tmp_path, frames(script)).skipped == {}
    [*alone] = transfer(packets=20)
    idle = alone[:10] + [p.later(61 * SECOND) for p in alone[10:]]
    assert corrected(tmp_path, frames(idle)).skipped == {}


def test_probes_of_a_closed_window_are_no_step_forward(tmp_path):
    """They wait for ever longer, up to a minute, and are not acknowledged."""
    script = transfer()
    at, last = script[-1].us, script[-1]
    for wait in (1, 2, 4, 8, 16):
        at += wait * SECOND
        probe = replace(script[-2], us=at, seq=last.ack, data=1)
        script += [probe, replace(last, us=at + 40 * MS, window=0)]
    script.append(replace(script[-2], us=at + 30 * SECOND, seq=last.ack + 1, data=1000))
    assert corrected(tmp_path, frames(script)).skipped == {}


def test_packets_that_the_network_held_up_are_no_step_forward(tmp_path):
    """A link is down for a second; then what waits before it is sent, with old timestamps."""
    script = with_timestamps(many(3, packets=100), MS)
    held = [
        replace(p, us=max(p.us, 1900 * MS + i)) if p.us > 900 * MS else p
        for i, p in enumerate(script)
    ]
    assert corrected(tmp_path, frames(held)).skipped == {}


def test_retransmissions_after_an_outage_are_no_step_forward(tmp_path):
    """Data is lost, the link is down for 5 s, and the server sends the data once more."""
    script = transfer()
    lost = next(i for i, p in enumerate(script) if i > 8 and p.downlink)
    again = [p.later(5 * SECOND) for p in script[lost:]]
    assert corrected(tmp_path, frames(script[: lost + 1] + again)).skipped == {}


def test_receive_queues_written_in_turn_are_no_step(tmp_path):
    """Each of four queues, by connection, is written for 5 ms at a time."""
    script = many(40, 100, 3 * MS)
    script.sort(key=lambda p: (p.us // (5 * MS), p.user % 4))
    found = corrected(tmp_path, frames(script))
    assert (found.us, found.skipped) == ([p.us for p in script], {})


def test_packets_of_one_connection_over_two_queues_are_no_step(tmp_path):
    """The second packet of two, whichever connection's, is written 10 ms late."""
    script = many(10, 200, 2 * MS)
    delayed = {id(p): 10 * MS * (i % 2) for i, p in enumerate(script)}
    script.sort(key=lambda p: p.us + delayed[id(p)])
    found = corrected(tmp_path, frames(script))
    assert (found.us, found.skipped) == ([p.us for p in script], {})


@pytest.mark.parametrize("skew", [5 * MS, 70 * MS])
def test_two_interfaces_whose_clocks_differ_are_no_step(tmp_path, skew):
    script = many(10, 200, 2 * MS)
    found = corrected(tmp_path, frames(script, lambda p: p.us - skew * p.downlink))
    assert found.skipped == {}
    assert set(found.steps) == {0}


def test_two_links_of_one_connection_whose_clocks_differ_are_no_step(tmp_path):
    script = many(10, 200, 2 * MS)
    links = {id(p): i // 2 % 2 for i, p in enumerate(script)}
    found = corrected(tmp_path, frames(script, lambda p: p.us - 50 * MS * links[id(p)]))
    assert (set(found.steps), found.skipped) == ({0}, {})


@pytest.mark.parametrize("downlink_first", [False, True])
@pytest.mark.parametrize("seconds", [0.3, 30])
def test_concatenated_files_of_either_direction_are_no_step(tmp_path, downlink_first, seconds):
    script = many(30, 40, int(seconds * SECOND) // 40)
    halves = sorted(script, key=lambda p: p.downlink != downlink_first)
    found = corrected(tmp_path, frames(halves))
    assert found.us == [p.us for p in halves]
    assert found.skipped == ({"out_of_order": 1} if seconds > 1 else {})


def test_step_in_the_second_of_two_concatenated_files_is_corrected(tmp_path):
    script = many()
    up = [p for p in script if not p.downlink]
    down = [p for p in script if p.downlink]
    found = corrected(tmp_path, frames(up) + frames(down, back(300 * MS, 900 * MS)))
    assert found.skipped["clock_backwards"] == 1
    assert found.steps == [0] * len(up) + [int(p.us >= 900 * MS) for p in down]


def test_later_file_before_the_earlier_one_is_no_step(tmp_path):
    script = many()
    place = len(script) // 2
    swapped = script[place:] + script[:place]
    found = corrected(tmp_path, frames(swapped))
    assert found.us == [p.us for p in swapped]
    assert found.skipped == {"out_of_order": 1}
    assert found.order == np.roll(np.arange(1, len(script) + 1), place).tolist()


def test_one_packet_stamped_hours_late_moves_no_other(tmp_path):
    script = many()
    late = script[500]
    found = corrected(tmp_path, frames(script, lambda p: p.us + 2 * HOUR * (p is late)))
    assert found.us == [p.us + 2 * HOUR * (p is late) for p in script]
    assert found.skipped == {"out_of_order": 1}


def test_packets_out_of_order_are_kept_and_counted_beyond_a_second(tmp_path):
    """SYNs of one connection, which show no order."""
    [syn] = transfer(packets=1)[:1]
    stamps = [0, HOUR, 0, 10, -HOUR, -HOUR - SECOND]
    found = corrected(tmp_path, [Frame(syn.bytes, NOON + us) for us in stamps])
    assert (found.us, found.skipped) == (stamps, {"out_of_order": 2})


def test_traffic_without_sequence_numbers_shows_no_step(tmp_path):
    script = [Packet(i * MS, True, 0, 0, 0, 100, user=i % 7, udp=True) for i in range(1000)]
    found = corrected(tmp_path, frames(script, back(2 * SECOND, 500 * MS)))
    assert (set(found.steps), found.skipped) == ({0}, {"out_of_order": 1})


def test_step_in_a_zeek_log_is_corrected(tmp_path):
    script = transfer()
    stamp = back(300 * MS, 400 * MS)
    rows = [
        {
            "ts": f"{(NOON + stamp(p)) / 1e6:.6f}",
            "user": "10.64.0.1",
            "user_port": "40000",
            "server": "198.51.100.7",
            "server_port": "80",
            "downlink": "FT"[p.downlink],
            "ip_proto": "6",
            "ip_len": str(40 + p.data),
            "ip_id": "0",
            "ttl": "60",
            "dscp": "0",
            "ecn": "0",
            "tcp_flags": str(p.flags),
            "seq": str(p.seq % 2**32),
            "ack": str(p.ack % 2**32),
            "window": "8192",
            "payload_len": str(p.data),
        }
        for p in script
    ]
    path = tmp_path / "giscope_packets.log"
    path.write_text(log(rows))
    reading = ReadStats()
    prefixes = subscriber_prefixes([ip_network("10.64.0.0/14")])
    runs = correct_clock_steps(read_zeek_log(path, prefixes, reading), reading)
    found = Corrected(np.concatenate([run.rows.copy() for run in runs]), dict(reading.skipped))
    assert_one_step(found, script, 400 * MS, 300 * MS)


def test_disorder_everywhere_takes_bounded_time(tmp_path):
    """Every other packet is 3 ms late, and each by a little more than the one before."""
    script = many(50, 2000, 2 * MS)
    stamps = [p.us - (3 * MS + i // 8) * (i % 2) for i, p in enumerate(script)]
    records = [Frame(p.bytes, NOON + us) for p, us in zip(script, stamps, strict=True)]
    corrected(tmp_path, records[:1000])
    start = time.perf_counter()
    found = corrected(tmp_path, records)
    assert time.perf_counter() - start < 10
    assert set(found.steps) == {0}


def flows_of(warehouse: Warehouse, network: Network, path: Path) -> tuple[list[dict], dict]:
    """Ingest a capture; returns its connections and the counts of skipped packets."""
    mobiles = network.model_copy(update={"subscribers": [Subscribers(prefix="10.64.0.0/14")]})
    result = ingest_capture(warehouse, mobiles, path)
    assert result.error is None
    publish_flows(warehouse, [(mobiles, day) for day in result.dates])
    warehouse.update_views()
    found = ask(warehouse, "from flows order by start_ts").to_arrow_table()
    return found.to_pylist(), result.facts.skipped


def test_reported_capture_is_one_connection_with_all_its_bytes(warehouse, network):
    """tests/data/reports: 12 packets, four segments of 1,400 B, the clock back by 0.3 s (0.24 s
    from one packet to the next); nothing lost."""
    [flow], skipped = flows_of(warehouse, network, REPORTED)
    assert skipped == {"clock_backwards": 1, "clock_backwards_us": 240 * MS}
    assert flow["setup_class"] == "optimal"
    assert flow["setup_delay"] == pytest.approx(0.1)
    assert (flow["payload_bytes_down"], flow["payload_bytes_up"]) == (5600, 100)
    assert flow["acked_unseen_bytes"] == 0
    for name in (
        "lost_access",
        "lost_internet",
        "retransmissions",
        "rto_expiries",
        "throughput",
        "goodput",
    ):
        assert flow[name] is None
    for table in (
        "losses",
        "retransmissions",
        "stalls",
        "rto_values",
        "rtt_samples",
        "channel_rates",
    ):
        assert ask(warehouse, f"select count(*) from {table}").fetchone() == (0,)


def test_packets_without_the_column_clock_steps_have_none(warehouse, network):
    flows_of(warehouse, network, REPORTED)
    [path] = warehouse.files(PACKETS, network.name, date(2023, 11, 14))
    rows = pq.read_table(path).drop_columns("clock_steps")
    pq.write_table(rows, path)
    packets, *_ = read_packets(row_groups(path), Span(0, 2**62, 0, 2**62))
    assert packets.clock_steps.tolist() == [0] * 12


def test_set_up_delay_across_a_step_is_null(warehouse, network, tmp_path):
    path = tmp_path / "c.pcap"
    script = transfer()
    path.write_bytes(pcap(frames(script, back(300 * MS, script[2].us))))
    [flow], skipped = flows_of(warehouse, network, path)
    assert skipped["clock_backwards"] == 1
    assert (flow["setup_class"], flow["payload_bytes_down"]) == ("optimal", 8000)
    for name in ("setup_delay", "rtt_access", "rtt_internet", "setup_background"):
        assert flow[name] is None


def test_connections_without_a_step_are_not_changed_by_one(warehouse, network, tmp_path):
    """One ends before the step, one begins after it: all columns but its times are equal."""
    script = transfer(user=1) + transfer(2 * SECOND, user=2)
    script += transfer(0, 80, user=3)
    script.sort(key=lambda p: p.us)
    found = []
    for name, stamp in (("a", back(0)), ("b", back(300 * MS, 1500 * MS))):
        path = tmp_path / f"{name}.pcap"
        path.write_bytes(pcap(frames(script, stamp)))
        place = Warehouse(tmp_path / name)
        found.append(flows_of(place, network, path)[0])
    plain, stepped = found
    assert [row["lost_access"] for row in plain] == [0, 0, 0]
    assert sorted(str(row["lost_access"]) for row in stepped) == ["0", "0", "None"]
    times = {"flow_id", "start_ts", "end_ts"}
    for one, other in zip(plain, stepped, strict=True):
        if other["lost_access"] is not None:
            assert {k: v for k, v in one.items() if k not in times} == {
                k: v for k, v in other.items() if k not in times
            }
