"""Keys of users: the only place where users and servers get their names.

A key is a pseudonym or, if the operator chooses so, the address or RADIUS name itself. A user has
one access link: an IPv4 address, or the prefix of IPv6 that the link has (see Subscribers). So the
addresses of a prefix have one name.

Pseudonyms are keyed hashes (BLAKE2b, RFC 7693). Whoever has the secret can compute the pseudonym of
an address. Without the secret nobody can infer an address from its pseudonym.

With `pseudonyms = "prefix"`, an address is replaced by another address, and common prefixes are
preserved (see prefix_preserving.py).

With a `key_period`, pseudonyms change from period to period. The hash is then encrypted (AES) with
the key of the period. Whoever has the secret can translate a user's pseudonym of one period to that
of another period, and nobody else can.

Servers are named here, too: by their address, by their network, or by a hash. A far end that is a
subscriber of another network has that network's pseudonym. So a subscriber has one name in all
tables, by which all rows can be removed. An IPv6 address that embeds a subscriber's IPv4 address
has the name of that subscriber, after IPV6_MARK.

The secret is in the environment or in a file that only its owner can read. It never leaves the
processes that make pseudonyms.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from base64 import b32decode, b32encode
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import repeat
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from spark_jobs.base.errors import UserError
from spark_jobs.base.secret_files import read_small_file
from spark_jobs.capture.address_text import MAPPED_PREFIX, format_address, parse_address
from spark_jobs.settings.networks import KeyPeriod, Network, period_of

if TYPE_CHECKING:
    import numpy as np
    from cryptography.hazmat.primitives.ciphers import CipherContext

    from spark_jobs.capture.addresses import AddressTable
    from spark_jobs.capture.network_lookup import NetworkLookup, Owners, Prefixes
    from spark_jobs.settings.networks import Subscribers

SECRET_VARIABLE, FILE_VARIABLE = "GISCOPE_KEY", "GISCOPE_KEY_FILE"
SECRET_BYTES = 32
CONTAINER_SECRETS = Path("/run/secrets")
"""Folder where Docker, Podman and Compose mount secrets.

All processes in the container can read them, but they are of one user.
"""
PSEUDONYM_BYTES = 10
"""Size of a pseudonym: in base 32, it has 16 letters and digits.

The probability that two of ten million subscribers have the same pseudonym is 1 in 24 billion.
"""
PERIOD_PSEUDONYM = re.compile("[a-z2-7]{26}")
"""A pseudonym of a period: a block of AES, in base 32."""
AES_BLOCK_BYTES = 16
BASE32_PADDING = "======"
"""Characters after a block of AES in base 32, which pseudonyms leave out."""
ADDRESS_BITS = 128
"""Number of bits of an address; an IPv4 address counts as an IPv4-mapped one."""
BLOCK_PADDING = bytes(AES_BLOCK_BYTES - PSEUDONYM_BYTES)
"""Bytes after the hash before it is encrypted; with another key, they decrypt to other values."""
ADDRESS, IDENTITY, SERVER, CHECK = b"address", b"identity", b"server", b"check"
PREFIXES, PERIOD, TEXT, SESSION = b"prefixes", b"period", b"text", b"session"
PLAIN = "plain"
VLAN_MARK = "@"
"""Separator of an address, prefix or pseudonym and a VLAN."""
IPV6_MARK = "v6:"
"""Prefix of the pseudonym of an IPv6 address, whose headers are longer; no address has it."""
PSEUDONYM = re.compile(f"({IPV6_MARK})?([a-z2-7]{{16}}|{PERIOD_PSEUDONYM.pattern})")
"""The form of a keyed pseudonym."""
IN_VLAN = re.compile(rf"(?P<key>[0-9a-f]*[.:][0-9a-f.:/]*|{PSEUDONYM.pattern}){VLAN_MARK}\d+")
"""The form of the key of a user in a VLAN; names in RADIUS messages may have the mark, too."""
SERVER_PREFIX_BITS = {4: 24, 16: 48}
"""Bits that are kept of a server's address if it is cut, by the bytes of the address.

