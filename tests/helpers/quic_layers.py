"""Datagrams of QUIC byte by byte, and what their rows show by RFC 8999, 9000, 9001 and 9369."""

from dataclasses import dataclass, replace

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6TimeExceeded, IPv6
from scapy.packet import Packet, Raw

from tests.helpers.layers import SERVER, SERVER6, USER, USER6

V1, V2, V2_DRAFT = 1, 0x6B3343CF, 0x709A50C4
INITIAL, ZERO_RTT, HANDSHAKE = range(3)
TYPES = {V1: (0, 1, 2), V2: (1, 2, 3), V2_DRAFT: (1, 2, 3)}
"""The bits of each form in the first byte: RFC 9000, 17.2; RFC 9369, 3.2."""
COALESCED_ZERO_RTT, COALESCED_HANDSHAKE, COALESCED_ONE_RTT, NOT_CAPTURED = 2, 4, 32, 128
FILLER = 0xE5
"""A byte of what is encrypted. No header in this module has it."""
IDS = bytes.fromhex("a1b2c3d4e1f20314 2536475869 7a8b9cadbe0112")
OTHER_IDS = bytes.fromhex("51627384950617a8 b9ca1b2c3d 4e5f60718293a4")


def fnv1a(data: bytes) -> int:
    """The 32-bit FNV-1a hash (RFC 9923)."""
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 % 2**32
    return value


def hashed(connection_id: bytes) -> int:
    """The column of a connection ID: of its first 8 bytes, or 4 if it has fewer than 8."""
    return fnv1a(connection_id[: 8 if len(connection_id) >= 8 else 4]) if connection_id else 0


def hashed_in_short(connection_id: bytes) -> int | None:
    """The column of a connection ID of which only the length's class is known."""
    return hashed(connection_id) if len(connection_id) >= 4 else None


@dataclass(frozen=True)
class Seen:
    """A packet, and what its row shows."""

    packet: bytes
    quic_form: str | None = None
    quic_coalesced: int | None = None
    quic_version: int | None = None
    quic_spin: bool | None = None
    quic_dcid: int | None = None
    quic_scid: int | None = None
    quic_length: int | None = None

    @property
    def columns(self) -> dict:
        """QUIC's columns of the row."""
        return {name: value for name, value in vars(self).items() if name != "packet"}


def varint(value: int, size: int = 2) -> bytes:
    """RFC 9000, 16."""
    log = {1: 0, 2: 1, 4: 2, 8: 3}[size]
    return (value | log << 8 * size - 2).to_bytes(size, "big")


def ids(destination: bytes, source: bytes) -> bytes:
    return b"".join(bytes([len(i)]) + i for i in (destination, source))


def long_header(
    form: int,
    destination: bytes,
    source: bytes,
    size: int = 60,
    version: int = V1,
    token: bytes = b"",
    length_bytes: int = 2,
) -> bytes:
    """A packet; size: of its packet number and what is encrypted (RFC 9000, 17.2)."""
    first = 0xC0 | TYPES.get(version, TYPES[V1])[form] << 4 | 3
    tokens = varint(len(token)) + token if form == INITIAL else b""
    start = bytes([first]) + version.to_bytes(4, "big") + ids(destination, source)
    return start + tokens + varint(size, length_bytes) + bytes([FILLER]) * size


def retry(destination: bytes, source: bytes, version: int = V1) -> bytes:
    first = {V1: 0xF0, V2: 0xC0}[version]
    start = bytes([first]) + version.to_bytes(4, "big") + ids(destination, source)
    return start + bytes([FILLER]) * 40


def short_header(destination: bytes, spin: bool = False, size: int = 40) -> bytes:
    return bytes([0x40 | spin << 5 | 2]) + destination + bytes([FILLER]) * size


def without_fixed_bit(packet: bytes) -> bytes:
    """Return an IPv4 packet without options whose UDP payload has the fixed bit 0 (RFC 9287)."""
    changed = bytearray(packet)
    changed[28] &= 0xBF
    changed[26:28] = bytes(2)  # no checksum
    return bytes(changed)


@dataclass(frozen=True)
class Ends:
    """A mobile and a server."""

    user: str = USER
    server: str = SERVER
    user_port: int = 50000
    server_port: int = 443

    def _ip(self, source: str, target: str) -> Packet:
        if ":" in source:
            return IPv6(src=source, dst=target, hlim=60)
        return IP(src=source, dst=target, id=77, ttl=60)

    def up(self, payload: bytes) -> bytes:
        udp = UDP(sport=self.user_port, dport=self.server_port)
        return bytes(self._ip(self.user, self.server) / udp / Raw(payload))

    def down(self, payload: bytes) -> bytes:
        udp = UDP(sport=self.server_port, dport=self.user_port)
        return bytes(self._ip(self.server, self.user) / udp / Raw(payload))

    def unreachable(self, datagram: bytes, sender: str, target: str) -> bytes:
        """A message about a datagram."""
        if ":" in sender:
            return bytes(self._ip(sender, target) / ICMPv6DestUnreach(code=4) / Raw(datagram))
        return bytes(self._ip(sender, target) / ICMP(type=3, code=3) / Raw(datagram))


