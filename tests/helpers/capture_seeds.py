"""Captures of each format that tests damage."""

import gzip

from tests.helpers.bad_input import PCAP, zstd_blocks
from tests.helpers.capture_files import Frame, pcap, pcap_record, pcapng, timed
from tests.helpers.layers import (
    CARRIERS,
    DATA,
    EXTENSIONS,
    FRAGMENTS,
    GTP_IN,
    SYN,
    SYN6,
    every_layer,
)
from tests.helpers.quic_layers import CASES

MIXED = timed(
    [
        SYN,
        DATA[:72],
        SYN6,
        *FRAGMENTS[:2],
        *GTP_IN.values(),
        *map(bytes, EXTENSIONS.values()),
        *(seen.packet for seen in CASES["unreachable"][:6]),
        SYN,
    ]
)


SEEDS = {
    "pcap": pcap(MIXED),
    "pcap, big-endian": pcap(MIXED, order=">"),
    "pcapng": pcapng(MIXED),
    "every link type": every_layer(),
    "Ethernet": pcap([Frame(CARRIERS[13].frame(f.data), f.ts) for f in MIXED], 1),
    "gzip": gzip.compress(pcap(MIXED)),
    "zstd": b"".join(zstd_blocks([PCAP, *map(pcap_record, MIXED)])),
}
