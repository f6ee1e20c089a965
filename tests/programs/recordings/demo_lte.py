"""Write the demo's capture of LTE: `python -m tests.programs.recordings.demo_lte QUIC DUAL_STACK
TARGET`.

It has the users of QUIC of one recording beside two phones of another that use IPv4 and IPv6, with
several addresses each. Both are captures of raw IP packets. Their clocks are moved to BEGIN_US.
Beside TARGET, it writes the log of the RADIUS accounting about these phones: one session each.
"""

import struct
import sys
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path

import zstandard
from scapy.utils import RawPcapReader

from schemas.zeek import ACCOUNTING_LOG
from tests.helpers.zeek_logs import package_log

BEGIN_US = 1_078_219_800_000_000
"""2004-03-02 09:30 UTC, 10:30 in Budapest: within the demo's peak hours."""
IPV4, IPV6 = ("10.66.1.1", "10.67.1.1"), ("2001:db8:a2:101::/64", "2001:db8:a3:101::/64")
"""The phones' addresses and prefixes."""
PHONES = [ip_network(text) for text in (*IPV4, *IPV6)]
HEADER = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 101)


def is_of_phones(packet: bytes) -> bool:
    at, size = (12, 4) if packet[0] >> 4 == 4 else (8, 16)
    ends = (packet[at : at + size], packet[at + size : at + 2 * size])
    return any(ip_address(end) in phone for end in ends for phone in PHONES)


def records(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the time (µs since 1970) and the record of each packet, moved to BEGIN_US."""
    begin = None
    for packet, where in RawPcapReader(path):
        us = where.sec * 1_000_000 + where.usec
        begin = us if begin is None else begin
        at = BEGIN_US + us - begin
        yield at, struct.pack("<IIII", *divmod(at, 1_000_000), len(packet), where.wirelen) + packet


LABELS = (
    {"apn": "internet.mnc001.mcc001.gprs", "rat": "06", "area": "8000f1101a2b",
     "device": "00440245", "home": "00101", "visited": "00101", "qci": "08-4D09000003E8000007D0"},
    {"apn": "internet", "rat": "0a", "area": "8800f110001a2c",
     "device": "00440246", "home": "00101", "visited": "99999", "qci": "15-4D09000003E8000007D0"},
)  # fmt: skip
"""Labels of the phones, in the networks for tests 001-01 and 999-99: LTE at home, NR abroad."""


def accounting() -> str:
    """Return the log of accounting: a session of both families for each phone."""
    rows = [
        {
            "ts": f"{BEGIN_US / 1e6 - 600 + number:.6f}",
            "nas": "192.0.2.1",
            "status": "1",
            "session": f"5C0A0{number}",
            "address": address,
            "prefixes": prefix,
            "subscriber": f"00101000000000{number}",
            "charging": f"{1000 + number}",
            **LABELS[number - 1],
        }
        for number, (address, prefix) in enumerate(zip(IPV4, IPV6, strict=True), 1)
    ]
    return package_log(ACCOUNTING_LOG, rows)


def main() -> None:
    quic, dual_stack, target = sys.argv[1:]
    chosen = [found for found in records(dual_stack) if is_of_phones(found[1][16:])]
    merged = sorted([*records(quic), *chosen], key=lambda found: found[0])
    data = HEADER + b"".join(record for _, record in merged)
    Path(target).write_bytes(zstandard.compress(data, 19))
    Path(target).with_name("giscope_accounting.log").write_text(accounting())


if __name__ == "__main__":
    main()
