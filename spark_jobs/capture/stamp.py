"""The stamp of a capture, by which a later run decides whether to read the file again."""

from hashlib import blake2b
from pathlib import Path
from typing import Any

from spark_jobs.capture import FrontEnd
from spark_jobs.capture.users import user_keys
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.facts import CaptureFacts

FORMAT = {FrontEnd.BUILTIN: 3, FrontEnd.ZEEK: 3, FrontEnd.ZEEK_LOG: 3}
"""The format of each front end's rows: raise it if the same file would give other rows."""


def stamp(path: Path, network: Network, front_end: FrontEnd) -> list[Any]:
    """Return a file's size, its modification time, and a hash of what else its rows depend on."""
    status, keys = path.stat(), user_keys(network)
    others = [
        (other_network.name, *map(str, other_network.subscribers), other_keys.key_scheme)
        for other_network, other_keys in zip(network.others, keys.other_networks, strict=True)
    ]
    subscribers = [str(own) for own in network.subscribers]
    settings = (
        f"{FORMAT[front_end]} {subscribers} {network.user_partitions} {front_end} "
        f"{keys.key_scheme} {network.servers} {network.nat64} {others} {network.vlans}"
    )
    hashed = blake2b(keys.hash_text(settings).encode()).hexdigest()[:16]
    return [status.st_size, status.st_mtime_ns, hashed]


def has_another_format(facts: CaptureFacts) -> bool:
    """Return whether a capture has packets that are known to have another format.

    After a catalog was rebuilt, the format is not known.
    """
    known = facts.packets > 0 and facts.format is not None
    return known and facts.format != FORMAT[FrontEnd(facts.front_end)]


def is_unchanged(facts: CaptureFacts, path: Path, network: Network, requested: FrontEnd) -> bool:
    """Return whether a file would give the rows that the facts are about."""
    was_log = facts.front_end == FrontEnd.ZEEK_LOG
    automatic = FrontEnd.ZEEK_LOG if was_log else FrontEnd.BUILTIN
    front_end = automatic if requested == FrontEnd.AUTO else requested
    return facts.stamp == stamp(path, network, front_end)
