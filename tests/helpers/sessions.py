"""Logs and packets of sessions."""

from scapy.layers.inet import IP, TCP

from tests.helpers.capture_files import Frame

SEGMENTS = 150


DATA = 1000


def frame(at_s: float, way: str, flags: str, seq: int, ack: int, data: int = 0) -> Frame:
    user, server = ("10.64.0.1", 1000), ("198.51.100.1", 80)
    (src, sport), (dst, dport) = (user, server) if way == "up" else (server, user)
    packet = IP(src=src, dst=dst) / TCP(sport=sport, dport=dport, flags=flags, seq=seq, ack=ack)
    return Frame(bytes(packet / bytes(data)), int(at_s * 1e6))


def download(start_s: float, requests: int = 1) -> list[Frame]:
    """Return a connection with requests of 100 bytes at its start and one answer of 150 kB, whose
    ACKs pass Gi 0.5 s later."""
    frames = [
        frame(start_s, "up", "S", 99, 0),
        frame(start_s + 0.1, "down", "SA", 499, 100),
        frame(start_s + 0.6, "up", "A", 100, 500),
    ]
    for i in range(requests):
        frames.append(frame(start_s + 0.61 + i / 100, "up", "PA", 100 + 100 * i, 500, 100))
    asked = 100 + 100 * requests
    for i in range(SEGMENTS):
        at, seq = start_s + 1 + i * 0.1, 500 + i * DATA
        frames.append(frame(at, "down", "A", seq, asked, DATA))
        frames.append(frame(at + 0.5, "up", "A", asked, seq + DATA))
    return frames


def request(at_s: float, number: int = 1, status: str = "200") -> dict[str, str]:
    return {
        "ts": f"{at_s:.6f}",
        "trans_depth": str(number),
        "method": "GET",
        "request_body_len": "0",
        "status_code": status,
    }


def conn(at_s: float, duration: float, **more: str) -> dict[str, str]:
    return {
        "ts": f"{at_s:.6f}",
        "proto": "tcp",
        "service": "http",
        "duration": f"{duration:.6f}",
        "conn_state": "SF",
    } | more
