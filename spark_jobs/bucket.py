"""One bucket's packets to its tables: the estimators called one after the other."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import xxhash

from schemas import CHANNEL_RATES, FLOWS, TIMESTAMP, Table
from spark_jobs.arrays import group_offsets, group_order
from spark_jobs.estimators import setup
from spark_jobs.estimators.channel_rate import channel_rates
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
from spark_jobs.estimators.sequence import stream_numbers
from spark_jobs.estimators.throughput import NOT_TOLD, throughputs
from spark_jobs.estimators.volumes import volumes
from spark_jobs.packets import Packets


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
            columns["server"],
            columns["user_port"],
            columns["server_port"],
            columns["tcp_flags"],
            columns["seq"],
            columns["payload_len"],
        )
        self.first = group_offsets(connection, count)
        self._order = group_order(connection, self.first)
        self.ts, self.flags = self._by_connection("ts"), self._by_connection("tcp_flags")
        self.start_ts = self.ts[self.first[:-1]]
        self.end_ts = self.ts[self.first[1:] - 1]
        self.number, self.up_number = stream_numbers(
            self.first,
            self._by_connection("downlink"),
            self.flags,
            self._by_connection("seq"),
            self._by_connection("ack"),
        )

    def _by_connection(self, name: str) -> np.ndarray:
        return self.packets.columns[name][self._order]

    def _has(self, name: str) -> np.ndarray:
        return self.packets.valid[name][self._order]

    def _of_connection(self, name: str) -> np.ndarray:
        """A column's value in each connection's first packet."""
        return self.packets.columns[name][self._order[self.first[:-1]]]

    def may_go_on(self, mine: np.ndarray, until: int) -> bool:
        """Whether packets at `until` or later can belong to one of these connections."""
        return bool((mine & (self.end_ts >= until - IDLE_TIMEOUT_US)).any())

    def tables(self, network: str, mine: np.ndarray, flight_size_bytes: int) -> dict[str, pa.Table]:
        """What the estimators say of some connections (mine: bool[connections]), a table each of
        schemas.FLOW_TABLES."""
        ids = self.flow_ids(network)
        return {
            FLOWS.name: self.flows(ids).filter(pa.array(mine)),
            CHANNEL_RATES.name: self.channel_rates(ids, mine, flight_size_bytes),
        }

    def flow_ids(self, network: str) -> np.ndarray:
        """int64[connections]: each connection's stable key."""
        return flow_ids(
            _hashes(f"{network}/", self.packets.users)[self._of_connection("user")],
            _hashes("", self.packets.servers)[self._of_connection("server")],
            self._of_connection("user_port"),
            self._of_connection("server_port"),
            self.start_ts,
            self._of_connection("seq"),
        )

    def channel_rates(self, ids: np.ndarray, mine: np.ndarray, flight_size_bytes: int) -> pa.Table:
        """Every period as a row of schemas.CHANNEL_RATES."""
        user, columns = self._of_connection("user"), self.packets.columns
        connection, start, end, ip_bytes, rate = channel_rates(
            self.first,
            self.ts,
            self._by_connection("downlink"),
            self.flags,
            self._by_connection("window"),
            self._by_connection("payload_len"),
            self.number,
            user,
            mine,
            self._order,
            self.packets.user_first,
            columns["ts"],
            columns["downlink"],
            columns["ip_len"],
            flight_size_bytes,
        )
        return _table(
            CHANNEL_RATES,
            {
                "flow_id": pa.array(ids[connection]),
                "user": _dictionary(user[connection], self.packets.users),
                "start_ts": pa.array(start).cast(TIMESTAMP),
                "end_ts": pa.array(end).cast(TIMESTAMP),
                "ip_bytes": pa.array(ip_bytes),
                "rate": pa.array(rate),
            },
        )

    def flows(self, ids: np.ndarray) -> pa.Table:
        """Every connection as a row of schemas.FLOWS; ids: their keys (see flow_ids)."""
        first, ts, flags = self.first, self.ts, self.flags
        downlink, seq = self._by_connection("downlink"), self._by_connection("seq")
        user, server = self._of_connection("user"), self._of_connection("server")
        volume = volumes(
            first,
            downlink,
            self._by_connection("ip_len"),
            flags,
            seq,
            self._by_connection("payload_len"),
        )
        scale = np.where(
            self._has("window_scale"), self._by_connection("window_scale"), np.int16(-1)
        )
        option = options(
            first,
            downlink,
            flags,
            self._by_connection("window"),
            scale,
            self._has("sack_permitted"),
            self._has("ts_val"),
        )
        handshake = setup.handshakes(first, ts, downlink, flags, seq, self._by_connection("ack"))
        background = setup.background(
            handshake, first, ts, user, self.packets.user_first, self.packets.columns["ts"]
        )
        rtt_access, rtt_internet = setup.round_trip_times(handshake, background)
        transfer = throughputs(
            first,
            ts,
            downlink,
            self._by_connection("ip_len"),
            flags,
            self._by_connection("payload_len"),
            self.number,
            self.up_number,
            self._order,
            self.packets.columns["downlink"],
            self.packets.columns["ip_len"],
        )
        timed = transfer["b_tcp"] != NOT_TOLD
        opened = (handshake["syn_count"] > 0) & (handshake["synack_count"] > 0)
        known_window = option["max_window"] != NOT_KNOWN
        columns = {
            "flow_id": pa.array(ids),
            "user": _dictionary(user, self.packets.users),
            "user_port": pa.array(self._of_connection("user_port")),
            "server": _dictionary(server, self.packets.servers),
            "server_port": pa.array(self._of_connection("server_port")),
            "start_ts": pa.array(self.start_ts).cast(TIMESTAMP),
            "end_ts": pa.array(self.end_ts).cast(TIMESTAMP),
            "initiator": _dictionary(handshake["initiator"], setup.INITIATORS),
            "sack": pa.array(option["sack"] == YES, mask=option["sack"] == NOT_KNOWN),
            "timestamps": pa.array(np.ascontiguousarray(option["timestamps"])),
            "mss_class": _dictionary(mss_class(volume["max_ip_len"]), MSS_CLASSES),
            "max_window": pa.array(option["max_window"], mask=~known_window),
            "window_class": _dictionary(
                window_class(option["max_window"]), WINDOW_CLASSES, known_window
            ),
            "syn_count": pa.array(np.ascontiguousarray(handshake["syn_count"])),
            "synack_count": pa.array(np.ascontiguousarray(handshake["synack_count"])),
            "setup_class": _dictionary(
                handshake["setup_class"],
                setup.SETUP_CLASSES,
                handshake["setup_class"] != setup.NOT_SEEN,
            ),
            "setup_reset": pa.array(
                np.ascontiguousarray(handshake["reset"]),
                mask=handshake["setup_class"] != setup.SERIOUS_PROBLEM,
            ),
            "setup_delay": _measured(setup.setup_delay(handshake)),
            "setup_background": pa.array(background, mask=handshake["syn_count"] == 0),
            "rtt_access": _measured(rtt_access),
            "rtt_internet": _measured(rtt_internet),
            "request_response": pa.array(
                np.ascontiguousarray(transfer["request_response"]), mask=~opened
            ),
            "single": pa.array(np.ascontiguousarray(transfer["single"])),
            "b_tcp": pa.array(transfer["b_tcp"], mask=~timed),
            "b_other": pa.array(transfer["b_other"], mask=~timed),
            "throughput": _measured(transfer["throughput"]),
            "goodput": _measured(transfer["goodput"]),
            "user_throughput": _measured(transfer["user_throughput"]),
        }
        for name in volume.dtype.names:
            columns[name] = pa.array(np.ascontiguousarray(volume[name]))
        return _table(FLOWS, columns)


def _table(table: Table, columns: dict[str, pa.Array]) -> pa.Table:
    schema = table.arrow_dictionary
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _hashes(prefix: str, texts: list[str]) -> np.ndarray:
    hashes = [xxhash.xxh3_64_intdigest((prefix + text).encode()) for text in texts]
    return np.array(hashes, np.uint64)


def _dictionary(
    codes: np.ndarray, texts: Sequence[str], valid: np.ndarray | None = None
) -> pa.Array:
    mask = None if valid is None else ~valid
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=mask), pa.array(texts, pa.string())
    )


def _measured(values: np.ndarray) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))
