"""Keys that identify a packet in another file, and samples of keys that identify a capture.

A key uses only what stays the same when a capture is written again: as pcap or pcapng, in
microseconds or nanoseconds, with another snap length, as a log of Zeek. The sample contains every
packet with a small key, so the samples of two captures overlap as much as the captures do. Samples
are stored on disk: a change of the keys requires another METADATA_KEY.
"""

import base64
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from spark_jobs.capture import decode
from spark_jobs.capture.addresses import AddressTable
from spark_jobs.capture.hashes import SECOND_MULTIPLIER, address_hashes, hash_combine, pack_pair
from spark_jobs.capture.reader import PacketBatch
from spark_jobs.capture.users import AddressNames, UserKeys, packed_keys
from spark_jobs.compiled import compiled

NUMERIC_COLUMNS = ("ts", "downlink", "ip_len", "ip_id", "seq")
KEY_COLUMNS = ("user", "server", *NUMERIC_COLUMNS)
"""Columns of schemas.packets that a key is made of."""
SAMPLING_INTERVAL = 256
METADATA_KEY = "giscope.sample.1"
"""Name of the sample in the Parquet metadata of a capture's row of ingest_log."""
MAX_KEY = np.uint64(2**64 - 1)
MAX_SAMPLED_KEY = MAX_KEY // np.uint64(SAMPLING_INTERVAL)
"""Largest key of a sample."""


def sampled_keys(batch: PacketBatch, users: UserKeys, names: AddressNames) -> np.ndarray:
    """Return the keys of the batch's packets that are in the sample: uint64[..].

    names: those of the batch's addresses.
    """
    halves = _name_halves(batch.addresses, users, names)
    return _packet_keys(batch.rows, address_hashes(halves), MAX_SAMPLED_KEY)


def packet_keys(packets: pa.Table) -> np.ndarray:
    """Return the keys of rows of schemas.PACKETS: uint64[n]; only KEY_COLUMNS are needed."""
    rows = np.zeros(len(packets), decode.ROW)
    for name in NUMERIC_COLUMNS:
        rows[name] = packets[name].cast(pa.int64()).fill_null(0).to_numpy()
    addresses: list[str] = []
    for name in ("user", "server"):
        column = packets[name].combine_chunks().dictionary_encode()
        rows[name] = column.indices.to_numpy() + len(addresses)
        addresses += column.dictionary.to_pylist()
    rows["has"] = decode.HAS_IP_ID | decode.HAS_TCP
    return _packet_keys(rows, address_hashes(_halves(addresses)), MAX_KEY)


def _name_halves(addresses: AddressTable, users: UserKeys, names: AddressNames) -> np.ndarray:
    """Return the halves of each address's key, by address number: uint64[addresses + 1, 2 or more].

    Keys stand for subscribers' addresses. Otherwise someone who has a sample, and the rest of a
    packet's row, could try addresses until one fits.
    """
    entries = addresses.used_entries
    named = np.arange(1, len(entries))
    if users.servers == "kept":
        named = named[users.are_replaced(addresses, named)]
    halves = entries[:, :2].copy()
    halves[named] = _halves(names.names[number] for number in named.tolist())
    return halves


def _halves(keys: Iterable[str]) -> np.ndarray:
    """Return the high and low halves of keys of addresses: uint64[n, 2]."""
    return packed_keys(keys).view(">u8").astype(np.uint64)


def make_sample(keys: Iterable[np.ndarray]) -> np.ndarray:
    """Return the keys that are in the sample, each once, sorted: uint64[..]."""
    merged = np.concatenate([np.empty(0, np.uint64), *keys])
    return np.unique(merged[merged <= MAX_SAMPLED_KEY])


def encode_sample(sample: np.ndarray) -> str:
    """Return a sample as text."""
    return base64.b64encode(sample.astype("<u8").tobytes()).decode()


def decode_sample(text: str) -> np.ndarray:
    """Return the sample that a text encodes: uint64[..]."""
    return np.frombuffer(base64.b64decode(text), "<u8").astype(np.uint64)


@compiled
def _packet_keys(rows, addresses, max_key):
    """Return the keys up to `max_key` of rows, decode.ROW[n]: uint64[..].

    addresses: uint64, hashes by address number. Null values count as 0.
    """
    keys = np.empty(len(rows), np.uint64)
    count = 0
    for i in range(len(rows)):
        row = rows[i]
        seq = row.seq if row.has & decode.HAS_TCP else np.uint32(0)
        ip_id = row.ip_id if row.has & decode.HAS_IP_ID else np.uint16(0)
        key = hash_combine(addresses[row.user] ^ addresses[row.server] * SECOND_MULTIPLIER, row.ts)
        key = hash_combine(key, pack_pair(row.ip_len, seq))
        key = hash_combine(key, np.int64(ip_id) << 1 | np.int64(row.downlink))
        if key <= max_key:
            keys[count] = key
            count += 1
    return keys[:count].copy()