def connection(
    client: bytes = IDS[:8],
    server: bytes = OTHER_IDS[:8],
    version: int = V1,
    ends: Ends | None = None,
) -> list[Seen]:
    """The beginning of a connection whose ends choose these connection IDs.

    The server's first datagram has a packet of each kind.
    """
    ends = ends or Ends()
    original = bytes.fromhex("0011223344556677")
    first = long_header(INITIAL, original, client, 1100, version, token=bytes([FILLER]) * 70)
    answer = (
        long_header(INITIAL, client, server, 90, version, length_bytes=4)
        + long_header(HANDSHAKE, client, server, 500, version)
        + short_header(client)
    )
    last = long_header(INITIAL, server, client, 60, version) + long_header(
        HANDSHAKE, server, client, 60, version, length_bytes=1
    )

    def long(
        packet: bytes, target: bytes, source: bytes, length: int, more: int | None = None
    ) -> Seen:
        ids = {"quic_dcid": hashed(target), "quic_scid": hashed(source)}
        return Seen(packet, "initial", more, version, quic_length=length, **ids)

    def short(packet: bytes, target: bytes, spin: bool) -> Seen:
        return Seen(packet, "one_rtt", quic_spin=spin, quic_dcid=hashed_in_short(target))

    return [
        long(ends.up(first), original, client, 1100),
        long(ends.down(answer), client, server, 90, COALESCED_HANDSHAKE | COALESCED_ONE_RTT),
        long(ends.up(last + bytes(300)), server, client, 60, COALESCED_HANDSHAKE),
        short(ends.up(short_header(server, True)), server, True),
        short(ends.down(short_header(client)), client, False),
    ]


def _unreachable() -> dict[str, list[Seen]]:
    ends, elsewhere, v6 = Ends(), Ends(server_port=4433), Ends(USER6, SERVER6)
    router, router6 = "192.0.2.9", "2001:db8:ffff::9"
    up, down = ends.up(TEXT), ends.down(TEXT)

    def of_quic(message: bytes) -> Seen:
        return Seen(message, "unreachable")

    later = IP(src=USER, dst=SERVER, frag=9, proto=17)
    return {
        "unreachable": [
            *connection(),
            of_quic(ends.unreachable(down, USER, SERVER)),
            of_quic(ends.unreachable(up[:28], router, USER)),
            Seen(bytes(IP(src=router, dst=USER) / ICMP(type=11) / Raw(up))),
            Seen(ends.unreachable(up[:23], router, USER)),
            Seen(bytes(IP(src=router, dst=USER) / ICMP(type=3, code=4) / Raw(up))),
            Seen(ends.unreachable(bytes(later / Raw(TEXT)), router, USER)),
            Seen(ends.unreachable(bytes(later / Raw(up[20:])), router, USER)),
        ],
        "unreachable over IPv6": [
            *connection(ends=v6),
            of_quic(v6.unreachable(v6.down(TEXT), USER6, SERVER6)),
            of_quic(v6.unreachable(v6.up(TEXT), router6, USER6)),
            Seen(bytes(IPv6(src=router6, dst=USER6) / ICMPv6TimeExceeded() / Raw(v6.up(TEXT)))),
        ],
        "unreachable, but not QUIC's": [
            Seen(elsewhere.up(TEXT)),
            Seen(elsewhere.unreachable(elsewhere.up(TEXT), SERVER, USER)),
        ],
    }


def _connections() -> dict[str, list[Seen]]:
    def lengths(of_client: int, of_server: int, **options) -> list[Seen]:
        return connection(IDS[:of_client], OTHER_IDS[:of_server], **options)

    *_, to_server, to_user = connection()
    first, *_ = connection()
    client, server = IDS[:8], OTHER_IDS[:8]
    moved = Ends(user_port=50001)
    elsewhere = Ends(user_port=50001, server_port=4433)
    preferred = Ends(server="198.51.100.77")
    other_port = Ends(server="198.51.100.77", user_port=50001)
    to_preferred = {"quic_form": "one_rtt", "quic_spin": False, "quic_dcid": hashed(server)}
    from_preferred = to_preferred | {"quic_dcid": hashed(client)}
    return {
        "the fixed bit at random": [
            replace(first, packet=without_fixed_bit(first.packet)),
            *connection()[1:],
            Seen(without_fixed_bit(to_server.packet), "one_rtt", None, None, True, hashed(server)),
            Seen(without_fixed_bit(to_user.packet), "one_rtt", None, None, False, hashed(client)),
        ],
        "another port of the mobile": [
            *connection(),
            *connection(ends=Ends(server_port=4433)),
            Seen(moved.up(short_header(server)), "one_rtt", None, None, False, hashed(server)),
            Seen(
                without_fixed_bit(elsewhere.up(short_header(server))),
                "one_rtt",
                None,
                None,
                False,
                hashed(server),
            ),
            Seen(
                elsewhere.down(short_header(client)), "one_rtt", None, None, False, hashed(client)
            ),
        ],
        "IDs of 8 bytes": lengths(8, 8),
        "IDs of 4 and 8 bytes": lengths(4, 8),
        "IDs of 0 and 20 bytes": lengths(0, 20),
        "IDs of 3 and 7 bytes": lengths(3, 7),
        "IDs of 18 and 0 bytes": lengths(18, 0),
        "version 2": lengths(8, 8, version=V2),
        "version 2's draft": lengths(8, 8, version=V2_DRAFT),
        "an address that the server prefers, the fixed bit at random": [
            *connection(),
            Seen(without_fixed_bit(preferred.up(short_header(server))), **to_preferred),
            Seen(preferred.down(short_header(client)), **from_preferred),
            Seen(without_fixed_bit(other_port.up(short_header(server)))),
        ],
        "IPv6": lengths(4, 16, ends=Ends(USER6, SERVER6)),
        "another port": lengths(8, 8, ends=Ends(server_port=4433)),
        "from its middle": [
            Seen(to_server.packet, "one_rtt", quic_spin=True),
            Seen(to_user.packet, "one_rtt", quic_spin=False),
        ],
    }


