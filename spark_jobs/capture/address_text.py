"""Addresses as people write them, and as 16 bytes: IPv4 is IPv4-mapped IPv6 (RFC 4291, 2.5.5.2)."""

import socket

MAPPED_PREFIX = bytes(10) + b"\xff\xff"


def parse_address(text: str) -> bytes:
    """An address as 16 bytes. Raises ValueError where the text is none."""
    try:
        if ":" in text:
            return socket.inet_pton(socket.AF_INET6, text)
        return MAPPED_PREFIX + socket.inet_pton(socket.AF_INET, text)
    except OSError as error:
        raise ValueError(f"{text}: no address") from error


def format_address(address: bytes) -> str:
    """16 bytes as people write them (RFC 5952)."""
    if address.startswith(MAPPED_PREFIX):
        return socket.inet_ntop(socket.AF_INET, address[12:])
    return socket.inet_ntop(socket.AF_INET6, address)
