"""Packets of one subscriber, and every way in which a frame may carry them, built with scapy."""

from dataclasses import dataclass

from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
from scapy.contrib.mpls import MPLS, EoMCW
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_Router_Alert, fragment
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import (
    LLC,
    SNAP,
    CookedLinux,
    CookedLinuxV2,
    Dot1AD,
    Dot1Q,
    Dot3,
    Ether,
)
from scapy.layers.ppp import PPP, PPPoE

from tests.helpers.capture_files import Frame, enhanced, interface, section

USER, SERVER = "10.64.1.2", "198.51.100.7"
USER6, SERVER6 = "2001:db8:64::1:2", "2001:db8:ffff::7"
GATEWAY, BASE_STATION = "192.0.2.1", "192.0.2.2"
MACS = {"src": "00:00:5e:00:53:01", "dst": "00:00:5e:00:53:02"}

SYN_OPTIONS = [
    ("MSS", 1360),
    ("SAckOK", b""),
    ("Timestamp", (1000, 0)),
    ("NOP", None),
    ("WScale", 7),
]
SYN_TCP = TCP(
    sport=40000, dport=80, flags="S", seq=0x91223344, ack=0, window=5840, options=SYN_OPTIONS
)
UP = IP(src=USER, dst=SERVER, id=4711, ttl=63)
DOWN = IP(src=SERVER, dst=USER, id=815, ttl=52)
UP6 = IPv6(src=USER6, dst=SERVER6, hlim=61)
SYN, SYN6 = bytes(UP / SYN_TCP), bytes(UP6 / SYN_TCP)

DATA_TCP = TCP(
    sport=80,
    dport=40000,
    flags="PA",
    seq=0xFFFFFFF0,
    ack=0x91223345,
    window=65535,
    options=[
        ("NOP", None),
        ("NOP", None),
        ("Timestamp", (0xFEDCBA98, 1000)),
        ("NOP", None),
        ("NOP", None),
        ("SAck", (0x91223400, 0x91223500, 0x91223600, 0x91223700)),
    ],
)
DATA = bytes(DOWN / DATA_TCP / bytes(1000))


@dataclass(frozen=True)
class Carrier:
    """What stands before an IPv4 packet in a frame of a link type."""

    name: str
    link_type: int
    before: bytes
    vlan: int | None = None

    def frame(self, ip: bytes) -> bytes:
        return self.before + ip


def _ether(*layers) -> bytes:
    """Ethernet and more, up to the IP header."""
    stack = Ether(**MACS)
    for layer in layers:
        stack /= layer
    return bytes(stack / UP)[: -len(UP)]


def _label(bottom: int) -> MPLS:
    return MPLS(label=1000 + bottom, s=bottom, ttl=9)


ADDRESSES = bytes.fromhex("00005e005302 00005e005301")
VLAN, B_TAG = bytes.fromhex("8100 0007"), bytes.fromhex("88a8 0002")
VN_TAG = bytes.fromhex("8926 00640000")
"""Its Ethertype; direction, pointer, destination, looped, version, source."""
I_TAG = bytes.fromhex("88e7 00000539") + ADDRESSES
"""Its Ethertype; priority and service 1337; the customer's addresses (802.1Q, 9.7)."""


def _tagged(*tags: bytes, then: int = 0x0800) -> bytes:
    """Ethernet with tags byte by byte, and the Ethertype behind them."""
    return ADDRESSES + b"".join(tags) + then.to_bytes(2, "big")


FDDI_HEADER = b"\x50" + bytes.fromhex("00005e005302") + bytes.fromhex("00005e005301")

