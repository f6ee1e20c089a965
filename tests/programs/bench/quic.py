"""Reads a capture of QUIC alone and one of TCP alone, in turns: packets a second of each.

python -m tests.programs.bench.quic [MILLION PACKETS]
"""

import os
import struct
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from spark_jobs.settings.networks import load_networks
from tests.programs.bench.mix import BEGIN_US, mix
from tests.programs.bench.peers import ROOT, STEPS, capture_to_flows

SNAP = 96
PACKETS_OF_A_CONNECTION = 604
"""Handshake, then 300 downlink packets of 1,250 bytes and 300 uplink ones."""
RECORD_HEADER = np.dtype([("s", "<u4"), ("us", "<u4"), ("captured", "<u4"), ("on_wire", "<u4")])
ROUNDS = 3


def packet(downlink: bool, payload: bytes, length: int, user: int, port: int) -> bytes:
    """Return an IP packet with a UDP datagram, cut after SNAP bytes; length: that of the packet."""
    ends = struct.pack(">II", user, 0xC633_6401)
    ports = struct.pack(">HH", port, 443)
    if downlink:
        ends, ports = ends[4:] + ends[:4], ports[2:] + ports[:2]
    header = struct.pack(">BBHHHBBH", 0x45, 0, length, 0, 0x4000, 60, 17, 0) + ends
    return (header + ports + struct.pack(">HH", length - 20, 0) + payload).ljust(SNAP, b"\7")[:SNAP]


def connection(user: int, port: int) -> np.ndarray:
    """Return a connection's packets with their record headers, uint8[n, 16 + SNAP]."""
    client, server = struct.pack(">Q", user << 16 | port), struct.pack(">Q", port << 40 | user)

    def long(first: int, dcid: bytes, scid: bytes) -> bytes:
        ids = bytes([8]) + dcid + bytes([8]) + scid
        return bytes([first]) + struct.pack(">I", 1) + ids + b"\0" + b"\x44\xb0"

    rows = [
        (False, long(0xC0, b"\1" * 8, client), 1250, 0),
        (True, long(0xC0, client, server), 1250, 50_000),
        (False, long(0xC0, server, client), 1250, 90_000),
        (False, b"\x40" + server, 70, 91_000),
    ]
    for k in range((PACKETS_OF_A_CONNECTION - len(rows)) // 2):
        spin = 0x20 * (k // 20 % 2)
        first, encrypted = bytes([0x40 | spin]), struct.pack(">I", k)
        rows.append((True, first + client + encrypted, 1250, 140_000 + 3_000 * k))
        rows.append((False, first + server + encrypted, 70, 181_000 + 3_000 * k))
    rows.sort(key=lambda row: row[3])
    out = np.zeros((len(rows), 16 + SNAP), np.uint8)
    for record, (downlink, payload, length, us) in zip(out, rows, strict=True):
        head = np.zeros(1, RECORD_HEADER)
        head["us"], head["captured"], head["on_wire"] = us, SNAP, length
        record[:16] = head.view(np.uint8)
        record[16:] = np.frombuffer(packet(downlink, payload, length, user, port), np.uint8)
    return out


def write_quic(path: Path, packets: int, begin_us: int = BEGIN_US) -> int:
    """Write a capture of at least so many packets of QUIC; return their number."""
    count = 0
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAP, 101))
        while count < packets:
            users = range(count // PACKETS_OF_A_CONNECTION, -(-packets // PACKETS_OF_A_CONNECTION))
            group = np.stack(
                [connection(0x0A42_0000 + k % 5000, 1024 + k // 5000) for k in users[:500]]
            )
            head = np.ascontiguousarray(group[:, :, :16]).view(RECORD_HEADER)[..., 0]
            us = head["us"] + np.int64(begin_us) + 7 * np.arange(len(group))[:, None] + 3 * count
            head["s"], head["us"] = us // 1_000_000, us % 1_000_000
            group[:, :, :16] = head[..., None].view(np.uint8)
            flat = group.reshape(-1, 16 + SNAP)[np.argsort(us, axis=None, kind="stable")]
            file.write(flat.tobytes())
            count += len(flat)
    return count


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    packets = int(1e6 * float(sys.argv[1] if len(sys.argv) > 1 else 2))
    network = load_networks(ROOT / "infra/networks.toml")["aa-gprs"]
    with TemporaryDirectory() as name:
        folder = Path(name)
        captures = {"QUIC": folder / "quic.pcap", "TCP": folder / "tcp.pcap"}
        counts = {"QUIC": write_quic(captures["QUIC"], packets)}
        counts["TCP"] = mix(captures["TCP"], packets, packets // 50)
        for capture in captures.values():
            capture_to_flows(network, capture, folder)  # loads the compiled functions
        for _ in range(ROUNDS):
            for kind, capture in captures.items():
                seconds = capture_to_flows(network, capture, folder)
                ingest, flows, _ = (counts[kind] / 1e6 / seconds[step] for step in STEPS)
                print(
                    f"{kind}: ingest {ingest:.2f}, flows {flows:.2f} million packets/s", flush=True
                )


if __name__ == "__main__":
    main()
