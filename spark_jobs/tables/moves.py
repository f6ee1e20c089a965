"""Packets moved from the user partitions of their addresses to those of their access links.

An address's user partition is fixed when a capture is read. Later, RADIUS may show that a link has
several addresses, such as one of IPv4 and a prefix of IPv6. One task must then read them all. So
before a day's tasks, its packets of these addresses are written to temporary files, by the user
partition where each link is at home (see users/subscribers.py).
"""

from itertools import groupby, pairwise
from operator import attrgetter
from pathlib import Path

import numpy as np
import pyarrow as pa

from schemas import LEASES, PACKETS
from spark_jobs.capture.columns import MIN_PACKETS_TO_SPLIT
from spark_jobs.tables.day_plan import Move
from spark_jobs.users.packets import codes_and_times
from spark_jobs.users.subscribers import find_links, with_homes
from spark_jobs.warehouse.files import TableWriter, with_columns
from spark_jobs.warehouse.row_groups import RowGroup, read_columns, write_row_group


def move_packets(move: Move) -> Path | None:
    """Write the packets to move, with the day's names, and return the file; None if there are none.

    The file has the row groups of a file of packets; see warehouse/row_groups.py.
    """
    leases = with_homes(move.names.rows(LEASES, move.leases))
    with TableWriter(PACKETS, move.target) as writer:
        for _, groups in groupby(move.row_groups, attrgetter("path", "capture")):
            parts = [part for group in groups if len(part := _moved(move, group, leases))]
            if not parts:
                continue
            rows = pa.concat_tables(parts)
            home = rows["user_partition"].to_numpy()
            order = np.argsort(home, kind="stable")
            rows, cuts = rows.take(pa.array(order)), [0]
            if len(rows) > MIN_PACKETS_TO_SPLIT:
                cuts = np.flatnonzero(np.diff(home[order], prepend=-1)).tolist()
            for begin, end in pairwise([*cuts, len(rows)]):
                write_row_group(writer, rows.slice(begin, end - begin))
    return move.target.path if writer.written.rows else None


def _moved(move: Move, group: RowGroup, leases: pa.Table) -> pa.Table:
    """Return the packets of a row group that are moved, with their new user partitions."""
    (names,) = read_columns([group], ["user", "ts"])
    user, ts, addresses = codes_and_times(move.names.renamed(names, group.path))
    home = find_links(user, ts, addresses, leases).home
    moved = np.flatnonzero(home >= 0)
    if not len(moved):
        return PACKETS.arrow_dictionary.empty_table()
    (rows,) = read_columns([group], PACKETS.arrow.names)
    rows = move.names.renamed(rows.take(pa.array(moved)), group.path)
    place = rows.column_names.index("user_partition")
    rows = rows.set_column(place, "user_partition", pa.array(home[moved], pa.int32()))
    return with_columns(rows, PACKETS, PACKETS.arrow.names).cast(PACKETS.arrow_dictionary)
