"""Packets of an address assigned to the subscribers, and their access links, that had the address.

A subscriber may have several links at once, and a link several addresses (see schemas/leases.py).
All packets of a link are read by one task. So those of addresses in other user partitions are moved
to the link's home: the user partition of one of its addresses.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

EARLY_US = 1_000_000
"""Time by which packets may precede the message that names their subscriber (µs)."""
LATE_US = 60_000_000
"""Time after a lease's end for which packets still belong to its subscriber (µs)."""


class Links(NamedTuple):
    """The access links of packets.

    link: int[P], each packet's link, as an index into `users` and `names`
    users: the users' keys: the subscriber, or the address if no lease is known
    names: the links' keys
    home: int64[P], the user partition whose task reads the packet; -1: that in which it is stored
    """

    link: np.ndarray
    users: list[str]
    names: list[str]
    home: np.ndarray


def find_links(codes: np.ndarray, ts: np.ndarray, addresses: list[str], leases: pa.Table) -> Links:
    """Return the links of packets.

    - codes: each packet's address, as an index into `addresses`
    - ts: each packet's time (µs)
    - addresses: the addresses
    - leases: rows of that table, with their homes (see with_homes)
    """
    code_of = {address: code for code, address in enumerate(addresses)}
    leases = leases.filter(pc.is_in(leases["address"], pa.array(addresses, pa.string())))
    if not len(leases) or not len(ts):
        return Links(codes, addresses, addresses, np.full(len(codes), -1))
    leases, begin, end = lease_spans(leases)
    names = leases["link"].combine_chunks().dictionary_encode()
    link = names.indices.to_numpy()
    _, first = np.unique(link, return_index=True)
    subscribers = leases["subscriber"].take(pa.array(first)).to_pylist()
    address = np.array([code_of[text] for text in leases["address"].to_pylist()], np.int64)
    order = np.argsort(address, kind="stable")
    address, link, begin, end = address[order], link[order], begin[order], end[order]
    home = leases["home_partition"].to_numpy()[order]
    origin = min(begin.min(), ts.min())
    span = max(begin.max(), ts.max()) - origin + 1
    latest = (
        np.searchsorted(
            address * span + begin - origin, codes.astype(np.int64) * span + ts - origin, "right"
        )
        - 1
    )
    is_leased = (latest >= 0) & (address[latest] == codes) & (ts < end[latest])
    found, links = np.unique(
        np.where(is_leased, link[latest], len(subscribers) + codes), return_inverse=True
    )
    users, keys = [*subscribers, *addresses], [*names.dictionary.to_pylist(), *addresses]
    return Links(
        links,
        [users[k] for k in found.tolist()],
        [keys[k] for k in found.tolist()],
        np.where(is_leased, home[latest], -1),
    )


def with_homes(leases: pa.Table) -> pa.Table:
    """Return leases of adjacent days with the column `home_partition`; a link keeps its name.

    home_partition: the user partition of the link's first address by name; -1 if the lease's own
        address is in it.
    """
    leases = leases.sort_by([("address", "ascending"), ("start_ts", "ascending")])
    starts, ends = (leases[name].cast(pa.int64()).to_numpy() for name in ("start_ts", "end_ts"))
    address, subscriber, names = (
        leases[name].combine_chunks().dictionary_encode()
        for name in ("address", "subscriber", "link")
    )
    link, earlier = names.indices.to_numpy(), np.arange(len(names.dictionary))
    renamed = (starts[1:] == ends[:-1]) & (link[1:] != link[:-1])
    for column in (address, subscriber):
        renamed &= column.indices.to_numpy()[1:] == column.indices.to_numpy()[:-1]
    earlier[link[1:][renamed]] = link[:-1][renamed]
    link = earlier[earlier[link]]  # of three days
    _, first, place = np.unique(link, return_index=True, return_inverse=True)
    partition = leases["user_partition"].to_numpy()
    home = partition[first][place]
    texts = names.dictionary.take(pa.array(link))
    leases = leases.set_column(leases.column_names.index("link"), "link", texts)
    return leases.append_column("home_partition", pa.array(np.where(home == partition, -1, home)))


def lease_spans(rows: pa.Table) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """Return leases by address and time, and int64[n] begin and end of each (µs).

    Within these times, packets of the address belong to the subscriber.
    """
    rows = rows.sort_by([("address", "ascending"), ("start_ts", "ascending")])
    begin = rows["start_ts"].cast(pa.int64()).to_numpy() - EARLY_US
    end = rows["end_ts"].cast(pa.int64()).to_numpy()
    address = rows["address"].to_numpy()
    same = address[1:] == address[:-1]
    begin[1:] = np.where(same, np.maximum(begin[1:], end[:-1]), begin[1:])
    end = end + LATE_US
    end[:-1] = np.where(same, np.minimum(end[:-1], begin[1:]), end[:-1])
    return rows, begin, end
