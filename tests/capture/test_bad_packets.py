"""A packet that contradicts itself is counted, or is a row without its wrong fields."""

import struct
import time

import numpy as np
import pytest
from scapy.layers.inet import TCP

from spark_jobs.capture.addresses import AddressTable
from tests.helpers.bad_input import PCAPNG, changed
from tests.helpers.capture_files import NOON, Frame, enhanced, interface, pcap, read, section, timed
from tests.helpers.layers import GTP_IN, SYN, UP

IP_LEN, TCP_OFFSET = 2, 20 + 12


@pytest.mark.parametrize(
    "packet",
    [
        changed(SYN, 0, b"\x44"),
        changed(SYN, 0, b"\x40"),
        changed(SYN, IP_LEN, b"\x00\x13"),
        changed(SYN, 0, b"\x55"),
        changed(SYN, 0, b"\x00"),
    ],
    ids=["header of 16 bytes", "header of 0 bytes", "total length 19", "version 5", "version 0"],
)
def test_an_ip_header_that_contradicts_itself_is_counted(packet):
    found = read(pcap([Frame(packet), Frame(SYN)]))
    assert (found.numbers, found.skipped) == ([2], {"malformed_ip": 1})


@pytest.mark.parametrize("on_wire", [0, 10, 600_000, 2**32 - 1])
def test_a_packet_of_no_length_and_an_impossible_wire_length_is_counted(on_wire):
    frame = Frame(changed(SYN, IP_LEN, b"\0\0"), NOON, on_wire)
    found = read(
        section()
        + interface(1)
        + enhanced(Frame(bytes(12) + b"\x08\x00" + frame.data, NOON, on_wire))
    )
    assert (found.rows, found.skipped) == ([], {"malformed_ip": 1})


def test_a_total_length_above_the_wire_length_is_kept():
    row = read(pcap([Frame(changed(SYN, IP_LEN, b"\x05\xdc"))])).rows[0]
    assert (row["ip_len"], row["payload_len"]) == (1500, 1500 - 20 - 40)


@pytest.mark.parametrize(
    "packet",
    [
        changed(SYN, TCP_OFFSET, b"\x40"),
        changed(SYN, TCP_OFFSET, b"\x00"),
        changed(SYN, TCP_OFFSET, b"\xb0"),
        changed(SYN, IP_LEN, b"\x00\x20"),
    ],
    ids=["16 bytes", "0 bytes", "44 of 40", "beyond the IP packet"],
)
def test_a_tcp_header_outside_its_packet_is_a_row_without_tcp(packet):
    found = read(pcap([Frame(packet)]))
    assert [row["tcp_flags"] for row in found.rows] == [None]
    assert found.skipped == {"malformed_tcp": 1}


def syn_with(options: str) -> bytes:
    tail = bytes.fromhex(options)
    header = bytes(UP / TCP(sport=1, dport=2, flags="S", dataofs=5 + len(tail) // 4))
    return changed(header + tail, IP_LEN, struct.pack(">H", 40 + len(tail)))


@pytest.mark.parametrize(
    ("options", "mss"),
    [
        ("01010201", None),
        ("01010200", None),
        ("02050550", None),
        ("01010102", None),
        ("02040550 01010300", 1360),
        ("02040550 01010801", 1360),
        ("02040550 01010522", 1360),
    ],
)
def test_an_option_whose_length_lies_ends_the_options(options, mss):
    found = read(pcap([Frame(syn_with(options))]))
    assert [(row["tcp_flags"], row["mss"]) for row in found.rows] == [(2, mss)]
    assert found.skipped == {"malformed_options": 1}


@pytest.mark.parametrize(
    "options",
    ["02030501", "03040501", "0403ff01", "0809 00000000000000 010101", "0506 00000000 0101"],
)
def test_an_option_of_another_length_than_its_rfc_says_is_not_read(options):
    found = read(pcap([Frame(syn_with(options + "02040550"))]))
    values = [
        found.rows[0][name]
        for name in ("mss", "window_scale", "sack_permitted", "ts_val", "ts_ecr", "sack")
    ]
    assert (values, found.skipped) == ([1360, None, None, None, None, None], {})


def test_what_follows_the_end_of_options_is_not_read():
    found = read(pcap([Frame(syn_with("02040550 00 020400"))]))
    assert (found.rows[0]["mss"], found.skipped) == (1360, {})


def test_a_gtp_extension_header_of_no_length_ends_the_tunnel():
    at = 20 + 8 + 8 + 4
    packet = changed(GTP_IN["v4 in v4, extension header"], at, b"\0")
    assert read(pcap([Frame(packet)])).skipped == {"not_subscriber": 1}


@pytest.mark.parametrize("ticks", [253_402_300_800_000_000, 2**62, 2**63, 2**64 - 1])
def test_a_time_outside_1970_to_9999_is_counted(ticks):
    found = read(PCAPNG + enhanced(Frame(SYN), ticks=ticks) + enhanced(Frame(SYN)))
    assert (found.numbers, found.skipped) == ([2], {"implausible_time": 1})


def test_a_time_is_kept_if_dates_can_hold_the_days_after_it():
    """December of 9999 is beyond."""
    last = 253_399_622_400_000_000 - 1
    found = read(PCAPNG + enhanced(Frame(SYN), ticks=last) + enhanced(Frame(SYN), ticks=last + 1))
    assert (found.numbers, found.skipped) == ([1], {"implausible_time": 1})


def test_addresses_chosen_to_collide_take_no_long_time():
    table = AddressTable(np.zeros((0, 4), np.uint64), 60_000)
    start = time.perf_counter()
    for low in range(30_000):
        high = low * 0x9E3779B97F4A7C15 & 2**64 - 1
        table.add(high, low)
    assert len(table) == 30_000
    assert time.perf_counter() - start < 5


def test_a_new_address_in_every_packet_is_read_in_bounded_runs():
    server = int.from_bytes(b"\xc6\x33\x64\x07", "big")
    packets = [
        changed(SYN, 12, struct.pack(">II", 0x0A400000 + i, server + i)) for i in range(40_000)
    ]
    found = read(pcap(timed(packets)), batch_packets=10_000)
    assert len({row["user"] for row in found.rows}) == 40_000
    assert len({row["server"] for row in found.rows}) == 40_000
