"""Conversion of IP addresses between their text and 16 bytes.

An IPv4 address is stored as an IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2).
"""

import socket

MAPPED_PREFIX = bytes(10) + b"\xff\xff"


def parse_address(text: str) -> bytes:
    """Return an address as 16 bytes.

    Raises ValueError if the text is not an IP address.
    """
    try:
        if ":" in text:
            return socket.inet_pton(socket.AF_INET6, text)
        return MAPPED_PREFIX + socket.inet_pton(socket.AF_INET, text)
    except OSError as error:
        raise ValueError(f"{text}: not an IP address") from error


def format_address(address: bytes) -> str:
    """Return the usual text of an address of 16 bytes (RFC 5952)."""
    if address.startswith(MAPPED_PREFIX):
        return socket.inet_ntop(socket.AF_INET, address[12:])
    return socket.inet_ntop(socket.AF_INET6, address)
