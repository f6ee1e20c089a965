"""The names of capture files and logs: what a folder holds, and what its captures are called."""

import re
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path

from spark_jobs.capture import FrontEnd
from spark_jobs.errors import UserError, in_a_line, printable
from spark_jobs.places import NOT_REGULAR, FolderListing, list_folder

COMPRESSION_SUFFIXES = (".gz", ".zst", ".zstd")
_COMPRESSION = "|".join(map(re.escape, COMPRESSION_SUFFIXES))
_LOG_NAME = re.compile(rf"\.(log|json)({_COMPRESSION})?$")


def has_log_name(path: Path) -> bool:
    """Whether a file is named as logs are, not as captures are."""
    return _LOG_NAME.search(path.name) is not None


def has_capture_name(path: Path) -> bool:
    """Whether a file is named as captures are."""
    return ".pcap" in path.name


def capture_name(path: Path) -> str:
    """A capture's name: the file's, but for how it is compressed, and as it can be printed; behind
    its folder's where that is a day: the same file name may come every day."""
    name = printable(uncompressed_name(path))
    folder = path.absolute().parent.name
    return f"{folder}/{name}" if _day(folder) else name


def uncompressed_name(path: Path) -> str:
    """A file's name, but for how it is compressed."""
    return path.stem if path.suffix in COMPRESSION_SUFFIXES else path.name


def without_compression(path: Path) -> Path:
    """Where a file lies, or would lie if it was not compressed."""
    return path.absolute().with_name(uncompressed_name(path))


def capture_day(capture: str) -> date | None:
    """The day whose folder the capture lay in, if any."""
    return _day(capture.partition("/")[0])


def _day(name: str) -> date | None:
    try:
        return datetime.strptime(name, "%Y-%m-%d").date()
    except ValueError:
        return None


@dataclass
class Found:
    """What a folder holds for a front end: files that it reads; unused: the kinds of Zeek's logs
    there that are of no use here; errors: a line for each folder that cannot be read, for links
    that are not followed, and for what is no regular file, though named as one that is read."""

    files: list[Path] = field(default_factory=list)
    unused: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)


def find_captures(
    folder: Path, front_end: FrontEnd = FrontEnd.AUTO, follow_links: bool = False
) -> Found:
    """What a folder and its dated folders hold for a front end."""
    found = Found()
    contents = _contents(folder, follow_links, found)
    days = [day for day in contents.folders if _day(day.name)]
    each = [contents, *(_contents(day, follow_links, found) for day in days)]
    files = [path for one in each for path in one.files]
    captures = [path for path in files if has_capture_name(path)]
    if front_end != FrontEnd.ZEEK_LOG:
        found.files += captures
    if front_end in (FrontEnd.AUTO, FrontEnd.ZEEK_LOG):
        logs = [path for path in files if not has_capture_name(path) and has_log_name(path)]
        known = [path for path in logs if _is_of_use(path)]
        found.files += known
        found.unused = {path.name.split(".")[0] for path in logs if path not in known}
    return found


def _is_of_use(path: Path) -> bool:
    """Whether a log is of a known kind, or cannot be read: that is told where it is ingested."""
    from spark_jobs.capture.zeek_lines import log_kind

    try:
        return log_kind(path) is not None
    except (UserError, OSError):
        return True


def _contents(folder: Path, follow_links: bool, found: Found) -> FolderListing:
    """What is right below a folder; what is left out is told in found.errors."""
    try:
        contents = list_folder(folder, follow_links)
    except OSError as error:
        found.errors.append(in_a_line(error))
        return FolderListing([], [], [], [])
    named = [path for path in contents.links if _is_named_as_input(path)]
    if named:
        found.errors.append(not_followed(folder, named))
    found.errors += [
        f"{path}: {NOT_REGULAR}" for path in contents.special_files if _is_named_as_input(path)
    ]
    return contents


def not_followed(folder: Path, links: list[Path]) -> str:
    """What is said of symbolic links in a folder."""
    names = ", ".join(path.name for path in links)
    return f"{folder}: symbolic links are not followed without --follow-links: {names}"


def _is_named_as_input(path: Path) -> bool:
    return has_capture_name(path) or has_log_name(path) or _day(path.name) is not None
