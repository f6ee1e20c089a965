"""Paths of files and folders on this machine, and in an object store by their URLs."""

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

from spark_jobs.base.errors import UserError
from spark_jobs.base.extras import require
from spark_jobs.base.secret_files import secret_of

if TYPE_CHECKING:
    from obstore.store import S3Store

SCHEME = "s3"
S3_URL = re.compile(rf"{SCHEME}://\w[\w.-]*(/|$)", re.ASCII)
READ_BUFFER_BYTES = 8 << 20
"""Number of bytes that are fetched at a time if an object is read from start to end."""
STORE_OPTIONS: dict[str, Any] = {
    "client_options": {"allow_http": True},
    "retry_config": {"max_retries": 5, "retry_timeout": timedelta(seconds=60)},
}
"""Options for obstore.

obstore takes the endpoint and the credentials from the usual environment variables,
AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or
from the role of the host or container.
"""
ENDPOINT = re.compile(r"https?://(?:\[[\da-f:.]+\]|[\w.-]{1,253})(?::(\d{1,5}))?(?:/[!-~]*)?", re.A)
"""The form of AWS_ENDPOINT_URL, with the port: another form makes obstore panic."""
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION")
"""The variables that a file may replace, such as AWS_ACCESS_KEY_ID_FILE."""

NOT_REGULAR = "is not a regular file"
"""The message for pipes, sockets and devices: reading one may wait for ever, or never end."""

METADATA_SERVICE = "169.254.169.254"
"""The address where a host asks for its role."""


