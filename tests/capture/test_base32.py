"""Base 32 of many blocks is that of the standard library, block by block."""

import base64

import numpy as np
import pytest

from spark_jobs.capture.base32 import decode_base32, encode_base32


@pytest.mark.parametrize("block_bytes", [1, 5, 10, 16])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_blocks_are_encoded_as_by_the_standard_library(count: int, block_bytes: int) -> None:
    data = np.random.default_rng(block_bytes).bytes(count * block_bytes)
    blocks = [data[begin : begin + block_bytes] for begin in range(0, len(data), block_bytes)]
    texts = encode_base32(data, block_bytes)
    assert texts == [base64.b32encode(b).decode().rstrip("=").lower() for b in blocks]
    size = -(-8 * block_bytes // 5)
    assert decode_base32(characters(texts, size)).tobytes() == data


def test_other_characters_are_refused() -> None:
    with pytest.raises(ValueError, match="not base 32"):
        decode_base32(characters(["abcdefgh", "abcdef1h"], 8))


def characters(texts: list[str], size: int) -> np.ndarray:
    return np.frombuffer("".join(texts).encode(), np.uint8).reshape(len(texts), size)
