"""Files for PyIceberg. Its own ways to them import Pandas or a web client, which takes longer than
a commit."""

from __future__ import annotations

from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile

from spark_jobs.places import place


class PlaceFile(InputFile, OutputFile):
    """A file by its absolute path or its URL."""

    def __init__(self, location: str):
        super().__init__(location)
        self._path = place(location)

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

    def to_input_file(self) -> PlaceFile:
        """The same."""
        return self


class PlaceIO(FileIO):
    """All files by their absolute paths or URLs."""

    def new_input(self, location: str) -> PlaceFile:
        """A file to be read."""
        return PlaceFile(location)

    def new_output(self, location: str) -> PlaceFile:
        """A file to be written."""
        return PlaceFile(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file. Raises FileNotFoundError."""
        place(location if isinstance(location, str) else location.location).unlink()
