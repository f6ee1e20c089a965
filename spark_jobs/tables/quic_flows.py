"""quic_flows: one row for each QUIC connection."""

import numpy as np
import pyarrow as pa

from schemas import QUIC_FLOWS
from schemas.arrow_types import ARROW_TIMESTAMP
from spark_jobs.estimators.coverage import DIRECTIONS
from spark_jobs.estimators.identity import flow_ids
from spark_jobs.estimators.pages import page_gaps_us
from spark_jobs.estimators.quic import spin
from spark_jobs.estimators.quic.connections import SILENCE_US
from spark_jobs.estimators.quic.summary import SETUP_CLASSES, UNSEEN
from spark_jobs.tables.rows import column, dictionary, measured, table_of
from spark_jobs.tables.user_partition import UserPartition

COUNTS = (
    *("packets_up", "packets_down", "ip_bytes_up", "ip_bytes_down", "bursts", "active"),
    *("user_port", "server_port", "begin_seen"),
)
TIMES = ("setup_delay", "rtt_internet", "rtt_access", "downlink_rate")
SPIN_KINDS = ("", "spins", "constant", "no_signal")
"""Names of the kinds of spin bits, by spin.UNKNOWN and so on."""


def rows(partition: UserPartition) -> pa.Table:
    """Return the rows of schemas.QUIC_FLOWS."""
    quic, names = partition.quic, partition.names
    found = quic.with_bursts(page_gaps_us(partition.page_rtt_us))
    users, servers = partition.name_hashes
    begin_seen, spins = found["begin_seen"], quic.spins
    kind = spins["kind"]
    last_us = partition.packets.ts.max(initial=0)
    is_silent = found["end"] < last_us - SILENCE_US
    ids = flow_ids(
        users[found["user"]],
        servers[found["server"]],
        np.ascontiguousarray(found["user_port"]),
        np.ascontiguousarray(found["server_port"]),
        np.ascontiguousarray(found["start"]),
        np.ascontiguousarray(found["first_dcid"]),
    )
    columns = {
        "flow_id": pa.array(ids),
        "user": dictionary(found["user"], names.users),
        "link": dictionary(found["user"], names.links),
        "server": dictionary(found["server"], names.servers),
        "start_ts": column(found, "start").cast(ARROW_TIMESTAMP),
        "end_ts": column(found, "end").cast(ARROW_TIMESTAMP),
        "version": column(found, "version", found["has_version"]),
        "directions_seen": dictionary(found["directions_seen"], DIRECTIONS),
        "setup_class": dictionary(
            found["setup_class"], SETUP_CLASSES, found["setup_class"] != UNSEEN
        ),
        "initials": column(found, "initials", begin_seen),
        "zero_rtt": column(
            found, "zero_rtt", begin_seen & (found["zero_rtt"] | ~found["zero_rtt_cut"])
        ),
        "spin": dictionary(kind, SPIN_KINDS, kind != spin.UNKNOWN),
        "spin_samples": column(spins, "samples", kind == spin.SPINS),
        "migrations": pa.array(quic.migrations),
        "end": dictionary(np.zeros(len(found), np.int32), ("silent",), is_silent),
    }
    columns |= {name: column(found, name) for name in COUNTS}
    columns |= {name: measured(found[name]) for name in TIMES}
    columns |= {
        f"spin_rtt_{name}": measured(spins[name])
        for name in ("min", "median", "p95", "access_median", "internet_median")
    }
    columns |= partition.labels.at(found["user"], found["start"])
    begin, end = partition.span
    mine = (found["start"] >= begin) & (found["start"] < end)
    return table_of(QUIC_FLOWS, columns).filter(pa.array(mine))
