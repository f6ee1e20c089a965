"""Base 32 (RFC 4648, lower case, without padding) of many blocks of bytes at once.

The standard library's functions encode one block in 1.5 µs, these a large number of blocks in 0.3
µs each.
"""

from collections.abc import Sequence

import numpy as np

ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", np.uint8)
CHARACTER_BITS = 5
UNUSED_BITS = 8 - CHARACTER_BITS
"""Bits of a byte that has the bits of a character first."""
_NO_CHARACTER = 255
_BITS_OF_CHARACTER = np.full(256, _NO_CHARACTER, np.uint8)
"""Each character's bits, as the first bits of a byte."""
_BITS_OF_CHARACTER[ALPHABET] = np.arange(len(ALPHABET)) << UNUSED_BITS


def encode_base32(blocks: bytes, block_bytes: int) -> list[str]:
    """Return the text of each block of `block_bytes`."""
    size = -(-8 * block_bytes // CHARACTER_BITS)
    bits = np.unpackbits(np.frombuffer(blocks, np.uint8).reshape(-1, block_bytes), axis=1)
    bits = np.pad(bits, ((0, 0), (0, size * CHARACTER_BITS - 8 * block_bytes)))
    of_characters = np.packbits(bits.reshape(-1, size, CHARACTER_BITS), axis=2)
    text = ALPHABET[of_characters >> UNUSED_BITS].tobytes().decode()
    return [text[begin : begin + size] for begin in range(0, len(text), size)]


def decode_base32(texts: Sequence[str]) -> list[bytes]:
    """Return the bytes that texts of the same length encode.

    Raises ValueError if a text has other characters.
    """
    characters = np.frombuffer("".join(texts).encode(), np.uint8).reshape(len(texts), -1, 1)
    values = _BITS_OF_CHARACTER[characters]
    if (values == _NO_CHARACTER).any():
        raise ValueError("not base 32 in lower case")
    bits = np.unpackbits(values, axis=2)[:, :, :CHARACTER_BITS]
    size = bits.shape[1] * CHARACTER_BITS // 8
    data = np.packbits(bits.reshape(len(texts), -1)[:, : 8 * size], axis=1).tobytes()
    return [data[begin : begin + size] for begin in range(0, len(data), size)]
