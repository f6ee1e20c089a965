"""Readers of capture files, from the bytes to columns of packets."""

from enum import StrEnum


class FrontEnd(StrEnum):
    """Programs that can read a capture file."""

    AUTO = "auto"
    BUILTIN = "builtin"
    ZEEK = "zeek"
    ZEEK_LOG = "zeek-log"
