"""The rows that Zeek gives by the package's script and by its plugin are the built-in reader's, but
for what docs/zeek.md lists."""

import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from conftest import CAPTURES, PUBLIC_CAPTURES, ROOT
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrHopByHop
from scapy.packet import Raw
from scapy.utils import RawPcapReader

from spark_jobs.base.errors import UserError
from spark_jobs.capture.front_end import read_by_zeek, subscribers_script
from spark_jobs.capture.reader import read_capture
from spark_jobs.capture.stream import CaptureStream
from spark_jobs.capture.zeek_log import read_zeek_log
from tests.helpers.capture_files import EVERYONE, NOON, SUBSCRIBERS, Frame, pcap, table_of, timed
from tests.helpers.layers import (
    CARRIERS,
    DATA,
    DATAGRAM,
    EXTENSIONS,
    FRAGMENTS,
    FRAGMENTS6,
    GTP_IN,
    IP_OPTIONS,
    PING,
    SERVER,
    SYN,
    SYN6,
    UP6,
    USER,
    USER6,
    gtp,
)
from tests.helpers.quic_layers import (
    CASES,
    FILLER,
    IDS,
    OTHER_IDS,
    TEXT,
    Ends,
    connection,
    short_header,
)
from tests.helpers.zeek_program import SCRIPTS, SUBSCRIBERS_SCRIPT

SHIPPED = sorted(CAPTURES.glob("*/*.pcap.zst"))
LAB = ROOT.parent / "shared/captures/lab"
ALSO_SHIPPED = ("gprs-aa-peak", "gprs-aa-offpeak", "gprs-bb-peak", "dialup-peak")
FURTHER = [p for p in sorted(LAB.glob("*/gi.pcap*")) if p.parent.name not in ALSO_SHIPPED]
PUBLIC = sorted([*PUBLIC_CAPTURES.glob("*/*.pcapng"), *PUBLIC_CAPTURES.glob("*/*.dmp.gz")])

pytestmark = pytest.mark.usefixtures("zeek_plugin")


def read_by_plugin(path, prefixes, reading, batch_packets):
    """As the built-in reader reads the headers that the plugin writes."""
    folder = path.with_name(f"{path.name}.plugin")
    folder.mkdir()
    (folder / "subscribers.zeek").write_text(subscribers_script(prefixes))
    command = ["zeek", "-b", "-C", "-r", path, SCRIPTS / "bare-headers.zeek", "subscribers.zeek"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise UserError(done.stderr)
    headers = folder / "giscope_packets.pcap"
    if headers.exists():
        yield from read_capture(headers, prefixes, reading, batch_packets)


READERS = {"script": read_by_zeek, "plugin": read_by_plugin}


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest) -> str:
    return request.param


def rows(path: Path, subscribers=SUBSCRIBERS, **options) -> list[tuple]:
    """A packet's columns but for its number, in the file's order; none where it cannot be read."""
    try:
        table, _ = table_of(path, subscribers, **options)
    except UserError:
        return []
    if table is None:
        return []
    columns = table.drop(["capture", "frame", "vlan"])  # Zeek's logs have no VLANs
    return list(zip(*(columns[name].to_pylist() for name in columns.column_names), strict=True))


def captured(folder: Path, *packets: bytes) -> Path:
    """A capture of these packets."""
    path = folder / "a.pcap"
    path.write_bytes(pcap(timed(packets)))
    return path


def plain(path: Path, folder: Path) -> Path:
    """Return the capture uncompressed."""
    unpacked = folder / "plain.pcap"
    with CaptureStream(path) as stream, unpacked.open("wb") as out:
        out.writelines(stream.remaining())
    return unpacked


def differences(path: Path, reader: str, subscribers=SUBSCRIBERS) -> tuple[int, int]:
    """How many rows only the built-in reader gives, and how many only Zeek."""
    ours = Counter(map(str, rows(path, subscribers)))
    theirs = Counter(map(str, rows(path, subscribers, reader=READERS[reader])))
    return (ours - theirs).total(), (theirs - ours).total()


