"""A packet gives the same row whatever carries it, and however much of it was captured."""

import pytest
from conftest import REPORTS
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III
from scapy.contrib.geneve import GENEVE
from scapy.layers.dot11 import Dot11, RadioTap
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import ESP
from scapy.layers.l2 import ARP, GRE, LLC, SNAP, Ether
from scapy.layers.vxlan import VXLAN

from schemas import TUNNELS
from schemas.packets import QUIC
from tests.helpers.capture_files import Frame, pcap, rows_of, timed
from tests.helpers.layers import (
    BASE_STATION,
    CARRIERS,
    DATA,
    DATAGRAM,
    DOWN,
    EXTENSIONS,
    FRAGMENTS,
    FRAGMENTS6,
    GATEWAY,
    GTP_IN,
    IP_OPTIONS,
    PING,
    SERVER,
    SERVER6,
    SYN,
    SYN6,
    SYN_TCP,
    UP,
    USER,
    USER6,
    Carrier,
    gtp,
)

IDENTITY = ("capture", "frame", "ts", "user_partition", "clock_steps")
TCP_COLUMNS = ("tcp_flags", "seq", "ack", "window", "payload_len")
OPTION_COLUMNS = ("mss", "window_scale", "sack_permitted", "ts_val", "ts_ecr", "sack")

NO_QUIC: dict[str, None] = dict.fromkeys(["address", "vlan", *QUIC])
SYN_ROW = {
    "user": USER,
    "user_port": 40000,
    "server": SERVER,
    "server_port": 80,
    "downlink": False,
    "ip_proto": 6,
    "ip_len": 60,
    "ip_id": 4711,
    "ttl": 63,
    "dscp": 0,
    "ecn": 0,
    "tcp_flags": 2,
    "seq": 0x91223344,
    "ack": 0,
    "window": 5840,
    "payload_len": 0,
    "mss": 1360,
    "window_scale": 7,
    "sack_permitted": True,
    "ts_val": 1000,
    "ts_ecr": 0,
    "sack": None,
    "options_cut": None,
} | NO_QUIC
"""20 bytes of IPv4, 20 of TCP and 20 of options."""

SYN6_ROW = SYN_ROW | {
    "user": USER6,
    "server": SERVER6,
    "ip_len": 80,
    "ip_id": None,
    "ttl": 61,
    "dscp": 0,
    "ecn": 0,
}

DATA_ROW = {
    "user": USER,
    "user_port": 40000,
    "server": SERVER,
    "server_port": 80,
    "downlink": True,
    "ip_proto": 6,
    "ip_len": 1072,
    "ip_id": 815,
    "ttl": 52,
    "dscp": 0,
    "ecn": 0,
    "tcp_flags": 24,
    "seq": 0xFFFFFFF0,
    "ack": 0x91223345,
    "window": 65535,
    "payload_len": 1000,
    "mss": None,
    "window_scale": None,
    "sack_permitted": None,
    "ts_val": 0xFEDCBA98,
    "ts_ecr": 1000,
    "sack": [0x91223400, 0x91223500, 0x91223600, 0x91223700],
    "options_cut": None,
} | NO_QUIC
"""20 bytes of IPv4, 20 of TCP, 32 of options: timestamps (10), two SACK blocks (18), 4 NOPs."""

NO_TCP = dict.fromkeys((*TCP_COLUMNS, *OPTION_COLUMNS))


@pytest.fixture
def read(tmp_path):
    """Rows, without what identifies them, of frames of a link type."""

    def read(*frames: Frame | bytes, link_type: int = 101, **kwargs):
        path = tmp_path / "packets.pcap"
        whole = [frame if isinstance(frame, Frame) else Frame(frame) for frame in frames]
        path.write_bytes(pcap(whole, link_type))
        found = rows_of(path, **kwargs)
        found.rows = [{k: v for k, v in row.items() if k not in IDENTITY} for row in found.rows]
        return found

    return read


def named(carrier: Carrier) -> str:
    return carrier.name


@pytest.mark.parametrize("carrier", CARRIERS, ids=named)
def test_a_packet_gives_the_same_row_in_every_carrier(read, carrier):
    found = read(carrier.frame(SYN), carrier.frame(DATA), link_type=carrier.link_type)
    in_vlan = {"vlan": carrier.vlan}
    assert found.rows == [SYN_ROW | in_vlan, DATA_ROW | in_vlan]
    assert found.skipped == {}