def _single() -> dict[str, list[Seen]]:
    ends, elsewhere = Ends(), Ends(server_port=4433)
    client, server = IDS[:8], OTHER_IDS[:8]
    to_user = {"quic_dcid": hashed(client), "quic_scid": hashed(server)}
    to_server = {"quic_dcid": hashed(server), "quic_scid": hashed(client)}
    negotiation = bytes([0x80]) + bytes(4) + ids(client, server) + bytes([FILLER]) * 12
    early = long_header(ZERO_RTT, server, client, 700)
    with_early = long_header(INITIAL, server, client, 300) + early
    future, draft = 0x12345678, 0xFF00001D
    initial9001 = bytes.fromhex("c300000001088394c8f03e5157080000449e7b9aec34") + bytes(1178)
    initial9369 = bytes.fromhex("dc6b3343cf0008f067a5502a4262b5004075") + bytes(117)
    hash9001 = fnv1a(bytes.fromhex("8394c8f03e515708"))
    hash9369 = fnv1a(bytes.fromhex("f067a5502a4262b5"))
    short9001 = bytes.fromhex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb")
    return {
        "Retry": [
            Seen(ends.down(retry(client, server)), "retry", None, V1, **to_user),
            Seen(ends.down(retry(client, server, V2)), "retry", None, V2, **to_user),
        ],
        "version negotiation": [
            Seen(ends.down(negotiation), "version_negotiation", None, 0, **to_user),
            Seen(elsewhere.down(negotiation)),
        ],
        "0-RTT": [
            Seen(
                ends.up(with_early), "initial", COALESCED_ZERO_RTT, V1, quic_length=300, **to_server
            ),
            Seen(ends.up(early), "zero_rtt", None, V1, quic_length=700, **to_server),
        ],
        "examples of RFC 9001 and RFC 9369": [
            Seen(ends.up(initial9001), "initial", None, V1, None, hash9001, 0, 1182),
            Seen(ends.down(initial9369), "initial", None, V2, None, 0, hash9369, 117),
            Seen(ends.down(short9001), "one_rtt", None, None, False),
        ],
        "other versions": [
            Seen(
                ends.up(long_header(INITIAL, server, client, version=future)),
                "initial",
                None,
                future,
                quic_length=60,
                **to_server,
            ),
            Seen(elsewhere.up(long_header(INITIAL, server, client, version=future))),
            Seen(
                elsewhere.up(long_header(HANDSHAKE, server, client, version=draft)),
                "handshake",
                None,
                draft,
                quic_length=60,
                **to_server,
            ),
        ],
        "no QUIC on its port": [
            Seen(ends.up(b"\x16\xfe\xfd" + TEXT)),
            Seen(ends.up(b"\x80\x61\0\1\0\0\0\0" + TEXT)),
            Seen(ends.up(short_header(server, size=11))),
            Seen(ends.up(b"\xc3")),
            Seen(ends.up(b"")),
            Seen(ends.up(b"\xc3\0\0\0\1\x15" + TEXT)),
            Seen(ends.up(b"\xc3\0\0\0\1" + ids(client, server)[:-1])),
            Seen(ends.up(b"\x83\x12\x34\x56\x78" + ids(client, server) + TEXT)),
            Seen(ends.up(b"\x02" + server + TEXT)),
            Seen(ends.up(b"\xc3Q046\x05" + bytes(6) + TEXT)),
            Seen(ends.up(b"\xc3\xff\0\0\x15\x05" + bytes(6) + TEXT)),
        ],
        "no QUIC elsewhere": [
            Seen(elsewhere.up(short_header(server))),
            Seen(elsewhere.up(TEXT)),
            Seen(Ends(server_port=53).up(b"\x47\x11\1\0\0\1" + TEXT)),
        ],
    }


TEXT = bytes([FILLER]) * 40
CASES = _connections() | _single() | _unreachable()
"""Packets of a capture by what is tried."""