@pytest.mark.parametrize("path", SHIPPED + FURTHER, ids=lambda path: "-".join(path.parts[-2:]))
def test_lab_captures_give_equal_rows(tmp_path, reader, path):
    unpacked = plain(path, tmp_path)
    ours, _ = table_of(unpacked)
    theirs, _ = table_of(unpacked, reader=READERS[reader])
    assert len(ours) > 1000
    assert theirs.equals(ours)


LONGER_THAN_THE_WIRE = {
    "6syns.dmp.gz": 64,
    "fast_reuse.dmp.gz": 404,
    "long_rtt.dmp.gz": 44,
    "tcpudp.dmp.gz": 44,
}
"""Packets that by their IP header are longer than the wire's length in their record."""
FRAGMENTS_ONLY, CUT_IN_THE_HEADER = {"ipfrags.dmp.gz": 10}, {"trunc.dmp.gz": 2}
CUT_IN_THE_OPTIONS = {"bad_ack_code.dmp.gz": 4, "pcap_v2.2.dmp.gz": 4}


@pytest.mark.skipif(not PUBLIC, reason=f"no captures in {PUBLIC_CAPTURES}")
@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.name)
def test_public_captures_give_equal_rows(tmp_path, reader, path):
    without = LONGER_THAN_THE_WIRE | FRAGMENTS_ONLY | CUT_IN_THE_HEADER
    lost = without.get(path.name, 0)
    otherwise = CUT_IN_THE_OPTIONS.get(path.name, 0) if reader == "script" else 0
    found = differences(plain(path, tmp_path), reader, EVERYONE)
    assert found == (lost + otherwise, otherwise)


UP, DOWN = IP(src=USER, dst=SERVER), IP(src=SERVER, dst=USER)
ACK = TCP(sport=1000, dport=80, flags="A")
EQUAL_PACKETS = {
    "data with timestamps and SACK": DATA,
    "IPv6": SYN6,
    "UDP": DATAGRAM,
    "ICMP": PING,
    "ICMPv6": bytes(UP6 / ICMPv6EchoRequest()),
    "ICMP error with a packet in it": bytes(DOWN / ICMP(type=3, code=3) / IP(SYN)),
    "IP options": IP_OPTIONS,
    "wrong checksums": bytes(IP(src=USER, dst=SERVER, chksum=1) / TCP(flags="S", chksum=1)),
    "all flag bits": bytes(UP / TCP(flags=0xFF, reserved=1)),
    "no transport that Zeek knows": bytes(IP(src=USER, dst=SERVER, proto=132) / Raw(bytes(24))),
    "encrypted": bytes(IP(src=USER, dst=SERVER, proto=50) / Raw(bytes(40))),
    "two subscribers": bytes(IP(src="10.64.0.1", dst="10.64.0.2") / ACK),
    "two IPv6 subscribers": bytes(IPv6(src="2001:db8:64::1", dst="2001:db8:64::2") / ACK),
    "GTP-U, IPv6 inside": gtp(SYN6),
    **{f"GTP-U, {name}": packet for name, packet in GTP_IN.items() if name != "twice"},
    **{f"IPv6 header: {name}": bytes(packet) for name, packet in EXTENSIONS.items()},
}
FRAGMENT_HEADER = ("IPv6 header: atomic fragment", "IPv6 header: all in a row")


NOT_READ_BY_ZEEK = (
    "raw, as OpenBSD numbers it",
    "VN-Tag",
    "VN-Tag behind a VLAN",
    "VN-Tag, MPLS",
    "pseudowire",
    "pseudowire with VLAN",
    "Linux cooked, VLAN",
    "NULL, big-endian",
    "LOOP",
    "PPP with compressed protocol",
    "PPP from pppd",
    "PPPoE without Ethernet",
)


RAW = 101
SNAPS = (1500, 96)
TOGETHER: dict[int, dict[object, list[Frame]]] = defaultdict(dict)
"""By link type, the packets of cases that are in one capture, because Zeek takes long to start."""
for kind, packet in EQUAL_PACKETS.items():
    TOGETHER[RAW][kind] = timed([packet])
for kind, seen_packets in CASES.items():
    for snap in SNAPS:
        frames = timed([seen.packet for seen in seen_packets])
        TOGETHER[RAW][kind, snap] = [frame.cut(snap) for frame in frames]