Networks that are announced to the Internet are at least this large.
"""


@dataclass(frozen=True)
class AddressPools:
    """Prefixes of subscribers and of NAT64.

    subscribers: the network's own, then those of each other network that it knows
    nat64: prefixes of NAT64
    """

    subscribers: tuple[tuple[Subscribers, ...], ...]
    nat64: Prefixes = ()

    @cached_property
    def lookup(self) -> NetworkLookup:
        """Return the lookup of an address's network."""
        from spark_jobs.capture.network_lookup import NetworkLookup

        return NetworkLookup(self.subscribers, self.nat64)


class AddressNames(NamedTuple):
    """The names of all addresses of a table, by address number; number 0 has none.

    names: in the key period of the packets
    stable_names: in every period; user partitions are computed from them
    addresses: the name of each address that shares its user with others, otherwise None. None
        instead of the list if there are no such addresses.
    vlans: uint64, the VLAN of each address; 0: none. None instead if no address has one.
    """

    names: list[str]
    stable_names: list[str]
    addresses: list[str | None] | None = None
    vlans: np.ndarray | None = None

    def user_numbers(self) -> np.ndarray | None:
        """Return, by address number, the smallest number with the same name: int32[n].

        None if every number has a name of its own.
        """
        import numpy as np

        if self.addresses is None and self.vlans is None:
            return None
        first: dict[str, int] = {}
        return np.array([first.setdefault(k, n) for n, k in enumerate(self.names)], np.int32)

    def user_partitions(self, numbers: Iterable[int], partitions: int) -> np.ndarray:
        """Return the user partitions of some addresses."""
        return user_partitions((self.stable_names[number] for number in numbers), partitions)


