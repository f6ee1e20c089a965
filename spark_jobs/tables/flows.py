"""flows: the connections."""

import numpy as np
import pyarrow as pa

from schemas import FLOWS, TIMESTAMP
from spark_jobs.estimators import resets, setup
from spark_jobs.estimators.coverage import BOTH, DIRECTIONS, acked_unseen_bytes
from spark_jobs.estimators.delay_spikes import delay_spikes
from spark_jobs.estimators.loss.expected import expected_losses
from spark_jobs.estimators.loss.verdict import BOTTLENECKS, bottleneck
from spark_jobs.estimators.options import (
    MSS_CLASSES,
    NOT_KNOWN,
    WINDOW_CLASSES,
    YES,
    mss_class,
    options,
    window_class,
)
from spark_jobs.estimators.pages import max_parallel
from spark_jobs.estimators.records import KEEPALIVE, WINDOW_PROBE
from spark_jobs.estimators.round_trip import min_access_rtts
from spark_jobs.estimators.sender import limits, samples
from spark_jobs.estimators.throughput import (
    UNKNOWN,
    Requests,
    arrived_bytes_before,
    handshake_turns,
    throughputs,
)
from spark_jobs.tables.log_matching import told_by_log
from spark_jobs.tables.rows import column, dictionary, measured, table_of
from spark_jobs.tables.user_partition import UserPartition

Columns = dict[str, pa.Array]

QUANTILES = {"least": "min", "median": "median", "p95": "p95", "longest": "max"}
"""The quantiles' names in the table."""
RATES = ("throughput", "goodput", "user_throughput")
RATES_RECEIVED = ("throughput_received", "user_throughput_received")
"""Of a transfer: those of what was sent or acknowledged, and those that need what was lost."""


def rows(partition: UserPartition) -> pa.Table:
    """The rows of schemas.FLOWS."""
    columns = (
        _identity(partition)
        | _volumes_and_options(partition)
        | _probes(partition)
        | _setup(partition)
        | _transfer(partition)
        | _losses(partition)
        | _sending(partition)
    )
    return table_of(FLOWS, columns).filter(pa.array(partition.connections.starts_in_window))


def _identity(partition: UserPartition) -> Columns:
    at = partition.connections
    return {
        "flow_id": pa.array(partition.flow_ids),
        "user": dictionary(at.user, partition.names.users),
        "user_port": pa.array(at.user_port),
        "server": dictionary(at.server, partition.names.servers),
        "server_port": pa.array(at.server_port),
        "start_ts": pa.array(at.start_ts).cast(TIMESTAMP),
        "end_ts": pa.array(at.end_ts).cast(TIMESTAMP),
    }


def _volumes_and_options(partition: UserPartition) -> Columns:
    volume, seen = partition.volumes, partition.coverage["seen"]
    option = options(
        partition.segments,
        partition.connections,
        partition.packets.options_cut[partition.segments.place],
    )
    known_window = option["max_window"] != NOT_KNOWN
    return {name: column(volume, name) for name in volume.dtype.names or ()} | {
        "directions_seen": dictionary(seen, DIRECTIONS),
        "merged_segments": pa.array(partition.merged),
        "out_of_window_up": pa.array(partition.outside[0]),
        "out_of_window_down": pa.array(partition.outside[1]),
        "sack": pa.array(option["sack"] == YES, mask=option["sack"] == NOT_KNOWN),
        "timestamps": pa.array(
            option["timestamps"] == YES,
            mask=(option["timestamps"] == NOT_KNOWN) | (seen != BOTH),
        ),
        "mss_class": dictionary(mss_class(volume["max_ip_len"]), MSS_CLASSES),
        "max_window": column(option, "max_window", known_window),
        "window_class": dictionary(
            window_class(option["max_window"]), WINDOW_CLASSES, known_window
        ),
    }


def _probes(partition: UserPartition) -> Columns:
    probe, downlink = partition.segments.probe, partition.segments.downlink
    connections = len(partition.flow_ids)

    def count(kind: np.uint8, is_downlink: bool) -> pa.Array:
        at = np.flatnonzero((probe == kind) & (downlink == is_downlink))
        return pa.array(np.bincount(partition.connection_of(at), minlength=connections))

    return {
        f"{name}_{way}": count(kind, way == "down")
        for name, kind in (("window_probes", WINDOW_PROBE), ("keepalives", KEEPALIVE))
        for way in ("up", "down")
    }


