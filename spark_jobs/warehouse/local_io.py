"""Files of this machine for PyIceberg. Its own ways to them import Pandas or a web client, which
takes longer than a commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile


class LocalFile(InputFile, OutputFile):
    """A file by its absolute path."""

    def __init__(self, location: str):
        super().__init__(location)
        self._path = Path(location)

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        """Whether it is there."""
        return self._path.exists()

    def open(self, seekable: bool = True) -> Any:
        """It, to be read."""
        return self._path.open("rb")

    def create(self, overwrite: bool = False) -> Any:
        """It, to be written, with its folders. Raises FileExistsError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self._path.open("wb" if overwrite else "xb")

    def to_input_file(self) -> LocalFile:
        """The same."""
        return self


class LocalFileIO(FileIO):
    """All files by their absolute paths."""

    def new_input(self, location: str) -> LocalFile:
        """A file to be read."""
        return LocalFile(location)

    def new_output(self, location: str) -> LocalFile:
        """A file to be written."""
        return LocalFile(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file. Raises FileNotFoundError."""
        Path(location if isinstance(location, str) else location.location).unlink()
