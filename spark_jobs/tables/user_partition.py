"""The packets of a user partition, their connections and the estimators' results about them.

Results that several tables need are properties here, computed on first use.
"""

from collections.abc import Collection
from datetime import date, timedelta
from functools import cached_property

import numpy as np
import pyarrow as pa
import xxhash

from schemas import APPLICATION_LOG
from spark_jobs.capture.columns import DAY_US
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
from spark_jobs.estimators.ecn import marks
from spark_jobs.estimators.host_ids import number_by_connection
from spark_jobs.estimators.identity import flow_ids
from spark_jobs.estimators.links import links, raise_max_rtts
from spark_jobs.estimators.loss.access import access_losses
from spark_jobs.estimators.loss.expected import without_drops
from spark_jobs.estimators.loss.internet import InternetLosses, internet_losses
from spark_jobs.estimators.loss.path import ack_owners, user_paths
from spark_jobs.estimators.loss.paws import DROPPED, UNKNOWN, dropped_by_paws
from spark_jobs.estimators.loss.queue_kind import in_order, queue_kinds
from spark_jobs.estimators.loss.reneged import reneged
from spark_jobs.estimators.loss.verdict import (
    AccessLosses,
    AccessTotals,
    access_totals,
    were_needed,
)
from spark_jobs.estimators.offload import on_the_wire
from spark_jobs.estimators.options import uses_sack
from spark_jobs.estimators.pages import activities, merge_activities, page_gaps_us
from spark_jobs.estimators.probes import probes, remove_probe_numbers
from spark_jobs.estimators.quic.packets import QuicPackets, no_quic
from spark_jobs.estimators.records import Connections, Packets, Segments
from spark_jobs.estimators.sack_blocks import filter_sack_blocks
from spark_jobs.estimators.sender import rtt_sampling
from spark_jobs.estimators.sender.replay import ReplayResults, replay
from spark_jobs.estimators.sender.server import servers
from spark_jobs.estimators.sender.state import RtoSettings
from spark_jobs.estimators.sequence import downlink_bytes_before, stream_numbers
from spark_jobs.estimators.split import split_connections
from spark_jobs.estimators.timestamps import continued
from spark_jobs.estimators.volumes import volumes
from spark_jobs.tables.log_matching import matched_sessions
from spark_jobs.tables.quic_connections import QuicConnections
from spark_jobs.tables.rows import dictionary
from spark_jobs.tables.settings import Settings
from spark_jobs.users.labels import NO_LEASES, LinkLabels
from spark_jobs.users.packets import Names

NOT_IN_PACKETS = ("place", "sack_edges", "number", "up_number", "probe", "reports_marks")
"""Fields of Segments that are not columns of Packets with one value a packet."""
FOREVER = (-(2**62), 2**62)
"""A span that holds all times (µs)."""


