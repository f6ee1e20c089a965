"""Each packet's fields agree with `tshark -T fields`, on the lab's captures, on public ones and on
one made of every layer."""

import shutil
import subprocess
from pathlib import Path

import pytest
import zstandard
from conftest import CAPTURES, PUBLIC_CAPTURES

from tests.helpers.capture_files import EVERYONE, rows_of
from tests.helpers.layers import CARRIERS, every_layer

LAB = sorted(CAPTURES.glob("*/*.pcap.zst"))
PUBLIC = sorted([*PUBLIC_CAPTURES.glob("*/*.pcapng"), *PUBLIC_CAPTURES.glob("*/*.dmp.gz")])
LAB_BYTES = 500_000
"""Of each lab capture: about 5000 packets, and the last is cut."""

WRONG_WIRE_LENGTH = {
    "6syns.dmp.gz": 32,
    "fast_reuse.dmp.gz": 202,
    "long_rtt.dmp.gz": 22,
    "tcpudp.dmp.gz": 2,
}
"""Packets whose record gives the captured length as the length on the wire, although their IP
header gives more. tshark takes tcp.len from the record, giscope from the IP header."""

UNKNOWN_TO_TSHARK = [i for i, carrier in enumerate(CARRIERS, 1) if carrier.name == "PPP from pppd"]
"""Frames of the link type 166, which tshark 4.0 does not know."""

FIELDS = {
    "ip_proto": "ip.proto",
    "ip_len": "ip.len",
    "ip_id": "ip.id",
    "ttl": "ip.ttl",
    "user": "ip.src",
    "server": "ip.dst",
    "tcp_flags": "tcp.flags",
    "seq": "tcp.seq_raw",
    "ack": "tcp.ack_raw",
    "window": "tcp.window_size_value",
    "payload_len": "tcp.len",
    "mss": "tcp.options.mss_val",
    "window_scale": "tcp.options.wscale.shift",
    "ts_val": "tcp.options.timestamp.tsval",
    "ts_ecr": "tcp.options.timestamp.tsecr",
}
"""Columns of packets (user: the source, server: the destination), and tshark's names for them."""

NEXT_HEADER = {
    0: "ipv6.hopopts.nxt",
    43: "ipv6.routing.nxt",
    44: "ipv6.fraghdr.nxt",
    51: "ah.next_header",
    60: "ipv6.dstopts.nxt",
}
"""IPv6 extension headers, and where tshark keeps what follows them."""

OF_A_FRAGMENT = ("user", "server", "ip_proto", "ip_len", "ip_id", "ttl", "us", "frame")
"""Columns that tshark has for a fragment whose datagram it has not put together."""

OTHER_FIELDS = (
    "frame.number",
    "frame.time_epoch",
    "frame.len",
    "frame.cap_len",
    "frame.protocols",
    *NEXT_HEADER.values(),
    "ip.hdr_len",
    "tcp.hdr_len",
    "ip.flags.mf",
    "ip.frag_offset",
    "ip.reassembled.length",
    "ipv6.fraghdr.more",
    "ipv6.fraghdr.offset",
    "ipv6.reassembled.length",
    "ipv6.plen",
    "ipv6.hlim",
    "ipv6.src",
    "ipv6.dst",
    "ipv6.nxt",
    "tcp.srcport",
    "udp.srcport",
    "tcp.dstport",
    "udp.dstport",
    "tcp.options.sack_perm",
    "tcp.options.sack_le",
    "tcp.options.sack_re",
)

SEVERAL = ("tcp.options.sack_le", "tcp.options.sack_re", "ipv6.dstopts.nxt")
"""Fields that one packet may have more than once."""

SETTINGS = (
    "ip.defragment:TRUE",
    "ipv6.defragment:TRUE",
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.relative_sequence_numbers:FALSE",
)

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")


def tshark(path: Path, innermost: bool) -> list[dict]:
    """The fields of each packet; innermost: of the last IP header where there are several, in
    tunnels, or of the first, in ICMP errors."""
    names = [*FIELDS.values(), *OTHER_FIELDS]
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "occurrence=a"]
    command += [word for name in names for word in ("-e", name)]
    command += [word for setting in SETTINGS for word in ("-o", setting)]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    packets = []
    for line in lines:
        every = {
            name: values.split(",") if values else []
            for name, values in zip(names, line.split("\t"), strict=True)
        }
        layers = "".join(every["frame.protocols"]).split(":")
        every["version"] = [name for name in layers if name in ("ip", "ipv6")]
        pick = -1 if innermost else 0
        one = {name: values[pick] if values else "" for name, values in every.items()}
        packets.append(one | {name: every[name] for name in SEVERAL})
    return packets


def number(text: str) -> int | None:
    return int(text, 0) if text else None


