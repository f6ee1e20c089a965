"""Base 32 (RFC 4648, lower case, without padding) of many blocks of bytes at once.

The standard library's functions encode one block in 1.5 µs, these a large number of blocks in 0.2
µs each.
"""

import numpy as np

ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", np.uint8)
CHARACTER_BITS = 5
GROUP_BYTES, GROUP_CHARACTERS = 5, 8
"""Sizes of a group: the fewest bytes that whole characters encode."""
_SHIFTS = CHARACTER_BITS * np.arange(GROUP_CHARACTERS, dtype=np.uint64)[::-1]
"""Position of each character's bits in the number that a group is."""
_NO_CHARACTER = 255
_BITS_OF_CHARACTER = np.full(256, _NO_CHARACTER, np.uint8)
_BITS_OF_CHARACTER[ALPHABET] = np.arange(len(ALPHABET))


def encode_base32(blocks: bytes, block_bytes: int) -> list[str]:
    """Return the text of each block of `block_bytes`."""
    size = -(-8 * block_bytes // CHARACTER_BITS)
    data = _padded(np.frombuffer(blocks, np.uint8).reshape(-1, block_bytes), GROUP_BYTES)
    groups = np.zeros((*data.shape[:2], 8), np.uint8)
    groups[:, :, 8 - GROUP_BYTES :] = data
    numbers = groups.view(">u8").astype(np.uint64)  # [n, groups, 1]
    characters = ALPHABET[numbers >> _SHIFTS & np.uint64(len(ALPHABET) - 1)]
    of_blocks = characters.reshape(len(data), data.shape[1] * GROUP_CHARACTERS)
    text = of_blocks[:, :size].tobytes().decode()
    return [text[begin : begin + size] for begin in range(0, len(text), size)]


def decode_base32(characters: np.ndarray) -> np.ndarray:
    """Return the bytes that texts of the same length encode: uint8[n, bytes].

    characters: uint8[n, length], the texts. Raises ValueError if a text has other characters.
    """
    bits = _BITS_OF_CHARACTER[characters]
    if (bits == _NO_CHARACTER).any():
        raise ValueError("not base 32 in lower case")
    groups = _padded(bits, GROUP_CHARACTERS).astype(np.uint64)
    numbers = np.bitwise_or.reduce(groups << _SHIFTS, axis=2).astype(">u8")
    data = numbers[:, :, np.newaxis].view(np.uint8)[:, :, 8 - GROUP_BYTES :]
    size = bits.shape[1] * CHARACTER_BITS // 8
    return data.reshape(len(bits), groups.shape[1] * GROUP_BYTES)[:, :size]


def _padded(values: np.ndarray, group: int) -> np.ndarray:
    """Return the values of each row in groups, the last one filled with zeros: [n, groups, group].

    values: uint8[n, size]
    """
    count, size = values.shape
    groups = -(-size // group)
    padded = np.zeros((count, groups * group), np.uint8)
    padded[:, :size] = values
    return padded.reshape(count, groups, group)
