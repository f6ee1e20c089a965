"""What the loss estimator says of a bucket: losses, retransmissions, columns of flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from schemas import LOSSES, RETRANSMISSIONS, TIMESTAMP
from spark_jobs.estimators import internet_loss, loss
from spark_jobs.estimators.connections import IDLE_TIMEOUT_US
from spark_jobs.estimators.options import uses_sack
from spark_jobs.estimators.path import paths
from spark_jobs.estimators.setup import MOBILE, NO_TIME
from spark_jobs.rows import dictionary, measured, table_of

if TYPE_CHECKING:
    from spark_jobs.bucket import Bucket

SIDES = ("access", "internet")
BOTTLENECKS = ("none", "access", "internet", "equal")
EVIDENCE = (*loss.EVIDENCE, *internet_loss.EVIDENCE)


class Losses:
    """A bucket's losses; `mine`: the connections to follow (what is known of a user's path comes
    from these alone, so that it does not depend on how much of the next day was read)."""

    def __init__(self, bucket: Bucket, handshake: np.ndarray, mine: np.ndarray, clean: tuple):
        self.bucket = bucket
        packets, by = bucket.packets, bucket.by_connection
        columns = packets.columns
        sent = bucket.sent_before[1:]
        connection, at, packet, _, joined = clean
        path = paths(
            len(packets.users), bucket.user, mine, connection, at, packet, joined, columns["ts"],
            sent[packet],
        )  # fmt: skip
        path = path[bucket.user]
        until = loss.observed_until(
            bucket.end_ts, bucket.user, packets.user_first, columns["ts"], IDLE_TIMEOUT_US
        )
        sack = uses_sack(
            bucket.first, by("downlink"), bucket.has("sack_permitted"), by("sack_count")
        )
        answered = np.zeros(len(columns["ts"]), np.int64)
        answered[packet] = at
        self.probability, self.evidence, self.original = loss.access_losses(
            bucket.first, bucket.user, bucket.ts, by("downlink"), bucket.flags, by("payload_len"),
            by("window"), bucket.number, bucket.order, bucket.has("ts_val"),
            by("ts_val"), by("ts_ecr"), by("sack_at"), by("sack_count"), packets.sack_edges,
            sack, path, until, packets.user_first, columns["ts"], bucket.sent_before, answered,
        )  # fmt: skip
        self.internet, self.acked_unseen = internet_loss.internet_losses(
            bucket.first, bucket.ts, by("downlink"), bucket.flags, by("payload_len"),
            by("window"), bucket.number, bucket.has("ts_val"), by("ts_val"), by("ts_ecr"),
            by("sack_at"), by("sack_count"), packets.sack_edges, sack, path["base"],
            _internet_us(handshake),
        )  # fmt: skip
        self.internet = self.internet[~self._may_be_dropped(mine)]

    def _may_be_dropped(self, mine: np.ndarray) -> np.ndarray:
        """bool[losses before Gi]: holes still open, of users of whose data the capture dropped
        some."""
        user = self.bucket.user
        dropped = np.bincount(user[mine], self.acked_unseen[mine], len(self.bucket.packets.users))
        return (self.internet["filler"] < 0) & (dropped[user[self.internet["connection"]]] > 0)

    def of_flows(self) -> dict[str, pa.Array]:
        """The columns of flows; null where the mobile's ACKs were not seen."""
        bucket, by = self.bucket, self.bucket.by_connection
        has_data, measurable, access, expected = loss.access_totals(
            bucket.first, by("downlink"), by("payload_len"), bucket.number, self.probability
        )
        lost = self.internet
        internet = np.bincount(lost["connection"], lost["packets"], len(access)).astype(np.int64)
        side = np.select(
            [access + internet == 0, access > internet, internet > access], [0, 1, 2], 3
        )
        unknown = ~measurable
        return {
            "lost_access": pa.array(access, mask=unknown),
            "lost_access_expected": pa.array(expected, mask=unknown),
            "lost_internet": pa.array(internet, mask=unknown),
            "bottleneck": dictionary(side, BOTTLENECKS, measurable & has_data),
            "acked_unseen_bytes": pa.array(self.acked_unseen),
        }

    def table(self, ids: np.ndarray, mine: np.ndarray) -> pa.Table:
        """Rows of schemas.LOSSES of the connections that are mine."""
        bucket = self.bucket
        at = np.flatnonzero(self.probability > 0)
        connection = bucket.connections_at(at)
        at, connection = at[mine[connection]], connection[mine[connection]]
        lost, low, size = _packets_of(self.internet[mine[self.internet["connection"]]])
        flow = np.concatenate([ids[connection], ids[lost["connection"]]])
        seen = np.arange(len(flow)) < len(at)
        evidence = np.concatenate([self.evidence[at], len(loss.EVIDENCE) + lost["evidence"]])
        nothing = np.zeros(len(lost), np.int64)
        return table_of(
            LOSSES,
            {
                "flow_id": pa.array(flow),
                "side": dictionary((~seen).astype(np.int32), SIDES),
                "capture": dictionary(
                    np.concatenate([bucket.at("capture", at), nothing]),
                    bucket.packets.captures,
                    seen,
                ),
                "frame": pa.array(np.concatenate([bucket.at("frame", at), nothing]), mask=~seen),
                "ts": pa.array(np.concatenate([bucket.ts[at], lost["seen"]])).cast(TIMESTAMP),
                "seq": pa.array(np.concatenate([bucket.at("seq", at), low.astype(np.uint32)])),
                "payload_len": pa.array(
                    np.concatenate([bucket.at("payload_len", at).astype(np.int64), size])
                ),
                "probability": measured(
                    np.concatenate([self.probability[at].astype(float), np.ones(len(lost))])
                ),
                "evidence": dictionary(evidence, EVIDENCE),
            },
        )

    def retransmissions(self, ids: np.ndarray, mine: np.ndarray) -> pa.Table:
        """Rows of schemas.RETRANSMISSIONS of the connections that are mine."""
        bucket = self.bucket
        again = (self.original >= 0) & (bucket.by_connection("payload_len") > 0)
        filler = self.internet["filler"]
        again[filler[filler >= 0]] = True
        at = np.flatnonzero(again)
        connection = bucket.connections_at(at)
        at, connection = at[mine[connection]], connection[mine[connection]]
        original = self.original[at]
        seen = original >= 0
        lost = self.probability[original]
        decided = ~np.isnan(lost) & (self.evidence[original] != loss.UNDECIDED)
        return table_of(
            RETRANSMISSIONS,
            {
                "flow_id": pa.array(ids[connection]),
                "capture": dictionary(bucket.at("capture", at), bucket.packets.captures),
                "frame": pa.array(bucket.at("frame", at)),
                "original_frame": pa.array(bucket.at("frame", original), mask=~seen),
                "ts": pa.array(bucket.ts[at]).cast(TIMESTAMP),
                "needed": pa.array((lost > 0.5) | ~seen, mask=seen & ~decided),
            },
        )


def _internet_us(handshake: np.ndarray) -> np.ndarray:
    """float64[connections]: from a mobile's first SYN to the first SYN ACK (µs), or 0. With a SYN
    or SYN ACK lost it is too long, but what waits for a round trip waits no shorter for it."""
    known = (handshake["initiator"] == MOBILE) & (handshake["synack_ts"] != NO_TIME)
    return np.where(known, (handshake["synack_ts"] - handshake["syn_ts"]).astype(float), 0.0)


def _packets_of(lost: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """LOSS[L] cut into as many equal parts as they had packets: (loss, low, size) of each part."""
    packets = lost["packets"]
    which = np.repeat(np.arange(len(lost)), packets)
    part = np.arange(len(which)) - np.repeat(np.cumsum(packets) - packets, packets)
    begin, end = (lost["length"][which] * (part + k) // packets[which] for k in (0, 1))
    return lost[which], lost["low"][which] + begin, end - begin
