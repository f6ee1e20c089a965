"""The identity that a warehouse shares with its catalog.

A mark in the warehouse's root and a row of the catalog have the same identity. Without it, a job
that is started with another catalog, or with an empty one, would take every file of the warehouse
for an orphan.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, insert, select

from spark_jobs.base.errors import UserError
from spark_jobs.base.places import ConflictError, in_object_store, write_if_unchanged
from spark_jobs.base.sources import giscope_version
from spark_jobs.warehouse.catalog_tables import FILES, FORMAT, IDENTITIES, UNITS
from spark_jobs.warehouse.database import CATALOG_VARIABLE, Database
from spark_jobs.warehouse.disk import sync

MARK = "warehouse.json"
"""The name of the file with the warehouse's mark."""
SAMPLED_FILES = 100
"""Number of published files that are looked for, if a catalog has no identity.

They show whether it is the catalog of this warehouse.
"""


class Mark(NamedTuple):
    """The identity that a warehouse shares with its catalog, and what made both.

    - catalog: the catalog's location
    - version: the version of giscope
    - format: the catalog's format (see catalog_tables.py)
    """

    identity: str
    catalog: str
    version: str
    format: int


def read_mark(root: Path) -> Mark | None:
    """Return a warehouse's mark; None if it has none.

    Raises UserError if it cannot be read, or if the catalog has another format.
    """
    path = root / MARK
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        found = json.loads(text)
        version, format_ = found.get("version", "0.1"), found.get("format")
        mark = Mark(str(found["identity"]), str(found["catalog"]), str(version), format_)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"{path}: is damaged: restore it, or remove it and the warehouse's "
            f"catalog and run {_rebuild_command(root)}"
        ) from error
    if mark.format != FORMAT:
        raise UserError(
            f"{root}: made by giscope {mark.version}, with a catalog of another format: keep the "
            "captures, remove this warehouse, and run again"
        )
    return mark


def identity_of(session: Connection) -> str | None:
    """Return the identity that a catalog has; None if no warehouse has claimed it."""
    return session.scalar(select(IDENTITIES.c.identity))


