"""Subscribers' addresses and names, and a search for them."""

import re
import zlib
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.capture.addresses import subscriber_prefixes
from spark_jobs.capture.reader import ReadStats, read_capture
from spark_jobs.settings.networks import Network

AVRO_MARK_BYTES = 16
"""The marker after an Avro file's header and after each block, which is raw deflate."""


SECRET, OTHER = bytes(range(32)), bytes(range(1, 33))


def subscribers(capture: Path, network: Network) -> set[str]:
    """Return the addresses of the subscribers in a capture."""
    found: set[str] = set()
    for read in read_capture(capture, subscriber_prefixes(network.prefixes), ReadStats()):
        found.update(read.addresses.texts(np.unique(read.rows["user"])))
    return found


class Finder:
    """Looks for addresses, anywhere: as text in every form, as 4 or 16 bytes in either order; of
    IPv6 each half is enough, if it is the subscriber's alone. And for a key, if one is given."""

    def __init__(self, addresses: set[str], key: bytes = b""):
        known = [ip_address(address) for address in sorted(addresses)]
        v4 = [int(address) for address in known if address.version == 4]
        texts = {form for address in known for form in (str(address), address.exploded)}
        anywhere = "|".join(re.escape(text) for text in sorted(texts))
        self._text = re.compile(rf"(?<![\d.])(?:{anywhere})(?![\d.])".encode(), re.IGNORECASE)
        self._numbers = np.array(v4, ">u4").view("<u4"), np.array(v4, "<u4")
        long = [address.packed for address in known if address.version == 6]
        parts = {packed.hex().encode() for packed in long}
        for half in (slice(None, 8), slice(8, None)):
            halves = {packed[half] for packed in long}
            if len(halves) == len(long):
                parts |= {part for whole in halves for part in (whole, whole[::-1])}
        if key:
            parts |= {key, key[::-1], key.hex().encode(), key.hex().upper().encode()}
        self._parts = sorted(parts)

    def finds(self, content: bytes) -> bool:
        """Return whether one of the addresses, or the key, is in the bytes."""
        if self._text.search(content) or any(part in content for part in self._parts):
            return True
        for offset in range(4):
            whole = (len(content) - offset) // 4
            if whole > 0:
                words = np.frombuffer(content, "<u4", whole, offset)
                if any(np.isin(words, numbers).any() for numbers in self._numbers):
                    return True
        return False

    def in_folder(self, root: Path) -> list[str]:
        """Return the files that have one."""
        return [
            str(path.relative_to(root))
            for path in sorted(root.rglob("*"))
            if path.is_file() and any(self.finds(part) for part in parts_of(path))
        ]


def parts_of(path: Path) -> Iterator[bytes]:
    """Yield a file's bytes, as they are and with compressed parts unpacked."""
    content = path.read_bytes()
    if path.suffix == ".parquet":
        metadata = pq.read_metadata(path)
        yield repr(metadata.metadata).encode()
        yield repr(metadata.to_dict()).encode()
        for column in pq.read_table(path, partitioning=None).columns:
            for chunk in column.chunks:
                yield from buffers_of(chunk)
    elif path.suffix == ".avro":
        yield content
        for block in content.split(content[-AVRO_MARK_BYTES:])[1:-1]:
            yield zlib.decompress(block[_avro_data_at(block) :], -15)
    else:
        yield content


def _avro_data_at(block: bytes) -> int:
    """Return where a block's rows begin: after their count and size, numbers of seven bits a
    byte."""
    at = 0
    for _ in range(2):
        at = next(place for place in range(at, len(block)) if block[place] < 0x80) + 1
    return at


def buffers_of(array: pa.Array) -> Iterator[bytes]:
    if isinstance(array, pa.DictionaryArray):
        yield from buffers_of(array.dictionary)
    if pa.types.is_string(array.type):  # side by side they would be one
        yield "\n".join(filter(None, array.to_pylist())).encode()
    for buffer in array.buffers():
        if buffer is not None:
            yield buffer.to_pybytes()
