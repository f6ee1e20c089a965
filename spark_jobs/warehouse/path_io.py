"""PyIceberg's interface to files, on top of `places`.

PyIceberg's own implementations import Pandas or a web client, which takes longer than a commit.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile

from spark_jobs.base.places import path_of


class PathFile(InputFile, OutputFile):
    """A file by its absolute path or its URL."""

    def __init__(self, location: str):
        super().__init__(location)
        self._path = path_of(location)

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self._path.exists()

    def open(self, seekable: bool = True) -> Any:
        """Open the file for reading."""
        return self._path.open("rb")

    def create(self, overwrite: bool = False) -> Any:
        """Open the file for writing and create its folders; each name of metadata is used once."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self._path.open("wb")

    def to_input_file(self) -> PathFile:
        """Return the file itself."""
        return self


class PathIO(FileIO):
    """All files by their absolute paths or URLs."""

    def new_input(self, location: str) -> PathFile:
        """Return a file to read."""
        return PathFile(location)

    def new_output(self, location: str) -> PathFile:
        """Return a file to write."""
        return PathFile(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file. Raises FileNotFoundError."""
        path_of(location if isinstance(location, str) else location.location).unlink()
