"""flows: one row for each connection."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import FLOWS
from schemas.arrow_types import ARROW_TIMESTAMP
from spark_jobs.estimators import ecn, resets, setup
from spark_jobs.estimators.coverage import BOTH, DIRECTIONS, acked_unseen_bytes
from spark_jobs.estimators.delay_spikes import delay_spikes
from spark_jobs.estimators.ending import ENDINGS, endings
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
from spark_jobs.estimators.sender import limits, rtt_sampling
from spark_jobs.estimators.throughput import (
    UNKNOWN,
    Requests,
    arrived_bytes_before,
    handshake_turns,
    throughputs,
)
from spark_jobs.tables.log_matching import request_response_of_log
from spark_jobs.tables.rows import column, dictionary, measured, table_of
from spark_jobs.tables.user_partition import UserPartition

Columns = dict[str, pa.Array]

QUANTILES = ("min", "median", "p95", "max", "mean", "sd")
"""The RTT statistics, by their names in the table and in rtt_sampling.QUANTILES."""
RATES = ("throughput", "goodput", "user_throughput")
RATES_RECEIVED = ("throughput_received", "user_throughput_received")
"""Rates of a transfer: those of bytes sent or acknowledged; those that need to know the losses."""


def rows(partition: UserPartition) -> pa.Table:
    """Return the rows of schemas.FLOWS."""
    columns = (
        _identity(partition)
        | _volumes_and_options(partition)
        | _probes(partition)
        | _ecn(partition)
        | _setup(partition)
        | _ending(partition)
        | _transfer(partition)
        | _losses(partition)
        | _sending(partition)
        | _labels(partition)
    )
    return table_of(FLOWS, columns).filter(pa.array(partition.connections.starts_in_window))


def _identity(partition: UserPartition) -> Columns:
    connections = partition.connections
    return {
        "flow_id": pa.array(partition.flow_ids),
        "user": dictionary(connections.user, partition.names.users),
        "link": dictionary(connections.user, partition.names.links),
        "user_port": pa.array(connections.user_port),
        "server": dictionary(connections.server, partition.names.servers),
        "server_port": pa.array(connections.server_port),
        "start_ts": pa.array(connections.start_ts).cast(ARROW_TIMESTAMP),
        "end_ts": pa.array(connections.end_ts).cast(ARROW_TIMESTAMP),
    }


def _labels(partition: UserPartition) -> Columns:
    connections = partition.connections
    labels = partition.labels.at(connections.user, connections.start_ts)
    at_end = partition.labels.at(connections.user, connections.end_ts, ["rat"])
    return labels | {"rat_changed": pc.not_equal(labels["rat"], at_end["rat"])}


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
        "merged_segments": pa.array(partition.merged_segments),
        "out_of_window_up": pa.array(partition.out_of_window_counts[0]),
        "out_of_window_down": pa.array(partition.out_of_window_counts[1]),
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
        segments = np.flatnonzero((probe == kind) & (downlink == is_downlink))
        return pa.array(np.bincount(partition.connection_of(segments), minlength=connections))

    return {
        f"{name}_{way}": count(kind, way == "down")
        for name, kind in (("window_probes", WINDOW_PROBE), ("keepalives", KEEPALIVE))
        for way in ("up", "down")
    }


def _ecn(partition: UserPartition) -> Columns:
    """Return the columns of ECN; reports of the mobile are null if a direction was not seen."""
    found, both_seen = partition.ecn, partition.coverage["seen"] == BOTH
    classic, accurate = (
        both_seen & (found["kind"] == kind) for kind in (ecn.CLASSIC, ecn.ACCURATE)
    )
    on_access = np.maximum(found["reported"] - found["ce_down"], 0)
    return (
        {"ecn": dictionary(found["kind"], ecn.KINDS, found["kind"] != ecn.UNKNOWN)}
        | {name: column(found, name) for name in ("ect_up", "ect_down", "ce_up", "ce_down")}
        | {"marks_access": pa.array(on_access, mask=~accurate | partition.split)}
        | {
            f"ecn_episodes_{side}": column(found, f"episodes_{side}", classic & ~partition.split)
            for side in ("access", "internet")
        }
    )


def _setup(partition: UserPartition) -> Columns:
    handshake = partition.handshakes
    background, (rtt_access, rtt_internet) = partition.background, partition.handshake_rtts
    setup_class = handshake["setup_class"]
    segments, connections = partition.segments, partition.connections
    base_rtt_us = partition.base_rtt_us[connections.user]
    repeat = setup.setup_retransmissions(handshake, segments, connections, base_rtt_us)
    reset_by = resets.reset_by(segments, connections)
    return {
        "initiator": dictionary(handshake["initiator"], setup.INITIATORS),
        "syn_count": column(handshake, "syn_count"),
        "synack_count": column(handshake, "synack_count"),
        "setup_class": dictionary(setup_class, setup.SETUP_CLASSES, setup_class != setup.NOT_SEEN),
        "setup_retransmission": dictionary(
            repeat,
            setup.RETRANSMISSION_CAUSES,
            (repeat != setup.UNDECIDED) & ~partition.clock_stepped_in_setup,
        ),
        "reset_by": dictionary(reset_by, resets.RESETTERS, reset_by != resets.UNKNOWN),
        "setup_reset": column(handshake, "reset", setup_class == setup.SERIOUS_PROBLEM),
        "setup_delay": measured(
            np.where(partition.clock_stepped_in_setup, np.nan, setup.setup_delay(handshake))
        ),
        "setup_background": pa.array(
            background,
            mask=(handshake["syn_count"] == 0)
            | (partition.coverage["seen"] != BOTH)
            | partition.clock_stepped_in_setup,
        ),
        "rtt_access": measured(rtt_access),
        "rtt_internet": measured(rtt_internet),
    }


def _ending(partition: UserPartition) -> Columns:
    ending = endings(partition.segments, partition.connections)
    first_byte_us = ending["first_byte_us"]
    known = (first_byte_us >= 0) & (partition.coverage["seen"] == BOTH) & ~partition.clock_stepped
    return {
        "ended": dictionary(ending["ended"], ENDINGS),
        "first_byte_delay": pa.array(first_byte_us / 1e6, mask=~known),
    }


def _transfer(partition: UserPartition) -> Columns:
    handshake = partition.handshakes
    request_response = request_response_of_log(partition.sessions, len(handshake))
    requests = Requests(request_response, handshake_turns(partition.connections.server_port))
    arrived = arrived_bytes_before(
        partition.segments, partition.packets, partition.access_losses.probability
    )
    transfer = throughputs(
        partition.segments, partition.connections, partition.packets, arrived, requests
    )
    clean_min_rtt = min_access_rtts(partition.clean_acks, partition.connections, partition.packets)
    replayed_min_rtt = partition.sending.transfers["rtt_quantiles"][:, rtt_sampling.ACCESS]["min"]
    replayed_min_rtt = np.where(partition.sending_known, replayed_min_rtt, np.nan)
    rtt_access_min = np.fmin(clean_min_rtt, replayed_min_rtt)
    pace = np.ascontiguousarray(partition.paths["pace"])
    spikes = delay_spikes(partition.clean_acks, partition.connections, partition.packets, pace)
    both_seen = partition.coverage["seen"] == BOTH
    rates_known = partition.seen_for_losses & ~partition.split
    rtt_access_min[partition.split | partition.clock_stepped] = np.nan
    timed = rates_known & (transfer["b_tcp"] != UNKNOWN)
    parallel = max_parallel(partition.activities, len(handshake))
    opened = (handshake["syn_count"] > 0) & (handshake["synack_count"] > 0)
    return {
        "request_response": column(transfer, "request_response", opened),
        "single": column(transfer, "single", both_seen),
        "rtt_access_min": measured(rtt_access_min),
        "delay_spikes": pa.array(
            spikes, mask=np.isnan(clean_min_rtt) | partition.split | partition.clock_stepped
        ),
        "b_tcp": column(transfer, "b_tcp", timed),
        "b_other": column(transfer, "b_other", timed),
        "parallel": pa.array(parallel, mask=(parallel == 0) | ~both_seen | partition.clock_stepped),
    } | {
        name: measured(np.where(known, transfer[name], np.nan))
        for rates, known in (
            (RATES, rates_known),
            (RATES_RECEIVED, rates_known & ~partition.options_cut),
        )
        for name in rates
    }


def _losses(partition: UserPartition) -> Columns:
    """Return the columns of losses; null if too few ACKs, or of the data they answer, were seen."""
    lost = partition.internet_losses.losses
    access = partition.access_totals
    likely = lost["packets"] * (lost["probability"] > 0.5)
    lost_internet = np.bincount(lost["connection"], likely, len(access.lost)).astype(np.int64)
    expected = expected_losses(partition.internet_losses, partition.timed_connections)
    decided = np.round(access.expected - access.undecided_expected).astype(np.int64)
    unknown = ~partition.losses_known
    access_unknown = unknown | partition.split
    return {
        "split": pa.array(partition.split),
        "lost_access": pa.array(access.lost, mask=access_unknown),
        "lost_access_expected": pa.array(access.expected, mask=access_unknown),
        "lost_access_min": pa.array(decided, mask=access_unknown),
        "lost_access_max": pa.array(decided + access.undecided, mask=access_unknown),
        "lost_internet": pa.array(lost_internet, mask=unknown),
        "lost_internet_expected": pa.array(expected, mask=unknown),
        "bottleneck": dictionary(
            bottleneck(access.lost, lost_internet), BOTTLENECKS, ~access_unknown & access.has_data
        ),
        "acked_unseen_bytes": pa.array(
            acked_unseen_bytes(
                partition.segments, partition.connections, partition.coverage, partition.volumes
            )
        ),
    }


def _sending(partition: UserPartition) -> Columns:
    """Return the columns of what the server did, and what held it back; null if not known."""
    transfers = partition.sending.transfers
    known = partition.sending_known
    sides = {"access": known & ~partition.split, "internet": known}
    limited, rtt_quantiles = transfers["limited"], transfers["rtt_quantiles"]
    counts = ("retransmissions", "rto_expiries", "busy", "rwnd_limited")
    return (
        {name: column(transfers, name, known) for name in counts}
        | {
            f"limited_{limit}": pa.array(limited[:, k], mask=~sides["access"])
            for k, limit in enumerate(limits.LIMITS)
        }
        | {
            "limited_marks": pa.array(transfers["limited_by_marks"], mask=~sides["access"]),
            "limited_by": dictionary(
                limited.argmax(axis=1), limits.LIMITS, sides["access"] & (limited.sum(axis=1) > 0)
            ),
        }
        | {
            f"rtt_{side}_{name}": measured(np.where(sides[side], rtt_quantiles[name][:, k], np.nan))
            for k, side in enumerate(rtt_sampling.SIDES)
            for name in QUANTILES
            if f"rtt_{side}_{name}" != "rtt_access_min"
        }
        | {
            f"rtt_{side}_samples": pa.array(
                np.ascontiguousarray(rtt_quantiles["count"][:, k]), mask=~sides[side]
            )
            for k, side in enumerate(rtt_sampling.SIDES)
        }
    )
