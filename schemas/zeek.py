"""The logs of Zeek that are read: their fields, by Zeek's names, with the types they are parsed as;
and, for the logs that zeek_scripts/ writes, the generated `zeek_scripts/scripts/columns.zeek`
(`python -m schemas.zeek` writes it)."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from schemas.packets import PACKETS
from schemas.table import TIMESTAMP, Column

COLUMNS_SCRIPT = Path(__file__).parents[1] / "zeek_scripts/scripts/columns.zeek"

ADDRESS = pa.dictionary(pa.int32(), pa.string())
PORT = pa.uint16()


@dataclass(frozen=True)
class Log:
    """One kind of log. path: Zeek's name of it, and the stem of its files; columns: the fields
    that are taken; told_by: fields that together no other log has; ours: written by zeek_scripts/,
    so that further fields are worth a note."""

    path: str
    columns: tuple[Column, ...]
    identifying_fields: tuple[str, ...]
    by_giscope: bool = False

    @cached_property
    def fields(self) -> dict[str, pa.DataType]:
        """Arrow types by field name."""
        return {column.name: column.type for column in self.columns}

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The fields without which a row says nothing."""
        return tuple(column.name for column in self.columns if column.required)

    @cached_property
    def description(self) -> str:
        """What a file that lacks these fields is not."""
        return f"a log of the kind {self.path}"


def _address(name: str, meaning: str, required: bool = True) -> Column:
    return Column(name, ADDRESS, meaning, required=required)


ADDRESSES = ("user", "server")
_ADDED_BY_INGEST = ("capture", "frame", "user_partition", "clock_steps")
_MONITOR_TS = Column("ts", TIMESTAMP, "when the monitor saw it", required=True)
_PACKET_COLUMNS = tuple(
    _address(column.name, column.meaning)
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
        Column("ts", TIMESTAMP, "when the message was seen", required=True),
        _address("nas", "who sent it"),
        Column(
            "status",
            pa.uint8(),
            "Acct-Status-Type; 0: an Access-Accept",
            source="RFC 2866, 5.1",
            required=True,
        ),
        Column("session", pa.string(), "Acct-Session-Id"),
        _address("address", "Framed-IP-Address", required=False),
        Column("subscriber", pa.string(), "IMSI, Calling-Station-Id or User-Name"),
        Column("session_time", pa.uint32(), "Acct-Session-Time", "s"),
        Column("delay", pa.uint32(), "Acct-Delay-Time", "s"),
    ),
    ("status", "session", "nas"),
    by_giscope=True,
)

MONITOR_LOG = Log(
    "giscope_monitor",
    (
        Column("ts", TIMESTAMP, "since when it was counted", required=True),
        Column("peer", pa.string(), "which Zeek"),
        Column("received", pa.int64(), "packets that it got since the row before", required=True),
        Column("dropped", pa.int64(), "packets that it did not get", required=True),
        Column("acks", pa.int64(), "acknowledgements of data", required=True),
        Column("gaps", pa.int64(), "those of data that it did not see", required=True),
    ),
    ("received", "dropped", "gaps"),
    by_giscope=True,
)

_CONNECTION = (
    Column("ts", TIMESTAMP, "when it happened", required=True),
    _address("id.orig_h", "the originator"),
    Column("id.orig_p", PORT, "the originator's port", required=True),
    _address("id.resp_h", "the responder"),
    Column("id.resp_p", PORT, "the responder's port", required=True),
)
CONN_LOG = Log(
    "conn",
    (
        *_CONNECTION,
        Column("proto", pa.string(), "transport protocol", required=True),
        Column("service", pa.string(), "protocols that Zeek recognized"),
        Column("duration", pa.float64(), "from the first packet to the last", "s"),
    ),
    ("conn_state", "proto"),
)
HTTP_LOG = Log(
    "http",
    (
        *_CONNECTION,
        Column("trans_depth", pa.int64(), "the request's number", required=True),
        Column("method", pa.string(), "of the request"),
        Column("status_code", pa.int64(), "of the final response"),
    ),
    ("trans_depth", "request_body_len"),
)
SSL_LOG = Log(
    "ssl",
    (*_CONNECTION, Column("established", pa.bool_(), "the handshake succeeded")),
    ("established", "resumed"),
)
RADIUS_LOG = Log(
    "radius",
    (
        Column("ts", TIMESTAMP, "when it happened", required=True),
        _address("id.orig_h", "the access server"),
        Column("username", pa.string(), "User-Name"),
        Column("mac", pa.string(), "Calling-Station-Id"),
        _address("framed_addr", "Framed-IP-Address", required=False),
        Column("result", pa.string(), "success, failed or unknown"),
    ),
    ("username", "result"),
)
LOGS = (PACKET_LOG, ACCOUNTING_LOG, MONITOR_LOG, CONN_LOG, HTTP_LOG, SSL_LOG, RADIUS_LOG)


def zeek_type(column: Column) -> str:
    """The Zeek type that holds a column's values."""
    if column.type == ADDRESS:
        return "addr"
    if column.name.endswith("_port"):
        return "port"
    if pa.types.is_timestamp(column.type):
        return "time"
    if pa.types.is_boolean(column.type):
        return "bool"
    if pa.types.is_list(column.type):
        return "vector of count"
    if pa.types.is_integer(column.type):
        return "count"
    if pa.types.is_string(column.type):
        return "string"
    raise TypeError(f"{column.name}: no Zeek type for {column.type}")


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
    """The records that rows of our logs are, in Zeek's language."""
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
