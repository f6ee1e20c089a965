"""Who a subscriber is to giscope: the one place where users' keys are made.

A key is a pseudonym, or where a site asks for that, the address or RADIUS name itself. Pseudonyms
are keyed hashes (BLAKE2b, RFC 7693): who has the secret can make that of an address, and nobody can
tell an address from its pseudonym without. The secret is in the environment or in a file that only
its owner reads, and never leaves the processes that make pseudonyms.
"""

from __future__ import annotations

import base64
import os
import secrets
import stat
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.capture.address_text import packed, text_of
from spark_jobs.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from spark_jobs.capture.addresses import AddressTable
    from spark_jobs.networks import Network

SECRET_VARIABLE, FILE_VARIABLE = "GISCOPE_KEY", "GISCOPE_KEY_FILE"
SECRET_BYTES = 32
PSEUDONYM_BYTES = 10
"""In base 32: 16 letters and digits. Of ten million subscribers two have the same pseudonym with a
chance of 1 in 24 billion."""
ADDRESS, IDENTITY, CHECK = b"address", b"identity", b"check"
PLAIN = "plain"


@dataclass(frozen=True)
class UserKeys:
    """What the subscribers of a network are called; secret: none: by their addresses and names."""

    network: str
    secret: bytes | None = field(default=None, repr=False)

    @property
    def made_with(self) -> str:
        """Tells keys made with one secret from those made with another, and nothing of either."""
        if self.secret is None:
            return PLAIN
        return blake2b(key=self.secret, digest_size=8, person=CHECK).hexdigest()

    def of_address(self, address: str) -> str:
        """The key under which a subscriber's packets are kept. Raises ValueError where the text is
        no address."""
        if self.secret is None:
            return text_of(packed(address))
        return self._pseudonym(ADDRESS, packed(address))

    def of_identity(self, identity: str) -> str:
        """The key of a subscriber whom RADIUS names: by IMSI, calling number or user name."""
        if self.secret is None:
            return identity
        return self._pseudonym(IDENTITY, identity.encode())

    def texts(self, addresses: AddressTable, numbers: np.ndarray) -> list[str]:
        """What addresses are called, by number: the subscribers' by key, others as they are. Raises
        UserError where two subscribers would be called the same."""
        found = addresses.texts(numbers)
        if self.secret is None:
            return found
        ours = addresses.entries[numbers, 2].nonzero()[0]
        keys = [self._pseudonym(ADDRESS, one) for one in addresses.packed(numbers[ours])]
        if len(set(keys)) < len(keys):
            raise UserError(
                f"{self.network}: two addresses have the same pseudonym; another key is needed"
            )
        for at, key in zip(ours.tolist(), keys, strict=True):
            found[at] = key
        return found

    def _pseudonym(self, kind: bytes, of: bytes) -> str:
        """Of a network's own, that who is in two networks is not the same in both."""
        assert self.secret is not None
        hashed = blake2b(key=self.secret, digest_size=PSEUDONYM_BYTES, person=kind)
        hashed.update(self.network.encode() + b"/" + of)
        return base64.b32encode(hashed.digest()).decode().lower()


def user_keys(network: Network) -> UserKeys:
    """How the network's subscribers are called. Raises UserError where there is no secret for it,
    see `secret`."""
    return UserKeys(network.name, secret() if network.pseudonyms == "keyed" else None)


def key_bytes(key: str) -> bytes:
    """16 bytes that stand for the key of an address."""
    if "." in key or ":" in key:
        return packed(key)
    return base64.b32decode(key.upper()).ljust(16, b"\0")


def user_bucket(key: str, buckets: int) -> int:
    """The bucket of a user: the same on every machine and day, 0 <= bucket < buckets."""
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
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UserError(f"{path}: others can read the key of the pseudonyms: chmod 600 {path}")
    return _secret_of(text, str(path))


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
