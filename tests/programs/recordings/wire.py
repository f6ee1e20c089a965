"""What clients and servers by hand send, byte by byte and in time."""

import random
import socket
import struct
import time
from collections.abc import Callable
from itertools import cycle

HOST = "www.example.test"
Step = bytes | float | Callable[[socket.socket], None]


def play(connection: socket.socket, *steps: Step) -> None:
    """Bytes are sent at once, a number is that many seconds' silence, a function is called."""
    for step in steps:
        if isinstance(step, bytes):
            connection.sendall(step)
        elif callable(step):
            step(connection)
        else:
            time.sleep(step)


def reset(connection: socket.socket) -> None:
    """Closes with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def text(size: int) -> bytes:
    """Always the same text, that is no one's and compresses somewhat."""
    words = random.Random(1)
    made = " ".join(f"{words.getrandbits(24):x}" for _ in range(size // 6 + 1))
    return made.encode()[:size]


def head(*lines: str) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode()


def request(path: str, method: str = "GET", *headers: str, body: bytes = b"") -> bytes:
    length = [f"Content-Length: {len(body)}"] if body else []
    return head(f"{method} {path} HTTP/1.1", f"Host: {HOST}", *headers, *length) + body


def response(status: str, *headers: str) -> bytes:
    return head(f"HTTP/1.1 {status}", *headers)


def frame(payload: bytes, mask: bytes = b"") -> bytes:
    """A WebSocket text frame; clients mask theirs."""
    masked = 0x80 if mask else 0
    size = len(payload)
    short = struct.pack("!BB", 0x81, masked | size) if size < 126 else b""
    start = short or struct.pack("!BBH", 0x81, masked | 126, size)
    return start + mask + bytes(a ^ b for a, b in zip(payload, cycle(mask or b"\0"), strict=False))