@dataclass(frozen=True)
class UserKeys:
    """The naming of a network's subscribers and of servers.

    network: name of the network
    secret: secret of the pseudonyms. None: subscribers are named by their addresses and RADIUS
        names.
    keep_prefixes: whether pseudonyms of addresses preserve common prefixes
    servers: "kept", "cut" or "hashed"
    key_period: time for which pseudonyms stay the same, as in the networks file. None: they never
        change.
    period: the period of these pseudonyms (see `for_day`). Empty: those that never change.
    other_networks: keys of other networks, whose subscribers may be far ends
    pools: addresses of each network's subscribers. None: no address is named.
    """

    network: str
    secret: bytes | None = field(default=None, repr=False)
    keep_prefixes: bool = False
    servers: str = "kept"
    key_period: KeyPeriod | None = None
    period: str = ""
    other_networks: tuple[UserKeys, ...] = ()
    pools: AddressPools | None = field(default=None, repr=False, compare=False)

    @property
    def key_scheme(self) -> str:
        """Return a text that identifies how keys are made.

        It distinguishes keys made with different secrets, and reveals nothing about a secret.
        """
        if self.secret is None:
            return PLAIN
        options = [PREFIXES.decode()] if self.keep_prefixes else []
        return " ".join([secret_check(self.secret), *options, *filter(None, [self.key_period])])

    @property
    def has_key_periods(self) -> bool:
        """Return whether the pseudonyms of any network change from period to period."""
        return any(keys.key_period for keys in (self, *self.other_networks))

    def for_day(self, day: date) -> UserKeys:
        """Return the keys for packets of a day (UTC)."""
        other_networks = tuple(keys.for_day(day) for keys in self.other_networks)
        return replace(self, period=period_of(self.key_period, day), other_networks=other_networks)

    def for_any_day(self) -> UserKeys:
        """Return the keys that never change, from which user partitions are computed."""
        other_networks = tuple(keys.for_any_day() for keys in self.other_networks)
        return replace(self, period="", other_networks=other_networks)

    def hash_text(self, text: str) -> str:
        """Return the keyed hash of a text that depends on subscribers' addresses.

        Without the secret nobody can test a guess of such a text. If no subscriber has a pseudonym,
        returns the text itself.
        """
        secret = next((keys.secret for keys in (self, *self.other_networks) if keys.secret), None)
        return keyed_hash(text, secret) if secret else text

    def translate(self, keys: Iterable[str], target: UserKeys, far_ends: bool = False) -> list[str]:
        """Return the names in the period of `target` of users, and of servers that have pseudonyms.

        Keys that are no pseudonyms stay. A key may have several pseudonyms with a `/` between them.
        Raises UserError if a pseudonym was not made with this
        secret. far_ends: some keys may be of networks that are no longer known; these keys stay,
        too.
        """
        pairs = list(
            zip((self, *self.other_networks), (target, *target.other_networks), strict=True)
        )
        return [
            "/".join([self._translate_one(part, pairs, far_ends) for part in key.split("/")])
            for key in keys
        ]

    def _translate_one(
        self, key: str, pairs: list[tuple[UserKeys, UserKeys]], may_be_unknown: bool
    ) -> str:
        for source, target in pairs:
            if decoded := source._hash_of(key):
                mark, hashed = decoded
                return mark + target.pseudonyms_of_hashes([hashed])[0]
        if (
            not may_be_unknown
            and self.period
            and PERIOD_PSEUDONYM.fullmatch(key.removeprefix(IPV6_MARK))
        ):
            raise UserError(
                f"{self.network}: the pseudonyms of {self.period} were made with another key: "
                "use that key"
            )
        return key

    def partition(self, key: str, partitions: int) -> int:
        """Return the user partition of a user: the same on every machine and in every period."""
        if self.period:
            (key,) = self.translate([key], replace(self, period=""))
        return user_partition(key, partitions)

    def names_of_all(self, addresses: AddressTable) -> AddressNames:
        """Return the names of all addresses of a table; see AddressNames."""
        import numpy as np

        numbers = np.arange(1, len(addresses) + 1)
        names = ["", *self.names(addresses, numbers)]
        stable_names = names
        if self.period:
            stable_names = ["", *self.for_any_day().names(addresses, numbers)]
        owners = self._owners(addresses.entries[numbers])
        shared = numbers[(owners.network == 0) & (owners.bits < ADDRESS_BITS)]
        vlans = addresses.vlans if addresses.vlans.any() else None
        if not len(shared):
            return AddressNames(names, stable_names, None, vlans)
        own_names: list[str | None] = [None] * len(names)
        packed = addresses.as_bytes(shared)
        keys = self._address_keys(packed, [ADDRESS_BITS] * len(shared))
        for number, name in zip(shared.tolist(), keys, strict=True):
            own_names[number] = name
        return AddressNames(names, stable_names, own_names, vlans)

    def key_of_address(self, address: str) -> str:
        """Return the key of the subscriber with an address.

        Raises ValueError if the text is not an address.
        """
        from spark_jobs.capture.addresses import split_halves

        owners = self._owners(split_halves([parse_address(address)]))
        return self._address_keys(*_users(owners, [0]))[0]

    def user_bits(self, address: bytes) -> int:
        """Return how many of an address's 128 bits its user's addresses have in common.

        For an address that is no subscriber's, returns 0.
        """
        from spark_jobs.capture.addresses import split_halves

        owners = self._owners(split_halves([address]))
        return int(owners.bits[0]) if owners.network[0] >= 0 else 0

    def key_of_identity(self, identity: str, kind: bytes = IDENTITY) -> str:
        """Return the key of a subscriber whom RADIUS identifies, or of a session (kind SESSION).

        The identity is an IMSI, a calling number or a user name, that of a session Acct-Session-Id.
        """
        if self.secret is None:
            return identity
        return self._pseudonyms(kind, [identity.encode()])[0]

    def names(
        self, addresses: AddressTable, numbers: np.ndarray, infrastructure: bool = False
    ) -> list[str]:
        """Return the names of addresses, by address number.

        A subscriber's name is its key in whichever network it belongs to. Other addresses are named
        as servers. infrastructure: other addresses are the operator's own infrastructure and keep
        their addresses. Raises UserError if two subscribers would have the same name.
        """
        import numpy as np

        packed_addresses = addresses.as_bytes(numbers)
        owners = self._owners(addresses.entries[numbers])
        name_servers = _format_all if infrastructure else self._server_names
        names = [""] * len(packed_addresses)
        servers = np.flatnonzero(owners.network < 0).tolist()
        for i, name in zip(
            servers, name_servers([packed_addresses[i] for i in servers]), strict=True
        ):
            names[i] = name
        for index in set(owners.network.tolist()) - {-1}:
            keys = (self, *self.other_networks)[index]
            is_embedded = owners.embedded_ipv4 != 0
            direct = np.flatnonzero((owners.network == index) & ~is_embedded).tolist()
            users, bits = _users(owners, direct)
            keys_found = keys._address_keys(users, bits)
            if len(set(keys_found)) < len(set(zip(users, bits, strict=True))):
                raise UserError(
                    f"{keys.network}: two addresses have the same pseudonym: use another key"
                )
            embedded = np.flatnonzero((owners.network == index) & is_embedded).tolist()
            keys_found += [
                IPV6_MARK + name for name in keys._address_keys(*_users(owners, embedded))
            ]
            for i, name in zip(direct + embedded, keys_found, strict=True):
                names[i] = name
        return names

    def _owners(self, entries: np.ndarray) -> Owners:
        """Return the owners of addresses by their halves, uint64[n, 2 or more].

        Network 0 is this one, 1 the first of `other_networks`.
        """
        assert self.pools is not None
        owners = self.pools.lookup.find(entries)
        if self.secret is None:  # an address that embeds a plain address is a server
            owners.network[(owners.network == 0) & (owners.embedded_ipv4 != 0)] = -1
        return owners

    def _address_keys(self, addresses: list[bytes], bits: list[int]) -> list[str]:
        """Return the keys of subscribers by their addresses of 16 bytes.

        bits: the number of bits of each that counts; the others are 0.
        """
        if self.secret is None:
            return list(map(_format_prefix, addresses, bits))
        if not self.keep_prefixes:
            # Prefixes of two lengths may have the same bytes.
            marks = [b"" if n == ADDRESS_BITS else bytes([n]) for n in bits]
            return self._address_pseudonyms(ADDRESS, addresses, marks)
        from spark_jobs.capture.prefix_preserving import KEY_BYTES, anonymize

        key_hash = blake2b(key=self.secret, digest_size=KEY_BYTES, person=PREFIXES)
        key_hash.update(self.network.encode())
        anonymized_of = dict.fromkeys(addresses, b"")
        for ipv4 in (True, False):
            of_version = [
                address for address in anonymized_of if address.startswith(MAPPED_PREFIX) == ipv4
            ]
            skip = len(MAPPED_PREFIX) if ipv4 else 0
            replacements = anonymize([address[skip:] for address in of_version], key_hash.digest())
            anonymized_of |= {
                address: address[:skip] + replacement
                for address, replacement in zip(of_version, replacements, strict=True)
            }
        return [
            _format_prefix(anonymized_of[address], n)
            for address, n in zip(addresses, bits, strict=True)
        ]

    def _server_names(self, addresses: list[bytes]) -> list[str]:
        if self.servers == "hashed" and self.secret is not None:
            return self._address_pseudonyms(SERVER, addresses)
        return _format_all(map(_cut_address, addresses) if self.servers == "cut" else addresses)

    def _address_pseudonyms(
        self, kind: bytes, addresses: list[bytes], marks: Iterable[bytes] = repeat(b"")
    ) -> list[str]:
        names = self._pseudonyms(kind, map(add, addresses, marks))
        return [
            name if address.startswith(MAPPED_PREFIX) else IPV6_MARK + name
            for address, name in zip(addresses, names, strict=True)
        ]

    def _pseudonyms(self, kind: bytes, identifiers: Iterable[bytes]) -> list[str]:
        """Return the pseudonyms of identifiers.

        The network's name is part of the hash, so that nobody has the same pseudonym in two
        networks.
        """
        assert self.secret is not None
        of_network = blake2b(key=self.secret, digest_size=PSEUDONYM_BYTES, person=kind)
        of_network.update(self.network.encode() + b"/")
        hashes = []
        for identifier in identifiers:
            hashed = of_network.copy()
            hashed.update(identifier)
            hashes.append(hashed.digest())
        return self.pseudonyms_of_hashes(hashes)

    def pseudonyms_of_hashes(self, hashes: list[bytes]) -> list[str]:
        """Return the pseudonyms that represent hashes."""
        if not self.period:
            return list(map(_base32, hashes))
        assert self.secret is not None
        encryptor, _ = _ciphers(self.secret, self.network, self.period)
        return [_base32(encryptor.update(hashed + BLOCK_PADDING)) for hashed in hashes]

    def _hash_of(self, key: str) -> tuple[str, bytes] | None:
        """Return a pseudonym's mark and hash, or None if it is none of this network and period."""
        text = key.removeprefix(IPV6_MARK)
        if not (self.period and self.secret and PERIOD_PSEUDONYM.fullmatch(text)):
            return None
        encrypted = b32decode(text.upper() + BASE32_PADDING)
        block = _ciphers(self.secret, self.network, self.period)[1].update(encrypted)
        hashed, padding = block[:PSEUDONYM_BYTES], block[PSEUDONYM_BYTES:]
        if padding != BLOCK_PADDING:
            return None
        return key[: len(key) - len(text)], hashed


