"""Crypto-PAn: anonymization of addresses that preserves common prefixes and nothing else.

Xu, Fan, Ammar, Moon, "Prefix-Preserving IP Address Anonymization", ICNP 2002.
"""

from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

KEY_BYTES, BLOCK_BYTES = 32, 16
BATCH_ADDRESSES = 4096
"""Number of addresses whose cipher blocks are in memory at a time; an IPv6 address has 128."""


def anonymize(addresses: list[bytes], key: bytes) -> list[bytes]:
    """Return each address as another address: two have as many leading bits in common as before.

    addresses: addresses of one length, IPv4 or IPv6
    key: KEY_BYTES, of which the first half is the key of AES and the rest makes the pad
    """
    cipher = Cipher(algorithms.AES(key[:BLOCK_BYTES]), modes.ECB()).encryptor()
    pad = np.unpackbits(np.frombuffer(cipher.update(key[BLOCK_BYTES:]), np.uint8))
    anonymized: list[bytes] = []
    for batch in _batches(addresses):
        bits = np.unpackbits(
            np.frombuffer(b"".join(batch), np.uint8).reshape(len(batch), -1), axis=1
        )
        length = bits.shape[1]
        padded = np.zeros((len(batch), 1, len(pad)), np.uint8)
        padded[:, 0, :length] = bits
        is_prefix = np.tri(length, len(pad), -1, bool)
        blocks = np.packbits(np.where(is_prefix, padded, pad), axis=2)
        encrypted = np.frombuffer(cipher.update(blocks.tobytes()), np.uint8)
        flips = encrypted.reshape(len(batch), length, BLOCK_BYTES)[:, :, 0] >> 7
        anonymized += [row.tobytes() for row in np.packbits(bits ^ flips, axis=1)]
    return anonymized


def _batches(addresses: list[bytes]) -> Iterator[list[bytes]]:
    for begin in range(0, len(addresses), BATCH_ADDRESSES):
        yield addresses[begin : begin + BATCH_ADDRESSES]
