"""Large captures from small ones: every user many times over, all at once, hour after hour."""

import sys
from pathlib import Path

import numpy as np
from numba import njit

from spark_jobs.capture import framing
from spark_jobs.capture.stream import CaptureStream

RECORD_HEADER = 16
SHIFT_US = 700_000_000
"""A repetition in time begins this long after the one before."""
REPEAT_OFFSET_US = 137


def records(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The capture's bytes and its records: (uint8[m], FRAME[n])."""
    with CaptureStream(path) as stream:
        pieces = []
        while stream.read_more():
            pieces.append(stream.window[stream.start : stream.end].copy())
            stream.start = stream.end
    data = np.concatenate(pieces)
    frames = np.zeros(len(data) // RECORD_HEADER, framing.FRAME)
    n, _, _ = framing.walk_pcap(
        data,
        framing.PCAP_HEADER_BYTES,
        len(data),
        False,
        False,
        RECORD_HEADER,
        4,
        framing.MAX_RECORD_BYTES,
        101,
        frames,
    )
    return data, frames[:n]


@njit
def _add32(out, at, value):
    """Add to a big-endian 32-bit number in place."""
    total = value
    for i in range(4):
        total += np.int64(out[at + i]) << 8 * (3 - i)
    for i in range(4):
        out[at + i] = total >> 8 * (3 - i) & 255


@njit
def shift_sequence(out, tcp, by):
    """Move sequence, acknowledgement and SACK numbers of the TCP header at `tcp`."""
    _add32(out, tcp + 4, by)
    _add32(out, tcp + 8, by)
    at, end = tcp + 20, tcp + (out[tcp + 12] >> 4) * 4
    while at + 1 < end and out[at] != 0:
        if out[at] == 1:
            at += 1
            continue
        if out[at] == 5:
            for edge in range(at + 2, at + out[at + 1], 4):
                _add32(out, edge, by)
        at += out[at + 1]


@njit
def _write(data, frames, order, repeats, first_repeat, shift_us, out):
    """Records in `order` (place = frame * repeats + repeat), each repeat with its own users, times
    and sequence numbers; returns the bytes written."""
    at = 0
    for place in order:
        frame, repeat = frames[place // repeats], place % repeats + first_repeat
        start, size = frame.offset - RECORD_HEADER, frame.captured + RECORD_HEADER
        out[at : at + size] = data[start : start + size]
        us = frame.ts + shift_us + repeat * REPEAT_OFFSET_US
        for i in range(4):
            out[at + i] = (us // 1_000_000 >> 8 * i) & 255
            out[at + 4 + i] = (us % 1_000_000 >> 8 * i) & 255
        for address in (at + 28, at + 32):
            if out[address] == 10:
                out[address + 2] += repeat
        shift_sequence(out, at + 36, repeat * 2_654_435_761 + shift_us)
        at += size
    return at


def tile(source: Path, target: Path, packets: int, repeats: int = 40, first_repeat: int = 0) -> int:
    """Write a pcap of at least `packets` packets; returns how many it has.

    repeats: how many users are made of each; first_repeat: shifts them, so that files differ.
    """
    data, frames = records(source)
    times = frames["ts"][:, None] + np.arange(repeats)[None, :] * REPEAT_OFFSET_US
    order = np.argsort(times.ravel(), kind="stable")
    out = np.empty(repeats * (len(data) + RECORD_HEADER), np.uint8)
    written = repetition = 0
    with target.open("wb") as f:
        f.write(data[: framing.PCAP_HEADER_BYTES].tobytes())
        while written < packets:
            size = _write(data, frames, order, repeats, first_repeat, repetition * SHIFT_US, out)
            f.write(out[:size].data)
            written += len(order)
            repetition += 1
    return written


if __name__ == "__main__":
    print(tile(Path(sys.argv[1]), Path(sys.argv[2]), int(float(sys.argv[3]))))