@pytest.mark.parametrize(
    ("link_type", "before"),
    [
        (101, ""),
        (229, ""),
        (1, "00005e00530200005e00530186dd"),
        (0, "1e000000"),
        (0, "0000001c"),
        (108, "00000018"),
        (0, "0a000000"),
        (9, "0057"),
        (9, "ff030057"),
        (113, "00000001000600005e005301000086dd"),
    ],
)
def test_ipv6_is_found_behind_its_own_protocol_numbers(read, link_type, before):
    assert read(bytes.fromhex(before) + SYN6, link_type=link_type).rows == [SYN6_ROW]


@pytest.mark.parametrize("carrier", CARRIERS, ids=named)
def test_every_snap_length_from_the_tcp_header_on_loses_nothing_but_options(read, carrier):
    whole = Frame(carrier.frame(DATA))
    headers = len(carrier.before) + 20 + 20
    snaps = [*range(headers, headers + 32 + 3), len(whole.data) - 1, len(whole.data)]
    found = read(*(whole.cut(snap) for snap in snaps), link_type=carrier.link_type)
    assert found.skipped == {"options_cut": 32}
    for snap, row in zip(snaps, found.rows, strict=True):
        cut = set() if snap >= headers + 32 else {*OPTION_COLUMNS, "options_cut"}
        assert row["options_cut"] == (True if cut else None)
        assert {k: v for k, v in row.items() if k not in cut} == {
            k: v for k, v in (DATA_ROW | {"vlan": carrier.vlan}).items() if k not in cut
        }


def test_an_option_that_was_captured_whole_is_kept_though_the_next_is_cut(read):
    timestamps_end = 20 + 20 + 12
    row = read(Frame(DATA).cut(timestamps_end + 7)).rows[0]
    assert (row["ts_val"], row["ts_ecr"], row["sack"]) == (0xFEDCBA98, 1000, None)
    assert row["options_cut"]


@pytest.mark.parametrize("captured", [20, 21, 22, 23, 24, 31, 32])
def test_options_that_ended_before_the_cut_are_not_cut(read, captured):
    """Bytes of TCP: two NOPs, the end of the options as the 23rd byte, padding to 32 bytes."""
    tcp = TCP(sport=40000, dport=80, flags="A", dataofs=8)
    options = bytes.fromhex("0101 00 000000000000000000")
    found = read(Frame(bytes(UP / tcp / (options + bytes(10)))).cut(20 + captured))
    cut = captured < 23
    assert found.rows[0]["options_cut"] == (True if cut else None)
    assert found.skipped == ({"options_cut": 1} if cut else {})


def test_a_cut_within_the_padding_counts_as_cut_options(read):
    """NOPs pad the timestamps; another option may have stood there."""
    tcp = TCP(sport=40000, dport=80, flags="A", options=[("Timestamp", (1, 2)), ("NOP", None)])
    packet = bytes(UP / tcp)
    row = read(Frame(packet).cut(20 + 20 + 10)).rows[0]
    assert (row["ts_val"], row["options_cut"]) == (1, True)


def test_a_header_without_options_is_never_cut(read):
    packet = bytes(UP / TCP(sport=40000, dport=80, flags="A") / bytes(100))
    found = read(Frame(packet).cut(40))
    assert (found.rows[0]["options_cut"], found.skipped) == (None, {})


def test_options_cut_by_a_snap_length_of_54_bytes_are_reported():
    """The same packets as in the other file, where all was captured."""
    cut, whole = (rows_of(REPORTS / f"min_snap_{name}.pcap") for name in ("54", "full"))
    headers = {"options_cut", *OPTION_COLUMNS}
    with_options = [any(row[name] for name in OPTION_COLUMNS) for row in whole.rows]
    assert [bool(row["options_cut"]) for row in cut.rows] == with_options
    assert cut.skipped == {"options_cut": sum(with_options)}
    assert any(with_options)
    assert whole.skipped == {}
    for one, other in zip(cut.rows, whole.rows, strict=True):
        assert all(one[name] == other[name] for name in one if name not in {*headers, "capture"})


