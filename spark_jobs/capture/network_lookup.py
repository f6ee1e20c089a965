"""Which network of the networks file an address is a subscriber of. An IPv6 address belongs to a
network, too, if it embeds an IPv4 address that does.

Embedded addresses: RFC 6052 and 8215 (NAT64), 3056 (6to4), 4380 (Teredo), 4291 (IPv4-compatible),
6145 (IPv4-translated), 5214 (ISATAP). IPv4-mapped addresses are IPv4 addresses here, see
address_text.py.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network

import numpy as np

from spark_jobs.capture.addresses import subscriber_prefixes
from spark_jobs.compiled import compiled, inner

Prefixes = tuple[IPv4Network | IPv6Network, ...]

NO_NETWORK = -1
IPV4_MAPPED = np.uint64(0xFFFF_0000_0000)
LOW_32 = np.uint64(0xFFFF_FFFF)
REST_IS_ZERO, OBFUSCATED, RELAY_ADDRESS = 1, 2, 4
"""How an address is embedded: only if all bits behind it are 0; with its bits inverted; as that of
a relay, which is not the host's."""
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
"""A prefix; the bit at which the IPv4 address begins (bits 64 to 71 are skipped); how it is
embedded. RFC 8215 leaves the length of its prefix to the site: the IPv4 address is where 0 follows
it, or at the end."""
ISATAP, ISATAP_MASK = np.uint64(0x5EFE), np.uint64(0xFDFF_FFFF)
"""The upper half of the interface identifier, without the bit that says whether it is global; the
IPv4 address is the lower half."""


class NetworkLookup:
    """Finds which of some networks an address is a subscriber of.

    subscribers: the prefixes of each network. An address in prefixes of several belongs to the
    first network if that is one of them, else to the one with the longest prefix, else to the one
    that comes first. nat64: prefixes of RFC 6052 in use, beside the well-known one.
    """

    def __init__(self, subscribers: Sequence[Prefixes], nat64: Prefixes = ()):
        numbered = [(n, prefix) for n, prefixes in enumerate(subscribers) for prefix in prefixes]
        numbered.sort(key=lambda entry: (entry[0] > 0, -entry[1].prefixlen))
        self._prefixes = subscriber_prefixes(prefix for _, prefix in numbered)
        self._network_of_prefix = np.array([n for n, _ in numbered], np.int64)
        embeddings = [
            *((prefix, prefix.prefixlen, 0) for prefix in nat64),
            *_parse_embeddings(EMBEDDED),
        ]
        self._embedding_prefixes = subscriber_prefixes(prefix for prefix, _, _ in embeddings)
        self._embeddings = np.array([embedding for _, *embedding in embeddings], np.int64)

    def find(self, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(int64[n]: the place of each address's network, or NOBODY; uint64[n]: the low half of the
        embedded IPv4 address that says so, 0 where the address itself is in a prefix).

        addresses: uint64[n, 2 or more], their halves.
        """
        return _find_networks(
            addresses,
            self._prefixes,
            self._network_of_prefix,
            self._embedding_prefixes,
            self._embeddings,
        )


def _parse_embeddings(rows: Iterable[tuple[str, int, int]]) -> list[tuple[IPv6Network, int, int]]:
    return [(IPv6Network(prefix), bit, flags) for prefix, bit, flags in rows]


@inner
def _first_match(prefixes, begin, high, low):
    """The place of the first prefix from `begin` on that contains an address; len(prefixes) if none
    does."""
    for i in range(begin, len(prefixes)):
        if high & prefixes[i, 2] == prefixes[i, 0] and low & prefixes[i, 3] == prefixes[i, 1]:
            return i
    return len(prefixes)


@inner
def _ipv4_at(high, low, bit):
    """The 32 bits from the bit `at` on. Bits 64 to 71 are skipped (RFC 6052, 2.2), unless at is
    96."""
    if bit == 96:
        return low & LOW_32
    if bit <= 32:
        return high >> np.uint64(32 - bit) & LOW_32
    after_gap = (low & np.uint64(0x00FF_FFFF_FFFF_FFFF)) << np.uint64(8)
    before_gap = np.uint64(0) if bit == 64 else high << np.uint64(bit - 32)
    return (before_gap | after_gap >> np.uint64(96 - bit)) & LOW_32


@inner
def _trailing_bits(low, bit):
    """The bits that follow an IPv4 address which begins at the bit `at` (48 to 64), and the skipped
    ones."""
    mask = np.uint64(0xFFFF_FFFF_FFFF_FFFF) >> np.uint64(bit - 24)
    return low & (mask | np.uint64(0xFF) << np.uint64(56))


@compiled
def _find_networks(addresses, prefixes, network_of_prefix, embedding_prefixes, embeddings):
    """See Owners.of. numbers: each prefix's network; embedding, forms: prefixes, and how they
    embed, as in EMBEDDED."""
    network = np.full(len(addresses), NO_NETWORK, np.int64)
    embedded_ipv4 = np.zeros(len(addresses), np.uint64)
    for k in range(len(addresses)):
        high, low = addresses[k, 0], addresses[k, 1]
        place = _first_match(prefixes, 0, high, low)
        if place < len(prefixes):
            network[k] = network_of_prefix[place]
            continue
        if high == 0 and low >> np.uint64(32) == IPV4_MAPPED >> np.uint64(32):
            continue
        match = _first_match(embedding_prefixes, 0, high, low)
        while match < len(embedding_prefixes) and network[k] == NO_NETWORK:
            bit, flags = embeddings[match, 0], embeddings[match, 1]
            if not flags & REST_IS_ZERO or _trailing_bits(low, bit) == 0:
                ipv4 = _ipv4_at(high, low, bit)
                if flags & OBFUSCATED:
                    ipv4 ^= LOW_32
                place = _first_match(prefixes, 0, np.uint64(0), IPV4_MAPPED | ipv4)
                if place < len(prefixes):
                    network[k] = network_of_prefix[place]
                    embedded_ipv4[k] = np.uint64(0) if flags & RELAY_ADDRESS else IPV4_MAPPED | ipv4
            match = _first_match(embedding_prefixes, match + 1, high, low)
        if network[k] == NO_NETWORK and low >> np.uint64(32) & ISATAP_MASK == ISATAP:
            place = _first_match(prefixes, 0, np.uint64(0), IPV4_MAPPED | (low & LOW_32))
            if place < len(prefixes):
                network[k], embedded_ipv4[k] = (
                    network_of_prefix[place],
                    IPV4_MAPPED | (low & LOW_32),
                )
    return network, embedded_ipv4