for carrier in CARRIERS:
    TOGETHER[carrier.link_type][carrier] = timed([carrier.frame(SYN)])
APART_US = 60_000_000
"""The time from the beginning of a case to that of the next."""


def of_subscriber(number: int, data: bytes) -> bytes:
    """Return a packet of USER or USER6 with another subscriber's address."""
    for address in map(ip_address, (USER, USER6)):
        other = type(address)(int(address) + 256 * (number + 1))
        data = data.replace(address.packed, other.packed)
    return data


@cache
def rows_by_case(link_type: int, way: Callable) -> dict[object, Counter[str]]:
    """Return the rows of each case in TOGETHER, from one capture.

    The cases are a minute apart, and each is of another subscriber, so that none is part of the
    connection of another.
    """
    cases = TOGETHER[link_type]
    frames = [
        replace(frame, data=of_subscriber(n, frame.data), ts=frame.ts + n * APART_US)
        for n, case in enumerate(cases.values())
        for frame in case
    ]
    found: dict[object, Counter[str]] = {case: Counter() for case in cases}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.pcap"
        path.write_bytes(pcap(frames, link_type))
        try:
            table, _ = table_of(path, reader=way)
        except UserError:  # Zeek does not read this link type at all
            return found
    if table is not None:
        numbers = [(us - NOON) // APART_US for us in table["ts"].cast(pa.int64()).to_pylist()]
        values = table.drop(["capture", "frame", "vlan"]).to_pylist()  # Zeek's logs have no VLAN
        for number, row in zip(numbers, values, strict=True):
            found[[*cases][number]][str(row)] += 1
    return found


def compared(link_type: int, case: object, reader: str) -> tuple[int, int, int]:
    """How many rows the built-in reader gives, how many only it gives, and how many only Zeek."""
    ours = rows_by_case(link_type, read_capture)[case]
    theirs = rows_by_case(link_type, READERS[reader])[case]
    return ours.total(), (ours - theirs).total(), (theirs - ours).total()


@pytest.mark.parametrize("name", [name for name in EQUAL_PACKETS if name not in FRAGMENT_HEADER])
def test_packets_of_all_kinds_give_equal_rows(reader, name):
    assert compared(RAW, name, reader) == (1 + name.startswith("two"), 0, 0)


@pytest.mark.parametrize("carrier", CARRIERS, ids=lambda carrier: carrier.name)
def test_link_types_that_zeek_reads_give_equal_rows(reader, carrier):
    lacks = carrier.name in NOT_READ_BY_ZEEK
    assert compared(carrier.link_type, carrier, reader) == (1, lacks, 0)


def test_clock_step_back_gives_equal_rows(tmp_path, reader):
    path = tmp_path / "a.pcap"
    second = 1_000_000
    path.write_bytes(pcap([Frame(SYN), Frame(DATA, Frame(SYN).ts - 10 * second), Frame(PING)]))
    assert differences(path, reader) == (0, 0)


@pytest.mark.parametrize("name", FRAGMENT_HEADER)
def test_without_its_fragment_header_an_ipv6_packet_is_shorter(tmp_path, reader, name):
    path = captured(tmp_path, EQUAL_PACKETS[name])
    (ours,), (theirs,) = (
        table_of(path, reader=way)[0].select(["ip_len", "seq"]).to_pylist()
        for way in (read_capture, READERS[reader])
    )
    assert theirs == ours | {"ip_len": ours["ip_len"] - 8}


@pytest.mark.parametrize("fragments", [FRAGMENTS, FRAGMENTS6], ids=["IPv4", "IPv6"])
def test_fragments_are_one_packet_when_the_last_has_come(tmp_path, reader, fragments):
    path = captured(tmp_path, *fragments)
    assert len(rows(path)) == 1
    assert differences(path, reader) == (0, 0)


@pytest.mark.parametrize("fragments", [FRAGMENTS[:-1], FRAGMENTS6[:-1]], ids=["IPv4", "IPv6"])
def test_fragments_without_the_last_are_no_packet(tmp_path, reader, fragments):
    path = captured(tmp_path, *fragments)
    assert differences(path, reader) == (len(fragments), 0)


def test_packets_in_tunnels_that_are_not_gtp_are_logged_too(tmp_path, reader):
    """Of a subscriber's own tunnel the built-in reader and the plugin take the outer packet, the
    script the inner one."""
    path = captured(tmp_path, bytes(IP(src="10.64.0.1", dst=SERVER) / IP(SYN)))
    assert [row["user"] for row in table_of(path)[0].to_pylist()] == ["10.64.0.1"]
    table, _ = table_of(path, reader=READERS[reader])
    assert table["user"].to_pylist() == ["10.64.0.1" if reader == "plugin" else USER]


def test_subscribers_packets_in_others_tunnels_are_rows_of_zeek(tmp_path, reader):
    """The built-in reader does not look into them."""
    path = captured(tmp_path, bytes(IP(src="192.0.2.1", dst="192.0.2.2") / IP(SYN)))
    assert rows(path) == []
    assert differences(path, reader) == (0, 1)


def test_unknown_protocol_behind_ipv6_headers_is_0_in_the_script(tmp_path, reader):
    sctp = UP6 / IPv6ExtHdrHopByHop(nh=132) / Raw(bytes(24))
    path = captured(tmp_path, bytes(sctp))
    ours, theirs = (
        table_of(path, reader=way)[0]["ip_proto"].to_pylist()
        for way in (read_capture, READERS[reader])
    )
    assert ours == [132]
    assert theirs == ([0] if reader == "script" else ours)


@pytest.mark.parametrize("words", [4, 15])
def test_invalid_tcp_data_offset_is_read_by_the_script_only(tmp_path, reader, words):
    """Into the fixed header, or behind the packet."""
    path = captured(tmp_path, bytes(UP / TCP(sport=1000, dport=80, flags="A", dataofs=words)))
    ours, theirs = (
        table_of(path, reader=way)[0]["tcp_flags"].to_pylist()
        for way in (read_capture, READERS[reader])
    )
    assert ours == [None]
    assert theirs == ([16] if reader == "script" else ours)


def test_of_two_sack_options_the_script_reads_the_second(tmp_path, reader):
    sacks = [("NOP", None), ("NOP", None), ("SAck", (1, 2)), ("NOP", None), ("NOP", None)]
    tcp = TCP(sport=1000, dport=80, flags="A", options=[*sacks, ("SAck", (3, 4))])
    path = captured(tmp_path, bytes(UP / tcp))
    ours, theirs = (
        table_of(path, reader=way)[0]["sack"].to_pylist() for way in (read_capture, READERS[reader])
    )
    assert ours == [[1, 2]]
    assert theirs == ([[3, 4]] if reader == "script" else ours)


def test_tunnels_without_ip_in_them_are_rows_of_the_plugin_only(tmp_path, reader):
    """GRE of PPTP."""
    pptp = bytes.fromhex("3001880b") + bytes(8)
    path = captured(tmp_path, bytes(IP(src=USER, dst=SERVER, proto=47) / Raw(pptp)))
    assert differences(path, reader) == (reader == "script", 0)


@pytest.mark.parametrize("protocol", [50, 59, 135])
def test_ipv6_packets_without_a_known_protocol_are_no_rows_of_zeek(tmp_path, reader, protocol):
    """Encrypted, with nothing behind the header, of Mobile IPv6."""
    packet = IPv6(src="2001:db8:64::1", dst="2001:db8:ffff::7", nh=protocol) / Raw(bytes(40))
    path = captured(tmp_path, bytes(packet))
    assert len(rows(path)) == 1
    assert differences(path, reader) == (1, 0)


def test_fragments_cut_by_the_snap_length_are_not_joined_by_zeek(tmp_path, reader):
    """Zeek cannot put them together: the first stands alone, the others are none. The built-in
    reader joins them by their headers."""
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([frame.cut(100) for frame in timed(FRAGMENTS)]))
    assert len(rows(path)) == 1
    assert differences(path, reader) == (1, 1)


