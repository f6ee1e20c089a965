"""Packet logs of Zeek for the tests: written in the package's columns."""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from pathlib import Path

import zstandard

from schemas.zeek import PACKET_LOG, Log, zeek_type

NAMES = [column.name for column in PACKET_LOG.columns]
MINIMAL = {
    "ts": "ts",
    "ip_proto": "proto",
    "ip_len": "ip_len",
    "ip_id": "ip_id",
    "ttl": "ttl",
    "tcp_flags": "flags",
    "seq": "seq",
    "ack": "ack",
    "window": "win",
    "payload_len": "plen",
    "mss": "mss",
    "window_scale": "wscale",
    "sack_permitted": "sack_ok",
    "ts_val": "tsval",
    "ts_ecr": "tsecr",
    "sack": "sack",
}
"""A column, and what the minimal script that made the excerpts calls it."""

Row = dict[str, str]


def header(names: list[str] = NAMES) -> str:
    kinds = {
        c.name: zeek_type(c).replace("vector of count", "vector[count]") for c in PACKET_LOG.columns
    }
    return "\n".join(
        [
            "#separator \\x09",
            "#set_separator\t,",
            "#empty_field\t(empty)",
            "#unset_field\t-",
            f"#path\t{PACKET_LOG.path}",
            "#open\t2004-03-02-10-00-00",
            "\t".join(["#fields", *names]),
            "\t".join(["#types", *(kinds.get(name, "string") for name in names)]),
            "",
        ]
    )


def lines(rows: Iterable[Row], names: list[str] = NAMES) -> str:
    return "".join("\t".join(row.get(name, "-") for name in names) + "\n" for row in rows)


def log(rows: Iterable[Row], names: list[str] = NAMES, closed: bool = True) -> str:
    end = "#close\t2004-03-02-11-00-00\n" if closed else ""
    return header(names) + lines(rows, names) + end


def minimal_rows(path: Path, subscribers: str) -> list[Row]:
    """The rows of a log of the minimal script, in the package's columns."""
    pool = ip_network(subscribers)
    fields: list[str] = []
    rows = []
    for line in zstandard.decompress(path.read_bytes(), 1 << 28).decode().splitlines():
        if line.startswith("#fields"):
            fields = line.split("\t")[1:]
        if line.startswith("#"):
            continue
        seen = dict(zip(fields, line.split("\t"), strict=True))
        row = {name: seen[theirs] for name, theirs in MINIMAL.items()}
        downlink = ip_address(seen["dst"]) in pool
        ours, others = ("dst", "src") if downlink else ("src", "dst")
        row |= {"dscp": "0", "ecn": "0"}
        row |= {"user": seen[ours], "server": seen[others], "downlink": "T" if downlink else "F"}
        row |= {"user_port": seen[f"{ours[0]}port"], "server_port": seen[f"{others[0]}port"]}
        rows.append(row)
    return rows


CONNECTION = {
    "uid": "CHhAvVGS1DHFjwGM9",
    "id.orig_h": "10.64.0.1",
    "id.orig_p": "1000",
    "id.resp_h": "198.51.100.1",
    "id.resp_p": "80",
}
FIELDS = {
    "conn": ["proto", "service", "duration", "orig_bytes", "resp_bytes", "conn_state", "history"],
    "http": ["trans_depth", "method", "host", "request_body_len", "status_code", "status_msg"],
    "ssl": ["version", "cipher", "resumed", "established", "ssl_history"],
    "radius": ["username", "mac", "framed_addr", "result", "ttl"],
}
"""Some fields of the logs of Zeek 8.0, in its order, behind ts and the connection's."""


def site_log(kind: str, rows: Iterable[Row], names: list[str] | None = None) -> str:
    """A TSV log of a site's Zeek."""
    names = names or ["ts", *CONNECTION, *FIELDS[kind]]
    lines_of_header = header(names).replace(PACKET_LOG.path, kind)
    return lines_of_header + lines((CONNECTION | row for row in rows), names) + "#close\tx\n"


def package_log(kind: Log, rows: Iterable[Row]) -> str:
    """One of the logs beside the packet log that zeek_scripts/ writes."""
    names = [column.name for column in kind.columns]
    return header(names).replace(PACKET_LOG.path, kind.path) + lines(rows, names) + "#close\tx\n"