def _base32(data: bytes) -> str:
    """Return data in base 32 (RFC 4648), in lower case and without padding."""
    return b32encode(data).decode().lower().rstrip("=")


@lru_cache(maxsize=16)
def _ciphers(secret: bytes, network: str, period: str) -> tuple[CipherContext, CipherContext]:
    """Return the ciphers that encrypt and decrypt the hashes of a network and period."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key_hash = blake2b(key=secret, digest_size=32, person=PERIOD)
    key_hash.update(f"{network}/{period}".encode())
    cipher = Cipher(algorithms.AES(key_hash.digest()), modes.ECB())
    return cipher.encryptor(), cipher.decryptor()


def user_keys(network: Network) -> UserKeys:
    """Return the keys of a network's users.

    Raises UserError if the network needs a secret and there is none, see `secret`.
    """
    networks = (network, *network.others)
    pools = AddressPools(tuple(each.subscribers for each in networks), network.nat64)
    own, *others = map(_own_keys, networks)
    return replace(own, other_networks=tuple(others), pools=pools)


def _own_keys(network: Network) -> UserKeys:
    """Return the keys of a network's users without the other networks that it knows."""
    return UserKeys(
        network.name,
        secret() if network.pseudonyms != "none" else None,
        network.pseudonyms == "prefix",
        network.servers,
        network.key_period,
    )


