"""Files and folders: of this machine by their paths, in a bucket of an object store by URLs."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path, PurePosixPath
from threading import local
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from spark_jobs.secret_files import secret_of

if TYPE_CHECKING:
    from obstore.store import S3Store

SCHEME = "s3"
READ_BUFFER_BYTES = 8 << 20
"""Bytes of an object that are fetched at a time where it is read from begin to end."""
STORE_OPTIONS: dict[str, Any] = {
    "client_options": {"allow_http": True},
    "retry_config": {"max_retries": 5, "retry_timeout": timedelta(seconds=60)},
}
"""Of obstore, which takes endpoint and credentials from the usual variables of the environment:
AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, or a
host's or container's role."""
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
"""Of these, what may be in files, too: AWS_ACCESS_KEY_ID_FILE, AWS_SECRET_ACCESS_KEY_FILE."""

NOT_REGULAR = "is not a regular file"
"""What is said of pipes, sockets and devices: reading one may wait for ever, or never end."""

METADATA_SERVICE = "169.254.169.254"
"""Where the role of a host is asked for."""


class Status(NamedTuple):
    """What is known of an object, named as by os.stat."""

    st_size: int
    st_mtime_ns: int

    @property
    def st_blocks(self) -> int:
        """Blocks of 512 bytes."""
        return -(-self.st_size // 512)


class ObjectPath(PurePosixPath):
    """What stands for a file or folder in a bucket: s3://BUCKET/KEY. It can what a Path can, as far
    as that is asked for here; folders are there as long as something is in them.

    Raises OSError where the store cannot be reached, or refuses.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return f"{SCHEME}://{'/'.join(self.parts[1:])}"

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is no file of this machine")

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return self.parts[1]

    @property
    def key(self) -> str:
        """The object's name in its bucket."""
        return "/".join(self.parts[2:])

    def absolute(self) -> ObjectPath:
        """Itself."""
        return self

    resolve = absolute

    def stat(self) -> Status:
        """Raises FileNotFoundError."""
        import obstore

        with _translated_errors(self):
            found = obstore.head(_store(self.bucket), self.key)
        return _status(found)

    def exists(self) -> bool:
        """Whether there is such an object, or one below it."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether there is such an object."""
        try:
            return bool(self.key and self.stat())
        except FileNotFoundError:
            return False

    def is_dir(self) -> bool:
        """Whether there is an object below it."""
        return any(True for _ in self.walk())

    def iterdir(self) -> Iterator[ObjectPath]:
        """Objects and folders right below it."""
        return (self / name for names in self.child_names() for name in names)

    def child_names(self) -> tuple[list[str], list[str]]:
        """The names of folders and of objects right below it."""
        import obstore

        with _translated_errors(self):
            found = obstore.list_with_delimiter(_store(self.bucket), self.key or None)
        objects = [meta["path"] for meta in found["objects"]]
        folders, files = (
            [path.rpartition("/")[2] for path in paths]
            for paths in (found["common_prefixes"], objects)
        )
        return folders, files

    def walk(self) -> Iterator[tuple[str, Status]]:
        """Everything below it, by the path from here."""
        import obstore

        prefix_length = len(self.key) + 1 if self.key else 0
        with _translated_errors(self):
            for page in obstore.list(_store(self.bucket), self.key or None):
                for meta in page:
                    yield meta["path"][prefix_length:], _status(meta)

    def open(self, mode: str = "rb", buffering: int = READ_BUFFER_BYTES) -> BinaryIO:
        """The object's bytes, to be read; or a new one, which is there when it is closed.
        buffering: 0 to read no more than is asked for."""
        if mode == "wb":
            return cast(BinaryIO, _Writer(self))
        assert mode == "rb"
        raw = _Reader(self)
        return cast(BinaryIO, io.BufferedReader(raw, buffering) if buffering else raw)

    def read_bytes(self) -> bytes:
        """All of it."""
        with self.open() as source:
            return source.read()

    def write_bytes(self, content: bytes) -> int:
        """Replace it."""
        with self.open("wb") as to:
            return to.write(content)

    def unlink(self, missing_ok: bool = True) -> None:
        """Remove it, if it is there."""
        remove_all([cast(Path, self)])

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """There is nothing to do for a folder."""


def path_of(text: str | os.PathLike[str]) -> Path:
    """A file or folder as a user names it: by a path, or by the URL of a bucket's object, which
    gives an ObjectPath."""
    if isinstance(text, str) and text.startswith(f"{SCHEME}://"):
        return cast(Path, ObjectPath(text))
    return cast(Path, text) if isinstance(text, ObjectPath) else Path(text)


def in_object_store(path: Path) -> bool:
    """Whether it is in a bucket, not on this machine."""
    return isinstance(path, ObjectPath)


def is_irregular(path: Path) -> bool:
    """Whether it is a pipe, a socket or a device. Raises OSError where it is not there."""
    if in_object_store(path):
        return False
    mode = path.stat().st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


class FolderListing(NamedTuple):
    """What is right below a folder; others: pipes, sockets and devices."""

    folders: list[Path]
    files: list[Path]
    links: list[Path]
    special_files: list[Path]


def list_folder(folder: Path, follow_links: bool = False) -> FolderListing:
    """What is right below a folder, in order of name. follow_links: a symbolic link is what it
    leads to, and one of the others where it leads nowhere."""
    found = FolderListing([], [], [], [])
    if isinstance(folder, ObjectPath):
        for names, into in zip(folder.child_names(), (found.folders, found.files), strict=True):
            into += [cast(Path, folder / name) for name in sorted(names)]
        return found
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            _list_for(found, entry, follow_links).append(folder / entry.name)
    return found


