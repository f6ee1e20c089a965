"""losses: downlink data packets lost, on the access side and before it."""

import numpy as np
import pyarrow as pa

from schemas import LOSSES, TIMESTAMP
from spark_jobs.estimators.loss import found, verdict
from spark_jobs.tables.rows import dictionary, measured, table_of
from spark_jobs.tables.user_partition import UserPartition

SIDES = ("access", "internet")


def rows(partition: UserPartition) -> pa.Table:
    """The rows of schemas.LOSSES, the access side's first."""
    return pa.concat_tables([_access(partition), _internet(partition)]).unify_dictionaries()


def _access(partition: UserPartition) -> pa.Table:
    packets, segments, access = partition.packets, partition.segments, partition.access_losses
    at = np.flatnonzero(access.probability > 0)
    told = partition.connections.starts_in_window & partition.losses_known & ~partition.split
    at = at[told[partition.connection_of(at)]]
    place = segments.place[at]
    return table_of(
        LOSSES,
        {
            "flow_id": pa.array(partition.flow_ids[partition.connection_of(at)]),
            "side": dictionary(np.zeros(len(at), np.int32), SIDES),
            "capture": dictionary(packets.capture[place], partition.names.captures),
            "frame": pa.array(packets.frame[place]),
            "ts": pa.array(segments.ts[at]).cast(TIMESTAMP),
            "seq": pa.array(segments.seq[at]),
            "payload_len": pa.array(segments.payload_len[at].astype(np.int64)),
            "probability": measured(access.probability[at].astype(float)),
            "evidence": dictionary(access.evidence[at], verdict.EVIDENCE),
        },
    )


def _internet(partition: UserPartition) -> pa.Table:
    losses = partition.internet_losses.losses
    told = partition.connections.starts_in_window & partition.losses_known
    lost, low, size = _packets_of(losses[told[losses["connection"]]])
    return table_of(
        LOSSES,
        {
            "flow_id": pa.array(partition.flow_ids[lost["connection"]]),
            "side": dictionary(np.ones(len(lost), np.int32), SIDES),
            "capture": pa.nulls(len(lost), pa.dictionary(pa.int32(), pa.string())),
            "frame": pa.nulls(len(lost), pa.int64()),
            "ts": pa.array(np.ascontiguousarray(lost["seen"])).cast(TIMESTAMP),
            "seq": pa.array(low.astype(np.uint32)),
            "payload_len": pa.array(size),
            "probability": pa.array(np.ascontiguousarray(lost["probability"])),
            "evidence": dictionary(lost["evidence"], found.EVIDENCE),
        },
    )


def _packets_of(lost: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """LOSS[L] cut into as many equal parts as they had packets: (loss, low, size) of each part."""
    packets = lost["packets"]
    which = np.repeat(np.arange(len(lost)), packets)
    part = np.arange(len(which)) - np.repeat(np.cumsum(packets) - packets, packets)
    begin, end = (lost["length"][which] * (part + k) // packets[which] for k in (0, 1))
    return lost[which], lost["low"][which] + begin, end - begin
