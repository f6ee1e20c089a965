"""Warehouses of version 0.1, which had a commit file for each unit: taken over as they are."""

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from spark_jobs.warehouse.commits import Unit
from spark_jobs.warehouse.files import described
from spark_jobs.warehouse.journal import File, Journal, Published

COMMITS = "_commits"


def take_over(root: Path, journal: Journal) -> None:
    """What commit files say into a journal that is not there yet; the files stay where they are."""
    journal.take_over(_published(root))
    shutil.rmtree(root / COMMITS)


def _published(root: Path) -> Iterator[Published]:
    for path in sorted((root / COMMITS).glob("*/*/*.json")):
        if path.name.startswith("."):
            continue  # begun, and broken off
        read = json.loads(path.read_text())
        yield Published(Unit(**read["unit"]), read["facts"], list(_files(root, read["files"])))


def _files(root: Path, named: Iterable[str]) -> Iterator[File]:
    """Those that are there."""
    for target in named:
        path = root / target
        if path.exists():
            yield File(target, *described(path))
