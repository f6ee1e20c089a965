"""QUIC's connections of a user partition, and the estimators' results about them."""

from functools import cached_property

import numpy as np

from spark_jobs.compiled.arrays import group_offsets, group_order
from spark_jobs.estimators.pages import quic_activities
from spark_jobs.estimators.quic.connections import SILENCE_US, assign_quic_connections
from spark_jobs.estimators.quic.packets import QuicPackets
from spark_jobs.estimators.quic.spin import spin_samples, spins
from spark_jobs.estimators.quic.summary import OPTIMAL, set_bursts, summaries

Span = tuple[int, int]


class QuicConnections:
    """QUIC's connections, and what can be known of them. [C]: one element a connection."""

    def __init__(self, packets: QuicPackets):
        self.packets = packets
        connection, count, self.migrations = assign_quic_connections(packets)
        self.first = group_offsets(connection, count)
        self.order = group_order(connection, self.first)

    @cached_property
    def summaries(self) -> np.ndarray:
        """The connections, QUIC_CONNECTION[C], without their bursts."""
        return summaries(self.packets, self.order, self.first)

    @cached_property
    def spin_samples(self) -> tuple[np.ndarray, np.ndarray]:
        """The kinds of the connections' spin bits, int8[C], and their ROUND_TRIP[R]."""
        found = self.summaries
        round_trips = found["rtt_access"] + found["rtt_internet"]
        whole = np.where(found["setup_class"] == OPTIMAL, found["setup_delay"], np.nan)
        round_trips = np.where(np.isnan(round_trips), whole, round_trips)
        sides = np.column_stack([found["rtt_access"], found["rtt_internet"]])
        begun = np.ascontiguousarray(found["begin_seen"])
        base_us, sides_us = 1e6 * round_trips, 1e6 * sides
        return spin_samples(self.packets, self.order, self.first, base_us, sides_us, begun)

    @cached_property
    def spins(self) -> np.ndarray:
        """The connections' spin bits and their round trips, SPIN[C]."""
        return spins(*self.spin_samples)

    def with_bursts(self, gaps_us: np.ndarray) -> np.ndarray:
        """Return the connections with their bursts; gaps_us: see `pages.page_gaps_us`."""
        found = self.summaries.copy()
        set_bursts(found, self.packets, self.order, self.first, gaps_us)
        return found

    def activities(self, gaps_us: np.ndarray, count: int, span: Span) -> np.ndarray:
        """Return the times in which connections were active that start in a span, ACTIVITY[A].

        gaps_us: see `pages.page_gaps_us`. count: number of TCP's connections.
        """
        found = quic_activities(self.packets, self.order, self.first, gaps_us, count)
        return found[(found["start"] >= span[0]) & (found["start"] < span[1])]

    def users_after(self, until: int, span: Span) -> np.ndarray:
        """Return the users of whose connections in a span packets at `until` (µs) can be."""
        starts, ends = self.summaries["start"], self.summaries["end"]
        alive = ends >= until - SILENCE_US
        return self.summaries["user"][alive & (starts >= span[0]) & (starts < span[1])]
