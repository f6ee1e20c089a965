"""Goodput of clusters of transfers, over networks or of one, unless pooling networks misleads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from spark_jobs.figures.format import KBITS, NOT_MEASURED, count
from spark_jobs.figures.numbers import Row
from spark_jobs.figures.page_elements import group_rows
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.statistics import UNKNOWN, Estimate
from spark_jobs.figures.table3_clusters.numbers import LABELS, NUMBERS

NETWORKS_DIFFER = "networks differ"
"""Text instead of a mean over networks that would reverse the difference within them."""
Values = Mapping[str, str | None]
"""Labels of options, which define a cluster, by the option's name; others may have any value.

The label of an MSS that is neither low nor high is None.
"""


@dataclass(frozen=True)
class Cluster:
    """Goodput of a cluster of transfers (bit/s): mean with interval, sample standard deviation.

    flows, rated: number of transfers, and of those with a known channel rate.
    """

    flows: int = 0
    rated: int = 0
    mean: Estimate = UNKNOWN
    deviation: float | None = None
    networks_differ: bool = False

    @property
    def texts(self) -> list[str]:
        """Mean, deviation and number of transfers."""
        if self.networks_differ:
            return [NETWORKS_DIFFER, NOT_MEASURED, NOT_MEASURED]
        deviation = None if self.mean.value is None else self.deviation
        return [
            KBITS.estimate(self.mean, self.flows > 0),
            KBITS.text(deviation),
            count(self.flows),
        ]


@dataclass
class Goodputs:
    """Clusters of one access technology: over its networks, and by network."""

    pooled: dict[frozenset, Row] = field(default_factory=dict)
    by_network: dict[str, dict[frozenset, Row]] = field(default_factory=dict)

    def of_network(self, network: str, values: Values) -> Cluster:
        """Return a cluster of one network."""
        return _cluster(self.by_network[network].get(_key(values)))

    def over_networks(self, values: Values, option: str = "") -> Cluster:
        """Return a cluster over all networks.

        option: the option whose values are compared; the result says if pooling would mislead.
        """
        if option and self.pooling_reverses(values, option):
            return Cluster(networks_differ=True)
        return _cluster(self.pooled.get(_key(values)))

    def pooling_reverses(self, values: Values, option: str) -> bool:
        """Return whether pooling reverses a difference of an option, other options fixed."""
        rows = [
            {"network": network, option: label, **row}
            for network, clusters in self.by_network.items()
            for label in LABELS[option].values()
            if (row := clusters.get(_key({**values, option: label})))
        ]
        return pooling_reverses(rows, option)


def _key(values: Values) -> frozenset:
    return frozenset(values.items())


def _cluster(row: Row | None) -> Cluster:
    if row is None:
        return Cluster()
    return Cluster(row["flows"], row["rated"], row["goodput"], row["deviation"])


def goodputs(selection: Selection) -> dict[str, Goodputs]:
    """Return the clusters of each access technology: of all, one, or no options."""
    found: dict[str, Goodputs] = {}
    for options in ((), *((name,) for name in LABELS), tuple(LABELS)):
        for row in NUMBERS.rows(selection, "access", *options):
            of_access = found.setdefault(row["access"], Goodputs())
            of_access.pooled[_key({name: row[name] for name in options})] = row
        for row in NUMBERS.rows(selection, "access", "network", *options):
            of_network = found[row["access"]].by_network.setdefault(row["network"], {})
            of_network[_key({name: row[name] for name in options})] = row
    return found


def pooling_reverses(rows: Sequence[Mapping[str, Any]], option: str) -> bool:
    """Return whether pooling networks reverses the order of two of an option's values.

    rows: by network and value of the option, with flows and goodput_sum.
    """
    values = LABELS[option].values()
    return any(_pair_reverses(rows, option, pair) for pair in combinations(values, 2))


def _pair_reverses(rows: Sequence[Mapping[str, Any]], option: str, pair: tuple[str, str]) -> bool:
    def difference_and_weight(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
        """Return the difference of the two means and its weight; None without rows of both."""
        sides = [[row for row in rows if row[option] == value] for value in pair]
        (n, first_sum), (m, second_sum) = (
            (sum(row["flows"] for row in side), sum(row["goodput_sum"] for row in side))
            for side in sides
        )
        return (first_sum / n - second_sum / m, n * m / (n + m)) if n and m else None

    pooled = difference_and_weight(rows)
    within = [
        result
        for members in group_rows(rows, "network").values()
        if (result := difference_and_weight(members))
    ]
    if pooled is None:
        return False
    if not within:
        return True
    return pooled[0] * sum(difference * weight for difference, weight in within) < 0
