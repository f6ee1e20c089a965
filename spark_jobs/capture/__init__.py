"""Capture files to packet columns."""

from enum import StrEnum


class FrontEnd(StrEnum):
    """What reads a file."""

    AUTO = "auto"
    BUILTIN = "builtin"
    ZEEK = "zeek"
    ZEEK_LOG = "zeek-log"
