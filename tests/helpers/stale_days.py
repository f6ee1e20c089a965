"""The days whose flows are not up to date."""

from collections.abc import Iterable
from datetime import date

from spark_jobs.jobs.flows import inputs_of_days
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.steps import Step
from spark_jobs.warehouse.store import Warehouse


def stale_days(warehouse: Warehouse, networks: Iterable[Network]) -> list[tuple[Network, date]]:
    """Return the networks' days that `giscope run` would make again."""
    by_name = {network.name: network for network in networks}
    step = Step(inputs_of_days(warehouse, by_name.values()), lambda _: None)
    return [(by_name[unit.network], unit.day) for unit in step.stale(warehouse)]
