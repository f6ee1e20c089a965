"""The names of capture files and logs: what a folder holds, and what its captures are called."""

import re
from datetime import date, datetime
from pathlib import Path

from spark_jobs.capture import FrontEnd
from spark_jobs.errors import printable
from spark_jobs.places import files_in, folders_in

COMPRESSION_SUFFIXES = (".gz", ".zst", ".zstd")
_COMPRESSION = "|".join(map(re.escape, COMPRESSION_SUFFIXES))
_LOG_NAME = re.compile(rf"\.(log|json)({_COMPRESSION})?$")


def has_log_name(path: Path) -> bool:
    """Whether a file is named as logs are, not as captures are."""
    return _LOG_NAME.search(path.name) is not None


def capture_name(path: Path) -> str:
    """A capture's name: the file's, but for how it is compressed, and as it can be printed; behind
    its folder's where that is a day: the same file name may come every day."""
    name = printable(path.stem if path.suffix in COMPRESSION_SUFFIXES else path.name)
    folder = path.absolute().parent.name
    return f"{folder}/{name}" if _day(folder) else name


def capture_day(capture: str) -> date | None:
    """The day whose folder the capture lay in, if any."""
    return _day(capture.partition("/")[0])


def _day(name: str) -> date | None:
    try:
        return datetime.strptime(name, "%Y-%m-%d").date()
    except ValueError:
        return None


def find_captures(folder: Path, front_end: FrontEnd = FrontEnd.AUTO) -> tuple[list[Path], set[str]]:
    """The files in a folder and in its dated folders that a front end reads, and the kinds of
    Zeek's logs there that are of no use here."""
    days = [day for day in folders_in(folder) if _day(day.name)]
    files = sorted(path for place in (folder, *days) for path in files_in(place))
    captures = [path for path in files if ".pcap" in path.name]
    logs = [path for path in files if path not in captures and has_log_name(path)]
    if logs:
        from spark_jobs.capture.zeek_lines import log_kind
    known = [path for path in logs if log_kind(path)]
    others = {path.name.split(".")[0] for path in logs if path not in known}
    if front_end == FrontEnd.AUTO:
        return captures + known, others
    return (known, others) if front_end == FrontEnd.ZEEK_LOG else (captures, set())
