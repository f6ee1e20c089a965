"""Object stores for DuckDB, which reads unknown URLs through fsspec.

obstore's own class for fsspec answers large reads in part; DuckDB takes that for a broken file.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, BinaryIO

from fsspec import AbstractFileSystem

from spark_jobs.base.places import SCHEME, ObjectPath, Status


class ObjectStores(AbstractFileSystem):
    """A read-only file system of objects that nobody replaces, as the files of a warehouse.

    So the store is asked once for an object's size and time, not three times a query.
    """

    protocol = SCHEME
    cachable = False  # each connection has its own

    def __init__(self) -> None:
        super().__init__()
        self._statuses: dict[str, Status] = {}

    def _open(self, path: str, mode: str = "rb", **_: Any) -> BinaryIO:
        return self._object(path).open(mode, buffering=0, size=self._status(path).st_size)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return an object's name, size and type. Raises FileNotFoundError."""
        there = self._object(path)
        return {
            "name": f"{there.bucket}/{there.key}",
            "size": self._status(path).st_size,
            "type": "file",
        }

    def modified(self, path: str) -> datetime:
        """Return the time when an object was written. Raises FileNotFoundError."""
        return datetime.fromtimestamp(self._status(path).st_mtime_ns / 1e9, UTC)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Return the objects and folders right below a path."""
        folder = self._object(path)
        found = [
            {"name": f"{folder.bucket}/{folder.key}/{name}", "size": 0, "type": kind}
            for kind, names in zip(("directory", "file"), folder.child_names(), strict=True)
            for name in names
        ]
        return found if detail else [entry["name"] for entry in found]

    def _status(self, path: str) -> Status:
        there = self._object(path)
        if there.key not in self._statuses:
            self._statuses[there.key] = there.stat()
        return self._statuses[there.key]

    def _object(self, path: str) -> ObjectPath:
        return ObjectPath(f"{SCHEME}://{self._strip_protocol(path)}")
