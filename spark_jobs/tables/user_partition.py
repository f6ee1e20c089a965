"""A bucket: some users' packets, their connections, and what the estimators say of them.

What several tables need is here by name, made when it is first asked for.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import xxhash

from schemas import APPLICATION_LOG
from spark_jobs.compiled.arrays import gather, group_offsets, group_order
from spark_jobs.estimators import setup
from spark_jobs.estimators.clean_acks import CleanAcks, clean_acks
from spark_jobs.estimators.connections import IDLE_TIMEOUT_US, assign_connections
from spark_jobs.estimators.coverage import (
    BOTH,
    MAX_UNSEEN_FOR_LOSSES,
    MAX_UNSEEN_FOR_SENDING,
    MIN_UNSEEN_BYTES,
    coverage,
    seen_enough,
    users_with_gaps,
)
from spark_jobs.estimators.identity import flow_ids
from spark_jobs.estimators.links import links, raise_max_rtts
from spark_jobs.estimators.loss.access import access_losses
from spark_jobs.estimators.loss.expected import without_drops
from spark_jobs.estimators.loss.internet import InternetLosses, internet_losses
from spark_jobs.estimators.loss.path import user_paths
from spark_jobs.estimators.loss.refused import REFUSED, UNKNOWN, refused
from spark_jobs.estimators.loss.reneged import reneged
from spark_jobs.estimators.loss.verdict import (
    AccessLosses,
    AccessTotals,
    access_totals,
    were_needed,
)
from spark_jobs.estimators.offload import on_the_wire
from spark_jobs.estimators.options import uses_sack
from spark_jobs.estimators.pages import activities, merge_activities, quic_activities
from spark_jobs.estimators.probes import probes, remove_probe_numbers
from spark_jobs.estimators.records import Connections, Packets, Segments
from spark_jobs.estimators.sack_blocks import filter_sack_blocks
from spark_jobs.estimators.sender import samples
from spark_jobs.estimators.sender.replay import Sending, replay
from spark_jobs.estimators.sender.server import servers
from spark_jobs.estimators.sender.state import Rules
from spark_jobs.estimators.sequence import downlink_bytes_before, stream_numbers
from spark_jobs.estimators.split import split_connections
from spark_jobs.estimators.volumes import volumes
from spark_jobs.tables.log_matching import sessions_of
from spark_jobs.tables.rows import dictionary
from spark_jobs.warehouse.packets import Names

NOT_IN_PACKETS = ("place", "sack_edges", "number", "up_number", "probe")
FOREVER = (-(2**62), 2**62)


@dataclass(frozen=True)
class Settings:
    """What the networks file says of a network that estimators need."""

    network: str
    flight_size_bytes: int = 4500
    initial_rto_s: float = 1.0
    min_rto_s: float = 0.2


class UserPartition:
    """settings: the network's; span: connections that start in [from, until) (µs)
    are `starts_in_window`, those that the tables tell of; application_log: rows of that table that
    may be about them."""

    def __init__(
        self,
        packets: Packets,
        names: Names,
        settings: Settings,
        span: tuple[int, int] = FOREVER,
        application_log: pa.Table | None = None,
    ):
        self.names, self.settings, self.span = names, settings, span
        self.application_log = application_log
        connection, count, outside = assign_connections(packets)
        self.outside = [
            np.bincount(connection[outside & (packets.downlink == way)], minlength=count)
            for way in (False, True)
        ]
        """int64[C] each: packets up and down that no end of the connection could have sent."""
        if outside.any():
            taken = packets.downlink & ~outside
            before = downlink_bytes_before(taken, packets.ip_len)
            packets = packets._replace(out_of_window=outside, downlink_bytes_before=before)
            connection[outside] = -1
        ipv6 = np.array([":" in server for server in names.servers], bool)
        self.packets, connection, self.merged = on_the_wire(packets, connection, count, ipv6)
        first = group_offsets(connection, count)
        read = _segments(self.packets, group_order(connection, first), first)
        sack_count, lies = filter_sack_blocks(read, first)
        read = read._replace(sack_count=sack_count)
        self.connections = _connections(self.packets, read, first, span)
        self.connections.sack[lies] = False
        self.segments = _without_probes(read, self.connections)

    def may_go_on(self, until: int) -> bool:
        """Whether packets at `until` or later can belong to a connection that is mine."""
        alive = self.connections.end_ts >= until - IDLE_TIMEOUT_US
        return bool((self.connections.starts_in_window & alive).any())

    def connection_of(self, segments: np.ndarray) -> np.ndarray:
        """The connections of some segments."""
        return np.searchsorted(self.connections.first, segments, "right") - 1

    @cached_property
    def flow_ids(self) -> np.ndarray:
        """int64[C]: each connection's stable key."""
        users = _hashes(f"{self.settings.network}/", self.names.users)
        return flow_ids(users, _hashes("", self.names.servers), self.segments, self.connections)

    @cached_property
    def sessions(self) -> pa.Table:
        """What Zeek's logs tell of the connections, by their place."""
        at = self.connections
        columns = {
            "place": pa.array(np.arange(len(at.user))),
            "user": dictionary(at.user, self.names.addresses),
            "user_port": pa.array(at.user_port),
            "server": dictionary(at.server, self.names.servers),
            "server_port": pa.array(at.server_port),
            "start_us": pa.array(at.start_ts),
            "end_us": pa.array(at.end_ts),
        }
        log = self.application_log
        return sessions_of(
            APPLICATION_LOG.arrow.empty_table() if log is None else log, pa.table(columns)
        )

    @cached_property
    def handshakes(self) -> np.ndarray:
        """HANDSHAKE[C]"""
        return setup.handshakes(self.segments, self.connections)

    @cached_property
    def volumes(self) -> np.ndarray:
        """VOLUME[C]"""
        return volumes(self.segments, self.connections)

    @cached_property
    def coverage(self) -> np.ndarray:
        """COVERAGE[C]: what was not seen; `unseen` of connections seen both ways, too."""
        found = coverage(self.segments, self.connections)
        found["unseen"] += self.internet_losses.unseen
        return found

    def _seen_enough(self, most_unseen: float, most_bytes: int = 0) -> np.ndarray:
        payload = self.volumes["payload_bytes_down"]
        return seen_enough(self.coverage, payload, self.connections, most_unseen, most_bytes)

    @cached_property
    def stepped(self) -> np.ndarray:
        """bool[C]: the monitor's clock stepped back within it: times across the step are not
        known, nor what is concluded from times."""
        begins = self.connections.first[:-1]
        if not self.packets.clock_steps.any():
            return np.zeros(len(begins), bool)
        steps = self.packets.clock_steps[self.segments.place]
        return np.minimum.reduceat(steps, begins) != np.maximum.reduceat(steps, begins)

    @cached_property
    def options_cut(self) -> np.ndarray:
        """bool[C]: the capture cut off options, of which SACK blocks and timestamps tell what was
        lost and what the server did."""
        begins = self.connections.first[:-1]
        if not self.packets.options_cut.any():
            return np.zeros(len(begins), bool)
        return np.logical_or.reduceat(self.packets.options_cut[self.segments.place], begins)

    @cached_property
    def setup_stepped(self) -> np.ndarray:
        """bool[C]: the clock stepped back before the handshake had ended."""
        handshake, segments = self.handshakes, self.segments
        acked = handshake["ack_ts"] != setup.NO_TIME
        ended = np.where(acked, handshake["ack_ts"], handshake["last_ts"])
        if not self.packets.clock_steps.any():
            return np.zeros(len(handshake), bool)
        at = np.flatnonzero(np.diff(self.packets.clock_steps[segments.place])) + 1
        of = self.connection_of(at)
        within = (at > self.connections.first[of]) & (segments.ts[at] <= ended[of])
        out = np.zeros(len(ended), bool)
        out[of[within]] = True
        return out

    @cached_property
    def timed(self) -> Connections:
        """The connections; of those that are mine, the ones whose times say something of their
        user are."""
        return self.connections._replace(
            starts_in_window=self.connections.starts_in_window & ~self.stepped
        )

    @cached_property
    def complete(self) -> np.ndarray:
        """bool[C]: so much of the data to the mobile, and of its ACKs, was seen, by one clock, that
        losses and rates are known."""
        return self._seen_enough(MAX_UNSEEN_FOR_LOSSES) & ~self.stepped

    @cached_property
    def mostly_seen(self) -> np.ndarray:
        """bool[C]: so much, by one clock, that what the server did, and the link's rate, can be
        known."""
        return self._seen_enough(MAX_UNSEEN_FOR_SENDING, MIN_UNSEEN_BYTES) & ~self.stepped

    @cached_property
    def replayed(self) -> np.ndarray:
        """bool[C]: what the server did is known."""
        return self.sending.transfers["known"] & self.mostly_seen & ~self.options_cut

    @cached_property
    def links_known(self) -> np.ndarray:
        """bool[U]: what is told of the users' links is of these: nothing at Gi answers for the
        mobile, and the capture does not lack much of what was sent."""
        payload, at = self.volumes["payload_bytes_down"], self.connections
        known = ~users_with_gaps(self.coverage, payload, at)
        known[at.user[self.split & at.starts_in_window]] = False
        return known

    @cached_property
    def split(self) -> np.ndarray:
        """bool[C]: something at Gi answers in the mobile's name: the access side is not known."""
        known = self.sending.transfers["rtt_samples"][:, samples.ACCESS].copy()
        known["count"][self.stepped] = 0
        return split_connections(self.segments, self.timed, self.handshake_rtts[0], known)

    @cached_property
    def handshake_rtts(self) -> tuple[np.ndarray, np.ndarray]:
        """float64[C], s: round trips of the handshakes on the access and on the Internet side."""
        access, internet = setup.handshake_rtts(self.handshakes, self.background)
        return (
            np.where(self.setup_stepped, np.nan, access),
            np.where(self.setup_stepped, np.nan, internet),
        )

    @cached_property
    def background(self) -> np.ndarray:
        """bool[C]: the user had other traffic in or shortly before the set-up."""
        return setup.background(self.handshakes, self.segments, self.connections, self.packets)

    @cached_property
    def access_totals(self) -> AccessTotals:
        """What became of each connection's data on the access side."""
        return access_totals(self.segments, self.connections, self.access_losses.probability)

    @cached_property
    def losses_known(self) -> np.ndarray:
        """bool[C]: what was lost is known, but for the access side of those that are split."""
        return self.access_totals.measurable & self.complete & ~self.options_cut

    @cached_property
    def clean_acks(self) -> CleanAcks:
        """ACKs that tell when a packet had arrived."""
        return clean_acks(self.segments, self.connections)

    @cached_property
    def paths(self) -> np.ndarray:
        """PATH[U]"""
        return user_paths(self.clean_acks, self.timed, self.packets)

    @cached_property
    def base_us(self) -> np.ndarray:
        """float64[U]: users' least round trips (µs), side by side in memory, as those of one user
        always are: to Numba other arrays are of another type."""
        return np.ascontiguousarray(self.paths["base_rtt"])

    @cached_property
    def access_losses(self) -> AccessLosses:
        """What became of the segments on the access side."""
        return access_losses(self.segments, self.timed, self.packets, self.clean_acks, self.paths)

    def needed(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether retransmissions at these segments, int64[K], were needed: (bool[K]: the mobile had
        nothing of the earlier copy; bool[K]: whether that is decided, and Gi had seen one)."""
        lost, decided = were_needed(self.access_losses, at)
        original = np.where(lost, -1, self.access_losses.original[at])
        at, base_us = np.ascontiguousarray(at), self.base_us[self.connections.user]
        fate = refused(self.segments, self.connections, base_us, at, original)
        gone = reneged(self.segments, self.connections, at, original)
        return lost | (fate == REFUSED) | gone, decided & (fate != UNKNOWN) | gone

    @cached_property
    def links(self) -> np.ndarray:
        """LINK[L]: users' access links by the hour."""
        limited = self.access_losses.paths
        found = links(self.clean_acks, self.timed, self.packets, limited)
        longest = self.sending.transfers["rtt_samples"][:, samples.ACCESS]["longest"]
        raise_max_rtts(found, self.timed, np.where(self.replayed, longest, np.nan))
        return found

    @cached_property
    def activities(self) -> np.ndarray:
        """ACTIVITY[A]: when connections were active, QUIC's too, but for those of TCP of which one
        direction was not seen."""
        at, base_us = self.connections, self.base_us
        seen = at._replace(starts_in_window=at.starts_in_window & (self.coverage["seen"] == BOTH))
        quic = quic_activities(self.packets, base_us, len(at.user))
        quic = quic[(quic["start"] >= self.span[0]) & (quic["start"] < self.span[1])]
        return merge_activities(activities(self.segments, seen, base_us), quic)

    @cached_property
    def servers(self) -> np.ndarray:
        """SERVER[C]"""
        return servers(self.segments, self.connections)

    @cached_property
    def sending(self) -> Sending:
        """What the servers did."""
        return self._replay(self.connections, self.servers)

    @cached_property
    def rtt_samples(self) -> np.ndarray:
        """samples.SAMPLE[round trips]: those through transfers that are told."""
        seen = self.sending.samples
        of = seen["connection"]
        known = self.connections.starts_in_window & self.replayed
        access = seen["side"] == samples.ACCESS
        return seen[np.where(access, (known & ~self.split)[of], known[of])]

    def moments(self, connection: int) -> np.ndarray:
        """MOMENT[P]: what the server of one connection did, packet by packet."""
        at = self.connections
        place = slice(connection, connection + 1)
        one = at._replace(
            first=at.first[connection : connection + 2], user=at.user[place], sack=at.sack[place]
        )
        return self._replay(one, servers(self.segments, one), watched=True).moments

    def _replay(self, of: Connections, at: np.ndarray, watched: bool = False) -> Sending:
        """What the servers of some connections, SERVER[C], did."""
        rules = Rules.in_seconds(self.settings.initial_rto_s, self.settings.min_rto_s)
        return replay(self.segments, of, at, self.base_us[of.user], rules, watched)

    @cached_property
    def internet_losses(self) -> InternetLosses:
        """What was lost on the Internet side."""
        base_us = self.base_us[self.connections.user]
        found = internet_losses(self.segments, self.connections, base_us, self.servers)
        return without_drops(found, self.timed)


def _segments(packets: Packets, place: np.ndarray, first: np.ndarray) -> Segments:
    """The packets at these places; first: where each connection's begin."""
    columns = {
        name: gather(getattr(packets, name), place)
        for name in Segments._fields
        if name not in NOT_IN_PACKETS
    }
    wire = {name: columns[name] for name in ("downlink", "tcp_flags", "seq", "ack")}
    number, up_number = stream_numbers(first, **wire)
    return Segments(
        **columns,
        place=place,
        sack_edges=packets.sack_edges,
        number=number,
        up_number=up_number,
        probe=np.zeros(len(place), np.uint8),
    )


def _without_probes(segments: Segments, connections: Connections) -> Segments:
    """The Segments; those that bring no data are told, and carry no number any more."""
    found = segments._replace(probe=probes(segments, connections))
    if found.probe.any():
        remove_probe_numbers(found, connections)
    return found


def _connections(
    packets: Packets, segments: Segments, first: np.ndarray, span: tuple[int, int]
) -> Connections:
    begins = segments.place[first[:-1]]
    start_ts, (from_us, until_us) = segments.ts[first[:-1]], span
    user = packets.user[begins]
    return Connections(
        first=first,
        user_offsets=np.searchsorted(user, np.arange(len(packets.first))),
        user=user,
        user_port=packets.user_port[begins],
        server=packets.server[begins],
        server_port=packets.server_port[begins],
        start_ts=start_ts,
        end_ts=segments.ts[first[1:] - 1],
        sack=uses_sack(segments, first),
        starts_in_window=(start_ts >= from_us) & (start_ts < until_us),
    )


def _hashes(prefix: str, texts: list[str]) -> np.ndarray:
    hashes = [xxhash.xxh3_64_intdigest((prefix + text).encode()) for text in texts]
    return np.array(hashes, np.uint64)