def test_vn_tagged_packets_are_read():
    """A VN-Tag, then a VLAN tag, then IPv4, in each of the frames."""
    found = rows_of(REPORTS / "tag_vntag.pcap")
    assert len(found.rows) == found.frames > 10
    assert found.skipped == {}


@pytest.mark.parametrize("carrier", [c for c in CARRIERS if c.link_type == 1], ids=named)
def test_a_frame_cut_within_its_tags_is_counted(read, carrier):
    tags = len(carrier.before)
    found = read(*(Frame(carrier.before).cut(n) for n in range(1, tags)), link_type=1)
    assert found.skipped == {"short_capture": tags - 1}


@pytest.mark.parametrize("carrier", CARRIERS, ids=named)
def test_a_capture_cut_before_the_tcp_header_ends_is_counted(read, carrier):
    whole = Frame(carrier.frame(DATA))
    link = len(carrier.before)
    in_tcp = [whole.cut(snap) for snap in range(link + 20, link + 40)]
    found = read(*in_tcp, link_type=carrier.link_type)
    assert found.skipped == {"short_tcp": 20}
    ports = {(row["user_port"], row["server_port"]) for row in found.rows[4:]}
    assert ports == {(40000, 80)}
    for row in found.rows:
        row |= {"user_port": 40000, "server_port": 80}
        assert row == DATA_ROW | NO_TCP | {"vlan": carrier.vlan}


@pytest.mark.parametrize("carrier", CARRIERS, ids=named)
def test_a_capture_cut_before_the_ip_header_ends_is_counted_without_a_row(read, carrier):
    whole = Frame(carrier.frame(DATA))
    snaps = range(1, len(carrier.before) + 20)
    found = read(*(whole.cut(snap) for snap in snaps), link_type=carrier.link_type)
    assert found.rows == []
    assert found.skipped == {"short_capture": len(snaps)}


def test_sizes_come_from_the_ip_header_not_from_ethernet_padding(read):
    padded = bytes(Ether() / UP / TCP(sport=40000, dport=80, flags="A")) + bytes(6)
    row = read(padded, link_type=1).rows[0]
    assert (row["ip_len"], row["payload_len"]) == (40, 0)


def test_a_packet_for_segmentation_offload_has_the_length_on_the_wire(read):
    header = bytearray(DATA)
    header[2:4] = b"\0\0"
    frame = Frame(bytes(14 - 2) + b"\x08\x00" + bytes(header[:72]), on_wire=14 + 72 + 65_000)
    row = read(frame, link_type=1).rows[0]
    assert (row["ip_len"], row["payload_len"]) == (65_072, 65_000)


def test_ip_options_are_passed_over(read):
    assert read(IP_OPTIONS).rows == [SYN_ROW | {"ip_len": 64}]


def test_fragments_are_one_packet(read):
    found = read(*FRAGMENTS)
    assert found.rows == [DATA_ROW]
    assert found.skipped == {"fragments_joined": 2}


@pytest.mark.parametrize("name", EXTENSIONS)
def test_ipv6_extension_headers_are_passed_over(read, name):
    packet = EXTENSIONS[name]
    assert read(bytes(packet)).rows == [SYN6_ROW | {"ip_len": 40 + len(packet.payload)}]


def test_ipv6_fragments_are_one_packet(read):
    """80 bytes with the TCP header of 40, and 48; the fragment header is no part of the packet."""
    found = read(*FRAGMENTS6)
    assert found.rows == [SYN6_ROW | {"ip_len": 40 + 80 + 48, "payload_len": 80 + 48 - 40}]
    assert found.skipped == {"fragments_joined": 1}


@pytest.mark.parametrize("name", GTP_IN)
def test_a_tunnelled_packet_is_its_inner_packet(read, name):
    assert read(GTP_IN[name]).rows == [SYN_ROW]


def test_ipv6_is_found_in_a_tunnel(read):
    assert read(gtp(SYN6), gtp(SYN6, S=1, PN=1)).rows == [SYN6_ROW, SYN6_ROW]


def test_every_snap_length_from_the_inner_tcp_header_on_gives_the_same_row(read):
    tunnelled = Frame(gtp(DATA))
    headers = 20 + 8 + 8 + 20 + 20
    found = read(*(tunnelled.cut(snap) for snap in range(headers + 32, headers + 40)))
    assert found.rows == [DATA_ROW] * 8