class Status(NamedTuple):
    """The status of an object, with the names of os.stat."""

    st_size: int
    st_mtime_ns: int

    @property
    def st_blocks(self) -> int:
        """The number of blocks of 512 bytes."""
        return -(-self.st_size // 512)


class ObjectPath(PurePosixPath):
    """The path of a file or folder in an object store: s3://BUCKET/KEY.

    It has those methods of Path that giscope needs. A folder exists as long as it has objects. Its
    methods raise OSError if the store cannot be reached, or refuses.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return f"{SCHEME}://{'/'.join(self.parts[1:])}"

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is not a file of this machine")

    @property
    def bucket(self) -> str:
        """The name of the S3 bucket."""
        return self.parts[1]

    @property
    def key(self) -> str:
        """The object's name in its S3 bucket."""
        return "/".join(self.parts[2:])

    def absolute(self) -> ObjectPath:
        """Return the path itself."""
        return self

    resolve = absolute

    def stat(self) -> Status:
        """Return the object's status. Raises FileNotFoundError."""
        import obstore

        with _translated_errors(self):
            found = obstore.head(_store(self.bucket), self.key)
        return _status(found)

    def exists(self) -> bool:
        """Return whether there is such an object, or one below it."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Return whether there is such an object."""
        try:
            return bool(self.key and self.stat())
        except FileNotFoundError:
            return False

    def is_dir(self) -> bool:
        """Return whether there is an object below it."""
        return any(True for _ in self.walk())

    def iterdir(self) -> Iterator[ObjectPath]:
        """Yield the objects and folders right below it."""
        return (self / name for names in self.child_names() for name in names)

    def child_names(self) -> tuple[list[str], list[str]]:
        """Return the names of folders and of objects right below it."""
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
        """Yield (path from here, status) of every object below it."""
        import obstore

        prefix_length = len(self.key) + 1 if self.key else 0
        with _translated_errors(self):
            for page in obstore.list(_store(self.bucket), self.key or None):
                for meta in page:
                    yield meta["path"][prefix_length:], _status(meta)

    def open(
        self, mode: str = "rb", buffering: int = READ_BUFFER_BYTES, size: int | None = None
    ) -> BinaryIO:
        """Open the object for reading, or a new object, which exists once the file is closed.

        buffering: 0 to read no more bytes than are asked for. size: the object's, if it is known;
        otherwise the store is asked.
        """
        if mode == "wb":
            return cast(BinaryIO, _Writer(self))
        assert mode == "rb"
        raw = _Reader(self, self.stat().st_size if size is None else size)
        return cast(BinaryIO, io.BufferedReader(raw, buffering) if buffering else raw)

    def read_bytes(self) -> bytes:
        """Return the object's bytes."""
        with self.open() as source:
            return source.read()

    def write_bytes(self, content: bytes) -> int:
        """Replace the object."""
        with self.open("wb") as to:
            return to.write(content)

    def unlink(self, missing_ok: bool = True) -> None:
        """Remove the object, if it exists."""
        remove_all([cast(Path, self)])

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: object stores have no folders."""


def path_of(text: str | os.PathLike[str]) -> Path:
    """Return the path of a file or folder that a user named by a path or URL.

    A URL s3://BUCKET/KEY gives an ObjectPath. Raises UserError if the packages for it are missing,
    if the text is another URL, or if it is empty, as "$W" is if W is not set.
    """
    if not text:
        raise UserError("the path of a file or folder is empty")
    if isinstance(text, str) and "://" in text:
        if not S3_URL.match(text) or ".." in text.split("/"):
            raise UserError(f"{text}: neither a path nor a URL {SCHEME}://BUCKET/PREFIX")
        require("s3", text)
        return cast(Path, ObjectPath(text))
    return cast(Path, text) if isinstance(text, ObjectPath) else Path(text)


def in_object_store(path: Path) -> bool:
    """Return whether a path is in an object store, not on this machine."""
    return isinstance(path, ObjectPath)


def is_irregular(path: Path) -> bool:
    """Return whether a path is a pipe, a socket or a device.

    Raises OSError if it does not exist.
    """
    if in_object_store(path):
        return False
    mode = path.stat().st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


class FolderListing(NamedTuple):
    """The content of a folder, without that of its subfolders.

    special_files: pipes, sockets and devices.
    """

    folders: list[Path]
    files: list[Path]
    links: list[Path]
    special_files: list[Path]


def list_folder(folder: Path, follow_links: bool = False) -> FolderListing:
    """Return the content of a folder, sorted by name.

    follow_links: list a symbolic link as what it points to, and as a special file if that does not
    exist.
    """
    found = FolderListing([], [], [], [])
    if isinstance(folder, ObjectPath):
        for names, paths in zip(folder.child_names(), (found.folders, found.files), strict=True):
            paths += [cast(Path, folder / name) for name in sorted(names)]
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
    except OSError:  # the target of a link cannot be read
        return found.special_files


def remove_all(paths: Iterable[Path]) -> None:
    """Remove files; those that do not exist are ignored."""
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
    """An object is not, or no longer, the version that a change was made from."""


def write_if_unchanged(path: Path, content: bytes, tag: str | None) -> None:
    """Replace an object that still has this tag (None: that does not exist).

    Raises ConflictError. The store's client repeats a request if the answer was lost. The store
    refuses the repetition, although it carried out the first request. So a refusal counts only if
    the object has other bytes than these; no other writer may write the same bytes.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    object_path = cast(ObjectPath, path)
    with _translated_errors(object_path):
        try:
            mode: Any = {"e_tag": tag} if tag else "create"
            obstore.put(_store(object_path.bucket), object_path.key, content, mode=mode)
        except (AlreadyExistsError, PreconditionError) as error:
            if not _has_bytes(path, content):
                raise ConflictError(str(path)) from error
        except FileNotFoundError as error:
            if tag is None:
                raise  # there is no such S3 bucket
            raise ConflictError(str(path)) from error


def _has_bytes(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except FileNotFoundError:
        return False


def tag_of(path: Path) -> str | None:
    """Return an object's tag; None if it does not exist."""
    import obstore

    object_path = cast(ObjectPath, path)
    try:
        with _translated_errors(object_path):
            return obstore.head(_store(object_path.bucket), object_path.key)["e_tag"] or ""
    except FileNotFoundError:
        return None


@cache
def _store(bucket: str) -> S3Store:
    from obstore.store import S3Store

    endpoint = os.environ.get("AWS_ENDPOINT_URL", "http://any")
    parts = ENDPOINT.fullmatch(endpoint)
    if not parts or int(parts[1] or 0) > 0xFFFF:
        raise UserError(f"AWS_ENDPOINT_URL: {endpoint!r} is not a URL http(s)://HOST[:PORT]")
    keys: Any = {name.lower(): secret for name in CREDENTIALS if (secret := secret_of(name))}
    return S3Store(bucket, config=keys, **STORE_OPTIONS)


def _status(meta: Any) -> Status:
    return Status(meta["size"], int(meta["last_modified"].timestamp()) * 1_000_000_000)


@contextmanager
def _translated_errors(path: ObjectPath) -> Iterator[None]:
    """Raise the store's errors as errors of the operating system."""
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error
    except PermissionError as error:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path)) from error
    except (BaseError, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise OSError(errno.EIO, f"the object store: {_reason(str(error))}", str(path)) from error


def _reason(text: str) -> str:
    """Return the reason in an error message of obstore."""
    if METADATA_SERVICE in text:
        return "AWS_ACCESS_KEY_ID is not set, and this host has no role"
    code = re.search("<Code>(.*?)</Code>", text)
    return code.group(1) if code else text.splitlines()[0].rpartition(" - ")[2]


class _Reader(io.RawIOBase):
    """A reader of an object's bytes.

    DuckDB's threads share a file. Each thread reads where it has sought, no matter what others do
    meanwhile.
    """

    def __init__(self, path: ObjectPath, size: int):
        self._path, self._size, self._position = path, size, 0
        self._thread_local = local()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size}[whence]
        self._thread_local.position = base + offset
        return self._thread_local.position

    def tell(self) -> int:
        return self._thread_local.__dict__.get("position", self._position)

    def readinto(self, buffer: Any) -> int:
        import obstore

        position = self._thread_local.__dict__.pop("position", self._position)
        length = max(0, min(len(buffer), self._size - position))
        if length:
            with _translated_errors(self._path):
                found = obstore.get_range(
                    _store(self._path.bucket), self._path.key, start=position, length=length
                )
                if len(found) != length:
                    raise OSError(f"an answer of {len(found):,} bytes instead of {length:,}")
            memoryview(buffer)[:length] = memoryview(found)
        self._position = position + length
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