def protocol_above(packet: dict) -> str:
    """Return the protocol that follows IPv6 and its extension headers."""
    protocol, destination_options = packet["ipv6.nxt"], iter(packet["ipv6.dstopts.nxt"])
    while following := packet.get(NEXT_HEADER.get(int(protocol))):
        protocol = next(destination_options) if protocol == "60" else following
    return protocol


def joined_length(packet: dict) -> int:
    """Bytes above IP, and above IPv6's fragment header, of a datagram that this packet completed;
    0: it completed none."""
    return int(packet["ip.reassembled.length"] or packet["ipv6.reassembled.length"] or 0)


def is_part_of_another(packet: dict) -> bool:
    """Whether it is a fragment that completed no datagram: of another packet, or of none."""
    names = ("ip.flags.mf", "ip.frag_offset", "ipv6.fraghdr.more", "ipv6.fraghdr.offset")
    is_fragment = any(packet[name] not in ("", "0", "False") for name in names)
    return is_fragment and not joined_length(packet)


def as_row(packet: dict) -> dict:
    """Return tshark's fields of a packet under the columns' names."""
    texts = {column: packet[name] for column, name in FIELDS.items()}
    if packet["version"] == "ipv6":
        texts |= {
            "user": packet["ipv6.src"],
            "server": packet["ipv6.dst"],
            "ttl": packet["ipv6.hlim"],
            "ip_len": str(40 + int(packet["ipv6.plen"])),
            "ip_proto": protocol_above(packet),
            "ip_id": "",
        }
    if length := joined_length(packet):
        texts["ip_len"] = str(length + (40 if packet["version"] == "ipv6" else 20))
    ends = {name: texts.pop(name) for name in ("user", "server")}
    edges = zip(packet["tcp.options.sack_le"], packet["tcp.options.sack_re"], strict=True)
    seconds, fraction = packet["frame.time_epoch"].split(".")
    return {
        **ends,
        **{column: number(text) for column, text in texts.items()},
        "user_port": number(packet["tcp.srcport"] or packet["udp.srcport"]),
        "server_port": number(packet["tcp.dstport"] or packet["udp.dstport"]),
        "sack_permitted": True if packet["tcp.options.sack_perm"] else None,
        "sack": [int(edge) for block in edges for edge in block] or None,
        "us": int(seconds) * 1_000_000 + int(fraction[:6]),
        "frame": int(packet["frame.number"]),
    }


def has_wrong_wire_length(packet: dict, mine: dict) -> bool:
    """Whether the record gives all as captured, and our payload is that of the IP header."""
    whole, *headers = (int(packet[f] or 0) for f in ("ip.len", "ip.hdr_len", "tcp.hdr_len"))
    captured_whole = packet["frame.len"] == packet["frame.cap_len"]
    return captured_whole and mine["payload_len"] == whole - sum(headers)


def disagreements(path: Path, innermost: bool = False) -> dict[str, list]:
    """Return (frame, tshark's value, ours) for each column in which the two differ, and the frames
    of which only one made a row."""
    found: dict[str, list] = {}
    ours = {
        row["frame"]: row | {"us": round(row["ts"].timestamp() * 1e6)}
        for row in rows_of(path, EVERYONE).rows
        if not row["downlink"]
    }
    for packet in tshark(path, innermost):
        theirs = as_row(packet)
        mine = ours.pop(theirs["frame"], None)
        if is_part_of_another(packet):
            if not mine:
                continue
            theirs = {name: theirs[name] for name in OF_A_FRAGMENT}
        if mine is None or not theirs["user"]:
            if mine or theirs["user"]:
                name = "only ours" if mine else "only tshark's"
                found.setdefault(name, []).append(theirs["frame"])
            continue
        for column, value in theirs.items():
            if mine[column] == value:
                continue
            reason = column
            if column == "payload_len" and has_wrong_wire_length(packet, mine):
                reason = "wrong wire length"
            found.setdefault(reason, []).append((theirs["frame"], value, mine[column]))
    assert not ours, "frames that tshark does not list"
    return found


@pytest.mark.skipif(not PUBLIC, reason=f"no captures in {PUBLIC_CAPTURES}")
@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.name)
def test_public_captures_agree_packet_by_packet(path):
    found = disagreements(path)
    assert len(found.pop("wrong wire length", [])) == WRONG_WIRE_LENGTH.get(path.name, 0)
    assert found == {}


@pytest.mark.parametrize("path", LAB, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_lab_captures_agree_packet_by_packet(path, tmp_path):
    head = tmp_path / "head.pcap"
    with path.open("rb") as source:
        head.write_bytes(zstandard.ZstdDecompressor().stream_reader(source).read(LAB_BYTES))
    assert disagreements(head) == {}


def test_every_layer_and_tunnel_agrees(tmp_path):
    path = tmp_path / "layers.pcapng"
    path.write_bytes(every_layer())
    found = disagreements(path, innermost=True)
    assert found.pop("only ours") == UNKNOWN_TO_TSHARK
    assert found == {}
