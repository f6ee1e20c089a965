"""The kinds of Zeek's logs, by their first lines."""

import json
from contextlib import suppress
from pathlib import Path

from schemas.zeek import LOGS, Log
from spark_jobs.capture.stream import first_bytes
from spark_jobs.capture.untrusted import parser

HEAD_BYTES = 1 << 16


@parser
def is_zeek_log(path: Path) -> bool:
    """Return whether a file begins as a Zeek log."""
    return first_bytes(path, 16).startswith((b"#separator", b"#fields", b"{"))


@parser
def log_kind(path: Path) -> Log | None:
    """Return which of the known logs a file is, or None.

    The fields decide, otherwise the name in the log's header. A JSON log whose first records cannot
    be read is identified by its file name.
    """
    head = first_bytes(path, HEAD_BYTES)
    fields, name = head_of(head)
    if not fields and head.startswith(b"{"):
        name = path.name.split(".")[0]
    by_fields = (log for log in LOGS if fields.issuperset(log.identifying_fields))
    by_name = (log for log in LOGS if log.path == name)
    return next(by_fields, next(by_name, None))


def head_of(head: bytes) -> tuple[set[str], str]:
    """Return the fields and the name of a log by its first bytes.

    They are in the header of a TSV log. A JSON log has the fields in its first records, and no
    name.
    """
    fields: set[str] = set()
    name = ""
    for line in head.decode("utf-8", "replace").splitlines():
        if line.startswith("#path"):
            name = line.split()[-1]
        elif line.startswith("#fields"):
            return set(line.split("\t")[1:]), name
        elif line.startswith("{"):
            with suppress(ValueError, RecursionError):
                fields.update(json.loads(line))
    return fields, name
