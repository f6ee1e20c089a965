"""One bucket's packets to its tables: the estimators called one after the other."""

import numpy as np
import pyarrow as pa
import xxhash

from schemas import (
    APPLICATION_LOG,
    CHANNEL_RATES,
    FLOWS,
    LOSSES,
    RETRANSMISSIONS,
    SESSIONS,
    TIMESTAMP,
)
from spark_jobs.arrays import gather, group_offsets, group_order
from spark_jobs.estimators import setup
from spark_jobs.estimators.channel_rate import channel_rates, clean_acks
from spark_jobs.estimators.connections import IDLE_TIMEOUT_US, assign_connections
from spark_jobs.estimators.identity import flow_ids
from spark_jobs.estimators.options import (
    MSS_CLASSES,
    NOT_KNOWN,
    WINDOW_CLASSES,
    YES,
    mss_class,
    options,
    window_class,
)
from spark_jobs.estimators.sequence import downlink_bytes_before, stream_numbers
from spark_jobs.estimators.throughput import NOT_TOLD, throughputs
from spark_jobs.estimators.volumes import volumes
from spark_jobs.loss_tables import Losses
from spark_jobs.packets import Packets
from spark_jobs.rows import dictionary, measured, table_of
from spark_jobs.sessions import session_rows, sessions_of, told_by_log


