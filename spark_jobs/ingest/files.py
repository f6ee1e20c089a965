"""Names of capture files and logs, and the search for them in folders."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path

from spark_jobs.base.errors import UserError, in_a_line, printable
from spark_jobs.base.places import NOT_REGULAR, FolderListing, list_folder
from spark_jobs.capture import FrontEnd
from spark_jobs.settings.networks import Network, find_network

CaptureFile = tuple[Network, Path]
"""A network and one of its capture files or logs."""

COMPRESSION_SUFFIXES = (".gz", ".zst", ".zstd")
_COMPRESSION = "|".join(map(re.escape, COMPRESSION_SUFFIXES))
_LOG_NAME = re.compile(rf"\.(log|json)({_COMPRESSION})?$")
_CAPTURE_NAME = re.compile(r"\.pcap|\.cap(\.|$)", re.IGNORECASE)


def has_log_name(path: Path) -> bool:
    """Return whether a file is named as a log, not as a capture."""
    return _LOG_NAME.search(path.name) is not None


def has_capture_name(path: Path) -> bool:
    """Return whether a file is named as a capture."""
    return _CAPTURE_NAME.search(path.name) is not None


def is_capture(path: Path) -> bool:
    """Return whether a file is named as a capture, or is one by its first bytes.

    Programs that rotate captures name them as they like. Hidden files may still be written.
    """
    if has_capture_name(path):
        return True
    if has_log_name(path) or path.name.startswith("."):
        return False
    from spark_jobs.capture.framing import MAGIC
    from spark_jobs.capture.stream import first_bytes

    try:
        return first_bytes(path, 4) in MAGIC
    except (UserError, OSError):
        return False


def capture_name(path: Path) -> str:
    """Return a capture's name: the file's name without compression suffix, made printable.

    If the file's folder is a day, the folder's name precedes it, because the same file name may
    come every day.
    """
    name = printable(uncompressed_name(path))
    folder = path.absolute().parent.name
    return f"{folder}/{name}" if _day(folder) else name


def uncompressed_name(path: Path) -> str:
    """Return a file's name without its compression suffix."""
    return path.stem if path.suffix in COMPRESSION_SUFFIXES else path.name


def without_compression(path: Path) -> Path:
    """Return the path that a file would have if it was not compressed."""
    return path.absolute().with_name(uncompressed_name(path))


def capture_day(capture: str) -> date | None:
    """Return the day whose folder the capture was in, or None."""
    return _day(capture.partition("/")[0])


def _day(name: str) -> date | None:
    try:
        return datetime.strptime(name, "%Y-%m-%d").date()
    except ValueError:
        return None


@dataclass
class FoundFiles:
    """Files of a folder that a front end reads.

    files: the files
    notes: a line about the logs of Zeek in the folder that giscope does not use
    errors: one line for each folder that cannot be read, for links that are not followed, and for
        each path that is named as an input but is no regular file
    """

    files: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass
class FoundWork:
    """Files to ingest, each with its network; notes, errors: as in FoundFiles, of all folders."""

    files: list[CaptureFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def add(self, network: Network, found: FoundFiles) -> None:
        """Add the files of a network that were found, and the lines about them."""
        self.files += [(network, path) for path in found.files]
        self.notes += found.notes
        self.errors += found.errors


def find_work(
    folder: Path,
    networks: dict[str, Network],
    networks_file: Path,
    front_end: FrontEnd,
    follow_links: bool,
) -> FoundWork:
    """Find the files of every network in a folder that has a folder for each.

    networks: those of networks_file, by name. Raises UserError if there is nothing to ingest.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    contents, work = list_folder(folder, follow_links), FoundWork()
    if contents.links:
        work.errors.append(unfollowed_links_message(folder, contents.links))
    for network_folder in contents.folders:
        found = find_captures(network_folder, front_end, follow_links)
        try:
            if found.files:
                network = find_network(networks, network_folder.name, networks_file)
                work.add(network, found)
            else:
                work.errors += found.errors
        except UserError as error:
            work.notes += found.notes
            work.errors += [*found.errors, *error.args]
    if not work.files:
        nothing = f"{folder}: no capture or log in a folder of it that is named as a network"
        raise UserError(*(work.errors or [nothing]))
    return work


def find_named(
    paths: Iterable[Path], network: Network, front_end: FrontEnd, follow_links: bool
) -> FoundWork:
    """Find the files of a network among paths of files and folders."""
    work = FoundWork()
    for path in paths:
        is_folder = _is_folder(path)
        work.add(
            network,
            find_captures(path, front_end, follow_links) if is_folder else FoundFiles([path]),
        )
    return work


def _is_folder(path: Path) -> bool:
    """Return whether a path is a folder; it is not if its name is not valid."""
    try:
        return path.is_dir()
    except OSError:
        return False


def find_captures(
    folder: Path, front_end: FrontEnd = FrontEnd.AUTO, follow_links: bool = False
) -> FoundFiles:
    """Find the files of a folder, and of its dated folders, that a front end reads.

    Captures in other folders are reported in `errors`.
    """
    found = FoundFiles()
    contents = _list_folder(folder, follow_links, found)
    day_folders = [day for day in contents.folders if _day(day.name)]
    listings = [contents, *(_list_folder(day, follow_links, found) for day in day_folders)]
    files = [path for listing in listings for path in listing.files]
    captures = {path: None for path in files if is_capture(path)}
    others = {folder for listing in listings for folder in listing.folders} - {*day_folders}
    for other in sorted(others):
        inside = sum(map(is_capture, _list_folder(other, follow_links, found).files))
        if inside:
            found.errors.append(
                f"{other}: is not named as a day (YYYY-MM-DD), so the captures in it are left out "
                f"({inside}): move them to {folder}, or to a folder of it that is named as a day"
            )
    if front_end != FrontEnd.ZEEK_LOG:
        found.files += captures
    if front_end in (FrontEnd.AUTO, FrontEnd.ZEEK_LOG):
        logs = [path for path in files if path not in captures and has_log_name(path)]
        usable = [path for path in logs if _is_usable_log(path)]
        found.files += usable
        unused = {path.name.split(".")[0] for path in logs if path not in usable}
        if found.files and unused:
            found.notes.append(f"{folder}: logs left out: {', '.join(sorted(unused))}")
    return found


def _is_usable_log(path: Path) -> bool:
    """Return whether a log is of a known kind or cannot be read.

    The ingest reports why a log cannot be read.
    """
    from spark_jobs.capture.zeek_kinds import log_kind

    try:
        return log_kind(path) is not None
    except (UserError, OSError):
        return True


def _list_folder(folder: Path, follow_links: bool, found: FoundFiles) -> FolderListing:
    """List a folder, and report in found.errors what is left out."""
    try:
        contents = list_folder(folder, follow_links)
    except OSError as error:
        found.errors.append(in_a_line(error))
        return FolderListing([], [], [], [])
    input_links = [path for path in contents.links if _is_named_as_input(path)]
    if input_links:
        found.errors.append(unfollowed_links_message(folder, input_links))
    found.errors += [
        f"{path}: {NOT_REGULAR}" for path in contents.special_files if _is_named_as_input(path)
    ]
    return contents


def unfollowed_links_message(folder: Path, links: list[Path]) -> str:
    """Return the message about symbolic links in a folder that are not followed."""
    names = ", ".join(path.name for path in links)
    return f"{folder}: symbolic links are not followed without --follow-links: {names}"


def _is_named_as_input(path: Path) -> bool:
    return has_capture_name(path) or has_log_name(path) or _day(path.name) is not None
