"""Who was forgotten, and what was purged: what is left out where captures are read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from schemas import ACCOUNTING, APPLICATION_LOG, PACKETS
from spark_jobs.capture.removal_filter import (
    UNKEYED_SPANS,
    RemovalFilter,
    RemovedSpan,
    spans_from_facts,
    spans_to_facts,
)
from spark_jobs.capture.users import PLAIN, PREFIXES, make_secret
from spark_jobs.networks import Network
from spark_jobs.warehouse import Unit, Warehouse

OF_CAPTURES = (PACKETS, APPLICATION_LOG, ACCOUNTING)
"""Tables that a capture's rows go to."""


def forgotten_unit(network: str) -> Unit:
    """What is known of a network's users who were forgotten. Its facts are spans (see
    capture/removal_filter.py), and where else
    than in this network their names are theirs: `own_names` (see has_names_of_its_own) and `far_in`
    (see alone_in)."""
    return Unit("forgotten", network)


def removed_of(warehouse: Warehouse, network: str) -> RemovalFilter:
    """What was removed from a network's tables: its own users and days, and users of others."""
    forgotten = {c.unit.network: c.facts for c in warehouse.published_units("forgotten")}
    before = {table.name: warehouse.purged_before(network, table) for table in OF_CAPTURES}
    return removed_from(network, forgotten, before)


def key_what_was_removed(warehouse: Warehouse, network: str) -> None:
    """Replace hashes of an earlier version, which anybody could make, by keyed ones."""
    commit = warehouse.published(forgotten_unit(network))
    if commit and UNKEYED_SPANS in commit.facts:
        make_secret()  # a network with plain addresses may have none yet
        others = {name: fact for name, fact in commit.facts.items() if name != UNKEYED_SPANS}
        warehouse.publish(
            commit.unit, [], others | spans_to_facts(spans_from_facts(commit.facts, network))
        )


def removed_from(
    network: str,
    forgotten: Mapping[str, Mapping[str, Any]],
    before: Mapping[str, Any] | None = None,
) -> RemovalFilter:
    """What to leave out of a network's tables; forgotten: by network, the facts of its unit (see
    forgotten_unit)."""
    near: list[RemovedSpan] = []
    far: list[RemovedSpan] = []
    for of, facts in forgotten.items():
        spans = spans_from_facts(facts, of)
        if of == network or facts.get("own_names"):
            near += spans
        elif network in facts.get("far_in", ()):
            far += spans
    return RemovalFilter(tuple(near), before or {}, tuple(far))


def has_names_of_its_own(warehouse: Warehouse, network: Network) -> bool:
    """Whether the network's users are called as nobody of another network is. Addresses are not
    names of its own: another network's users, or a server, may have the same."""
    commit = warehouse.published(Unit("network", network.name))
    if commit is None:
        return network.pseudonyms == "keyed"
    made_with = (commit.facts.get("users") or PLAIN).split()
    return PLAIN not in made_with and PREFIXES.decode() not in made_with


def may_be_user(network: Network, name: str, own_names: bool) -> bool:
    """Whether a name that stands at the far end in another network may be a user's of this one."""
    if own_names:
        from spark_jobs.warehouse.search import PSEUDONYM

        return PSEUDONYM.fullmatch(name) is not None
    with suppress(ValueError):
        return any(ip_address(name) in prefix for prefix in network.subscribers)
    return False


def alone_in(network: Network, others: Iterable[Network]) -> list[str]:
    """The other networks in which an address of this network's prefixes is no other user's."""
    return [
        other.name
        for other in others
        if other.name != network.name
        and not any(
            mine.version == theirs.version and mine.overlaps(theirs)
            for mine in network.subscribers
            for theirs in other.subscribers
        )
    ]
