"""Keys by which a packet is known again in another file, and a capture by a sample of them.

A key is made of what a packet keeps however its capture is written again: as pcap or pcapng, in
microseconds or nanoseconds, cut at another snap length, as a log of Zeek. The sample has every
packet whose key is small, so that the samples of two captures share as much as the captures do.
Samples are kept on disk: what changes a key asks for another KEPT_AS.
"""

import base64
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from spark_jobs.capture import decode
from spark_jobs.capture.addresses import AddressTable, halves
from spark_jobs.capture.hashes import OTHER_FACTOR, address_hashes, mixed, pair
from spark_jobs.capture.reader import Run
from spark_jobs.capture.users import UserKeys, key_bytes
from spark_jobs.compiled import compiled

NUMBERS = ("ts", "downlink", "ip_len", "ip_id", "seq")
COLUMNS = ("user", "server", *NUMBERS)
"""Columns of schemas.packets that a key is made of."""
ONE_IN = 256
KEPT_AS = "giscope.sample.1"
"""Under which name a sample is in the metadata of a capture's row of ingest_log."""
ALL = np.uint64(2**64 - 1)
IN_SAMPLE = ALL // np.uint64(ONE_IN)
"""The largest key of a sample."""


def sampled_keys(run: Run, users: UserKeys) -> np.ndarray:
    """uint64[..]: the keys of the packets that are in the sample."""
    return _keys(run.rows, address_hashes(_called(run.addresses, users)), IN_SAMPLE)


def packet_keys(packets: pa.Table) -> np.ndarray:
    """uint64[n]: the keys of rows of schemas.PACKETS, of which COLUMNS are needed."""
    rows = np.zeros(len(packets), decode.ROW)
    for name in NUMBERS:
        rows[name] = packets[name].cast(pa.int64()).fill_null(0).to_numpy()
    addresses: list[str] = []
    for name in ("user", "server"):
        column = packets[name].combine_chunks().dictionary_encode()
        rows[name] = column.indices.to_numpy() + len(addresses)
        addresses += column.dictionary.to_pylist()
    rows["has"] = decode.HAS_IP_ID | decode.HAS_TCP
    return _keys(rows, address_hashes(halves(map(key_bytes, addresses))), ALL)


def _called(addresses: AddressTable, users: UserKeys) -> np.ndarray:
    """uint64[addresses + 1, 2 or more]: the halves of what is said of each, by number. Who has a
    sample, and the rest of a packet's row, could try addresses until one fits."""
    known = addresses.known
    called = np.arange(1, len(known))
    if users.servers == "kept":
        called = called[users.have_names(addresses, called)]
    said = known[:, :2].copy()
    said[called] = halves(map(key_bytes, users.texts(addresses, called)))
    return said


def as_sample(keys: Iterable[np.ndarray]) -> np.ndarray:
    """uint64[..]: those keys that are in the sample, each once, sorted."""
    found = np.concatenate([np.empty(0, np.uint64), *keys])
    return np.unique(found[found <= IN_SAMPLE])


def to_text(sample: np.ndarray) -> str:
    """A sample as text."""
    return base64.b64encode(sample.astype("<u8").tobytes()).decode()


def from_text(text: str) -> np.ndarray:
    """uint64[..]: a sample from its text."""
    return np.frombuffer(base64.b64decode(text), "<u8").astype(np.uint64)


@compiled
def _keys(rows, addresses, below):
    """uint64[..]: the keys up to `below` of rows, decode.ROW[n]; addresses: uint64, hashes by
    number. What a row does not say counts as 0."""
    out = np.empty(len(rows), np.uint64)
    n = 0
    for i in range(len(rows)):
        row = rows[i]
        seq = row.seq if row.has & decode.HAS_TCP else np.uint32(0)
        ip_id = row.ip_id if row.has & decode.HAS_IP_ID else np.uint16(0)
        h = mixed(addresses[row.user] ^ addresses[row.server] * OTHER_FACTOR, row.ts)
        h = mixed(h, pair(row.ip_len, seq))
        h = mixed(h, np.int64(ip_id) << 1 | np.int64(row.downlink))
        if h <= below:
            out[n] = h
            n += 1
    return out[:n].copy()
