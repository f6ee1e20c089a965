"""Lookup of the network that an address is a subscriber of.

An IPv6 address also belongs to a network if it embeds an IPv4 address of the network. Embedded
addresses: RFC 6052 and 8215 (NAT64), 3056 (6to4), 4380 (Teredo), 4291 (IPv4-compatible), 6145
(IPv4-translated), 5214 (ISATAP). IPv4-mapped addresses are IPv4 addresses here, see
address_text.py.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple

import numpy as np

from spark_jobs.capture.addresses import subscriber_prefixes
from spark_jobs.compiled import compiled, inner
from spark_jobs.settings.networks import Subscribers

Prefixes = tuple[IPv4Network | IPv6Network, ...]

NO_NETWORK = -1
IPV4_MAPPED = np.uint64(0xFFFF_0000_0000)
LOW_32 = np.uint64(0xFFFF_FFFF)
REST_IS_ZERO, OBFUSCATED, RELAY_ADDRESS = 1, 2, 4
"""Flags of an embedding.

REST_IS_ZERO: the address is embedded only if all bits after it are 0
OBFUSCATED: its bits are inverted
RELAY_ADDRESS: it is the address of a relay, not of the host
"""
EMBEDDED: Sequence[tuple[str, int, int]] = (
    ("64:ff9b::/96", 96, 0),
    ("64:ff9b:1::/48", 96, 0),
    ("64:ff9b:1::/48", 64, REST_IS_ZERO),
    ("64:ff9b:1::/48", 56, REST_IS_ZERO),
    ("64:ff9b:1::/48", 48, REST_IS_ZERO),
    ("2002::/16", 16, 0),
    ("2001::/32", 96, OBFUSCATED),
    ("2001::/32", 32, RELAY_ADDRESS),
    ("::/96", 96, 0),
    ("::ffff:0:0:0/96", 96, 0),
)
"""Known embeddings: prefix, bit at which the IPv4 address begins, flags.

Bits 64 to 71 are skipped. RFC 8215 leaves the length of its prefix to the operator: the IPv4
address is followed by zeros, or is at the end.
"""
ISATAP, ISATAP_MASK = np.uint64(0x5EFE), np.uint64(0xFDFF_FFFF)
"""Upper half of the interface identifier of ISATAP.

