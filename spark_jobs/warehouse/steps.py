"""A step of a job: units that are made from inputs, and made again only if these have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit


@dataclass(frozen=True)
class Step:
    """The units that a job keeps up to date.

    inputs: for each unit, a hash of everything that it depends on; units that stay as they are, for
        example because their inputs were purged, are left out
    make: makes and publishes some of the units; it gets their part of `inputs`
    """

    inputs: Mapping[Unit, str]
    make: Callable[[dict[Unit, str]], None]

    def stale(self, warehouse: Warehouse) -> dict[Unit, str]:
        """Return the units that are not up to date, with the hashes of their inputs.

        Such a unit was made of other inputs, or not at all, or files of it are missing or damaged.
        """
        return {
            unit: inputs
            for unit, inputs in self.inputs.items()
            if not warehouse.is_current(unit, inputs)
        }

    def bring_up_to_date(self, warehouse: Warehouse) -> dict[Unit, str]:
        """Make the stale units, and return them."""
        stale = self.stale(warehouse)
        if stale:
            self.make(stale)
        return stale
