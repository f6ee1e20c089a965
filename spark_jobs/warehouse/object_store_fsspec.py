"""Buckets for DuckDB, which reads what it does not know itself by fsspec. (obstore's own class for
that answers large reads in part, which DuckDB takes for a broken file.)"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, BinaryIO

from fsspec import AbstractFileSystem

from spark_jobs.places import SCHEME, ObjectPath


class ObjectStores(AbstractFileSystem):
    """Objects, to be read."""

    protocol = SCHEME

    def _open(self, path: str, mode: str = "rb", **_: Any) -> BinaryIO:
        return self._object(path).open(mode, buffering=0)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Name, size and type. Raises FileNotFoundError."""
        there = self._object(path)
        return {
            "name": f"{there.bucket}/{there.key}",
            "size": there.stat().st_size,
            "type": "file",
        }

    def modified(self, path: str) -> datetime:
        """When it was written. Raises FileNotFoundError."""
        return datetime.fromtimestamp(self._object(path).stat().st_mtime_ns / 1e9, UTC)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """What is right below a place."""
        folder = self._object(path)
        found = [
            {"name": f"{folder.bucket}/{folder.key}/{name}", "size": 0, "type": kind}
            for kind, names in zip(("directory", "file"), folder.child_names(), strict=True)
            for name in names
        ]
        return found if detail else [entry["name"] for entry in found]

    def _object(self, path: str) -> ObjectPath:
        return ObjectPath(f"{SCHEME}://{self._strip_protocol(path)}")
