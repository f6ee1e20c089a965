"""Packets of an address to the subscribers that had it."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

EARLY_US = 1_000_000
"""Packets may be seen so long before the message that tells whose they are."""
LATE_US = 60_000_000
"""What comes to an address so long after its subscriber has left is still meant for him."""


def split_users(
    codes: np.ndarray, ts: np.ndarray, addresses: list[str], rows: pa.Table
) -> tuple[np.ndarray, list[str], list[str]]:
    """Packets' users, where an address went from one subscriber to another.

    codes: each packet's address, as its place in `addresses`; ts: its time (us); rows: of the
    table leases. Returns each packet's user, as a place in the two lists returned: users' keys (the
    subscriber's, or the address where no lease is known) and their addresses.
    """
    path_of = {address: code for code, address in enumerate(addresses)}
    rows = rows.filter(pc.is_in(rows["address"], pa.array(addresses, pa.string())))
    if not len(rows):
        return codes, addresses, addresses
    rows, begin, end = spans_of(rows)
    subscribers, subscriber = np.unique(rows["subscriber"].to_numpy(), return_inverse=True)
    of = np.array([path_of[address] for address in rows["address"].to_pylist()], np.int64)
    order = np.argsort(of, kind="stable")
    of, subscriber, begin, end = of[order], subscriber[order], begin[order], end[order]
    origin = min(begin.min(), ts.min())
    span = max(begin.max(), ts.max()) - origin + 1
    last = (
        np.searchsorted(
            of * span + begin - origin, codes.astype(np.int64) * span + ts - origin, "right"
        )
        - 1
    )
    held = (last >= 0) & (of[last] == codes) & (ts < end[last])
    kinds = len(subscribers) + 1
    pairs, users = np.unique(
        codes.astype(np.int64) * kinds + np.where(held, subscriber[last] + 1, 0),
        return_inverse=True,
    )
    held_by, of_pair = pairs % kinds, pairs // kinds
    keys = [
        str(subscribers[who - 1]) if who else addresses[code]
        for who, code in zip(held_by.tolist(), of_pair.tolist(), strict=True)
    ]
    return users, keys, [addresses[code] for code in of_pair.tolist()]


def spans_of(rows: pa.Table) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """Rows of the table leases by address and time, and int64[n] from when until when (us) packets
    of the address are the subscriber's."""
    rows = rows.sort_by([("address", "ascending"), ("start_ts", "ascending")])
    begin = rows["start_ts"].cast(pa.int64()).to_numpy() - EARLY_US
    end = rows["end_ts"].cast(pa.int64()).to_numpy()
    address = rows["address"].to_numpy()
    same = address[1:] == address[:-1]
    begin[1:] = np.where(same, np.maximum(begin[1:], end[:-1]), begin[1:])
    end = end + LATE_US
    end[:-1] = np.where(same, np.minimum(end[:-1], begin[1:]), end[:-1])
    return rows, begin, end
