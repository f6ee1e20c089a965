"""Who was forgotten, and what was purged: what is left out where captures are read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from schemas import ACCOUNTING, APPLICATION_LOG, PACKETS
from spark_jobs.capture.removed import SPANS, Removed, Span, as_facts, from_facts
from spark_jobs.capture.users import PLAIN, PREFIXES, make_secret
from spark_jobs.networks import Network
from spark_jobs.warehouse import Unit, Warehouse

CAPTURE_TABLES = (PACKETS, APPLICATION_LOG, ACCOUNTING)
"""Tables that a capture's rows go to."""


def forgotten_unit(network: str) -> Unit:
    """What is known of a network's users who were forgotten. Its facts are spans (see
    capture/removed.py), and where else
    than in this network their names are theirs: `own_names` (see has_names_of_its_own) and `far_in`
    (see alone_in)."""
    return Unit("forgotten", network)


def load_exclusions(warehouse: Warehouse, network: str) -> Removed:
    """What was removed from a network's tables: its own users and days, and users of others."""
    forgotten = {c.unit.network: c.facts for c in warehouse.commits("forgotten")}
    purged_before = {table.name: warehouse.purged(network, table) for table in CAPTURE_TABLES}
    return exclusions_from_facts(network, forgotten, purged_before)


def replace_unkeyed_hashes(warehouse: Warehouse, network: str) -> None:
    """Replace hashes of an earlier version, which anybody could make, by keyed ones."""
    commit = warehouse.commit(forgotten_unit(network))
    if commit and SPANS in commit.facts:
        make_secret()  # a network with plain addresses may have none yet
        others = {name: fact for name, fact in commit.facts.items() if name != SPANS}
        warehouse.publish(commit.unit, [], others | as_facts(from_facts(commit.facts, network)))


def exclusions_from_facts(
    network: str,
    forgotten: Mapping[str, Mapping[str, Any]],
    purged_before: Mapping[str, Any] | None = None,
) -> Removed:
    """What to leave out of a network's tables; forgotten: by network, the facts of its unit (see
    forgotten_unit)."""
    spans_here: list[Span] = []
    spans_far: list[Span] = []
    for owner, facts in forgotten.items():
        found = from_facts(facts, owner)
        if owner == network or facts.get("own_names"):
            spans_here += found
        elif network in facts.get("far_in", ()):
            spans_far += found
    return Removed(tuple(spans_here), purged_before or {}, tuple(spans_far))


def has_unique_names(warehouse: Warehouse, network: Network) -> bool:
    """Whether the network's users are called as nobody of another network is. Addresses are not
    names of its own: another network's users, or a server, may have the same."""
    commit = warehouse.commit(Unit("network", network.name))
    if commit is None:
        return network.pseudonyms == "keyed"
    made_with = (commit.facts.get("users") or PLAIN).split()
    return PLAIN not in made_with and PREFIXES.decode() not in made_with


def may_be_user(network: Network, name: str, unique_names: bool) -> bool:
    """Whether a name that stands at the far end in another network may be a user's of this one."""
    if unique_names:
        from spark_jobs.warehouse.search import PSEUDONYM

        return PSEUDONYM.fullmatch(name) is not None
    with suppress(ValueError):
        return any(ip_address(name) in prefix for prefix in network.subscribers)
    return False


def networks_with_disjoint_prefixes(network: Network, others: Iterable[Network]) -> list[str]:
    """The other networks in which an address of this network's prefixes is no other user's."""
    return [
        other.name
        for other in others
        if other.name != network.name
        and not any(
            own.version == foreign.version and own.overlaps(foreign)
            for own in network.subscribers
            for foreign in other.subscribers
        )
    ]
