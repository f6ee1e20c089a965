"""Crypto-PAn: addresses that keep their common prefixes and nothing else (Xu, Fan, Ammar, Moon,
"Prefix-Preserving IP Address Anonymization", ICNP 2002)."""

from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

KEY_BYTES, BLOCK = 32, 16
AT_ONCE = 4096
"""Addresses whose blocks are held at a time: of IPv6 each has 128 of them."""


def anonymized(addresses: list[bytes], key: bytes) -> list[bytes]:
    """Addresses of one length, of IPv4 or IPv6, each as another of it: two have as many bits in
    common as before. key: KEY_BYTES, of which the first half is of AES and the rest makes the pad.
    """
    cipher = Cipher(algorithms.AES(key[:BLOCK]), modes.ECB()).encryptor()
    pad = np.unpackbits(np.frombuffer(cipher.update(key[BLOCK:]), np.uint8))
    found: list[bytes] = []
    for some in _pieces(addresses):
        bits = np.unpackbits(np.frombuffer(b"".join(some), np.uint8).reshape(len(some), -1), axis=1)
        length = bits.shape[1]
        padded = np.zeros((len(some), 1, len(pad)), np.uint8)
        padded[:, 0, :length] = bits
        before = np.tri(length, len(pad), -1, bool)
        blocks = np.packbits(np.where(before, padded, pad), axis=2)
        answers = np.frombuffer(cipher.update(blocks.tobytes()), np.uint8)
        flips = answers.reshape(len(some), length, BLOCK)[:, :, 0] >> 7
        found += [row.tobytes() for row in np.packbits(bits ^ flips, axis=1)]
    return found


def _pieces(addresses: list[bytes]) -> Iterator[list[bytes]]:
    for begin in range(0, len(addresses), AT_ONCE):
        yield addresses[begin : begin + AT_ONCE]