def test_tunnel_signalling_is_a_udp_packet_of_its_two_ends(read):
    echo = bytes(IP(src=GATEWAY, dst=BASE_STATION) / UDP(sport=2152, dport=2152)) + bytes.fromhex(
        "320100040000000000000000"
    )
    assert read(echo).skipped == {"not_subscriber": 1}
    row = read(echo, subscribers=["192.0.2.1/32"]).rows[0]
    assert (row["user"], row["user_port"], row["ip_proto"]) == (GATEWAY, 2152, 17)


def test_other_protocols_are_rows_without_tcp_columns(read):
    udp, ping = read(DATAGRAM, PING).rows
    common = SYN_ROW | NO_TCP
    assert udp == common | {"ip_proto": 17, "ip_len": 40, "user_port": 5000, "server_port": 53}
    assert ping == common | {"ip_proto": 1, "ip_len": 84, "user_port": None, "server_port": None}


def test_four_sack_blocks_are_kept_in_their_order(read):
    edges = tuple(range(100, 900, 100))
    tcp = TCP(sport=40000, dport=80, flags="A", options=[("SAck", edges)])
    rows = read(bytes(UP / tcp), SYN, bytes(UP / tcp)).rows
    assert [row["sack"] for row in rows] == [list(edges), None, list(edges)]


def test_all_twelve_flag_bits_are_kept(read):
    packet = bytearray(SYN)
    packet[32:34] = b"\xaf\xff"
    assert read(bytes(packet)).rows[0]["tcp_flags"] == 0xFFF


def test_a_packet_between_subscribers_is_ones_uplink_and_the_others_downlink(read):
    up, down = read(SYN, subscribers=["10.64.0.0/14", "198.51.100.0/24"]).rows
    assert up == SYN_ROW
    assert down == SYN_ROW | {
        "downlink": True,
        "user": SERVER,
        "user_port": 80,
        "server": USER,
        "server_port": 40000,
    }


def test_a_packet_without_a_subscriber_is_counted(read):
    stranger = bytes(IP(src=SERVER, dst="203.0.113.9") / SYN_TCP)
    found = read(SYN, stranger, bytes(DOWN / TCP()))
    assert (found.frames, len(found.rows)) == (3, 2)
    assert found.skipped == {"not_subscriber": 1}


@pytest.mark.parametrize(
    ("address", "inside"),
    [("10.63.255.255", False), ("10.64.0.0", True), ("10.67.255.255", True), ("10.68.0.0", False)],
)
def test_subscribers_are_those_in_the_prefixes(read, address, inside):
    assert len(read(bytes(IP(src=address, dst=SERVER) / TCP())).rows) == inside


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("2001:db8:63:ffff::1", False),
        ("2001:db8:64::", True),
        ("2001:db8:64:ffff:ffff:ffff:ffff:ffff", True),
        ("2001:db8:65::", False),
    ],
)
def test_ipv6_subscribers_are_those_in_the_prefixes(read, address, inside):
    assert len(read(bytes(IPv6(src=address, dst=SERVER6) / TCP())).rows) == inside


@pytest.mark.parametrize(
    ("frame", "link_type"),
    [
        (bytes(Ether() / ARP()), 1),
        (bytes.fromhex("0180c200000e00005e00530188cc") + bytes(46), 1),
        (bytes.fromhex("ff03c021") + bytes(8), 9),
        (bytes.fromhex("00005e00530200005e005301886411000003000ac021") + bytes(8), 1),
        (bytes.fromhex("07000000") + bytes(40), 0),
    ],
    ids=["ARP", "LLDP", "LCP", "LCP in PPPoE", "AppleTalk on loopback"],
)
def test_what_is_not_ip_is_counted_as_such(read, frame, link_type):
    assert read(frame, link_type=link_type).skipped == {"not_ip": 1}


def test_an_unknown_link_type_is_counted_as_such(read):
    found = read(SYN, DATA, link_type=147)
    assert (found.rows, found.skipped) == ([], {"unknown_link_type": 2})


def test_frames_keep_their_time_and_number(tmp_path):
    path = tmp_path / "times.pcap"
    frames = timed([SYN, DATA, SYN])
    path.write_bytes(pcap(frames))
    found = rows_of(path)
    assert found.numbers == [1, 2, 3]
    assert [round(row["ts"].timestamp() * 1e6) for row in found.rows] == [f.ts for f in frames]


