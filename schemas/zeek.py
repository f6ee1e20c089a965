"""The logs of Zeek that are read: their fields, by Zeek's names, with the types they are parsed as.

`python -m schemas.zeek` writes `zeek_scripts/scripts/columns.zeek`: the records of the logs that
zeek_scripts/ writes.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from schemas.arrow_types import ARROW_TYPES
from schemas.packets import PACKETS
from schemas.table import TIMESTAMP, Column

COLUMNS_SCRIPT = Path(__file__).parents[1] / "zeek_scripts/scripts/columns.zeek"

ADDRESS = "dictionary<values=string, indices=int32, ordered=0>"
PORT = "uint16"


@dataclass(frozen=True)
class Log:
    """One kind of log.

    path: Zeek's name of it, and the stem of its files.
    columns: the fields that are read.
    identifying_fields: fields that together no other kind of log has.
    by_giscope: zeek_scripts/ writes it, so that unknown fields are worth a note.
    """

    path: str
    columns: tuple[Column, ...]
    identifying_fields: tuple[str, ...]
    by_giscope: bool = False

    @cached_property
    def fields(self) -> dict[str, pa.DataType]:
        """The Arrow types by field name."""
        return {column.name: ARROW_TYPES[column.type] for column in self.columns}

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The fields that a usable row must have."""
        return tuple(column.name for column in self.columns if column.required)

    @cached_property
    def description(self) -> str:
        """The kind of log in words, for error messages."""
        return f"a log of the kind {self.path}"


def _address(name: str, meaning: str, required: bool = True) -> Column:
    return Column(name, ADDRESS, meaning, required=required)


ADDRESSES = {"user": "the mobile's address", "server": "the server's address"}
PREFIXES = "list<item: string>"
_ADDED_BY_INGEST = ("capture", "frame", "user_partition", "clock_steps", "address", "vlan")
_MONITOR_TS = Column("ts", TIMESTAMP, "time at which the monitor saw the packet", required=True)
_PACKET_COLUMNS = tuple(
    _address(column.name, ADDRESSES[column.name])
    if column.name in ADDRESSES
    else _MONITOR_TS
    if column.name == "ts"
    else column
    for column in PACKETS.columns
    if column.name not in _ADDED_BY_INGEST
)
PACKET_LOG = Log(
    "giscope_packets",
    _PACKET_COLUMNS,
    tuple(column.name for column in _PACKET_COLUMNS if column.required),
    by_giscope=True,
)

ACCOUNTING_LOG = Log(
    "giscope_accounting",
    (
        Column("ts", TIMESTAMP, "time at which the message was seen", required=True),
        _address("nas", "address of the sender"),
        Column(
            "status",
            "uint8",
            "Acct-Status-Type; 0 for an Access-Accept",
            source="RFC 2866, 5.1",
            required=True,
        ),
        Column("session", "string", "Acct-Session-Id"),
        _address("address", "Framed-IP-Address", required=False),
        Column("prefixes", PREFIXES, "Framed-IPv6-Prefix and Delegated-IPv6-Prefix"),
        Column("subscriber", "string", "IMSI, Calling-Station-Id or User-Name"),
        Column("session_time", "uint32", "Acct-Session-Time", "s"),
        Column("delay", "uint32", "Acct-Delay-Time", "s"),
        Column("charging", "string", "3GPP-Charging-Id"),
        Column("multi_session", "string", "Acct-Multi-Session-Id"),
        Column("apn", "string", "Called-Station-Id"),
        Column("rat", "string", "3GPP-RAT-Type, as hexadecimal digits"),
        Column("area", "string", "3GPP-User-Location-Info, as hexadecimal digits"),
        Column("device", "string", "the first eight digits of 3GPP-IMEISV"),
        Column("home", "string", "3GPP-IMSI-MCC-MNC"),
        Column("visited", "string", "3GPP-SGSN-MCC-MNC"),
        Column("qci", "string", "3GPP-GPRS-Negotiated-QoS-Profile"),
    ),
    ("status", "session", "nas"),
    by_giscope=True,
)