def _setup(partition: UserPartition) -> Columns:
    handshake = partition.handshakes
    background, (rtt_access, rtt_internet) = partition.background, partition.handshake_rtts
    kind = handshake["setup_class"]
    at = partition.connections
    repeat = setup.setup_retransmissions(
        handshake, partition.segments, at, partition.base_us[at.user]
    )
    resetter = resets.reset_by(partition.segments, at)
    return {
        "initiator": dictionary(handshake["initiator"], setup.INITIATORS),
        "syn_count": column(handshake, "syn_count"),
        "synack_count": column(handshake, "synack_count"),
        "setup_class": dictionary(kind, setup.SETUP_CLASSES, kind != setup.NOT_SEEN),
        "setup_retransmission": dictionary(
            repeat,
            setup.RETRANSMISSION_CAUSES,
            (repeat != setup.UNDECIDED) & ~partition.setup_stepped,
        ),
        "reset_by": dictionary(resetter, resets.RESETTERS, resetter != resets.UNKNOWN),
        "setup_reset": column(handshake, "reset", kind == setup.SERIOUS_PROBLEM),
        "setup_delay": measured(
            np.where(partition.setup_stepped, np.nan, setup.setup_delay(handshake))
        ),
        "setup_background": pa.array(
            background,
            mask=(handshake["syn_count"] == 0)
            | (partition.coverage["seen"] != BOTH)
            | partition.setup_stepped,
        ),
        "rtt_access": measured(rtt_access),
        "rtt_internet": measured(rtt_internet),
    }


def _transfer(partition: UserPartition) -> Columns:
    handshake = partition.handshakes
    told = told_by_log(partition.sessions, len(handshake))
    requests = Requests(told, handshake_turns(partition.connections.server_port))
    arrived = arrived_bytes_before(
        partition.segments, partition.packets, partition.access_losses.probability
    )
    transfer = throughputs(
        partition.segments, partition.connections, partition.packets, arrived, requests
    )
    clean = min_access_rtts(partition.clean_acks, partition.connections, partition.packets)
    replayed = partition.sending.transfers["rtt_samples"][:, samples.ACCESS]["least"]
    round_trip = np.fmin(clean, np.where(partition.replayed, replayed, np.nan))
    pace = np.ascontiguousarray(partition.paths["pace"])
    spikes = delay_spikes(partition.clean_acks, partition.connections, partition.packets, pace)
    both, complete = (
        partition.coverage["seen"] == BOTH,
        partition.complete & ~partition.split,
    )
    round_trip[partition.split | partition.stepped] = np.nan
    timed = complete & (transfer["b_tcp"] != UNKNOWN)
    parallel = max_parallel(partition.activities, len(handshake))
    opened = (handshake["syn_count"] > 0) & (handshake["synack_count"] > 0)
    return {
        "request_response": column(transfer, "request_response", opened),
        "single": column(transfer, "single", both),
        "rtt_access_min": measured(round_trip),
        "delay_spikes": pa.array(
            spikes, mask=np.isnan(clean) | partition.split | partition.stepped
        ),
        "b_tcp": column(transfer, "b_tcp", timed),
        "b_other": column(transfer, "b_other", timed),
        "parallel": pa.array(parallel, mask=(parallel == 0) | ~both | partition.stepped),
    } | {
        name: measured(np.where(known, transfer[name], np.nan))
        for rates, known in ((RATES, complete), (RATES_RECEIVED, complete & ~partition.options_cut))
        for name in rates
    }


def _losses(partition: UserPartition) -> Columns:
    """Null where the mobile's ACKs were not seen, or some of what they answer."""
    lost = partition.internet_losses.losses
    total = partition.access_totals
    likely = lost["packets"] * (lost["probability"] > 0.5)
    internet = np.bincount(lost["connection"], likely, len(total.lost)).astype(np.int64)
    expected = expected_losses(partition.internet_losses, partition.timed)
    unknown = ~partition.losses_known
    not_access = unknown | partition.split
    return {
        "split": pa.array(partition.split),
        "lost_access": pa.array(total.lost, mask=not_access),
        "lost_access_expected": pa.array(total.expected, mask=not_access),
        "lost_internet": pa.array(internet, mask=unknown),
        "lost_internet_expected": pa.array(expected, mask=unknown),
        "bottleneck": dictionary(
            bottleneck(total.lost, internet), BOTTLENECKS, ~not_access & total.has_data
        ),
        "acked_unseen_bytes": pa.array(
            acked_unseen_bytes(
                partition.segments, partition.connections, partition.coverage, partition.volumes
            )
        ),
    }


def _sending(partition: UserPartition) -> Columns:
    """What the server did, and what held it back, as far as it is known."""
    done = partition.sending.transfers
    known = partition.replayed
    sides = {"access": known & ~partition.split, "internet": known}
    limited, trips = done["limited"], done["rtt_samples"]
    counts = ("retransmissions", "rto_expiries", "busy", "rwnd_limited")
    return (
        {name: column(done, name, known) for name in counts}
        | {
            f"limited_{limit}": pa.array(limited[:, k], mask=~sides["access"])
            for k, limit in enumerate(limits.LIMITS)
        }
        | {
            "limited_by": dictionary(
                limited.argmax(axis=1), limits.LIMITS, sides["access"] & (limited.sum(axis=1) > 0)
            )
        }
        | {
            f"rtt_{side}_{name}": measured(np.where(sides[side], trips[field][:, k], np.nan))
            for k, side in enumerate(samples.SIDES)
            for field, name in QUANTILES.items()
            if f"rtt_{side}_{name}" != "rtt_access_min"
        }
    )