TUNNELLED = {
    "IP in IP": (IP(src=USER, dst=SERVER, proto=4) / SYN, 4),
    "6in4": (IP(src=USER, dst=SERVER, proto=41) / SYN6, 41),
    "GRE": (IP(src=USER, dst=SERVER) / GRE() / SYN, 47),
}


@pytest.mark.parametrize(("packet", "protocol"), TUNNELLED.values(), ids=TUNNELLED)
def test_tunnels_that_are_not_decapsulated_are_other_traffic_of_the_outer_address(
    read, packet, protocol
):
    (row,) = read(bytes(packet)).rows
    assert (row["user"], row["server"], row["ip_proto"]) == (USER, SERVER, protocol)
    assert (row["tcp_flags"], row["user_port"]) == (None, None)
    assert protocol in TUNNELS


OUTER, OUTER6 = IP(src=GATEWAY, dst=BASE_STATION), IPv6(src="2001:db8::1", dst="2001:db8::2")
NOT_OPENED = {
    "tunnel_ip_in_ip": [
        IP(bytes(OUTER / IP(SYN))),
        OUTER / IPv6(SYN6),
        OUTER6 / IP(SYN),
        OUTER6 / IPv6(SYN6),
    ],
    "tunnel_gre": [OUTER / GRE() / IP(SYN), OUTER6 / GRE() / IP(SYN), OUTER / GRE() / Ether()],
    "tunnel_erspan": [
        OUTER / GRE(proto=0x88BE, seqnum_present=1) / ERSPAN_II() / Ether() / IP(SYN),
        OUTER / GRE(proto=0x22EB, seqnum_present=1) / ERSPAN_III() / Ether() / IP(SYN),
    ],
    "tunnel_esp": [OUTER / ESP(spi=1, seq=1, data=bytes(60))],
    "tunnel_l2tp": [IP(src=GATEWAY, dst=BASE_STATION, proto=115) / bytes(60)],
    "tunnel_vxlan": [OUTER / UDP(sport=50_000, dport=4789) / VXLAN(vni=1) / Ether() / IP(SYN)],
    "tunnel_geneve": [OUTER6 / UDP(sport=50_000) / GENEVE(vni=1) / Ether() / IP(SYN)],
}


@pytest.mark.parametrize("reason", NOT_OPENED)
def test_tunnels_between_others_are_counted_by_kind(read, reason):
    packets = [bytes(packet) for packet in NOT_OPENED[reason]]
    found = read(*packets, *map(gtp, packets), SYN)
    assert found.rows == [SYN_ROW]
    assert found.skipped == {reason: 2 * len(packets)}


@pytest.mark.parametrize("reason", NOT_OPENED)
def test_tunnels_between_others_are_recognized_by_their_first_bytes(read, reason):
    (packet, *_) = (bytes(packet) for packet in NOT_OPENED[reason])
    above = 40 if packet[0] >> 4 == 6 else 20
    assert read(Frame(packet).cut(above + 4)).skipped == {reason: 1}


def test_every_protocol_of_a_tunnel_has_its_reason(read):
    others = [bytes(IP(src=GATEWAY, dst=BASE_STATION, proto=p) / bytes(40)) for p in TUNNELS]
    assert "not_subscriber" not in read(*others).skipped


def test_a_tunnels_port_is_ordinary_at_a_subscriber_or_as_the_source_port(read):
    mine = bytes(IP(src=USER, dst=SERVER) / UDP(sport=50_000, dport=4789) / bytes(8))
    theirs = bytes(OUTER / UDP(sport=4789, dport=53) / bytes(8))
    found = read(mine, theirs)
    assert [row["server_port"] for row in found.rows] == [4789]
    assert found.skipped == {"not_subscriber": 1}


@pytest.mark.parametrize("link_type", [105, 119, 127, 163])
def test_wifi_is_counted_as_such(read, link_type):
    station = Dot11(type=2, FCfield=1) / LLC() / SNAP() / IP(SYN)
    frame = bytes(RadioTap() / station if link_type == 127 else station)
    assert read(frame, link_type=link_type).skipped == {"wifi": 1}


def test_any_other_link_type_is_unknown(read):
    assert read(SYN, link_type=147).skipped == {"unknown_link_type": 1}
