"""The bytes of a capture file, plain or compressed, in bounded memory.

Whatever comes before a break in a compressed stream is delivered.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash
import zstandard

from spark_jobs.errors import UserError
from spark_jobs.places import NOT_REGULAR, is_irregular

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"
"""Behind a byte of 0x50 to 0x5F."""
READ_BYTES = 1 << 17
GZIP_FEED_BYTES = 1 << 14
BLOCK_BYTES = 512
"""In which st_blocks counts, whatever the file system's are."""
WINDOW_BYTES = 16 << 20
"""Read at a time. The window holds twice as much: however much of it is kept, as many are new."""
LARGEST_ZSTD_WINDOW = 1 << 27
LARGEST_ZSTD_HEADER = 18
ENDS_WITHIN = "the file ends within the compressed stream"


class CompressionError(Exception):
    """The compressed stream breaks off or fails its check."""


def _plain(source: BinaryIO) -> Iterator[bytes]:
    while piece := source.read(READ_BYTES):
        yield piece


def _gzip(source: BinaryIO) -> Iterator[bytes]:
    """Members one after the other; zero padding behind the last is no error."""
    inflate = zlib.decompressobj(wbits=31)
    fresh = True
    while piece := source.read(GZIP_FEED_BYTES):
        while piece:
            if inflate.eof:
                piece = piece.lstrip(b"\0")
                inflate, fresh = zlib.decompressobj(wbits=31), True
                continue
            before = inflate.copy()
            try:
                yield inflate.decompress(piece)
            except zlib.error as error:
                yield from _until_error(before, piece)
                raise CompressionError(str(error)) from error
            piece, fresh = inflate.unused_data, False
    if not inflate.eof and not fresh:
        yield inflate.flush()
        raise CompressionError(ENDS_WITHIN)


def _until_error(inflate: Any, data: bytes) -> Iterator[bytes]:
    for i in range(len(data)):
        try:
            yield inflate.decompress(data[i : i + 1])
        except zlib.error:
            return


def _zstd(source: BinaryIO) -> Iterator[bytes]:
    """Frames one after the other."""
    while magic := source.read(4):
        if _is_skippable(magic):
            source.seek(int.from_bytes(source.read(4), "little"), os.SEEK_CUR)
            continue
        try:
            yield from _zstd_frame(source, magic)
        except zstandard.ZstdError as error:
            raise CompressionError(str(error)) from error


def _is_skippable(magic: bytes) -> bool:
    return magic[1:] == ZSTD_SKIPPABLE_MAGIC and magic[0] >> 4 == 5


def _zstd_frame(source: BinaryIO, magic: bytes) -> Iterator[bytes]:
    """Block by block (RFC 8878, 3.1.1): a broken block costs none before it, and no step expands
    to more than one block."""
    expand = zstandard.ZstdDecompressor(max_window_size=LARGEST_ZSTD_WINDOW).decompressobj()
    header = magic + source.read(LARGEST_ZSTD_HEADER - len(magic))
    size = zstandard.frame_header_size(header)
    source.seek(size - len(header), os.SEEK_CUR)
    yield expand.decompress(header[:size])
    last = 0
    while not last:
        head = source.read(3)
        fields = int.from_bytes(head, "little")
        last, run_length, size = fields & 1, fields >> 1 & 3 == 1, fields >> 3
        data = source.read(1 if run_length else size)
        yield expand.decompress(head + data)
        if len(head) < 3 or len(data) < (1 if run_length else size):
            raise CompressionError(ENDS_WITHIN)
    if not expand.eof:
        yield expand.decompress(source.read(4))
    if not expand.eof:
        raise CompressionError(ENDS_WITHIN)


def _unpacker(source: BinaryIO) -> Callable[[BinaryIO], Iterator[bytes]]:
    """By the first bytes."""
    magic = source.read(4)
    source.seek(0)
    if magic.startswith(GZIP_MAGIC):
        return _gzip
    if magic == ZSTD_MAGIC or _is_skippable(magic):
        return _zstd
    return _plain


def _pieces(source: BinaryIO) -> Iterator[bytes]:
    return _unpacker(source)(source)


def is_compressed(path: Path) -> bool:
    """Whether a file begins as those of gzip and zstd do."""
    with opened(path) as source:
        return _unpacker(source) is not _plain


def opened(path: Path) -> BinaryIO:
    """A regular file's bytes, to be read. Raises UserError where it is something else: a pipe would
    be waited for, and can be read once only."""
    if is_irregular(path):
        raise UserError(f"{path}: {NOT_REGULAR}")
    return path.open("rb")


def first_bytes(path: Path, n: int) -> bytes:
    """The first bytes of a file's uncompressed content, as far as there are any."""
    held = b""
    with opened(path) as source:
        pieces = _pieces(source)
        while len(held) < n:
            try:
                piece = next(pieces, None)
            except CompressionError:
                break
            if piece is None:
                break
            held += piece
    return held[:n]


class CaptureStream:
    """A window over a capture's uncompressed bytes that moves forward.

    `window[start:end]` holds the unread bytes; `more()` drops what has been read and reads on;
    `ended` tells that nothing lies behind them. `content` is the XXH3 128-bit hash of all bytes
    read so far, `broken` why a compressed stream ended early, or empty; `on_disk` what the file
    takes there.
    """

    def __init__(self, path: Path):
        self._source = opened(path)
        self._pieces = _pieces(self._source)
        self._left = memoryview(b"")
        self._hash = xxhash.xxh3_128()
        self.on_disk = path.stat().st_blocks * BLOCK_BYTES
        self.window = np.zeros(2 * WINDOW_BYTES, np.uint8)
        self.start = self.end = 0
        self._dropped = 0
        self.ended = False
        self.broken = ""

    def __enter__(self) -> "CaptureStream":
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    @property
    def content(self) -> str:
        return self._hash.hexdigest()

    @property
    def place(self) -> int:
        """Where `start` lies in the uncompressed capture."""
        return self._dropped + self.start

    def more(self) -> bool:
        """Read on; False where there was nothing to add."""
        if self.ended:
            return False
        kept = self.end - self.start
        self.window[:kept] = self.window[self.start : self.end].copy()
        self._dropped += self.start
        self.start, self.end = 0, kept
        full = min(len(self.window), kept + WINDOW_BYTES)
        while self.end < full and (self._left or self._next_piece()):
            taken = min(len(self._left), full - self.end)
            self.window[self.end : self.end + taken] = self._left[:taken]
            self._left = self._left[taken:]
            self.end += taken
        return self.end > kept

    def rest(self) -> Iterator[bytes]:
        """All bytes that have not been read, in pieces."""
        while self.more():
            yield self.window[self.start : self.end].tobytes()
            self.start = self.end

    def _next_piece(self) -> bool:
        """Fetch bytes that are not empty; False at the end of the stream."""
        while not self._left:
            try:
                piece = next(self._pieces, None)
            except CompressionError as error:
                piece, self.broken = None, str(error)
            if piece is None:
                self.ended = True
                return False
            self._hash.update(piece)
            self._left = memoryview(piece)
        return True