def test_gtp_in_gtp_is_not_followed(tmp_path, reader):
    path = captured(tmp_path, GTP_IN["twice"])
    assert differences(path, reader) == (1, 0)


@pytest.mark.parametrize("snap", [40, 41, 50, 59, 60])
def test_packets_cut_within_the_options_lose_them_all_in_the_script(tmp_path, reader, snap):
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([Frame(SYN).cut(snap)]))
    columns = ["mss", "window_scale", "sack_permitted", "ts_val", "ts_ecr", "sack"]
    (whole,), (cut,) = (
        table_of(path, reader=way)[0].to_pylist() for way in (read_capture, READERS[reader])
    )
    assert whole["options_cut"] == (True if snap < 60 else None)
    if reader == "script" and snap < 60:
        whole |= dict.fromkeys([*columns, "options_cut"])
    assert cut == whole


@pytest.mark.parametrize("snap", [20, 33, 39])
def test_packets_cut_within_the_transport_header_are_no_row_of_the_script(tmp_path, reader, snap):
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([Frame(SYN).cut(snap)]))
    assert len(rows(path)) == 1
    assert differences(path, reader) == (reader == "script", 0)


@pytest.mark.parametrize("header", ["IP", "TCP"])
def test_wrong_checksums_cost_the_packet_or_the_scripts_options(tmp_path, reader, header):
    """Of the IP header: no packet. Of TCP: the script does not get the options."""
    syn = TCP(flags="S", options=[("MSS", 1360)], chksum=1 if header == "TCP" else None)
    packet = IP(src=USER, dst=SERVER, chksum=1 if header == "IP" else None) / syn
    captured(tmp_path, bytes(packet))
    (tmp_path / "subscribers.zeek").write_text(SUBSCRIBERS_SCRIPT)
    entry, name, way = {
        "script": ("bare.zeek", "giscope_packets.log", read_zeek_log),
        "plugin": ("bare-headers.zeek", "giscope_packets.pcap", read_capture),
    }[reader]
    command = ["zeek", "-b", "-r", "a.pcap", SCRIPTS / entry, "subscribers.zeek"]
    subprocess.run([*command, "ignore_checksums=F"], cwd=tmp_path, check=True)
    assert (tmp_path / name).exists() == (header == "TCP")
    if header == "TCP":
        table, _ = table_of(tmp_path / name, reader=way)
        assert table["mss"].to_pylist() == [1360 if reader == "plugin" else None]