def _list_for(found: FolderListing, entry: os.DirEntry[str], follow_links: bool) -> list[Path]:
    if entry.is_symlink() and not follow_links:
        return found.links
    try:
        if entry.is_dir():
            return found.folders
        return found.files if entry.is_file() else found.special_files
    except OSError:  # of where a link leads
        return found.special_files


def remove_all(paths: Iterable[Path]) -> None:
    """Remove files that may be there."""
    keys: dict[str, list[str]] = {}
    for path in paths:
        if isinstance(path, ObjectPath):
            keys.setdefault(path.bucket, []).append(path.key)
        else:
            path.unlink(missing_ok=True)
    for bucket, keys_in_bucket in keys.items():
        import obstore

        with _translated_errors(ObjectPath(f"{SCHEME}://{bucket}")):
            obstore.delete(_store(bucket), keys_in_bucket)


class ConflictError(Exception):
    """An object is not, or no more, what a change was made from."""


def read_if_changed(path: Path, tag: str | None) -> tuple[bytes, str] | None:
    """An object's bytes and its tag; None where it has this tag still. Raises FileNotFoundError."""
    import obstore
    from obstore.exceptions import NotModifiedError

    object_path = cast(ObjectPath, path)
    with _translated_errors(object_path):
        try:
            options: Any = {"if_none_match": tag} if tag else {}
            found = obstore.get(_store(object_path.bucket), object_path.key, options=options)
            return bytes(found.bytes()), found.meta["e_tag"] or ""
        except NotModifiedError:
            return None


def write_if_unchanged(path: Path, content: bytes, tag: str | None) -> str:
    """Replace an object that has this tag still (None: that is not there); returns its new tag.

    Raises ConflictError. The store's client repeats a request whose answer was lost. The repetition
    is refused, although the first request was carried out. So a refusal counts only if the object
    has other bytes than these; no other writer may write the same ones.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    object_path = cast(ObjectPath, path)
    with _translated_errors(object_path):
        try:
            mode: Any = {"e_tag": tag} if tag else "create"
            done = obstore.put(_store(object_path.bucket), object_path.key, content, mode=mode)
        except (AlreadyExistsError, PreconditionError) as error:
            written = _tag_if_same(path, content)
            if written is None:
                raise ConflictError(str(path)) from error
            return written
        except FileNotFoundError as error:
            if tag is None:
                raise  # there is no such bucket
            raise ConflictError(str(path)) from error
    return done["e_tag"] or ""


def tag_of(path: Path) -> str | None:
    """An object's tag; None if it is not there."""
    import obstore

    object_path = cast(ObjectPath, path)
    try:
        with _translated_errors(object_path):
            return obstore.head(_store(object_path.bucket), object_path.key)["e_tag"] or ""
    except FileNotFoundError:
        return None


def _tag_if_same(path: Path, content: bytes) -> str | None:
    """The tag of an object that has these bytes; None if it has others, or is not there."""
    try:
        found = read_if_changed(path, None)
    except FileNotFoundError:
        return None
    return found[1] if found and found[0] == content else None


@cache
def _store(bucket: str) -> S3Store:
    from obstore.store import S3Store

    keys: Any = {name.lower(): secret for name in CREDENTIALS if (secret := secret_of(name))}
    return S3Store(bucket, config=keys, **STORE_OPTIONS)


def _status(meta: Any) -> Status:
    return Status(meta["size"], int(meta["last_modified"].timestamp()) * 1_000_000_000)


@contextmanager
def _translated_errors(path: ObjectPath) -> Iterator[None]:
    """The store's errors as the system's."""
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error
    except PermissionError as error:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path)) from error
    except BaseError as error:
        raise OSError(errno.EIO, f"the object store: {_reason(str(error))}", str(path)) from error


def _reason(text: str) -> str:
    """What it is about, of what obstore says."""
    if METADATA_SERVICE in text:
        return "AWS_ACCESS_KEY_ID is not set, and this host has no role"
    code = re.search("<Code>(.*?)</Code>", text)
    return code.group(1) if code else text.splitlines()[0].rpartition(" - ")[2]


class _Reader(io.RawIOBase):
    """An object's bytes. Where a thread has sought, it reads on, whatever others do meanwhile:
    DuckDB's threads share a file."""

    def __init__(self, path: ObjectPath):
        self._path, self._size, self._at = path, path.stat().st_size, 0
        self._thread = local()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size}[whence]
        self._thread.at = base + offset
        return self._thread.at

    def tell(self) -> int:
        return self._thread.__dict__.get("at", self._at)

    def readinto(self, buffer: Any) -> int:
        import obstore

        at = self._thread.__dict__.pop("at", self._at)
        length = max(0, min(len(buffer), self._size - at))
        if length:
            with _translated_errors(self._path):
                found = obstore.get_range(
                    _store(self._path.bucket), self._path.key, start=at, length=length
                )
            memoryview(buffer)[:length] = memoryview(found)
        self._at = at + length
        return length


class _Writer(io.RawIOBase):
    def __init__(self, path: ObjectPath):
        import obstore

        self._path = path
        self._writer = obstore.open_writer(_store(path.bucket), path.key)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with _translated_errors(self._path):
            self._writer.write(bytes(data))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            with _translated_errors(self._path):
                self._writer.close()
        super().close()