MONITOR_LOG = Log(
    "giscope_monitor",
    (
        Column("ts", TIMESTAMP, "time since which the packets are counted", required=True),
        Column("peer", "string", "name of the Zeek process"),
        Column("received", "int64", "packets that Zeek got since the previous row", required=True),
        Column("dropped", "int64", "packets that Zeek did not get", required=True),
        Column("acks", "int64", "acknowledgments of data", required=True),
        Column("gaps", "int64", "acknowledgments of data that Zeek did not see", required=True),
    ),
    ("received", "dropped", "gaps"),
    by_giscope=True,
)

_CONNECTION = (
    Column("ts", TIMESTAMP, "time of the event", required=True),
    _address("id.orig_h", "the originator"),
    Column("id.orig_p", PORT, "the originator's port", required=True),
    _address("id.resp_h", "the responder"),
    Column("id.resp_p", PORT, "the responder's port", required=True),
)
CONN_LOG = Log(
    "conn",
    (
        *_CONNECTION,
        Column("proto", "string", "transport protocol", required=True),
        Column("service", "string", "protocols that Zeek recognized"),
        Column("duration", "double", "time from the first packet to the last", "s"),
    ),
    ("conn_state", "proto"),
)
HTTP_LOG = Log(
    "http",
    (
        *_CONNECTION,
        Column("trans_depth", "int64", "number of the request in its connection", required=True),
        Column("method", "string", "method of the request"),
        Column("status_code", "int64", "status of the final response"),
    ),
    ("trans_depth", "request_body_len"),
)
SSL_LOG = Log(
    "ssl",
    (*_CONNECTION, Column("established", "bool", "whether the handshake succeeded")),
    ("established", "resumed"),
)
RADIUS_LOG = Log(
    "radius",
    (
        Column("ts", TIMESTAMP, "time of the event", required=True),
        _address("id.orig_h", "the access server"),
        Column("username", "string", "User-Name"),
        Column("mac", "string", "Calling-Station-Id"),
        _address("framed_addr", "Framed-IP-Address", required=False),
        Column("result", "string", "success, failed or unknown"),
    ),
    ("username", "result"),
)
LOGS = (PACKET_LOG, ACCOUNTING_LOG, MONITOR_LOG, CONN_LOG, HTTP_LOG, SSL_LOG, RADIUS_LOG)


ZEEK_TYPES = {
    ADDRESS: "addr",
    TIMESTAMP: "time",
    "bool": "bool",
    "list<item: uint32>": "vector of count",
    PREFIXES: "vector of subnet",
    "string": "string",
    **dict.fromkeys(("int32", "int64", "uint8", "uint16", "uint32"), "count"),
}


def zeek_type(column: Column) -> str:
    """Return the Zeek type that holds a column's values. Raises KeyError if there is none."""
    return "port" if column.name.endswith("_port") else ZEEK_TYPES[column.type]


def _record(name: str, log: Log) -> list[str]:
    lines = [f"\ttype {name}: record {{"]
    for column in log.columns:
        unit = f" ({column.unit})" if column.unit else ""
        optional = "" if column.required else " &optional"
        lines += [
            f"\t\t## {column.meaning}{unit}",
            f"\t\t{column.name}: {zeek_type(column)} &log{optional};",
        ]
    return [*lines, "\t};"]


def columns_script() -> str:
    """Return the records of the rows of giscope's logs, in Zeek's language."""
    lines = [
        "##! Rows of the logs that this package writes. Generated from schemas/ by",
        "##! `python -m schemas.zeek`; change it there.",
        "",
        "module GiScope;",
        "",
        "export {",
        *_record("Info", PACKET_LOG),
        "",
        *_record("Accounting", ACCOUNTING_LOG),
        "",
        *_record("Monitor", MONITOR_LOG),
        "}",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    COLUMNS_SCRIPT.write_text(columns_script())
