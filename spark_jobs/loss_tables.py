"""What the loss estimator says of a bucket: losses, retransmissions, columns of flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from schemas import LOSSES, RETRANSMISSIONS, TIMESTAMP
from spark_jobs.estimators import internet_loss, loss
from spark_jobs.estimators.connections import IDLE_TIMEOUT_US
from spark_jobs.estimators.path import paths
from spark_jobs.estimators.sequence import downlink_bytes_before
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
        user = bucket.of_connection("user")
        before = downlink_bytes_before(columns["downlink"], columns["ip_len"])
        connection, at, packet, _, joined = clean
        path = paths(
            len(packets.users), user, mine, connection, at, packet, joined, columns["ts"],
            before[packet + 1],
        )  # fmt: skip
        path = path[user]
        until = loss.observed_until(
            bucket.end_ts, user, packets.user_first, columns["ts"], IDLE_TIMEOUT_US
        )
        sack = self._sack()
        self.probability, self.evidence, self.original = loss.access_losses(
            bucket.first, user, bucket.ts, by("downlink"), bucket.flags, by("payload_len"),
            by("window"), bucket.number, before[bucket.order + 1], bucket.has("ts_val"),
            by("ts_val"), by("ts_ecr"), by("sack_at"), by("sack_count"), packets.sack_edges,
            sack, path, until,
        )  # fmt: skip
        self.internet, self.acked_unseen = internet_loss.internet_losses(
            bucket.first, bucket.ts, by("downlink"), bucket.flags, by("payload_len"),
            by("window"), bucket.number, bucket.has("ts_val"), by("ts_val"), by("ts_ecr"),
            by("sack_at"), by("sack_count"), packets.sack_edges, sack, path["base"],
            _internet_us(handshake),
        )  # fmt: skip
        self.internet = self.internet[~self._may_be_dropped(user, mine)]

    def _may_be_dropped(self, user: np.ndarray, mine: np.ndarray) -> np.ndarray:
        """bool[losses before Gi]: holes still open, of users of whose data the capture dropped
        some."""
        dropped = np.bincount(user[mine], self.acked_unseen[mine], len(self.bucket.packets.users))
        return (self.internet["filler"] < 0) & (dropped[user[self.internet["connection"]]] > 0)

    def _sack(self) -> np.ndarray:
        """bool[connections]: SACK permitted in both directions, or used."""
        bucket, of = self.bucket, self.bucket.connection_of
        count = len(bucket.start_ts)
        permitted, downlink = bucket.has("sack_permitted"), bucket.by_connection("downlink")
        both = [
            np.bincount(of[permitted & way], minlength=count) > 0 for way in (downlink, ~downlink)
        ]
        used = np.bincount(of[bucket.by_connection("sack_count") > 0], minlength=count) > 0
        return (both[0] & both[1]) | used

    def of_flows(self) -> dict[str, pa.Array]:
        """The columns of flows; null where the mobile's ACKs were not seen."""
        bucket, of = self.bucket, self.bucket.connection_of
        count = len(bucket.start_ts)
        data = bucket.by_connection("downlink") & (bucket.by_connection("payload_len") > 0)
        known = ~np.isnan(self.probability)
        measurable = np.bincount(of[data & ~known & (bucket.number >= 0)], minlength=count) == 0
        expected = np.bincount(of[known], self.probability[known].astype(float), count)
        access = np.bincount(of[known & (self.probability > 0.5)], minlength=count)
        lost = self.internet
        internet = np.bincount(lost["connection"], lost["packets"], count).astype(np.int64)
        side = np.select(
            [access + internet == 0, access > internet, internet > access], [0, 1, 2], 3
        )
        has_data = np.bincount(of[data], minlength=count) > 0
        unknown = ~measurable
        return {
            "lost_access": pa.array(access.astype(np.int64), mask=unknown),
            "lost_access_expected": pa.array(expected, mask=unknown),
            "lost_internet": pa.array(internet, mask=unknown),
            "bottleneck": dictionary(side, BOTTLENECKS, measurable & has_data),
            "acked_unseen_bytes": pa.array(self.acked_unseen),
        }

    def table(self, ids: np.ndarray, mine: np.ndarray) -> pa.Table:
        """Rows of schemas.LOSSES of the connections that are mine."""
        bucket = self.bucket
        at = np.flatnonzero((self.probability > 0) & mine[bucket.connection_of])
        lost, low, size = _packets_of(self.internet[mine[self.internet["connection"]]])
        flow = np.concatenate([ids[bucket.connection_of[at]], ids[lost["connection"]]])
        seen = np.arange(len(flow)) < len(at)
        evidence = np.concatenate([self.evidence[at], len(loss.EVIDENCE) + lost["evidence"]])
        by, nothing = bucket.by_connection, np.zeros(len(lost), np.int64)
        return table_of(
            LOSSES,
            {
                "flow_id": pa.array(flow),
                "side": dictionary((~seen).astype(np.int32), SIDES),
                "capture": dictionary(
                    np.concatenate([by("capture")[at], nothing]), bucket.packets.captures, seen
                ),
                "frame": pa.array(
                    np.concatenate([by("frame")[at].astype(np.int64), nothing]), mask=~seen
                ),
                "ts": pa.array(np.concatenate([bucket.ts[at], lost["seen"]])).cast(TIMESTAMP),
                "seq": pa.array(np.concatenate([by("seq")[at], low.astype(np.uint32)])),
                "payload_len": pa.array(
                    np.concatenate([by("payload_len")[at].astype(np.int64), size])
                ),
                "probability": measured(
                    np.concatenate([self.probability[at].astype(float), np.ones(len(lost))])
                ),
                "evidence": dictionary(evidence, EVIDENCE),
            },
        )

    def retransmissions(self, ids: np.ndarray, mine: np.ndarray) -> pa.Table:
        """Rows of schemas.RETRANSMISSIONS of the connections that are mine."""
        bucket, by = self.bucket, self.bucket.by_connection
        again = (self.original >= 0) & (by("payload_len") > 0)
        filler = self.internet["filler"]
        again[filler[filler >= 0]] = True
        at = np.flatnonzero(again & mine[bucket.connection_of])
        original = self.original[at]
        seen = original >= 0
        lost = self.probability[original]
        decided = ~np.isnan(lost) & (self.evidence[original] != loss.UNDECIDED)
        return table_of(
            RETRANSMISSIONS,
            {
                "flow_id": pa.array(ids[bucket.connection_of[at]]),
                "capture": dictionary(by("capture")[at], bucket.packets.captures),
                "frame": pa.array(by("frame")[at].astype(np.int64)),
                "original_frame": pa.array(by("frame")[original].astype(np.int64), mask=~seen),
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