class UserPartition:
    """A user partition's packets, connections and estimates.

    settings: those of the network.
    span: (begin, end) in µs. Connections that start in [begin, end) get rows (`starts_in_window`).
    application_log: rows of that table that may be about the connections.
    quic: the packets of QUIC's; None: there are none.
    cut: link, ports and server of connections that begin again where the span begins.
    leases: rows of that table, with the links' labels.

    Shapes of arrays: [C] has one element a connection, [U] one a user.
    """

    def __init__(
        self,
        packets: Packets,
        names: Names,
        settings: Settings,
        span: tuple[int, int] = FOREVER,
        application_log: pa.Table | None = None,
        quic: QuicPackets | None = None,
        cut: Collection[tuple[str, int, str, int]] = (),
        leases: pa.Table = NO_LEASES,
    ):
        """Assign the packets to connections and make their segments."""
        self.quic = QuicConnections(no_quic(len(names.users)) if quic is None else quic)
        self.names, self.settings, self.span = names, settings, span
        self.labels = LinkLabels(leases, names.links)
        self.application_log = application_log
        connection, count, out_of_window = assign_connections(packets)
        if cut:
            connection[_before_cut(packets, connection, count, names, span[0], cut)] = -1
        self.out_of_window_counts = [
            np.bincount(connection[out_of_window & (packets.downlink == way)], minlength=count)
            for way in (False, True)
        ]
        """int64[C] each: numbers of uplink and of downlink packets that are out of window."""
        self._assigned = connection.copy(), packets.ts
        if out_of_window.any():
            taken = packets.downlink & ~out_of_window
            before = downlink_bytes_before(taken, packets.ip_len)
            packets = packets._replace(out_of_window=out_of_window, downlink_bytes_before=before)
            connection[out_of_window] = -1
        ipv6 = np.array([":" in server for server in names.servers], bool)
        self.packets, connection, self.merged_segments = on_the_wire(
            packets, connection, count, ipv6
        )
        first = group_offsets(connection, count)
        segments = _segments(self.packets, group_order(connection, first), first)
        segments = continued(segments, first)
        sack_count, unusable_sack = filter_sack_blocks(segments, first)
        segments = segments._replace(sack_count=sack_count)
        self.connections = _connections(self.packets, segments, first, span)
        self.connections.sack[unusable_sack] = False
        segments = _without_probes(segments, self.connections)
        self.ecn, reports_marks = marks(segments, self.connections)
        """ECN[C] of the connections."""
        self.segments = segments._replace(reports_marks=reports_marks)

    def users_after(self, until: int) -> frozenset[str]:
        """Return the users of whose connections in the span packets at `until` (µs) can be."""
        alive = self.connections.end_ts >= until - IDLE_TIMEOUT_US
        links = self.connections.user[self.connections.starts_in_window & alive]
        links = np.union1d(links, self.quic.users_after(until, self.span))
        return frozenset(self.names.users[link] for link in links.tolist())

    def are_of(self, users: Collection[str]) -> np.ndarray:
        """Return the mask of connections of some users, bool[C]."""
        is_wanted = np.array([name in users for name in self.names.users], bool)
        return is_wanted[self.connections.user]

    def packets_by_day(self, users: Collection[str], day: date) -> dict[str, int]:
        """Return the numbers of packets of some users' connections in the span, by day.

        day: the first day with such packets. Those that are out of window count, too.
        """
        connection, ts = self._assigned
        of_tcp = np.flatnonzero(connection >= 0)
        is_wanted = self.are_of(users) & self.connections.starts_in_window
        wanted = of_tcp[is_wanted[connection[of_tcp]]]
        counts = np.bincount((ts[wanted] - self.span[0]) // DAY_US)
        return {
            (day + timedelta(days=k)).isoformat(): count
            for k, count in enumerate(counts.tolist())
            if count
        }

    def connection_of(self, segments: np.ndarray) -> np.ndarray:
        """Return the connections of some segments, by their indices."""
        return np.searchsorted(self.connections.first, segments, "right") - 1

    @cached_property
    def name_hashes(self) -> tuple[np.ndarray, np.ndarray]:
        """The hashes of the users' keys and of the servers' addresses, uint64 each."""
        users = _hashes(f"{self.settings.network}/", self.names.users)
        return users, _hashes("", self.names.servers)

    @cached_property
    def flow_ids(self) -> np.ndarray:
        """The stable keys of the connections, int64[C]."""
        connections, (users, servers) = self.connections, self.name_hashes
        return flow_ids(
            users[connections.user],
            servers[connections.server],
            connections.user_port,
            connections.server_port,
            connections.start_ts,
            self.segments.seq[connections.first[:-1]],
        )

    @cached_property
    def sessions(self) -> pa.Table:
        """The sessions that Zeek's logs report, by the index of their connection."""
        connections, names = self.connections, self.names
        columns = {
            "place": pa.array(np.arange(len(connections.user))),
            "user": dictionary(*names.addresses_of(connections.user, connections.server)),
            "user_port": pa.array(connections.user_port),
            "server": dictionary(connections.server, names.servers),
            "server_port": pa.array(connections.server_port),
            "start_us": pa.array(connections.start_ts),
            "end_us": pa.array(connections.end_ts),
        }
        log = self.application_log
        return matched_sessions(
            APPLICATION_LOG.arrow.empty_table() if log is None else log, pa.table(columns)
        )

    @cached_property
    def handshakes(self) -> np.ndarray:
        """The connections' handshakes, HANDSHAKE[C]."""
        return setup.handshakes(self.segments, self.connections)

    @cached_property
    def volumes(self) -> np.ndarray:
        """The connections' volumes, VOLUME[C]."""
        return volumes(self.segments, self.connections)

    @cached_property
    def coverage(self) -> np.ndarray:
        """The coverage of the connections, COVERAGE[C].

        `unseen` also has the unseen bytes of connections of which both directions were seen.
        """
        covered = coverage(self.segments, self.connections)
        covered["unseen"] += self.internet_losses.unseen_bytes
        return covered

    def _seen_enough(self, max_unseen_share: float, max_unseen_bytes: int = 0) -> np.ndarray:
        payload = self.volumes["payload_bytes_down"]
        return seen_enough(
            self.coverage, payload, self.connections, max_unseen_share, max_unseen_bytes
        )

    @cached_property
    def clock_stepped(self) -> np.ndarray:
        """Mask of connections during which the monitor's clock stepped, bool[C].

        Times across the step are not known, nor anything that is inferred from times.
        """
        begins = self.connections.first[:-1]
        if not self.packets.clock_steps.any():
            return np.zeros(len(begins), bool)
        steps = self.packets.clock_steps[self.segments.place]
        return np.minimum.reduceat(steps, begins) != np.maximum.reduceat(steps, begins)

    @cached_property
    def options_cut(self) -> np.ndarray:
        """Mask of connections in which the capture cut off TCP options, bool[C].

        Among the options are SACK blocks and timestamps, which show what was lost and what the
        server did.
        """
        begins = self.connections.first[:-1]
        if not self.packets.options_cut.any():
            return np.zeros(len(begins), bool)
        return np.logical_or.reduceat(self.packets.options_cut[self.segments.place], begins)

    @cached_property
    def clock_stepped_in_setup(self) -> np.ndarray:
        """Mask of connections during whose set-up the monitor's clock stepped, bool[C]."""
        handshake, segments = self.handshakes, self.segments
        acked = handshake["ack_ts"] != setup.NO_TIME
        ended = np.where(acked, handshake["ack_ts"], handshake["last_ts"])
        if not self.packets.clock_steps.any():
            return np.zeros(len(handshake), bool)
        step = np.flatnonzero(np.diff(self.packets.clock_steps[segments.place])) + 1
        connection = self.connection_of(step)
        within = (step > self.connections.first[connection]) & (
            segments.ts[step] <= ended[connection]
        )
        stepped = np.zeros(len(ended), bool)
        stepped[connection[within]] = True
        return stepped

    @cached_property
    def timed_connections(self) -> Connections:
        """The connections, of which only those without a step of the clock are `mine`.

        From the times of these, something about their user can be inferred.
        """
        return self.connections._replace(
            starts_in_window=self.connections.starts_in_window & ~self.clock_stepped
        )

    @cached_property
    def seen_for_losses(self) -> np.ndarray:
        """Mask of connections of which enough was seen to know losses and rates, bool[C].

        Enough of the data to the mobile and of its ACKs, without a step of the clock.
        """
        return self._seen_enough(MAX_UNSEEN_FOR_LOSSES) & ~self.clock_stepped

    @cached_property
    def seen_for_replay(self) -> np.ndarray:
        """Mask of connections of which enough was seen to replay the server, bool[C].

        Enough also for the link's rate; less than `seen_for_losses` asks for.
        """
        return self._seen_enough(MAX_UNSEEN_FOR_SENDING, MIN_UNSEEN_BYTES) & ~self.clock_stepped

    @cached_property
    def sending_known(self) -> np.ndarray:
        """Mask of connections of which it is known what the server did, bool[C]."""
        return self.sending.transfers["known"] & self.seen_for_replay & ~self.options_cut

    @cached_property
    def links_known(self) -> np.ndarray:
        """Mask of users whose access links can be measured, bool[U].

        Nothing at Gi answers for their mobile, and the capture lacks little of their data.
        """
        payload, connections = self.volumes["payload_bytes_down"], self.connections
        known = ~users_with_gaps(self.coverage, payload, connections)
        known[connections.user[self.split & connections.starts_in_window]] = False
        return known

    @cached_property
    def split(self) -> np.ndarray:
        """Mask of split connections, bool[C]: their access side is not known."""
        access_rtts = self.sending.transfers["rtt_quantiles"][:, rtt_sampling.ACCESS].copy()
        access_rtts["count"][self.clock_stepped] = 0
        return split_connections(
            self.segments, self.timed_connections, self.handshake_rtts[0], access_rtts
        )

    @cached_property
    def handshake_rtts(self) -> tuple[np.ndarray, np.ndarray]:
        """Handshake RTTs on the access side and on the Internet side, float64[C] each, s."""
        access, internet = setup.handshake_rtts(self.handshakes, self.background)
        return (
            np.where(self.clock_stepped_in_setup, np.nan, access),
            np.where(self.clock_stepped_in_setup, np.nan, internet),
        )

    @cached_property
    def background(self) -> np.ndarray:
        """Mask of connections with background traffic in or shortly before the set-up, bool[C]."""
        return setup.background(self.handshakes, self.segments, self.connections, self.packets)

    @cached_property
    def access_totals(self) -> AccessTotals:
        """The losses of each connection on the access side."""
        return access_totals(self.segments, self.connections, self.access_losses)

    @cached_property
    def losses_known(self) -> np.ndarray:
        """Mask of connections whose losses are known, bool[C].

        The access side of a split connection is not known in spite of that.
        """
        return self.access_totals.measurable & self.seen_for_losses & ~self.options_cut

    @cached_property
    def clean_acks(self) -> CleanAcks:
        """ACKs that show when a packet arrived."""
        return clean_acks(self.segments, self.connections)

    @cached_property
    def paths(self) -> np.ndarray:
        """The users' paths on the access side, PATH[U]."""
        return user_paths(self.clean_acks, self.timed_connections, self.packets)

    @cached_property
    def queue_kinds(self) -> np.ndarray:
        """The kinds of queues of the users' access links, int8[U]."""
        owner = ack_owners(self.clean_acks, self.timed_connections)
        return queue_kinds(self.clean_acks, owner, self.packets, self.access_losses.paths)

    @cached_property
    def acks_in_order(self) -> CleanAcks:
        """The clean ACKs, disturbed where a queue for each connection changes the order."""
        paths = self.access_losses.paths
        kinds = self.queue_kinds
        return in_order(self.clean_acks, self.timed_connections, self.packets, kinds, paths)

    @cached_property
    def base_rtt_us(self) -> np.ndarray:
        """The users' base RTTs on the access side, float64[U], µs.

        Contiguous in memory, because Numba compiles separate code for other arrays.
        """
        return np.ascontiguousarray(self.paths["base_rtt"])

    @cached_property
    def page_rtt_us(self) -> np.ndarray:
        """The RTTs on the access side that separate pages, float64[U], µs.

        It is the base RTT of a user with TCP, and the shortest of a handshake of another one.
        """
        found, base_rtt_us = self.quic.summaries, self.base_rtt_us
        shortest = np.full(len(base_rtt_us), np.nan)
        np.fmin.at(shortest, found["user"], 1e6 * found["rtt_access"])
        return np.where(base_rtt_us > 0, base_rtt_us, shortest)

    @cached_property
    def access_losses(self) -> AccessLosses:
        """The fate of the segments on the access side."""
        return access_losses(
            self.segments, self.timed_connections, self.packets, self.clean_acks, self.paths
        )

    def retransmissions_needed(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (needed, decided), bool[K] each, for retransmissions.

        at: int64[K], their segments.
        needed: the mobile had no data of the earlier transmission.
        decided: the evidence decides that, and Gi had seen an earlier transmission.
        """
        lost, decided = were_needed(self.access_losses, at)
        original = np.where(lost, -1, self.access_losses.original[at])
        at, base_rtt_us = np.ascontiguousarray(at), self.base_rtt_us[self.connections.user]
        fate = dropped_by_paws(self.segments, self.connections, base_rtt_us, at, original)
        reneged_data, reneging_known = reneged(self.segments, self.connections, at, original)
        return (
            lost | (fate == DROPPED) | reneged_data,
            decided & (fate != UNKNOWN) & reneging_known | reneged_data,
        )

    @cached_property
    def links(self) -> np.ndarray:
        """The users' access links by the hour, LINK[L]."""
        user_links = links(
            self.acks_in_order, self.timed_connections, self.packets, self.access_losses.paths
        )
        max_rtt = self.sending.transfers["rtt_quantiles"][:, rtt_sampling.ACCESS]["max"]
        max_rtt = np.where(self.sending_known, max_rtt, np.nan)
        raise_max_rtts(user_links, self.timed_connections, max_rtt)
        return user_links

    @cached_property
    def activities(self) -> np.ndarray:
        """The times in which connections were active, ACTIVITY[A].

        QUIC's connections are among them; TCP's of which one direction was not seen are not.
        """
        connections, page_rtt_us = self.connections, self.page_rtt_us
        seen = connections._replace(
            starts_in_window=connections.starts_in_window & (self.coverage["seen"] == BOTH)
        )
        quic = self.quic.activities(page_gaps_us(page_rtt_us), len(connections.user), self.span)
        return merge_activities(activities(self.segments, seen, page_rtt_us), quic)

    @cached_property
    def numbered(self) -> tuple[Segments, np.ndarray]:
        """(The segments, the connections' servers, SERVER[C]), with IP IDs by connection."""
        known = servers(self.segments, self.connections)
        return number_by_connection(self.segments, self.connections, self.packets, known)

    @cached_property
    def servers(self) -> np.ndarray:
        """The connections' servers, SERVER[C], whose IP IDs count as far as they are explained."""
        known = self.numbered[1].copy()
        known["ids_exclusive"] &= self.internet_losses.counted_by_ids
        return known

    @cached_property
    def sending(self) -> ReplayResults:
        """The replay of what the servers did."""
        return self._replay(self.connections, self.servers)

    @cached_property
    def rtt_samples(self) -> np.ndarray:
        """The RTT samples of transfers that get rows in the table, samples.SAMPLE[R]."""
        all_samples = self.sending.rtt_samples
        connection = all_samples["connection"]
        known = self.connections.starts_in_window & self.sending_known
        access = all_samples["side"] == rtt_sampling.ACCESS
        return all_samples[np.where(access, (known & ~self.split)[connection], known[connection])]

    def server_states(self, connection: int) -> np.ndarray:
        """Return the state of one connection's server at each packet, MOMENT[P]."""
        everything = self.connections
        place = slice(connection, connection + 1)
        single = everything._replace(
            first=everything.first[connection : connection + 2],
            user=everything.user[place],
            sack=everything.sack[place],
        )
        return self._replay(single, self.servers[place], with_states=True).moments

    def _replay(
        self, connections: Connections, servers: np.ndarray, with_states: bool = False
    ) -> ReplayResults:
        """Replay what the servers of some connections did; servers: SERVER[C]."""
        rules = RtoSettings.from_seconds(self.settings.initial_rto_s, self.settings.min_rto_s)
        base_rtt_us = self.base_rtt_us[connections.user]
        segments = self.numbered[0]
        return replay(segments, connections, servers, base_rtt_us, rules, with_states)

    @cached_property
    def internet_losses(self) -> InternetLosses:
        """The losses on the Internet side."""
        base_rtt_us = self.base_rtt_us[self.connections.user]
        segments, known = self.numbered
        losses = internet_losses(segments, self.connections, base_rtt_us, known)
        return without_drops(losses, self.timed_connections)


def _segments(packets: Packets, place: np.ndarray, first: np.ndarray) -> Segments:
    """Return the packets at these places as segments; first: each connection's first segment."""
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
        reports_marks=np.zeros(len(place), np.bool_),
    )


def _before_cut(
    packets: Packets,
    connection: np.ndarray,
    count: int,
    names: Names,
    begin: int,
    cut: Collection[tuple[str, int, str, int]],
) -> np.ndarray:
    """Return the packets before a time of the connections that begin again then, as indices.

    connection: int32[packets], of `count` connections; begin: the time (µs); cut: see UserPartition
    """
    early = np.flatnonzero((packets.ts < begin) & (connection >= 0))
    _, first = np.unique(connection[early], return_index=True)
    is_cut = np.zeros(count, bool)
    for k in early[first]:
        link, server = names.links[packets.user[k]], names.servers[packets.server[k]]
        ports = packets.user_port[k], packets.server_port[k]
        is_cut[connection[k]] = (link, ports[0], server, ports[1]) in cut
    return early[is_cut[connection[early]]]


def _without_probes(segments: Segments, connections: Connections) -> Segments:
    """Return the segments with probes marked, and without numbers in those that bring no data."""
    marked = segments._replace(probe=probes(segments, connections))
    if marked.probe.any():
        remove_probe_numbers(marked, connections)
    return marked


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
