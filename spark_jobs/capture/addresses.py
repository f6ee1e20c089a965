"""A hash table of addresses that a Numba loop can fill.

Each address gets a small number, and a mark if it belongs to a subscriber. An address is stored as
the two 64-bit halves of its 16 bytes (see address_text.py).
"""

import secrets
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network

import numpy as np
import numpy.typing as npt

from spark_jobs.capture.address_text import MAPPED_PREFIX, format_address
from spark_jobs.compiled import compiled, inner


def subscriber_prefixes(networks: Iterable[IPv4Network | IPv6Network]) -> np.ndarray:
    """Return the prefixes as numbers that compiled functions compare with addresses.

    The result is uint64[n, 4]: high and low half of the address, high and low half of the mask.
    """
    rows = []
    for network in networks:
        if network.version == 4:
            address = MAPPED_PREFIX + network.network_address.packed
            mask = b"\xff" * 12 + network.netmask.packed
        else:
            address, mask = network.network_address.packed, network.netmask.packed
        rows.append(np.frombuffer(address + mask, ">u8").astype(np.uint64))
    return np.array(rows, np.uint64).reshape(-1, 4)


class AddressTable:
    """Addresses, numbered from 1 in the order in which they were added.

    entries: uint64[capacity + 1, 3]. Row k holds the high and low half of address k, and whether it
        belongs to a subscriber: 1, plus twice the VLAN in which the subscriber has it (see
        link.vlan_of). The same address in two VLANs has two numbers.
        entries[0, 0] is the number of addresses. entries[0, 1] is a secret that is part of the
        hash. Without it, someone could send packets from addresses that collide.
    slots: int32[a power of two]. The slot at an address's hash holds the address's number; 0 marks
        a free slot.
    """

    def __init__(self, prefixes: np.ndarray, capacity: int):
        self.prefixes = prefixes
        self.entries = np.zeros((capacity + 1, 3), np.uint64)
        self.entries[0, 1] = secrets.randbits(64)
        self.slots = np.zeros(1 << (2 * capacity - 1).bit_length(), np.int32)

    def __len__(self) -> int:
        return int(self.entries[0, 0])

    @property
    def used_entries(self) -> np.ndarray:
        """Return the entries in use, by address number: uint64[addresses + 1, 3]."""
        return self.entries[: len(self) + 1]

    def reserve(self, count: int) -> None:
        """Grow the table so that `count` further addresses fit."""
        if len(self) + count < len(self.entries):
            return
        larger = AddressTable(self.prefixes, 2 * (len(self) + count))
        _reinsert(larger.entries, larger.slots, self.prefixes, self.entries)
        self.entries, self.slots = larger.entries, larger.slots

    @property
    def vlans(self) -> np.ndarray:
        """Return the VLANs of the entries in use: uint64[addresses + 1]; 0: none."""
        return self.used_entries[:, 2] >> np.uint64(1)

    def add(self, high: int, low: int, vlan: int = 0) -> int:
        """Return the number of an address, and add the address if it is new.

        The table must have room for it (see reserve).
        """
        entries, slots, prefixes = self.entries, self.slots, self.prefixes
        return int(_add(entries, slots, prefixes, np.uint64(high), np.uint64(low), np.uint64(vlan)))

    def texts(self, numbers: npt.ArrayLike) -> list[str]:
        """Return the usual texts of addresses (RFC 5952)."""
        return [format_address(address) for address in self.as_bytes(numbers)]

    def as_bytes(self, numbers: npt.ArrayLike) -> list[bytes]:
        """Return addresses as 16 bytes each."""
        data = self.entries[np.asarray(numbers), :2].astype(">u8").tobytes()
        return [data[begin : begin + 16] for begin in range(0, len(data), 16)]


def split_halves(packed: Iterable[bytes]) -> np.ndarray:
    """Return the high and low halves of addresses of 16 bytes: uint64[n, 2]."""
    return np.frombuffer(b"".join(packed), ">u8").astype(np.uint64).reshape(-1, 2)


@compiled
def _reinsert(entries, slots, prefixes, old_entries):
    for i in range(1, old_entries[0, 0] + 1):
        vlan = old_entries[i, 2] >> np.uint64(1)
        find_or_add(entries, slots, prefixes, old_entries[i, 0], old_entries[i, 1], vlan)


@inner
def in_prefixes(prefixes, high, low):
    """Return whether an address is in one of the prefixes."""
    for i in range(len(prefixes)):
        if high & prefixes[i, 2] == prefixes[i, 0] and low & prefixes[i, 3] == prefixes[i, 1]:
            return True
    return False


@inner
def find_or_add(entries, slots, prefixes, high, low, vlan):
    """Return the number of an address in an AddressTable, and add the address if it is new.

    vlan: the VLAN in which a subscriber has it; 0: none, or the address is no subscriber's.
    """
    mask = np.uint64(len(slots) - 1)
    mixed = high ^ ((low ^ entries[0, 1]) * np.uint64(0x9E3779B97F4A7C15))
    hashed = mixed * np.uint64(0xD6E8FEB86659FD93)
    slot = (hashed >> np.uint64(32)) & mask
    while slots[slot]:
        number = np.int64(slots[slot])
        if (
            entries[number, 1] == low
            and entries[number, 0] == high
            and entries[number, 2] >> np.uint64(1) == vlan
        ):
            return number
        slot = (slot + np.uint64(1)) & mask
    number = np.int64(entries[0, 0]) + 1
    entries[number, 0], entries[number, 1] = high, low
    is_subscriber = np.uint64(in_prefixes(prefixes, high, low))
    entries[number, 2] = vlan << np.uint64(1) | is_subscriber
    slots[slot] = number
    entries[0, 0] = number
    return number


@compiled
def _add(entries, slots, prefixes, high, low, vlan):
    return find_or_add(entries, slots, prefixes, high, low, vlan)