CARRIERS = [
    Carrier("raw", 101, b""),
    Carrier("raw, as some BSDs number it", 12, b""),
    Carrier("raw, as OpenBSD numbers it", 14, b""),
    Carrier("raw IPv4", 228, b""),
    Carrier("Ethernet", 1, _ether()),
    Carrier("VLAN", 1, _ether(Dot1Q(vlan=7)), vlan=7),
    Carrier("QinQ", 1, _ether(Dot1AD(vlan=2), Dot1Q(vlan=7)), vlan=2 * 4096 + 7),
    Carrier(
        "three VLAN tags", 1, _ether(Dot1Q(vlan=2), Dot1Q(vlan=3), Dot1Q(vlan=4)), vlan=3 * 4096 + 4
    ),
    Carrier("VN-Tag", 1, _tagged(VN_TAG)),
    Carrier("VN-Tag before a VLAN", 1, _tagged(VN_TAG, VLAN), vlan=7),
    Carrier("VN-Tag behind a VLAN", 1, _tagged(VLAN, VN_TAG), vlan=7),
    Carrier("provider backbone bridges", 1, _tagged(B_TAG, I_TAG)),
    Carrier("provider backbone bridges, without B-TAG", 1, _tagged(I_TAG)),
    Carrier(
        "provider backbone bridges, QinQ inside",
        1,
        _tagged(B_TAG, I_TAG, B_TAG, VLAN),
        vlan=2 * 4096 + 7,
    ),
    Carrier("VN-Tag, MPLS", 1, _tagged(VN_TAG, then=0x8847) + bytes(_label(1))),
    Carrier("MPLS", 1, _ether(_label(1))),
    Carrier("MPLS, three labels", 1, _ether(_label(0), _label(0), _label(1))),
    Carrier("MPLS in a VLAN", 1, _ether(Dot1Q(vlan=7), _label(1)), vlan=7),
    Carrier("pseudowire", 1, _ether(_label(0), _label(1), EoMCW(seq=5), Ether(**MACS))),
    Carrier("pseudowire with VLAN", 1, _ether(_label(1), EoMCW(), Ether(**MACS), Dot1Q(vlan=7))),
    Carrier("PPPoE", 1, _ether(PPPoE(sessionid=3, len=62), PPP(proto=0x21))),
    Carrier(
        "PPPoE in a VLAN",
        1,
        _ether(Dot1Q(vlan=7), PPPoE(sessionid=3, len=62), PPP(proto=0x21)),
        vlan=7,
    ),
    Carrier("802.2 SNAP", 1, bytes(Dot3(**MACS, len=68) / LLC() / SNAP(code=0x800))),
    Carrier("FDDI", 10, FDDI_HEADER + bytes(LLC() / SNAP(code=0x800))),
    Carrier("Linux cooked", 113, bytes(CookedLinux(proto=0x800))),
    Carrier(
        "Linux cooked, VLAN", 113, bytes(CookedLinux(proto=0x8100) / Dot1Q(type=0x800)), vlan=1
    ),
    Carrier("Linux cooked v2", 276, bytes(CookedLinuxV2(proto=0x800))),
    Carrier("NULL, little-endian", 0, bytes.fromhex("02000000")),
    Carrier("NULL, big-endian", 0, bytes.fromhex("00000002")),
    Carrier("LOOP", 108, bytes.fromhex("00000002")),
    Carrier("PPP", 9, bytes.fromhex("0021")),
    Carrier("PPP with address and control", 9, bytes.fromhex("ff030021")),
    Carrier("PPP with compressed protocol", 9, bytes.fromhex("21")),
    Carrier("PPP with MPLS", 9, bytes.fromhex("ff030281") + bytes(_label(1))),
    Carrier("PPP in HDLC framing", 50, bytes.fromhex("ff030021")),
    Carrier("PPP from pppd", 166, bytes.fromhex("00030021")),
    Carrier("PPPoE without Ethernet", 51, bytes(PPPoE(sessionid=3, len=62) / PPP(proto=0x21))),
]


def gtp(inner: bytes, **header) -> bytes:
    """GTP-U between base station and gateway."""
    outer = IP(src=GATEWAY, dst=BASE_STATION) / UDP(sport=2152, dport=2152)
    return bytes(outer / GTP_U_Header(teid=77, gtp_type=255, **header) / inner)


GTP_IN = {
    "v4 in v4": gtp(SYN),
    "v4 in v4, sequence number": gtp(SYN, S=1, seq=9),
    "v4 in v4, extension header": bytes(
        IP(src=GATEWAY, dst=BASE_STATION)
        / UDP(sport=2152, dport=2152)
        / GTP_U_Header(teid=77, gtp_type=255, E=1, next_ex=0x85)
        / GTPPDUSessionContainer(type=0, QFI=9)
        / SYN
    ),
    "v4 in v6": bytes(
        IPv6(src="2001:db8:1::1", dst="2001:db8:1::2")
        / UDP(sport=2152, dport=2152)
        / GTP_U_Header(teid=77, gtp_type=255)
        / SYN
    ),
    "twice": gtp(gtp(SYN)),
}

EXTENSIONS = {
    "hop by hop": UP6 / IPv6ExtHdrHopByHop() / SYN_TCP,
    "routing": UP6 / IPv6ExtHdrRouting() / SYN_TCP,
    "destination": UP6 / IPv6ExtHdrDestOpt() / SYN_TCP,
    "authentication": UP6 / AH(spi=1, seq=1, icv=bytes(12), nh=6, payloadlen=4) / SYN_TCP,
    "atomic fragment": UP6 / IPv6ExtHdrFragment(id=5) / SYN_TCP,
    "all in a row": UP6
    / IPv6ExtHdrHopByHop()
    / IPv6ExtHdrDestOpt()
    / IPv6ExtHdrRouting()
    / IPv6ExtHdrFragment(id=5)
    / IPv6ExtHdrDestOpt()
    / SYN_TCP,
}

FRAGMENTS = [bytes(piece) for piece in fragment(IP(DATA), fragsize=400)]
FRAGMENTS6 = [
    bytes(UP6 / IPv6ExtHdrFragment(id=5, nh=6, m=1, offset=0) / (bytes(SYN_TCP) + bytes(40))),
    bytes(UP6 / IPv6ExtHdrFragment(id=5, nh=6, m=0, offset=10) / bytes(48)),
]
IP_OPTIONS = bytes(
    IP(src=USER, dst=SERVER, id=4711, ttl=63, options=IPOption_Router_Alert()) / SYN_TCP
)
DATAGRAM = bytes(UP / UDP(sport=5000, dport=53) / bytes(12))
PING = bytes(UP / ICMP() / bytes(56))


def every_layer() -> bytes:
    """A pcapng file with an interface for each carrier, and all other packets on the first."""
    on_the_first = [
        *GTP_IN.values(),
        gtp(SYN6),
        *map(bytes, EXTENSIONS.values()),
        *FRAGMENTS,
        *FRAGMENTS6,
        IP_OPTIONS,
        DATAGRAM,
        PING,
        DATA,
        SYN6,
    ]
    return b"".join(
        [
            section(),
            *(interface(carrier.link_type) for carrier in CARRIERS),
            *(enhanced(Frame(carrier.frame(SYN)), on=i) for i, carrier in enumerate(CARRIERS)),
            *(enhanced(Frame(packet)) for packet in on_the_first),
        ]
    )