class Bucket:
    """The connections among some users' packets, and what the estimators say of them."""

    def __init__(self, packets: Packets):
        self.packets = packets
        columns = packets.columns
        is_tcp = packets.valid.get("tcp_flags", np.ones(len(packets), bool))
        connection, count = assign_connections(
            packets.user_first,
            is_tcp,
            columns["ts"],
            columns["downlink"],
            columns["server"],
            columns["user_port"],
            columns["server_port"],
            columns["tcp_flags"],
            columns["seq"],
            columns["payload_len"],
        )
        self.first = group_offsets(connection, count)
        self.order = group_order(connection, self.first)
        begins = self.order[self.first[:-1]]
        self.user, self.user_port, self.server, self.server_port = (
            columns[name][begins] for name in ("user", "user_port", "server", "server_port")
        )
        self._sorted: dict[str, np.ndarray] = {}
        self.ts, self.flags = self.by_connection("ts"), self.by_connection("tcp_flags")
        self.start_ts = self.ts[self.first[:-1]]
        self.end_ts = self.ts[self.first[1:] - 1]
        self.number, self.up_number = stream_numbers(
            self.first,
            self.by_connection("downlink"),
            self.flags,
            self.by_connection("seq"),
            self.by_connection("ack"),
        )
        self.sent_before = downlink_bytes_before(columns["downlink"], columns["ip_len"])

    def by_connection(self, name: str) -> np.ndarray:
        """A column of the packets in connection order."""
        if name not in self._sorted:
            self._sorted[name] = gather(self.packets.columns[name], self.order)
        return self._sorted[name]

    def has(self, name: str) -> np.ndarray:
        """Whether the packets, in connection order, have a value of a column."""
        return gather(self.packets.valid[name], self.order)

    def at(self, name: str, places: np.ndarray) -> np.ndarray:
        """A column's values in some packets; places: theirs in connection order."""
        return self.packets.columns[name][self.order[places]]

    def connections_at(self, places: np.ndarray) -> np.ndarray:
        """The connections of some packets; places: theirs in connection order."""
        return np.searchsorted(self.first, places, "right") - 1

    def may_go_on(self, mine: np.ndarray, until: int) -> bool:
        """Whether packets at `until` or later can belong to one of these connections."""
        return bool((mine & (self.end_ts >= until - IDLE_TIMEOUT_US)).any())

    def tables(
        self,
        network: str,
        mine: np.ndarray,
        flight_size_bytes: int,
        application_log: pa.Table | None = None,
    ) -> dict[str, pa.Table]:
        """What the estimators say of some connections (mine: bool[connections]), a table each of
        schemas.FLOW_TABLES. application_log: rows of that table that may be about them."""
        ids = self.flow_ids(network)
        sessions = self._sessions(application_log)
        clean = clean_acks(
            self.first,
            self.ts,
            self.by_connection("downlink"),
            self.flags,
            self.by_connection("window"),
            self.by_connection("payload_len"),
            self.number,
            self.order,
        )
        handshake = setup.handshakes(
            self.first,
            self.ts,
            self.by_connection("downlink"),
            self.flags,
            self.by_connection("seq"),
            self.by_connection("ack"),
        )
        losses = Losses(self, handshake, mine, clean)
        return {
            FLOWS.name: self._flows(ids, handshake, losses, sessions).filter(pa.array(mine)),
            CHANNEL_RATES.name: self._channel_rates(ids, mine, clean, flight_size_bytes),
            LOSSES.name: losses.table(ids, mine),
            RETRANSMISSIONS.name: losses.retransmissions(ids, mine),
            SESSIONS.name: session_rows(sessions, ids, mine),
        }

    def _sessions(self, application_log: pa.Table | None) -> pa.Table:
        """What Zeek's logs tell of the connections, by their number."""
        columns = {
            "place": pa.array(np.arange(len(self.start_ts))),
            "user": dictionary(self.user, self.packets.addresses),
            "user_port": pa.array(self.user_port),
            "server": dictionary(self.server, self.packets.servers),
            "server_port": pa.array(self.server_port),
            "start_us": pa.array(self.start_ts),
            "end_us": pa.array(self.end_ts),
        }
        log = APPLICATION_LOG.arrow.empty_table() if application_log is None else application_log
        return sessions_of(log, pa.table(columns))

    def flow_ids(self, network: str) -> np.ndarray:
        """int64[connections]: each connection's stable key."""
        return flow_ids(
            _hashes(f"{network}/", self.packets.users)[self.user],
            _hashes("", self.packets.servers)[self.server],
            self.user_port,
            self.server_port,
            self.start_ts,
            self.by_connection("seq")[self.first[:-1]],
        )

    def _channel_rates(
        self, ids: np.ndarray, mine: np.ndarray, clean: tuple, flight_size_bytes: int
    ) -> pa.Table:
        """Every period as a row of schemas.CHANNEL_RATES."""
        columns = self.packets.columns
        connection, start, end, ip_bytes, rate = channel_rates(
            self.first,
            self.ts,
            self.by_connection("downlink"),
            self.flags,
            self.by_connection("payload_len"),
            self.number,
            clean,
            self.user,
            mine,
            self.order,
            self.packets.user_first,
            columns["ts"],
            columns["downlink"],
            columns["ip_len"],
            self.sent_before,
            flight_size_bytes,
        )
        return table_of(
            CHANNEL_RATES,
            {
                "flow_id": pa.array(ids[connection]),
                "user": dictionary(self.user[connection], self.packets.users),
                "start_ts": pa.array(start).cast(TIMESTAMP),
                "end_ts": pa.array(end).cast(TIMESTAMP),
                "ip_bytes": pa.array(ip_bytes),
                "rate": pa.array(rate),
            },
        )

    def _flows(
        self, ids: np.ndarray, handshake: np.ndarray, losses: Losses, sessions: pa.Table
    ) -> pa.Table:
        """Every connection as a row of schemas.FLOWS; ids: their keys (see flow_ids); sessions:
        see sessions_of."""
        first, ts, flags = self.first, self.ts, self.flags
        downlink, seq = self.by_connection("downlink"), self.by_connection("seq")
        volume = volumes(
            first,
            downlink,
            self.by_connection("ip_len"),
            flags,
            seq,
            self.by_connection("payload_len"),
        )
        scale = np.where(self.has("window_scale"), self.by_connection("window_scale"), np.int16(-1))
        option = options(
            first,
            downlink,
            flags,
            self.by_connection("window"),
            scale,
            self.has("sack_permitted"),
            self.has("ts_val"),
        )
        background = setup.background(
            handshake, first, ts, self.user, self.packets.user_first, self.packets.columns["ts"]
        )
        rtt_access, rtt_internet = setup.round_trip_times(handshake, background)
        transfer = throughputs(
            first,
            ts,
            downlink,
            self.by_connection("ip_len"),
            flags,
            self.by_connection("payload_len"),
            self.number,
            self.up_number,
            told_by_log(sessions, len(self.start_ts)),
            self.order,
            self.sent_before,
        )
        timed = transfer["b_tcp"] != NOT_TOLD
        opened = (handshake["syn_count"] > 0) & (handshake["synack_count"] > 0)
        known_window = option["max_window"] != NOT_KNOWN
        columns = {
            "flow_id": pa.array(ids),
            "user": dictionary(self.user, self.packets.users),
            "user_port": pa.array(self.user_port),
            "server": dictionary(self.server, self.packets.servers),
            "server_port": pa.array(self.server_port),
            "start_ts": pa.array(self.start_ts).cast(TIMESTAMP),
            "end_ts": pa.array(self.end_ts).cast(TIMESTAMP),
            "initiator": dictionary(handshake["initiator"], setup.INITIATORS),
            "sack": pa.array(option["sack"] == YES, mask=option["sack"] == NOT_KNOWN),
            "timestamps": pa.array(np.ascontiguousarray(option["timestamps"])),
            "mss_class": dictionary(mss_class(volume["max_ip_len"]), MSS_CLASSES),
            "max_window": pa.array(option["max_window"], mask=~known_window),
            "window_class": dictionary(
                window_class(option["max_window"]), WINDOW_CLASSES, known_window
            ),
            "syn_count": pa.array(np.ascontiguousarray(handshake["syn_count"])),
            "synack_count": pa.array(np.ascontiguousarray(handshake["synack_count"])),
            "setup_class": dictionary(
                handshake["setup_class"],
                setup.SETUP_CLASSES,
                handshake["setup_class"] != setup.NOT_SEEN,
            ),
            "setup_reset": pa.array(
                np.ascontiguousarray(handshake["reset"]),
                mask=handshake["setup_class"] != setup.SERIOUS_PROBLEM,
            ),
            "setup_delay": measured(setup.setup_delay(handshake)),
            "setup_background": pa.array(background, mask=handshake["syn_count"] == 0),
            "rtt_access": measured(rtt_access),
            "rtt_internet": measured(rtt_internet),
            "request_response": pa.array(
                np.ascontiguousarray(transfer["request_response"]), mask=~opened
            ),
            "single": pa.array(np.ascontiguousarray(transfer["single"])),
            "b_tcp": pa.array(transfer["b_tcp"], mask=~timed),
            "b_other": pa.array(transfer["b_other"], mask=~timed),
            "throughput": measured(transfer["throughput"]),
            "goodput": measured(transfer["goodput"]),
            "user_throughput": measured(transfer["user_throughput"]),
        }
        columns |= losses.of_flows()
        for name in volume.dtype.names:
            columns[name] = pa.array(np.ascontiguousarray(volume[name]))
        return table_of(FLOWS, columns)


def _hashes(prefix: str, texts: list[str]) -> np.ndarray:
    hashes = [xxhash.xxh3_64_intdigest((prefix + text).encode()) for text in texts]
    return np.array(hashes, np.uint64)
