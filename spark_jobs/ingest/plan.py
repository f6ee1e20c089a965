"""The plan of an ingest: which file of each capture is read, and on what its rows depend."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from spark_jobs.base.errors import UserError
from spark_jobs.base.places import NOT_REGULAR, is_irregular
from spark_jobs.capture import FrontEnd
from spark_jobs.capture.users import user_keys
from spark_jobs.ingest.files import (
    COMPRESSION_SUFFIXES,
    CaptureFile,
    capture_name,
    has_log_name,
    without_compression,
)
from spark_jobs.warehouse.facts import CaptureFacts
from spark_jobs.warehouse.units import Unit, fingerprint

FORMAT = 3
"""The format of a capture's rows: raise it if the same file would give other rows."""


def capture_unit(file: CaptureFile) -> Unit:
    """Return the unit that a file's rows are published as."""
    network, path = file
    return Unit("capture", network.name, capture_name(path))


def inputs_hash(file: CaptureFile, front_end: FrontEnd) -> str:
    """Return a hash of everything that a file's rows depend on; empty if it cannot be read."""
    network, path = file
    try:
        status = path.stat()
    except OSError:
        return ""
    keys = user_keys(network)
    others = [
        (other_network.name, *map(str, other_network.subscribers), other_keys.key_scheme)
        for other_network, other_keys in zip(network.others, keys.other_networks, strict=True)
    ]
    subscribers = [str(own) for own in network.subscribers]
    settings = keys.hash_text(
        f"{subscribers} {network.user_partitions} {keys.key_scheme} {network.servers} "
        f"{network.nat64} {others} {network.vlans}"
    )
    if front_end == FrontEnd.AUTO:
        front_end = FrontEnd.ZEEK_LOG if has_log_name(path) else FrontEnd.BUILTIN
    if front_end == FrontEnd.ZEEK_LOG:
        settings += f" {network.area} {network.device}"
    return fingerprint(FORMAT, str(front_end), status.st_size, status.st_mtime_ns, settings)


def has_another_format(facts: CaptureFacts) -> bool:
    """Return whether a capture has packets that are known to have another format.

    After a catalog was rebuilt, the format is not known.
    """
    return facts.packets > 0 and facts.format not in (None, FORMAT)


@dataclass
class Plan:
    """The decisions about files. A file is in none of them if another file of its capture is.

    files: the file of each capture, unless an error is known
    errors: the reasons why files are not read
    notes: lines for the user, by the file of a capture that is read
    """

    files: list[CaptureFile] = field(default_factory=list)
    errors: dict[CaptureFile, str] = field(default_factory=dict)
    notes: dict[CaptureFile, list[str]] = field(default_factory=dict)


def plan_ingest(files: Iterable[CaptureFile]) -> Plan:
    """Choose the file of each capture."""
    files_of: dict[Unit, list[CaptureFile]] = defaultdict(list)
    for file in files:
        files_of[capture_unit(file)].append(file)
    plan = Plan()
    for same_name in files_of.values():
        network, first = same_name[0]
        variants = [
            path for _, path in same_name if without_compression(path) == without_compression(first)
        ]
        chosen = first
        if len(variants) > 1:
            chosen = _newest_complete(variants)
            plan.notes[network, chosen] = [
                f"{path}: skipped: {chosen} is read instead" for path in variants if path != chosen
            ]
        plan.errors |= {
            file: f"{file[1]}: has the same capture name as {chosen}: rename one"
            for file in same_name
            if file[1] not in variants
        }
        if _is_irregular(chosen):
            plan.errors[network, chosen] = f"{chosen}: {NOT_REGULAR}"
        else:
            plan.files.append((network, chosen))
    return plan


def _newest_complete(paths: list[Path]) -> Path:
    """Return the newest complete one of a capture's files, which differ in their compression.

    Several exist while a capture is being compressed or unpacked. A compressed file is complete if
    its stream is; a plain file if no complete one holds more bytes.
    """
    found = [_Variant.of(path) for path in sorted(paths)]
    most = max((one.size for one in found if one.is_packed), default=0)
    complete = [one for one in found if one.size >= max(most, 1)]
    return max(complete or found, key=lambda one: (one.mtime_ns, one.is_packed)).path


class _Variant(NamedTuple):
    """One of a capture's files. size: uncompressed bytes; 0 if a compressed stream is broken."""

    path: Path
    is_packed: bool
    size: int = 0
    mtime_ns: int = 0

    @classmethod
    def of(cls, path: Path) -> _Variant:
        from spark_jobs.capture.stream import CaptureStream

        is_packed = path.suffix in COMPRESSION_SUFFIXES
        with suppress(UserError, OSError):
            status = path.stat()
            if not is_packed:
                return cls(path, is_packed, status.st_size, status.st_mtime_ns)
            with CaptureStream(path) as stream:
                for _ in stream.remaining():
                    pass
                size = 0 if stream.compression_error else stream.position
            return cls(path, is_packed, size, status.st_mtime_ns)
        return cls(path, is_packed)


def _is_irregular(path: Path) -> bool:
    """Return whether a file is known to be irregular, such as a pipe of the shell.

    The processes that read files do not have the shell's pipes, so it is checked before.
    """
    with suppress(OSError):
        return is_irregular(path)
    return False
