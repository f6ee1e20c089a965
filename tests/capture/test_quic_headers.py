"""QUIC's columns: what headers show, on which flows they count, and what hostile ones do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP

from schemas.packets import QUIC
from tests.helpers.capture_files import Frame, pcap, read, timed
from tests.helpers.layers import SERVER, USER
from tests.helpers.quic_layers import (
    CASES,
    COALESCED_HANDSHAKE,
    FILLER,
    HANDSHAKE,
    IDS,
    INITIAL,
    NOT_CAPTURED,
    OTHER_IDS,
    TEXT,
    Ends,
    connection,
    fnv1a,
    hashed,
    long_header,
    short_header,
    varint,
)

ENDS, CLIENT, IDS_OF_SERVER = Ends(), IDS[:8], OTHER_IDS[:8]


def columns(packets: list[bytes], **options) -> list[dict]:
    """QUIC's columns of the rows."""
    return [
        {name: row[name] for name in QUIC} for row in read(pcap(timed(packets)), **options).rows
    ]


def coalesced(payload: bytes) -> int | None:
    (row,) = columns([ENDS.up(payload)])
    return row["quic_coalesced"]


def test_hash_is_that_of_its_specification():
    """RFC 9923's test vectors."""
    assert fnv1a(b"a") == 0xE40C292C
    assert fnv1a(b"foobar") == 0xBF9CF968


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("batch_packets", [1, 1 << 20])
def test_headers_show_what_the_rfcs_say(name, batch_packets):
    case = CASES[name]
    found = columns([seen.packet for seen in case], batch_packets=batch_packets)
    assert found == [seen.columns for seen in case]


def test_a_message_has_the_ports_of_the_datagram_that_could_not_be_delivered():
    rows = read(pcap(timed([seen.packet for seen in CASES["unreachable"]]))).rows
    assert [(row["user_port"], row["server_port"]) for row in rows if row["ip_proto"] == 1] == [
        (50000, 443),
        (50000, 443),
        *[(None, None)] * 5,
    ]


def test_a_message_about_no_flow_of_quic_has_no_ports():
    *_, row = read(pcap(timed([seen.packet for seen in CASES["unreachable, but not QUIC's"]]))).rows
    assert (row["ip_proto"], row["user_port"], row["server_port"]) == (1, None, None)


def test_an_embedded_header_that_is_too_short_is_no_message_about_quic():
    """Its length is 16 bytes; behind them are the ports of a flow of QUIC's."""
    inside = bytearray(ENDS.up(TEXT))
    inside[0] = 0x44
    inside[16:20] = inside[20:24]
    message = ENDS.unreachable(bytes(inside), SERVER, USER)
    *_, row = columns([*(seen.packet for seen in connection()), message])
    assert row["quic_form"] is None


def test_both_subscribers_have_the_columns():
    ends = Ends(server="10.64.0.9")
    found = columns([seen.packet for seen in connection(ends=ends)])
    assert found == [seen.columns for seen in connection(ends=ends) for _ in range(2)]


def test_what_follows_a_cut_is_not_known():
    """With a snap length of 96, 68 bytes of the payload are left; the first token has 70."""
    frames = [Frame(seen.packet).cut(96) for seen in connection()]
    rows = read(pcap(frames)).rows
    assert [row["quic_coalesced"] for row in rows] == [*[NOT_CAPTURED] * 3, None, None]
    assert [row["quic_length"] for row in rows] == [None, 90, 60, None, None]
    assert [row["quic_dcid"] for row in rows] == [seen.quic_dcid for seen in connection()]


@pytest.mark.parametrize("cut", range(22))
def test_a_short_header_that_is_cut_has_a_hash_once_8_bytes_are_there(cut):
    begin = [Frame(seen.packet) for seen in connection()]
    short = Frame(ENDS.down(short_header(CLIENT))).cut(28 + cut)
    *_, row = read(pcap([*begin, short])).rows
    assert row["quic_form"] == ("one_rtt" if cut else None)
    assert row["quic_dcid"] == (hashed(CLIENT) if cut >= 9 else None)


@pytest.mark.parametrize("cut", range(60))
def test_a_long_header_that_is_cut_is_whole_or_none(cut):
    first = connection()[0]
    (row,) = read(pcap([Frame(first.packet).cut(28 + cut)])).rows
    assert row["quic_form"] == ("initial" if cut >= 23 else None)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_lengths_may_have_any_size(size):
    """The largest that the size can have leads out of the datagram."""
    header = long_header(INITIAL, CLIENT, IDS_OF_SERVER, 0)[:-2]
    behind = bytes([FILLER]) + long_header(HANDSHAKE, CLIENT, IDS_OF_SERVER, 20)
    assert coalesced(header + varint(1, size) + behind) == COALESCED_HANDSHAKE
    assert coalesced(header + varint((1 << 8 * size - 2) - 1, size) + behind) is None


def test_packets_without_length_do_not_hold_up_the_reader():
    """As many headers as fit, each of a packet without bytes."""
    header = long_header(HANDSHAKE, b"", b"", 0, length_bytes=1)
    assert coalesced(header * 7000) == COALESCED_HANDSHAKE


hostile = settings(max_examples=300, deadline=None, derandomize=True)
BEGINNING = [Frame(seen.packet) for seen in connection()]
HEADERS = [seen.packet for name in ("IDs of 4 and 8 bytes", "unreachable") for seen in CASES[name]]


@pytest.mark.integration
@hostile
@given(
    packet=st.sampled_from(HEADERS),
    changes=st.lists(st.tuples(st.integers(20, 100), st.integers(0, 255)), max_size=8),
    snap=st.integers(20, 160),
)
def test_bytes_after_a_packet_do_not_show_in_its_row(packet, changes, snap):
    changed = bytearray(packet)
    for at, value in changes:
        changed[at % len(packet)] = value
    cut = Frame(bytes(changed)).cut(snap)
    rows = []
    for behind in (0x00, 0x45, 0xC3, 0xFF):
        found = read(pcap([*BEGINNING, cut, Frame(bytes([behind]) * 99)])).rows
        rows.append([row for row in found if row["frame"] == len(BEGINNING) + 1])
    assert rows[0] == rows[1] == rows[2] == rows[3]


@hostile
@given(payload=st.binary(max_size=200), first=st.sampled_from([0x40, 0x80, 0xC0, 0xF0]))
def test_noise_on_the_port_is_read(payload, first):
    packet = ENDS.up(bytes([first]) + payload)
    assert len(columns([packet, bytes(IP(packet))])) == 2