@pytest.mark.parametrize(
    "header",
    [IP(src=USER, dst=SERVER, len=0), IPv6(src="2001:db8:64::1", dst="2001:db8:ffff::7", plen=0)],
    ids=["IPv4", "IPv6"],
)
def test_length_of_segmentation_offload_is_known_to_the_plugin_only(tmp_path, reader, header):
    """IP length 0: the plugin takes the record's, the script has none."""
    path = captured(tmp_path, bytes(header / ACK / bytes(3000)))
    assert differences(path, reader) == ((0, 0) if reader == "plugin" else (1, 1))


def test_no_payload_leaves_the_plugin(tmp_path):
    path = tmp_path / "a.pcap"
    secret = b"what a subscriber reads"
    packets = [UP / ACK / secret, UP / UDP() / secret, DOWN / ICMP() / secret]
    path.write_bytes(pcap(timed([*map(bytes, packets), *FRAGMENTS])))
    assert len(rows(path, reader=read_by_plugin)) == 4
    written = (tmp_path / "a.pcap.plugin/giscope_packets.pcap").read_bytes()
    assert secret in path.read_bytes()
    assert secret not in written


def headers_file(path: Path) -> Path:
    """The capture that the plugin made of a capture."""
    return Path(f"{path}.plugin/giscope_packets.pcap")


@pytest.mark.parametrize("snap", SNAPS)
@pytest.mark.parametrize("name", CASES)
def test_quic_gives_equal_rows(reader, name, snap):
    assert compared(RAW, (name, snap), reader) == (len(CASES[name]), 0, 0)


def test_quic_between_subscribers_gives_equal_rows(tmp_path, reader):
    path = captured(tmp_path, *(seen.packet for seen in connection(ends=Ends(server="10.64.0.9"))))
    assert len(rows(path)) == 2 * len(connection())
    assert differences(path, reader) == (0, 0)


