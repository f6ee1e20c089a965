"""The plan of an ingest: which files are read, which are unchanged, and which cannot be read."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.base.places import NOT_REGULAR, is_irregular
from spark_jobs.capture import FrontEnd
from spark_jobs.capture.files import capture_name
from spark_jobs.capture.stamp import is_unchanged
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.facts import CaptureFacts

CaptureFile = tuple[Network, Path]
"""A network and one of its capture files or logs."""


@dataclass
class Plan:
    """The decisions about files. A file is in none of them if another file of its capture is read.

    to_read: the files to read
    unchanged: the facts of the files that were ingested as they are now
    errors: the reasons why files are not read
    notes: lines for the user, by the file of a capture that is read
    """

    to_read: list[CaptureFile] = field(default_factory=list)
    unchanged: dict[CaptureFile, CaptureFacts] = field(default_factory=dict)
    errors: dict[CaptureFile, str] = field(default_factory=dict)
    notes: dict[CaptureFile, list[str]] = field(default_factory=dict)


def plan_ingest(
    files: Iterable[CaptureFile],
    published: Callable[[str, str], CaptureFacts | None],
    front_end: FrontEnd,
) -> Plan:
    """Decide which files are read: one of each capture, if it has changed.

    published: returns the facts of the capture with the names of a network and of a capture; None
        if its rows are not there
    """
    paths_of: dict[tuple[Network, str], list[Path]] = defaultdict(list)
    for network, path in files:
        paths_of[network, capture_name(path)].append(path)
    plan = Plan()
    for (network, name), paths in paths_of.items():
        unchanged: dict[Path, CaptureFacts] = {}
        for path in paths:
            with suppress(OSError):
                facts = published(network.name, name)
                if facts and is_unchanged(facts, path, network, front_end):
                    unchanged[path] = facts
        _add_capture(plan, network, paths, unchanged)
    return plan


def _add_capture(
    plan: Plan, network: Network, paths: list[Path], unchanged: dict[Path, CaptureFacts]
) -> None:
    path = paths[0]
    if len(paths) > 1:
        from spark_jobs.capture.capture_variants import choose_file

        choice = choose_file(paths, next(iter(unchanged), None))
        path = choice.chosen
        plan.notes[network, path] = choice.notes
        plan.errors.update({(network, other): line for other, line in choice.errors.items()})
    if path in unchanged:
        plan.unchanged[network, path] = unchanged[path]
    elif _is_irregular(path):
        plan.errors[network, path] = f"{path}: {NOT_REGULAR}"
    else:
        plan.to_read.append((network, path))


def _is_irregular(path: Path) -> bool:
    """Return whether a file is known to be irregular, such as a pipe of the shell.

    The processes that read files do not have the shell's pipes, so it is checked before.
    """
    with suppress(OSError):
        return is_irregular(path)
    return False
