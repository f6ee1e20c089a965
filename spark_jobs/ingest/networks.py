"""Publishing of a network's row of the table of networks, and the check of its users' names."""

import pyarrow as pa

from schemas import NETWORKS
from spark_jobs.base.errors import UserError
from spark_jobs.capture.users import PLAIN, UserKeys, make_secret, user_keys
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.facts import CaptureFacts, NetworkFacts
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit


def publish_network(warehouse: Warehouse, network: Network) -> None:
    """Publish the network's facts in the networks table, if they changed.

    Raises UserError if the network's users now get other names than those in the warehouse.
    """
    facts = NetworkFacts.model_validate(
        {
            "country": network.country,
            "access": network.access,
            "timezone": network.timezone,
            "flight_size_bytes": network.flight_size_bytes,
            "slot_rate": network.slot_rate,
            "min_users": network.min_users,
            "users": keys_with_secret(network).key_scheme,
        }
    )
    unit = Unit("network", network.name)
    previous = warehouse.published(unit)
    if previous and NetworkFacts.of(previous) == facts and warehouse.is_intact(previous):
        return
    if previous:
        _reject_other_keys(warehouse, network.name, NetworkFacts.of(previous).users, facts.users)
    with warehouse.staging() as staging:
        rows = pa.Table.from_pylist([facts.row], schema=NETWORKS.arrow)
        staging.write(NETWORKS, network.name, None, network.name, rows)
        warehouse.publish(unit, staging.files, facts)


def keys_with_secret(network: Network) -> UserKeys:
    """Return the network's user keys, after making the secret if it is needed and there is none.

    A job calls this once before its tasks begin: otherwise each worker would make a secret of its
    own.
    """
    if network.needs_key:
        make_secret()
    return user_keys(network)


def _reject_other_keys(
    warehouse: Warehouse, network: str, before: str | None, now: str | None
) -> None:
    """Raise UserError if the users in the warehouse have other names.

    Otherwise a subscriber would become two users. before: how the users' names were made; None if
    that is not known any more.
    """
    captures = warehouse.published_units("capture", network)
    if before in (now, None) or not any(CaptureFacts.of(capture).rows for capture in captures):
        return
    present_names = (
        "plain addresses" if before == PLAIN else "pseudonyms of another key or key_period"
    )
    remedy = "--plain-addresses" if before == PLAIN else "that one"
    raise UserError(
        f"{warehouse.root}: the users of {network} in it are {present_names}: "
        f"use {remedy}, or another warehouse"
    )