@pytest.mark.parametrize(
    "carrier",
    [carrier for carrier in CARRIERS if carrier.name in ("Ethernet", "VLAN", "Linux cooked")],
    ids=lambda carrier: carrier.name,
)
def test_quic_in_frames_gives_equal_rows(tmp_path, reader, carrier):
    """With four bytes behind the packet, as of a checksum."""
    path = tmp_path / "a.pcap"
    frames = [carrier.frame(seen.packet) + b"\x40" * 4 for seen in connection()]
    path.write_bytes(pcap(timed(frames), carrier.link_type))
    assert differences(path, reader) == (0, 0)


def test_quic_in_gtp_gives_equal_rows(tmp_path, reader):
    path = captured(tmp_path, *(gtp(seen.packet) for seen in connection()))
    assert differences(path, reader) == (0, 0)


def test_quic_in_fragments_is_in_no_row(tmp_path, reader):
    """RFC 9000, 14, does not allow them."""
    first, *others = (seen.packet for seen in connection())
    pieces = [bytes(piece) for piece in fragment(IP(first), fragsize=400)]
    path = captured(tmp_path, *pieces, *others)
    assert table_of(path)[0]["quic_form"].null_count == 1
    assert differences(path, reader) == (0, 0)


PLACES = (24, 25, 28, 33, 34, 42, 43, 51, 52, 53)
"""Of the length of UDP, the first byte, and lengths of connection IDs, token and packet."""


def test_damaged_headers_of_quic_give_equal_rows(tmp_path, reader):
    """Each of 3000 connections has its own port. No packet is cut within the UDP header, as the
    script has no row of it then."""
    chance = random.Random(9000)
    frames = []
    for port in range(10_000, 13_000):
        ends = Ends(user_port=port, server_port=chance.choice([443, 443, 4433]))
        lengths = chance.choice([(8, 8), (4, 20), (0, 5)])
        begun = connection(*(chance.randbytes(length) for length in lengths), ends=ends)
        for seen in chance.sample(begun, 3):
            packet = bytearray(seen.packet)
            for _ in range(chance.randrange(4)):
                at = chance.choice([*PLACES, chance.randrange(28, len(packet))])
                packet[at] = chance.choice([0, 0x40, 0xFF, chance.randrange(256)])
            frames.append(bytes(packet))
    path = tmp_path / "a.pcap"
    cuts = [1500, 1500, 96, *range(28, 80)]
    path.write_bytes(pcap([frame.cut(chance.choice(cuts)) for frame in timed(frames)]))
    forms = Counter(table_of(path)[0]["quic_form"].to_pylist())
    assert min(forms[form] for form in ("initial", "one_rtt", None)) > 100
    assert differences(path, reader) == (0, 0)


def test_no_payload_of_quic_leaves_the_plugin(tmp_path):
    """Nor of what is no QUIC, nor tokens; connection IDs only of the first packet in a datagram."""
    stranger = Ends(server_port=4434)
    others = [stranger.up(TEXT), stranger.up(short_header(b"")), stranger.down(short_header(b""))]
    # What is no QUIC comes first: later, its addresses and ports are those of a known connection.
    cases = sorted(CASES, key=lambda name: not name.startswith("no QUIC"))
    packets = [seen.packet for name in cases for seen in CASES[name]]
    path = captured(tmp_path, *packets, *others)
    rows(path, reader=read_by_plugin)
    kept = [data for data, _ in RawPcapReader(str(headers_file(path)))]
    assert len(kept) == len(packets + others)
    headers = [28 if data[0] >> 4 == 4 else 48 for data in kept]
    assert not any(FILLER in data[end:] for data, end in zip(kept, headers, strict=True))
    assert max(len(data) for data in kept) < 800


def test_no_connection_id_leaves_the_script(tmp_path):
    """Only hashes do."""
    path = captured(tmp_path, *(seen.packet for seen in connection()))
    (tmp_path / "subscribers.zeek").write_text(SUBSCRIBERS_SCRIPT)
    command = ["zeek", "-b", "-C", "-r", path, SCRIPTS / "bare.zeek", "subscribers.zeek"]
    subprocess.run(command, cwd=tmp_path, check=True)
    log = (tmp_path / "giscope_packets.log").read_bytes()
    assert b"one_rtt" in log
    for connection_id in (IDS, OTHER_IDS):
        assert connection_id[:4] not in log
        assert connection_id[:4].hex().encode() not in log.lower()
