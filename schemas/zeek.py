"""The columns of Zeek's packet log, as schemas.packets has them: names, Zeek types, and the
generated `zeek_scripts/scripts/columns.zeek` (`python -m schemas.zeek` writes it)."""

from pathlib import Path

import pyarrow as pa

from schemas.packets import PACKETS
from schemas.table import Column

LOG_PATH = "giscope_packets"
"""Zeek's name of the log, and the stem of its files."""

MADE_BY_INGEST = ("capture", "frame", "bucket")
LOG_COLUMNS: tuple[Column, ...] = tuple(
    column for column in PACKETS.columns if column.name not in MADE_BY_INGEST
)
REQUIRED = tuple(column.name for column in LOG_COLUMNS if column.required)
ADDRESSES = ("user", "server")
COLUMNS_SCRIPT = Path(__file__).parents[1] / "zeek_scripts/scripts/columns.zeek"


def zeek_type(column: Column) -> str:
    """The Zeek type that holds a column's values."""
    if column.name in ADDRESSES:
        return "addr"
    if pa.types.is_timestamp(column.type):
        return "time"
    if pa.types.is_boolean(column.type):
        return "bool"
    if pa.types.is_list(column.type):
        return "vector of count"
    if pa.types.is_integer(column.type):
        return "count"
    raise TypeError(f"{column.name}: no Zeek type for {column.type}")


def columns_script() -> str:
    """The record that a row of the log is, in Zeek's language."""
    lines = [
        "##! A row of the packet log. Generated from schemas/packets.py by",
        "##! `python -m schemas.zeek`; change it there.",
        "",
        "module GiScope;",
        "",
        "export {",
        "\ttype Info: record {",
    ]
    for column in LOG_COLUMNS:
        unit = f" ({column.unit})" if column.unit else ""
        optional = "" if column.required else " &optional"
        lines += [
            f"\t\t## {column.meaning}{unit}",
            f"\t\t{column.name}: {zeek_type(column)} &log{optional};",
        ]
    return "\n".join([*lines, "\t};", "}", ""])


if __name__ == "__main__":
    COLUMNS_SCRIPT.write_text(columns_script())
