"""The settings of a network that the estimators need."""

from __future__ import annotations

from typing import NamedTuple

from spark_jobs.settings.networks import Network


class Settings(NamedTuple):
    """The settings of a network that the estimators need, from the networks file."""

    network: str
    flight_size_bytes: int = 4500
    initial_rto_s: float = 1.0
    min_rto_s: float = 0.2

    @classmethod
    def of(cls, network: Network) -> Settings:
        """Return the settings of a network of the networks file."""
        return cls(
            network.name, network.flight_size_bytes, network.initial_rto_s, network.min_rto_s
        )
