"""The marts: a table for each `<figure>/mart.sql`, with the columns that its comments describe.

The SQL begins with the question that the mart answers, what one row is, and the columns that
define its groups (see mart_columns.py):

    -- On which side do connections lose more packets?
    -- One row: the connections of one network, date, local hour and side.
    -- Groups: hour, bottleneck

Above each item of its last select, a comment has the column's type, `or null` if it may be null,
its unit, its source, and its meaning. An empty line of the comment ends the meaning.

    -- double [s] (INFOCOM III.B): sum of the set-up delays
    sum(setup_delay) as delay_sum

An item without a comment is a column of SHARED_COLUMNS, or the number `local_hour`, which stands
for the columns of place and time. DuckDB could describe the types, but takes a second for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path

from schemas import Column, Table
from spark_jobs.figures import FOLDER, FOLDERS
from spark_jobs.figures.mart_columns import PLACE_AND_TIME, SHARED_COLUMNS

HEAD = re.compile(r"(?P<question>.*?) One row: (?P<row>.*) Groups: (?P<groups>[\w, ]+)")
COLUMN = re.compile(
    r"(?P<type>\w+)(?P<null> or null)?(?: \[(?P<unit>[^]]+)\])?(?: \((?P<source>[^)]+)\))?: "
    r"(?P<meaning>.+)"
)
QUOTED_OR_MARK = re.compile(r"('[^']*'|[][(){},])")


@cache
def mart(name: str) -> Table:
    """Return the mart of the figure with this name.

    Raises ValueError if its comments cannot be read.
    """
    path = FOLDER / name / "mart.sql"
    before, _, select = path.read_text().rpartition("\nselect\n")
    head = HEAD.fullmatch(_text(before.splitlines()))
    if not head:
        raise ValueError(f"{path}: does not begin with a question, `One row:` and `Groups:`")
    columns: list[Column] = []
    for comment, item in _items(select.partition("\nfrom ")[0]):
        column = item.split()[-1].rpartition(".")[2]
        if column == "local_hour":
            columns += _place_and_time(path, comment, item)
        else:
            columns.append(_column(path, column, comment))
    groups = tuple(head["groups"].split(", "))
    return Table(name, head["row"].rstrip("."), tuple(columns), group_columns=groups)


@cache
def all_marts() -> tuple[Table, ...]:
    """Return the marts of all figures, in the figures' order."""
    return tuple(mart(name) for name in FOLDERS if (FOLDER / name / "mart.sql").exists())


def _text(lines: Iterable[str]) -> str:
    """Return the first lines as one text, up to an empty comment or one that is none."""
    comments = takewhile(lambda line: line.startswith("-- "), map(str.strip, lines))
    return " ".join(line.removeprefix("-- ") for line in comments)


def _items(select: str) -> Iterator[tuple[str, str]]:
    """Yield the items of a select, each with the comment above it."""
    comment: list[str] = []
    item, depth = "", 0
    for line in select.splitlines():
        if line.strip().startswith("--"):
            comment.append(line)
            continue
        for part in QUOTED_OR_MARK.split(line):
            depth += (part in ("(", "[", "{")) - (part in (")", "]", "}"))
            if part == "," and not depth:
                yield _text(comment), item
                comment, item = [], ""
            else:
                item += part
        item += " "
    yield _text(comment), item


def _place_and_time(path: Path, comment: str, item: str) -> Iterator[Column]:
    """Yield the columns of place and time; a comment is that of the hour.

    The local hour of a period is the first one of it, and so no column.
    """
    for column in PLACE_AND_TIME:
        if column.name != "hour":
            yield column
        elif comment:
            yield _column(path, "hour", comment)
        elif "local_period" not in item:
            yield column


def _column(path: Path, name: str, comment: str) -> Column:
    if not comment and name in SHARED_COLUMNS:
        return SHARED_COLUMNS[name]
    found = COLUMN.fullmatch(comment)
    if not found:
        raise ValueError(
            f"{path}: column {name}: the comment above it is not `-- TYPE [UNIT] (SOURCE): MEANING`"
        )
    return Column(
        name,
        found["type"],
        found["meaning"],
        found["unit"] or "",
        found["source"] or "",
        required=not found["null"],
    )
