"""Exclusions: the users and days that stay out of the tables when captures are read again.

`giscope forget` and `giscope purge` record them (see remove_data.py).
"""

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
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit

CAPTURE_TABLES = (PACKETS, APPLICATION_LOG, ACCOUNTING)
"""Tables whose rows come directly from captures and logs."""


def forgotten_unit(network: str) -> Unit:
    """Return the unit that records a network's forgotten users.

    Its facts hold the users' spans (see capture/removal_filter.py). They also say in which other
    networks the names of these users mean the same users:

    own_names: true if in all networks (see has_unique_names)
    far_in: the networks in which no other user has these addresses (see
        networks_with_disjoint_prefixes)
    """
    return Unit("forgotten", network)


def load_exclusions(warehouse: Warehouse, network: str) -> RemovalFilter:
    """Return what a network's tables must leave out: forgotten users and purged days.

    Users of other networks are among them, because they may be the far end of this network's rows.
    """
    forgotten = {c.unit.network: c.facts for c in warehouse.published_units("forgotten")}
    purged_before = {
        table.name: warehouse.purged_before(network, table) for table in CAPTURE_TABLES
    }
    return exclusions_from_facts(network, forgotten, purged_before)


def replace_unkeyed_hashes(warehouse: Warehouse, network: str) -> None:
    """Replace a network's unkeyed hashes, which an earlier version wrote, by keyed ones.

    Without a key, anyone can compute the hash of an address and compare.
    """
    commit = warehouse.published(forgotten_unit(network))
    if commit and UNKEYED_SPANS in commit.facts:
        make_secret()  # a network with plain addresses may have none yet
        others = {name: fact for name, fact in commit.facts.items() if name != UNKEYED_SPANS}
        warehouse.publish(
            commit.unit, [], others | spans_to_facts(spans_from_facts(commit.facts, network))
        )


def exclusions_from_facts(
    network: str,
    forgotten: Mapping[str, Mapping[str, Any]],
    purged_before: Mapping[str, Any] | None = None,
) -> RemovalFilter:
    """Return what a network's tables must leave out.

    forgotten: by network, the facts of its forgotten_unit
    purged_before: by table name, the first day that is kept
    """
    spans_here: list[RemovedSpan] = []
    spans_far: list[RemovedSpan] = []
    for owner, facts in forgotten.items():
        found = spans_from_facts(facts, owner)
        if owner == network or facts.get("own_names"):
            spans_here += found
        elif network in facts.get("far_in", ()):
            spans_far += found
    return RemovalFilter(tuple(spans_here), purged_before or {}, tuple(spans_far))


def has_unique_names(warehouse: Warehouse, network: Network) -> bool:
    """Return whether the network's user names differ from those of all other networks.

    Addresses are not unique: a user or a server of another network may have the same address.
    """
    commit = warehouse.published(Unit("network", network.name))
    if commit is None:
        return network.pseudonyms == "keyed"
    made_with = (commit.facts.get("users") or PLAIN).split()
    return PLAIN not in made_with and PREFIXES.decode() not in made_with


def may_be_user(network: Network, name: str, unique_names: bool) -> bool:
    """Return whether a name at the far end of another network's rows may be this network's user."""
    if unique_names:
        from spark_jobs.warehouse.search import PSEUDONYM

        return PSEUDONYM.fullmatch(name) is not None
    with suppress(ValueError):
        return any(ip_address(name) in prefix for prefix in network.subscribers)
    return False


def networks_with_disjoint_prefixes(network: Network, others: Iterable[Network]) -> list[str]:
    """Return the names of the networks whose prefixes do not overlap with this network's.

    In these networks an address of this network cannot be another user's.
    """
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
