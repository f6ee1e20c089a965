"""losses: downlink data packets lost on the access side and on the Internet side."""

import numpy as np
import pyarrow as pa

from schemas import LOSSES
from schemas.arrow_types import ARROW_TIMESTAMP
from spark_jobs.estimators.loss import evidence, verdict
from spark_jobs.tables.rows import dictionary, measured, table_of
from spark_jobs.tables.user_partition import UserPartition

SIDES = ("access", "internet")


def rows(partition: UserPartition) -> pa.Table:
    """Return the rows of schemas.LOSSES, those of the access side first."""
    return pa.concat_tables([_access(partition), _internet(partition)]).unify_dictionaries()


def _access(partition: UserPartition) -> pa.Table:
    packets, segments, access = partition.packets, partition.segments, partition.access_losses
    lost = np.flatnonzero(access.probability > 0)
    known = partition.connections.starts_in_window & partition.losses_known & ~partition.split
    lost = lost[known[partition.connection_of(lost)]]
    place = segments.place[lost]
    return table_of(
        LOSSES,
        {
            "flow_id": pa.array(partition.flow_ids[partition.connection_of(lost)]),
            "side": dictionary(np.zeros(len(lost), np.int32), SIDES),
            "capture": dictionary(packets.capture[place], partition.names.captures),
            "frame": pa.array(packets.frame[place]),
            "ts": pa.array(segments.ts[lost]).cast(ARROW_TIMESTAMP),
            "seq": pa.array(segments.seq[lost]),
            "payload_len": pa.array(segments.payload_len[lost].astype(np.int64)),
            "probability": measured(access.probability[lost].astype(float)),
            "evidence": dictionary(access.evidence[lost], verdict.EVIDENCE),
        },
    )


def _internet(partition: UserPartition) -> pa.Table:
    losses = partition.internet_losses.losses
    known = partition.connections.starts_in_window & partition.losses_known
    lost, low, size = _packets_of(losses[known[losses["connection"]]])
    return table_of(
        LOSSES,
        {
            "flow_id": pa.array(partition.flow_ids[lost["connection"]]),
            "side": dictionary(np.ones(len(lost), np.int32), SIDES),
            "capture": pa.nulls(len(lost), pa.dictionary(pa.int32(), pa.string())),
            "frame": pa.nulls(len(lost), pa.int64()),
            "ts": pa.array(np.ascontiguousarray(lost["missed_at"])).cast(ARROW_TIMESTAMP),
            "seq": pa.array(low.astype(np.uint32)),
            "payload_len": pa.array(size),
            "probability": pa.array(np.ascontiguousarray(lost["probability"])),
            "evidence": dictionary(lost["evidence"], evidence.EVIDENCE),
        },
    )


def _packets_of(lost: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (loss, low, size) of each lost packet: LOSS[L] cut into equal parts, one a packet.

    low, size: int64[P], the packet's first sequence position and its payload (B).
    """
    packets = lost["packets"]
    loss = np.repeat(np.arange(len(lost)), packets)
    part = np.arange(len(loss)) - np.repeat(np.cumsum(packets) - packets, packets)
    begin, end = (lost["length"][loss] * (part + k) // packets[loss] for k in (0, 1))
    return lost[loss], lost["low"][loss] + begin, end - begin
