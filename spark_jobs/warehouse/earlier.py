"""Warehouses of version 0.1, which had a commit file for each unit: taken over as they are."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from spark_jobs.warehouse.commits import Content, Unit, content_of
from spark_jobs.warehouse.files import count_rows
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


def _files(root: Path, named: list[str] | dict[str, list]) -> Iterator[File]:
    """Those that are there; the first commit files did not say what is in them."""
    for target in named:
        path = root / target
        if path.exists():
            content = Content(*named[target]) if isinstance(named, dict) else content_of(path)
            yield File(target, content, count_rows(path))
