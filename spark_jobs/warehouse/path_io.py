"""Files for PyIceberg. Its own ways to them import Pandas or a web client, which takes longer than
a commit."""

from __future__ import annotations

from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile

from spark_jobs.places import path_of


class PathFile(InputFile, OutputFile):
    """A file by its absolute path or its URL."""

    def __init__(self, location: str):
        super().__init__(location)
        self._path = path_of(location)

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        """Whether it is there."""
        return self._path.exists()

    def open(self, seekable: bool = True) -> Any:
        """It, to be read."""
        return self._path.open("rb")

    def create(self, overwrite: bool = False) -> Any:
        """It, to be written, with its folders; the names of metadata come but once."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self._path.open("wb")

    def to_input_file(self) -> PathFile:
        """The same."""
        return self


class PathIO(FileIO):
    """All files by their absolute paths or URLs."""

    def new_input(self, location: str) -> PathFile:
        """A file to be read."""
        return PathFile(location)

    def new_output(self, location: str) -> PathFile:
        """A file to be written."""
        return PathFile(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file. Raises FileNotFoundError."""
        path_of(location if isinstance(location, str) else location.location).unlink()