The mask leaves out the bit that indicates a global identifier. The IPv4 address is the lower half.
"""


MASKS = np.array([divmod((1 << 128) - (1 << 128 - n), 1 << 64) for n in range(129)], np.uint64)
"""The halves of the mask that keeps the first n bits of an address, by n: uint64[129, 2]."""


class Owners(NamedTuple):
    """The networks and users that addresses belong to.

    network: int64[n], indices of networks, or NO_NETWORK
    embedded_ipv4: uint64[n], the low half of the IPv4 address that decided it, or 0 if the address
        itself is in a prefix
    user: uint64[n, 2], the halves of the IPv4 address or of the address, without the bits in which
        the addresses of one user differ
    bits: int64[n], the number of bits that are left of 128
    """

    network: np.ndarray
    embedded_ipv4: np.ndarray
    user: np.ndarray
    bits: np.ndarray


class NetworkLookup:
    """Lookup of the one of several networks that an address is a subscriber of.

    subscribers: those of each network. An address in prefixes of several networks belongs to
        the first network if it is one of them, otherwise to the network with the longest prefix,
        otherwise to the earlier one.
    nat64: prefixes of RFC 6052 in use, beside the well-known one.
    """

    def __init__(self, subscribers: Sequence[Iterable[Subscribers]], nat64: Prefixes = ()):
        numbered = [(n, part) for n, parts in enumerate(subscribers) for part in parts]
        numbered.sort(key=lambda entry: (entry[0] > 0, -entry[1].prefix.prefixlen))
        self._prefixes = subscriber_prefixes(part.prefix for _, part in numbered)
        self._network_of_prefix = np.array([*(n for n, _ in numbered), NO_NETWORK], np.int64)
        bits = [128 - part.prefix.max_prefixlen + part.user_bits for _, part in numbered]
        self._bits_of_prefix = np.array([*bits, 128], np.int64)
        embeddings = [
            *((prefix, prefix.prefixlen, 0) for prefix in nat64),
            *_parse_embeddings(EMBEDDED),
        ]
        self._embedding_prefixes = subscriber_prefixes(prefix for prefix, _, _ in embeddings)
        self._embeddings = np.array([embedding for _, *embedding in embeddings], np.int64)

    def find(self, addresses: np.ndarray) -> Owners:
        """Return the owners of addresses, uint64[n, 2 or more], by their halves."""
        prefix, embedded_ipv4 = _find_prefixes(
            addresses, self._prefixes, self._embedding_prefixes, self._embeddings
        )
        bits = self._bits_of_prefix[prefix]
        is_embedded = embedded_ipv4 != 0
        user = np.column_stack(
            [
                np.where(is_embedded, np.uint64(0), addresses[:, 0]),
                np.where(is_embedded, embedded_ipv4, addresses[:, 1]),
            ]
        )
        user &= MASKS[bits]
        return Owners(self._network_of_prefix[prefix], embedded_ipv4, user, bits)


def _parse_embeddings(rows: Iterable[tuple[str, int, int]]) -> list[tuple[IPv6Network, int, int]]:
    return [(IPv6Network(prefix), bit, flags) for prefix, bit, flags in rows]


@inner
def _first_match(prefixes, begin, high, low):
    """Return the index of the first prefix from `begin` on that contains an address.

    Returns len(prefixes) if none does.
    """
    for i in range(begin, len(prefixes)):
        if high & prefixes[i, 2] == prefixes[i, 0] and low & prefixes[i, 3] == prefixes[i, 1]:
            return i
    return len(prefixes)


@inner
def _ipv4_at(high, low, bit):
    """Return the 32 bits from position `bit` on.

    Bits 64 to 71 are skipped (RFC 6052, 2.2), unless `bit` is 96.
    """
    if bit == 96:
        return low & LOW_32
    if bit <= 32:
        return high >> np.uint64(32 - bit) & LOW_32
    after_gap = (low & np.uint64(0x00FF_FFFF_FFFF_FFFF)) << np.uint64(8)
    before_gap = np.uint64(0) if bit == 64 else high << np.uint64(bit - 32)
    return (before_gap | after_gap >> np.uint64(96 - bit)) & LOW_32


@inner
def _trailing_bits(low, bit):
    """Return the bits after an IPv4 address that begins at position `bit` (48 to 64).

    The skipped bits 64 to 71 are included.
    """
    mask = np.uint64(0xFFFF_FFFF_FFFF_FFFF) >> np.uint64(bit - 24)
    return low & (mask | np.uint64(0xFF) << np.uint64(56))


@compiled
def _find_prefixes(addresses, prefixes, embedding_prefixes, embeddings):
    """Return the prefix that each address belongs to, and the embedded address that decided it.

    They are int64[n], indices of prefixes or -1, and uint64[n]; see Owners. embedding_prefixes,
    embeddings: prefixes, and the bit and flags of each, as in EMBEDDED.
    """
    prefix_of = np.full(len(addresses), -1, np.int64)
    embedded_ipv4 = np.zeros(len(addresses), np.uint64)
    for k in range(len(addresses)):
        high, low = addresses[k, 0], addresses[k, 1]
        prefix_index = _first_match(prefixes, 0, high, low)
        if prefix_index < len(prefixes):
            prefix_of[k] = prefix_index
            continue
        if high == 0 and low >> np.uint64(32) == IPV4_MAPPED >> np.uint64(32):
            continue
        embedding_index = _first_match(embedding_prefixes, 0, high, low)
        while embedding_index < len(embedding_prefixes) and prefix_of[k] < 0:
            bit, flags = embeddings[embedding_index, 0], embeddings[embedding_index, 1]
            if not flags & REST_IS_ZERO or _trailing_bits(low, bit) == 0:
                ipv4 = _ipv4_at(high, low, bit)
                if flags & OBFUSCATED:
                    ipv4 ^= LOW_32
                prefix_index = _first_match(prefixes, 0, np.uint64(0), IPV4_MAPPED | ipv4)
                if prefix_index < len(prefixes):
                    prefix_of[k] = prefix_index
                    embedded_ipv4[k] = np.uint64(0) if flags & RELAY_ADDRESS else IPV4_MAPPED | ipv4
            embedding_index = _first_match(embedding_prefixes, embedding_index + 1, high, low)
        if prefix_of[k] < 0 and low >> np.uint64(32) & ISATAP_MASK == ISATAP:
            prefix_index = _first_match(prefixes, 0, np.uint64(0), IPV4_MAPPED | (low & LOW_32))
            if prefix_index < len(prefixes):
                prefix_of[k], embedded_ipv4[k] = prefix_index, IPV4_MAPPED | (low & LOW_32)
    return prefix_of, embedded_ipv4
