"""Packets moved from the user partitions of their addresses to those of their access links.

An address's user partition is fixed when a capture is read. Later, RADIUS may show that a link has
several addresses, such as one of IPv4 and a prefix of IPv6. One task must then read them all. So
before a day's tasks, its packets of these addresses are written to temporary files, by the user
partition where each link is at home (see users/subscribers.py).

In the same way, all packets of users whose connections go on are copied.
"""

from contextlib import ExitStack
from datetime import date
from itertools import groupby, pairwise
from operator import attrgetter
from pathlib import Path

import numpy as np
import pyarrow as pa

from schemas import LEASES, PACKETS
from spark_jobs.capture.columns import MIN_PACKETS_TO_SPLIT
from spark_jobs.tables.day_plan import Move, Moved
from spark_jobs.users.packets import codes_and_times
from spark_jobs.users.subscribers import find_links, with_homes
from spark_jobs.warehouse.files import TableWriter, with_columns
from spark_jobs.warehouse.row_groups import RowGroup, read_columns, write_row_group


def move_packets(move: Move) -> dict[date, Path]:
    """Write the packets to move, with the names of each day, and return the files, by day.

    A file has the row groups of a file of packets; see warehouse/row_groups.py.
    """
    leases = [with_homes(moved.names.rows(LEASES, move.leases)) for moved in move.moved]
    with ExitStack() as stack:
        writers = [stack.enter_context(TableWriter(PACKETS, m.target)) for m in move.moved]
        for _, groups in groupby(move.row_groups, attrgetter("path", "capture")):
            parts: list[list[pa.Table]] = [[] for _ in writers]
            for group in groups:
                (names,) = read_columns([group], ["user", "ts"])
                for moved, of_day, rows in zip(move.moved, leases, parts, strict=True):
                    if not moved.may_need(group):
                        continue
                    if len(found := _moved(moved, group, names, of_day)):
                        rows.append(found)
            for writer, rows in zip(writers, parts, strict=True):
                if rows:
                    _write(writer, pa.concat_tables(rows))
    return {
        moved.names.day: moved.target.path
        for moved, writer in zip(move.moved, writers, strict=True)
        if writer.written.rows
    }


def _write(writer: TableWriter, rows: pa.Table) -> None:
    """Write packets of one capture by user partition, in row groups."""
    home = rows["user_partition"].to_numpy()
    order = np.argsort(home, kind="stable")
    rows, cuts = rows.take(pa.array(order)), [0]
    if len(rows) > MIN_PACKETS_TO_SPLIT:
        cuts = np.flatnonzero(np.diff(home[order], prepend=-1)).tolist()
    for begin, end in pairwise([*cuts, len(rows)]):
        write_row_group(writer, rows.slice(begin, end - begin))


def _moved(moved: Moved, group: RowGroup, names: pa.Table, leases: pa.Table) -> pa.Table:
    """Return the packets of a row group that are moved, with their new user partitions.

    names: the row group's users and times
    """
    user, ts, addresses = codes_and_times(moved.names.renamed(names, group.path))
    links = find_links(user, ts, addresses, leases)
    is_moved = links.home >= 0
    if moved.users is not None:
        is_moved = np.array([name in moved.users for name in links.users], bool)[links.link]
    chosen = np.flatnonzero(is_moved)
    if not len(chosen):
        return PACKETS.arrow_dictionary.empty_table()
    (rows,) = read_columns([group], PACKETS.arrow.names)
    rows = moved.names.renamed(rows.take(pa.array(chosen)), group.path)
    place = rows.column_names.index("user_partition")
    home, stored = links.home[chosen], rows["user_partition"].to_numpy()
    partition = np.where(home >= 0, home, stored).astype(np.int32)
    rows = rows.set_column(place, "user_partition", pa.array(partition))
    return with_columns(rows, PACKETS, PACKETS.arrow.names).cast(PACKETS.arrow_dictionary)
