"""Exclusions: the users and days that stay out of the tables when captures are read again.

`giscope forget` and `giscope purge` record them (see jobs/remove_data.py). A user's name is stored
as a hash that nobody can make without the secret.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date

from schemas import ACCOUNTING, APPLICATION_LOG, PACKETS
from spark_jobs.base.errors import UserError
from spark_jobs.capture.removal_filter import (
    FAR_END_COLUMN,
    KEY_COLUMNS,
    RemovalFilter,
    RemovedSpan,
)
from spark_jobs.capture.users import PLAIN, make_secret, secret, secret_check
from spark_jobs.warehouse.facts import ForgottenFacts, NetworkFacts
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit

CAPTURE_TABLES = (PACKETS, APPLICATION_LOG, ACCOUNTING)
"""Tables whose rows come directly from captures and logs."""


def forgotten_unit(network: str) -> Unit:
    """Return the unit that records a network's forgotten users, in ForgottenFacts."""
    return Unit("forgotten", network)


def load_exclusions(warehouse: Warehouse, network: str) -> RemovalFilter:
    """Return what a network's tables must leave out: forgotten users and purged days.

    Users of other networks are among them, because they may be the far end of this network's rows.
    """
    forgotten = {
        published.unit.network: ForgottenFacts.of(published)
        for published in warehouse.published_units("forgotten")
    }
    purged_before = {
        table.name: warehouse.purged_before(network, table) for table in CAPTURE_TABLES
    }
    return exclusions_of(network, forgotten, purged_before)


def exclusions_of(
    network: str,
    forgotten: Mapping[str, ForgottenFacts],
    purged_before: Mapping[str, date] | None = None,
) -> RemovalFilter:
    """Return what a network's tables must leave out.

    forgotten: the forgotten users of each network
    purged_before: by table name, the first day that is kept
    """
    spans: dict[str, list[RemovedSpan]] = defaultdict(list)
    for owner, facts in forgotten.items():
        for column in columns_with_users(owner, facts, network):
            spans[column] += spans_of(facts, owner)
    return RemovalFilter(spans, purged_before or {})


def columns_with_users(owner: str, facts: ForgottenFacts, network: str) -> tuple[str, ...]:
    """Return the columns of a network's tables in which a name is that of the owner's user.

    In other columns it is the name of another person, who has the same address.
    """
    if network == owner or facts.own_names:
        return KEY_COLUMNS
    return (FAR_END_COLUMN,) if network in facts.far_in else ()


def with_spans(facts: ForgottenFacts, spans: Iterable[RemovedSpan]) -> ForgottenFacts:
    """Return the facts with these spans in place of theirs."""
    return facts.replace(spans=sorted(spans), made_with=secret_check(secret()))


def spans_of(facts: ForgottenFacts, network: str) -> list[RemovedSpan]:
    """Return the spans that a network's facts store.

    Raises UserError if they were made with another secret, because removed users would come back.
    """
    if facts.spans and facts.made_with != secret_check(secret()):
        raise UserError(
            f"{network}: the users who were removed are recorded with another key of the "
            "pseudonyms: use that key, or their rows would come back"
        )
    return [RemovedSpan(*span) for span in sorted({*facts.spans})]


def forgotten_spans(warehouse: Warehouse, network: str) -> list[RemovedSpan]:
    """Return the spans of a network's forgotten users."""
    published = warehouse.published(forgotten_unit(network))
    return spans_of(ForgottenFacts.of(published), network) if published else []


def previously_forgotten(warehouse: Warehouse, network: str, users: Iterable[str]) -> list[str]:
    """Return those of a network's users who were forgotten before."""
    hashes = {span.key_hash for span in forgotten_spans(warehouse, network)}
    return [user for user in users if RemovedSpan.from_key(user, 0, 0).key_hash in hashes]


def require_secret(warehouse: Warehouse, network: str) -> None:
    """Make sure that the secret for the hashes of forgotten users exists.

    If a network without pseudonyms has no secret yet, one is made. If a network has pseudonyms,
    raises UserError unless they were made with this secret.
    """
    made_with = key_scheme(warehouse, network)
    if made_with in (None, PLAIN):
        make_secret()
    elif made_with.split()[0] != secret_check(secret()):
        raise UserError(
            f"{warehouse.root}: the users of {network} in it are pseudonyms of another key: "
            "use that key to remove a user"
        )


def key_scheme(warehouse: Warehouse, network: str) -> str | None:
    """Return how the names of a network's users were made; None if it is not in the warehouse."""
    published = warehouse.published(Unit("network", network))
    return NetworkFacts.of(published).users or PLAIN if published else None
