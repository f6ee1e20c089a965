"""Who a subscriber is to giscope: the one place where users' keys are made.

A key is a pseudonym, or where a site asks for that, the address or RADIUS name itself. Pseudonyms
are keyed hashes (BLAKE2b, RFC 7693): who has the secret can make that of an address, and nobody can
tell an address from its pseudonym without. Where a site needs its pools, addresses become others
with their common prefixes kept (see prefix_preserving.py). Where a site asks for that, pseudonyms
are others in each period: the hash is encrypted (AES) with the period's key, so that who has the
secret can tell what a user of one period is called in another, and nobody else. What servers are
called is said here, too: as they are, or by network, or hashed. The secret is in the environment or
in a file that only its owner reads, and never leaves the processes that make pseudonyms.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.capture.address_text import MAPPED_PREFIX, packed, text_of
from spark_jobs.errors import UserError
from spark_jobs.networks import KeyPeriod, Network, period_of

if TYPE_CHECKING:
    import numpy as np
    from cryptography.hazmat.primitives.ciphers import CipherContext

    from spark_jobs.capture.addresses import AddressTable

SECRET_VARIABLE, FILE_VARIABLE = "GISCOPE_KEY", "GISCOPE_KEY_FILE"
SECRET_BYTES = 32
CONTAINER_SECRETS = Path("/run/secrets")
"""Docker, Podman and Compose mount secrets there, which all in the container can read: one user."""
PSEUDONYM_BYTES = 10
"""In base 32: 16 letters and digits. Of ten million subscribers two have the same pseudonym with a
chance of 1 in 24 billion."""
OF_PERIOD = re.compile("[a-z2-7]{26}")
"""A pseudonym of a period: a block of AES, in base 32."""
REST_OF_BLOCK = bytes(16 - PSEUDONYM_BYTES)
"""Behind the hash, before it is encrypted: with another key it comes out otherwise."""
ADDRESS, IDENTITY, SERVER, CHECK = b"address", b"identity", b"server", b"check"
PREFIXES, PERIOD = b"prefixes", b"period"
PLAIN = "plain"
IPV6_MARK = "v6:"
"""Before the pseudonym of an address of IPv6: headers are longer there. No address has it."""
SERVER_PREFIX = {4: 24, 16: 48}
"""Bits that are kept of a server's address where it is cut, by its bytes: what is announced to the
Internet as one network at least."""


@dataclass(frozen=True)
class UserKeys:
    """What the subscribers of a network are called, and servers; secret: none: the former by their
    addresses and names. prefixes: of subscribers' addresses are kept; servers: kept, cut or
    hashed; key_period: how long pseudonyms stay, as the networks file has it. period: of which
    these are, see `on`; none: those that stay for ever."""

    network: str
    secret: bytes | None = field(default=None, repr=False)
    prefixes: bool = False
    servers: str = "kept"
    key_period: KeyPeriod | None = None
    period: str = ""

    @property
    def made_with(self) -> str:
        """Tells keys made with one secret from those made with another, and nothing of either."""
        if self.secret is None:
            return PLAIN
        found = blake2b(key=self.secret, digest_size=8, person=CHECK).hexdigest()
        how = [PREFIXES.decode()] if self.prefixes else []
        return " ".join([found, *how, *filter(None, [self.key_period])])

    def on(self, day: date) -> UserKeys:
        """Those of the packets of a day (UTC)."""
        return replace(self, period=period_of(self.key_period, day))

    def renamed(self, keys: Iterable[str], others: UserKeys) -> list[str]:
        """What users, and servers that are hashed, are called by others of the network, of another
        period; what is no pseudonym stays. Raises UserError where these were not made with this
        secret."""
        return [others.of_hash(*found) if (found := self._hash_of(key)) else key for key in keys]

    def bucket(self, key: str, buckets: int) -> int:
        """The bucket of a user: the same on every machine, and in every period."""
        if self.period:
            (key,) = self.renamed([key], replace(self, period=""))
        return user_bucket(key, buckets)

    def of_address(self, address: str) -> str:
        """The key under which a subscriber's packets are kept. Raises ValueError where the text is
        no address."""
        return self._of_addresses([packed(address)])[0]

    def of_identity(self, identity: str) -> str:
        """The key of a subscriber whom RADIUS names: by IMSI, calling number or user name."""
        if self.secret is None:
            return identity
        return self._pseudonym(IDENTITY, identity.encode())

    def texts(
        self, addresses: AddressTable, numbers: np.ndarray, infrastructure: bool = False
    ) -> list[str]:
        """What addresses are called, by number: the subscribers' by key, others as servers, or as
        they are where they are of the operator's own infrastructure. Raises UserError where two
        subscribers would be called the same."""
        every = addresses.packed(numbers)
        ours = addresses.entries[numbers, 2] != 0
        keys = self._of_addresses([one for one, mine in zip(every, ours, strict=True) if mine])
        if len(set(keys)) < len(keys):
            raise UserError(
                f"{self.network}: two addresses have the same pseudonym; another key is needed"
            )
        of_server = text_of if infrastructure else self._of_server
        key = iter(keys)
        return [
            next(key) if mine else of_server(one) for one, mine in zip(every, ours, strict=True)
        ]

    def _of_addresses(self, addresses: list[bytes]) -> list[str]:
        """What subscribers are called by their addresses, of 16 bytes each."""
        if self.secret is None:
            return [text_of(address) for address in addresses]
        if not self.prefixes:
            return [self._marked(ADDRESS, address) for address in addresses]
        from spark_jobs.capture.prefix_preserving import KEY_BYTES, anonymized

        made = blake2b(key=self.secret, digest_size=KEY_BYTES, person=PREFIXES)
        made.update(self.network.encode())
        found = dict.fromkeys(addresses, b"")
        for ipv4 in (True, False):
            of_version = [a for a in found if a.startswith(MAPPED_PREFIX) == ipv4]
            skip = len(MAPPED_PREFIX) if ipv4 else 0
            others = anonymized([a[skip:] for a in of_version], made.digest())
            found |= {a: a[:skip] + other for a, other in zip(of_version, others, strict=True)}
        return [text_of(found[address]) for address in addresses]

    def _of_server(self, address: bytes) -> str:
        if self.servers == "hashed" and self.secret is not None:
            return self._marked(SERVER, address)
        if self.servers == "cut":
            skip = len(MAPPED_PREFIX) if address.startswith(MAPPED_PREFIX) else 0
            kept = skip + SERVER_PREFIX[len(address) - skip] // 8
            return text_of(address[:kept].ljust(len(address), b"\0"))
        return text_of(address)

    def _marked(self, kind: bytes, address: bytes) -> str:
        mark = "" if address.startswith(MAPPED_PREFIX) else IPV6_MARK
        return self._pseudonym(kind, address, mark)

    def _pseudonym(self, kind: bytes, of: bytes, mark: str = "") -> str:
        """Of a network's own, that who is in two networks is not the same in both."""
        assert self.secret is not None
        hashed = blake2b(key=self.secret, digest_size=PSEUDONYM_BYTES, person=kind)
        hashed.update(self.network.encode() + b"/" + of)
        return self.of_hash(mark, hashed.digest())

    def of_hash(self, mark: str, hashed: bytes) -> str:
        """The pseudonym that stands for a hash."""
        if self.period:
            assert self.secret is not None
            hashed = _ciphers(self.secret, self.network, self.period)[0].update(
                hashed + REST_OF_BLOCK
            )
        return mark + base64.b32encode(hashed).decode().rstrip("=").lower()

    def _hash_of(self, key: str) -> tuple[str, bytes] | None:
        """A pseudonym's mark and hash; None where it is that of no period."""
        text = key.removeprefix(IPV6_MARK)
        if not (self.period and self.secret and OF_PERIOD.fullmatch(text)):
            return None
        block = _ciphers(self.secret, self.network, self.period)[1].update(_from_base32(text))
        hashed, rest = block[:PSEUDONYM_BYTES], block[PSEUDONYM_BYTES:]
        if rest != REST_OF_BLOCK:
            raise UserError(f"{self.network}: pseudonyms of {self.period} are of another key")
        return key[: len(key) - len(text)], hashed