def in_vlan(key: str, vlan: int) -> str:
    """Return the key of the user who has an address in one of the VLANs that share it."""
    return f"{key}{VLAN_MARK}{vlan}" if vlan else key


def without_vlan(key: str) -> str:
    """Return the key in all VLANs of a user in one of them (see in_vlan)."""
    found = IN_VLAN.fullmatch(key)
    return found["key"] if found else key


def keyed_hash(text: str, secret: bytes) -> str:
    """Return a hash of a text that nobody can compute without the secret."""
    return blake2b(text.encode(), key=secret, digest_size=20, person=TEXT).hexdigest()


def secret_check(secret: bytes) -> str:
    """Return a text that distinguishes one secret from another and reveals nothing about either."""
    return blake2b(key=secret, digest_size=8, person=CHECK).hexdigest()


def ipv6_alias(key: str) -> str:
    """Return the name of a subscriber if an IPv6 address embeds the subscriber's IPv4 address."""
    return key if key.startswith(IPV6_MARK) else IPV6_MARK + key


def user_partition(key: str, partitions: int) -> int:
    """Return the user partition of a key, the same on every machine: 0 <= number < partitions."""
    return int(user_partitions([key], partitions)[0])


def user_partitions(keys: Iterable[str], partitions: int) -> np.ndarray:
    """Return the user partition of each key: int32[n]; see user_partition."""
    import numpy as np

    hashes = b"".join([blake2b(key.encode(), digest_size=8).digest() for key in keys])
    return (np.frombuffer(hashes, ">u8") % np.uint64(partitions)).astype(np.int32)


