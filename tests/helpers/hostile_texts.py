"""Logs of Zeek with texts that an attacker chose."""

import json

from schemas.zeek import ACCOUNTING_LOG, LOGS, MONITOR_LOG, PACKET_LOG
from tests.helpers.zeek_logs import CONNECTION, FIELDS, log, package_log, site_log

PACKET = {
    "ts": "1078224001.891451",
    "user": "10.67.1.10",
    "server": "198.51.100.24",
    "downlink": "F",
    "ip_proto": "1",
    "ip_len": "84",
    "ip_id": "1755",
    "ttl": "64",
    "dscp": "0",
    "ecn": "0",
}


ROWS = {
    "conn": CONNECTION
    | {"ts": "1.5", "proto": "tcp", "service": "http", "duration": "2.5", "conn_state": "SF"},
    "http": CONNECTION
    | {"ts": "1.5", "trans_depth": "1", "method": "GET", "status_code": "200"}
    | {"request_body_len": "0"},
    "ssl": CONNECTION | {"ts": "1.5", "established": "T", "resumed": "F"},
    "radius": CONNECTION
    | {"ts": "1.5", "username": "u", "framed_addr": "10.64.0.1", "result": "success"},
    ACCOUNTING_LOG.path: {"ts": "9.5", "nas": "192.0.2.1", "status": "1", "session": "s"}
    | {"address": "10.64.0.1", "subscriber": "u", "session_time": "7", "delay": "3"},
    MONITOR_LOG.path: dict.fromkeys(("received", "dropped", "acks", "gaps"), "1") | {"ts": "1.5"},
    PACKET_LOG.path: PACKET,
}
"""A valid row of each kind of log."""


KINDS = {log.path: log for log in LOGS}


TEXTS = {"user", "server", "nas", "session", "address", "subscriber", "username", "framed_addr"}


def in_tsv(kind: str, *rows: dict[str, str]) -> bytes:
    if kind == PACKET_LOG.path:
        return log(rows).encode()
    if kind in FIELDS:
        return site_log(kind, rows).encode()
    return package_log(KINDS[kind], rows).encode()


def json_line(row: dict[str, str]) -> str:
    """A row of which every value that can be one is a number or a truth, as Zeek writes it."""

    def value(name: str, text: str) -> object:
        if name in TEXTS:
            return text
        try:
            return {"T": True, "F": False}.get(text) if text in ("T", "F") else json.loads(text)
        except (ValueError, RecursionError):
            return text

    return json.dumps({name: value(name, text) for name, text in row.items()}) + "\n"


def in_json(kind: str, *rows: dict[str, str]) -> bytes:
    return "".join(map(json_line, rows)).encode()


HOSTILE = [
    *("#separator \\x0\n", "#separator \\U00110000\n", "#separatorx\n", "#fields\n", "#path\n"),
    *("inf", "-inf", "nan", "1e308", "1e999", "-1", "9" * 25, "9223372036854775807", "4294967295"),
    *("\0", "\n", "\t", ",", "-", "(empty)", "T", '"', '{"', "{}", "[]", "null", '"x"', "#", "\\"),
    *("::", "10.64.0.1", "2004-03-02T10:00:00Z", '{"ts":"noon"}\n', "\ud7ff", "\u2028", "1.5.5"),
]
