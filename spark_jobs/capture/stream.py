"""The bytes of a capture file, plain or compressed, in bounded memory.

All bytes before a defect in a compressed stream are delivered.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash
import zstandard

from spark_jobs.base.errors import UserError
from spark_jobs.base.places import NOT_REGULAR, is_irregular

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"
"""Magic number of a skippable frame, after a first byte of 0x50 to 0x5F."""
READ_BYTES = 1 << 17
GZIP_FEED_BYTES = 1 << 14
DISK_BLOCK_BYTES = 512
"""Unit of st_blocks, whatever the block size of the file system (B)."""
WINDOW_BYTES = 16 << 20
"""Number of bytes that are read at a time.

The window holds twice as much, so that as many new bytes fit behind those that are kept.
"""
MAX_ZSTD_WINDOW_BYTES = 1 << 27
MAX_ZSTD_HEADER_BYTES = 18
TRUNCATED_STREAM = "the file ends within the compressed stream"


class CompressionError(Exception):
    """Error of a compressed stream that ends early or fails its check."""


def _read_plain(source: BinaryIO) -> Iterator[bytes]:
    while piece := source.read(READ_BYTES):
        yield piece


def _read_gzip(source: BinaryIO) -> Iterator[bytes]:
    """Yield the content of all members; zero padding after the last member is no error."""
    inflate = zlib.decompressobj(wbits=31)
    is_new_member = True
    while piece := source.read(GZIP_FEED_BYTES):
        while piece:
            if inflate.eof:
                piece = piece.lstrip(b"\0")
                inflate, is_new_member = zlib.decompressobj(wbits=31), True
                continue
            before = inflate.copy()
            try:
                yield inflate.decompress(piece)
            except zlib.error as error:
                yield from _inflate_until_error(before, piece)
                raise CompressionError(str(error)) from error
            piece, is_new_member = inflate.unused_data, False
    if not inflate.eof and not is_new_member:
        yield inflate.flush()
        raise CompressionError(TRUNCATED_STREAM)


def _inflate_until_error(inflate: Any, data: bytes) -> Iterator[bytes]:
    for i in range(len(data)):
        try:
            yield inflate.decompress(data[i : i + 1])
        except zlib.error:
            return


def _read_zstd(source: BinaryIO) -> Iterator[bytes]:
    """Yield the content of all frames."""
    while magic := source.read(4):
        if _is_skippable(magic):
            source.seek(int.from_bytes(source.read(4), "little"), os.SEEK_CUR)
            continue
        try:
            yield from _read_zstd_frame(source, magic)
        except zstandard.ZstdError as error:
            raise CompressionError(str(error)) from error


def _is_skippable(magic: bytes) -> bool:
    return magic[1:] == ZSTD_SKIPPABLE_MAGIC and magic[0] >> 4 == 5


def _read_zstd_frame(source: BinaryIO, magic: bytes) -> Iterator[bytes]:
    """Yield the content of a frame block by block (RFC 8878, 3.1.1).

    A broken block costs none of the blocks before it, and no step expands to more than one block.
    """
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW_BYTES).decompressobj()
    header = magic + source.read(MAX_ZSTD_HEADER_BYTES - len(magic))
    size = zstandard.frame_header_size(header)
    source.seek(size - len(header), os.SEEK_CUR)
    yield decompressor.decompress(header[:size])
    last = 0
    while not last:
        block_header = source.read(3)
        fields = int.from_bytes(block_header, "little")
        last, run_length, size = fields & 1, fields >> 1 & 3 == 1, fields >> 3
        data = source.read(1 if run_length else size)
        yield decompressor.decompress(block_header + data)
        if len(block_header) < 3 or len(data) < (1 if run_length else size):
            raise CompressionError(TRUNCATED_STREAM)
    if not decompressor.eof:
        yield decompressor.decompress(source.read(4))
    if not decompressor.eof:
        raise CompressionError(TRUNCATED_STREAM)


def _choose_decompressor(source: BinaryIO) -> Callable[[BinaryIO], Iterator[bytes]]:
    """Return the function that reads a file, by its first bytes."""
    magic = source.read(4)
    source.seek(0)
    if magic.startswith(GZIP_MAGIC):
        return _read_gzip
    if magic == ZSTD_MAGIC or _is_skippable(magic):
        return _read_zstd
    return _read_plain


def _decompress(source: BinaryIO) -> Iterator[bytes]:
    return _choose_decompressor(source)(source)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read its bytes.

    Raises UserError if the path is something else. To open a pipe would wait for its writer, and a
    pipe can be read only once.
    """
    if is_irregular(path):
        raise UserError(f"{path}: {NOT_REGULAR}")
    return path.open("rb")


def first_bytes(path: Path, n: int) -> bytes:
    """Return the first `n` bytes of a file's uncompressed content, or fewer if it has fewer."""
    data = b""
    with open_regular(path) as source:
        pieces = _decompress(source)
        while len(data) < n:
            try:
                piece = next(pieces, None)
            except CompressionError:
                break
            if piece is None:
                break
            data += piece
    return data[:n]


class CaptureStream:
    """A window over a capture's uncompressed bytes that moves forward.

    window, start, end: window[start:end] holds the unread bytes
    at_eof: whether no bytes follow them
    compression_error: why a compressed stream ended early, or empty
    disk_bytes: bytes that the file takes on disk
    """

    def __init__(self, path: Path):
        self._source = open_regular(path)
        self._pieces = _decompress(self._source)
        self._unused_piece = memoryview(b"")
        self._hash = xxhash.xxh3_128()
        self.disk_bytes = path.stat().st_blocks * DISK_BLOCK_BYTES
        self.window = np.zeros(2 * WINDOW_BYTES, np.uint8)
        self.start = self.end = 0
        self._dropped_bytes = 0
        self.at_eof = False
        self.compression_error = ""

    def __enter__(self) -> "CaptureStream":
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    @property
    def content_hash(self) -> str:
        """Return the XXH3 128-bit hash of all bytes read so far."""
        return self._hash.hexdigest()

    @property
    def position(self) -> int:
        """Return the position of `start` in the uncompressed capture."""
        return self._dropped_bytes + self.start

    def read_more(self) -> bool:
        """Drop the bytes before `start` and read on; return whether there were bytes to add."""
        if self.at_eof:
            return False
        unread = self.end - self.start
        self.window[:unread] = self.window[self.start : self.end].copy()
        self._dropped_bytes += self.start
        self.start, self.end = 0, unread
        limit = min(len(self.window), unread + WINDOW_BYTES)
        while self.end < limit and (self._unused_piece or self._next_piece()):
            size = min(len(self._unused_piece), limit - self.end)
            self.window[self.end : self.end + size] = self._unused_piece[:size]
            self._unused_piece = self._unused_piece[size:]
            self.end += size
        return self.end > unread

    def remaining(self) -> Iterator[bytes]:
        """Yield all bytes that have not been read, in pieces."""
        while self.read_more():
            yield self.window[self.start : self.end].tobytes()
            self.start = self.end

    def _next_piece(self) -> bool:
        """Fetch bytes that are not empty; return False at the end of the stream."""
        while not self._unused_piece:
            try:
                piece = next(self._pieces, None)
            except CompressionError as error:
                piece, self.compression_error = None, str(error)
            if piece is None:
                self.at_eof = True
                return False
            self._hash.update(piece)
            self._unused_piece = memoryview(piece)
        return True