@lru_cache(maxsize=16)
def _ciphers(secret: bytes, network: str, period: str) -> tuple[CipherContext, CipherContext]:
    """What encrypts, and what decrypts, hashes of a network in a period."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    made = blake2b(key=secret, digest_size=32, person=PERIOD)
    made.update(f"{network}/{period}".encode())
    cipher = Cipher(algorithms.AES(made.digest()), modes.ECB())
    return cipher.encryptor(), cipher.decryptor()


def user_keys(network: Network) -> UserKeys:
    """How the network's subscribers are called. Raises UserError where there is no secret for it,
    see `secret`."""
    return UserKeys(
        network.name,
        secret() if network.pseudonyms != "none" else None,
        network.pseudonyms == "prefix",
        network.servers,
        network.key_period,
    )


def key_bytes(key: str) -> bytes:
    """16 bytes that stand for the key of an address."""
    pseudonym = key.removeprefix(IPV6_MARK)
    if "." in pseudonym or ":" in pseudonym:
        return packed(pseudonym)
    return _from_base32(pseudonym).ljust(16, b"\0")


def _from_base32(text: str) -> bytes:
    return base64.b32decode(text.upper() + "=" * (-len(text) % 8))


def user_bucket(key: str, buckets: int) -> int:
    """A number for a key, the same on every machine, 0 <= number < buckets."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big") % buckets


def secret_file() -> Path:
    """Where the secret is, if it is not in the environment."""
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Path(os.environ.get(FILE_VARIABLE) or settings / "giscope" / "key")


def secret() -> bytes:
    """What pseudonyms are made with: of SECRET_VARIABLE, or secret_file. Raises UserError where
    neither has it, or others than its owner can read the file."""
    if text := os.environ.get(SECRET_VARIABLE):
        return _secret_of(text, SECRET_VARIABLE)
    path = secret_file()
    try:
        status = path.stat()
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise UserError(f"{path}: no key of the pseudonyms: {error.strerror}") from error
    others = status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    if others and path.parent != CONTAINER_SECRETS:
        raise UserError(f"{path}: others can read the key of the pseudonyms: chmod 600 {path}")
    return _secret_of(text, str(path))


def has_secret() -> bool:
    """Whether there is one here."""
    return bool(os.environ.get(SECRET_VARIABLE)) or secret_file().exists()


def make_secret() -> Path | None:
    """Make a secret where there is none yet; returns its file if so."""
    path = secret_file()
    if os.environ.get(SECRET_VARIABLE) or path.exists():
        return None
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with os.fdopen(os.open(path, flags, 0o600), "w") as file:
            file.write(f"{secrets.token_hex(SECRET_BYTES)}\n")
    except FileExistsError:  # another process has made it meanwhile
        return None
    return path


def _secret_of(text: str, place: str) -> bytes:
    """What is wrong is told without a word of the text."""
    try:
        found = bytes.fromhex(text.strip())
    except ValueError:
        found = b""
    if len(found) != SECRET_BYTES:
        raise UserError(f"{place}: is no key of {2 * SECRET_BYTES} hexadecimal digits")
    return found