def _cut_address(address: bytes) -> bytes:
    """Return the address of the network that a server's address is of."""
    skip = len(MAPPED_PREFIX) if address.startswith(MAPPED_PREFIX) else 0
    kept_bytes = skip + SERVER_PREFIX_BITS[len(address) - skip] // 8
    return address[:kept_bytes].ljust(len(address), b"\0")


def _users(owners: Owners, indices: list[int]) -> tuple[list[bytes], list[int]]:
    """Return some users of Owners, 16 bytes each, and the number of bits of each that counts."""
    data = owners.user[indices].astype(">u8").tobytes()
    return [data[n : n + 16] for n in range(0, len(data), 16)], owners.bits[indices].tolist()


def _format_prefix(address: bytes, bits: int) -> str:
    """Return the usual text of an address, or of its first bits and their number."""
    if bits == ADDRESS_BITS:
        return format_address(address)
    left = int.from_bytes(address, "big") >> ADDRESS_BITS - bits << ADDRESS_BITS - bits
    text = format_address(left.to_bytes(16, "big"))
    return f"{text}/{bits - (8 * len(MAPPED_PREFIX) if '.' in text else 0)}"


def _format_all(addresses: Iterable[bytes]) -> list[str]:
    return [format_address(address) for address in addresses]


def secret_file() -> Path:
    """Return the path of the secret if it is not in the environment."""
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Path(os.environ.get(FILE_VARIABLE) or settings / "giscope" / "key")


def secret() -> bytes:
    """Return the secret of the pseudonyms, from SECRET_VARIABLE or secret_file.

    Raises UserError if neither has it, or if others than its owner can read the file.
    """
    if text := os.environ.get(SECRET_VARIABLE):
        return _parse_secret(text, SECRET_VARIABLE)
    path = secret_file()
    try:
        status = path.stat()
        text = read_small_file(path)
    except OSError as error:
        raise UserError(
            f"{path}: cannot read the key of the pseudonyms: {error.strerror}"
        ) from error
    others_access = status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    if others_access and path.parent != CONTAINER_SECRETS:
        raise UserError(
            f"{path}: other users can read the key of the pseudonyms: run chmod 600 {path}"
        )
    return _parse_secret(text, str(path))


def has_secret() -> bool:
    """Return whether a secret is available here."""
    return bool(os.environ.get(SECRET_VARIABLE)) or secret_file().exists()


def make_secret() -> Path | None:
    """Create a secret if there is none yet; return its file, or None if there was one."""
    path = secret_file()
    if os.environ.get(SECRET_VARIABLE) or path.exists():
        return None
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with os.fdopen(os.open(path, flags, 0o600), "w") as file:
            file.write(f"{secrets.token_hex(SECRET_BYTES)}\n")
    except FileExistsError:  # another process created it in the meantime
        return None
    return path


def _parse_secret(text: str, source: str) -> bytes:
    """Return the secret that a text encodes.

    The error does not show any part of the text.
    """
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise UserError(f"{source}: not a key of {2 * SECRET_BYTES} hexadecimal digits")
    return secret