class IdentityCheck:
    """A check that warehouse and catalog belong together, made in each transaction.

    The first transaction gives both the same identity.
    """

    def __init__(self, root: Path, database: Database, has_tables: Callable[[], bool]):
        """Check a warehouse's root against a database.

        has_tables() returns whether the warehouse has files of tables.
        """
        self._root, self._database, self._has_tables = root, database, has_tables
        self._identity: str | None = None
        """The identity of both, once it was seen in both."""
        self._names_new_catalog = False
        """True if the first transaction puts another catalog's name into the mark."""

    @property
    def is_confirmed(self) -> bool:
        """True once warehouse and catalog were seen to have the same identity."""
        return self._identity is not None

    def check(self) -> None:
        """Raise UserError if warehouse and catalog do not belong together. Writes nothing."""
        mark = read_mark(self._root)  # first: a catalog of another format is not opened
        if self._database.exists():
            with self._database.reading() as session:
                self._shared_identity(session, mark)
        elif self._has_tables():
            self._refuse_unknown(mark)

    def expect_lost_catalog(self) -> None:
        """Make the first transaction give the warehouse's identity to a catalog that has nothing.

        Raises UserError if the catalog has an identity, or has anything.
        """
        read_mark(self._root)
        if self._database.exists():
            with self._database.reading() as session:
                if identity_of(session) or _has_units(session):
                    self._refuse("is not empty: only an empty catalog can be rebuilt")
        self._has_tables = lambda: False
        self._names_new_catalog = True

    def __call__(self, session: Connection) -> None:
        """Check as check() does, within a transaction.

        An empty catalog becomes this warehouse's.
        """
        if self._identity is not None and identity_of(session) == self._identity:
            return
        mark = read_mark(self._root)
        identity = self._shared_identity(session, mark) or uuid.uuid4().hex
        if self._names_new_catalog or mark is None:
            location = self._database.location
            name = location.rpartition("/")[2] if self._database.in_warehouse else location
            new = Mark(identity, name, giscope_version(), FORMAT)
            identity = _write_mark(self._root, new, self._names_new_catalog).identity
        if identity_of(session) is None:
            session.execute(insert(IDENTITIES).values(identity=identity))
        self._identity = identity

    def _shared_identity(self, session: Connection, mark: Mark | None) -> str | None:
        """Return the identity of both, or of the one that has it; None if neither has one.

        Raises UserError if they do not belong together.
        """
        identity = identity_of(session)
        if mark and identity == mark.identity:
            self._identity = identity
            return identity
        if mark and identity is None:
            if _has_units(session) or self._has_tables():
                self._refuse_unknown(mark)
            return mark.identity
        if mark:
            self._refuse(f"belongs to another warehouse; {self._remedy(mark)}")
        if identity and not self._database.in_warehouse:
            self._refuse(
                "belongs to another warehouse already: set GISCOPE_CATALOG to a database of its own"
                f" (if {self._root / MARK} was lost, it had the identity {identity})"
            )
        if identity is None and _has_units(session):
            if not (self._database.in_warehouse or self._has_files_of(session)):
                self._refuse(
                    "is in use for another warehouse: set GISCOPE_CATALOG to a database of its own"
                )
        elif identity is None and self._has_tables():
            self._refuse_unknown(None)
        return identity

    def _has_files_of(self, session: Connection) -> bool:
        """Return whether any of some files that a catalog lists exists here, or it lists none."""
        query = select(FILES.c.path).where(FILES.c.published).limit(SAMPLED_FILES)
        sample = session.scalars(query).all()
        return not sample or any((self._root / path).exists() for path in sample)

    def _refuse_unknown(self, mark: Mark | None) -> None:
        self._refuse(f"does not know this warehouse: {self._remedy(mark)}")

    def _refuse(self, why: str) -> None:
        raise UserError(f"{self._root}: the catalog {self._database.location} {why}")

    def _remedy(self, mark: Mark | None) -> str:
        """Return what the user should set, in words."""
        if_lost = f"if that is lost, run {_rebuild_command(self._root)}"
        if not mark:
            return f"set {CATALOG_VARIABLE} to the catalog that it was made with; {if_lost}"
        if "/" not in mark.catalog:
            if self._database.in_warehouse:
                return f"restore {self._root / mark.catalog}, or, {if_lost}"
            return (
                f"unset {CATALOG_VARIABLE}: it was made with {self._root / mark.catalog}; {if_lost}"
            )
        return (
            f"set {CATALOG_VARIABLE} to the database {mark.catalog} that it was made with; "
            f"{if_lost}"
        )


def _rebuild_command(root: Path) -> str:
    return f"giscope maintain --warehouse {root} --rebuild-catalog"


def _has_units(session: Connection) -> bool:
    return session.scalar(select(UNITS.c.kind).limit(1)) is not None


def _write_mark(root: Path, mark: Mark, replace: bool) -> Mark:
    """Write a warehouse's mark; return the one that is there.

    replace: replace the one that is there; otherwise it stays. Another process may have written it.
    """
    path, text = root / MARK, json.dumps(mark._asdict()).encode()
    if in_object_store(root) and replace:
        path.write_bytes(text)
    elif in_object_store(root):
        with suppress(ConflictError):
            write_if_unchanged(path, text, None)
    else:
        root.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{MARK}.{uuid.uuid4().hex}")
        temporary.write_bytes(text)
        sync(temporary)
        try:
            os.link(temporary, path)
        except OSError:
            if replace or not path.exists():  # the file system has no hard links
                temporary.replace(path)
        temporary.unlink(missing_ok=True)
    found = read_mark(root)
    assert found
    return found
