"""Packets of an address assigned to the subscribers that had the address."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

EARLY_US = 1_000_000
"""Time by which packets may precede the message that names their subscriber (µs)."""
LATE_US = 60_000_000
"""Time after a lease's end for which packets still belong to its subscriber (µs)."""


def split_users(
    codes: np.ndarray, ts: np.ndarray, addresses: list[str], rows: pa.Table
) -> tuple[np.ndarray, list[str], list[str]]:
    """Return packets' users, if an address went from one subscriber to another.

    - codes: each packet's address, as an index into `addresses`
    - ts: each packet's time (µs)
    - addresses: the addresses
    - rows: rows of the table leases

    Returns each packet's user, as an index into two lists, and these lists: the users' keys (the
    subscriber, or the address if no lease is known), and their addresses.
    """
    code_of = {address: code for code, address in enumerate(addresses)}
    rows = rows.filter(pc.is_in(rows["address"], pa.array(addresses, pa.string())))
    if not len(rows):
        return codes, addresses, addresses
    rows, begin, end = lease_spans(rows)
    subscribers, subscriber = np.unique(rows["subscriber"].to_numpy(), return_inverse=True)
    address_codes = np.array(
        [code_of[address] for address in rows["address"].to_pylist()], np.int64
    )
    order = np.argsort(address_codes, kind="stable")
    address_codes, subscriber, begin, end = (
        address_codes[order],
        subscriber[order],
        begin[order],
        end[order],
    )
    origin = min(begin.min(), ts.min())
    span = max(begin.max(), ts.max()) - origin + 1
    latest = (
        np.searchsorted(
            address_codes * span + begin - origin,
            codes.astype(np.int64) * span + ts - origin,
            "right",
        )
        - 1
    )
    is_leased = (latest >= 0) & (address_codes[latest] == codes) & (ts < end[latest])
    base = len(subscribers) + 1
    pairs, users = np.unique(
        codes.astype(np.int64) * base + np.where(is_leased, subscriber[latest] + 1, 0),
        return_inverse=True,
    )
    subscriber_codes, pair_codes = pairs % base, pairs // base
    keys = [
        str(subscribers[subscriber_code - 1]) if subscriber_code else addresses[code]
        for subscriber_code, code in zip(
            subscriber_codes.tolist(), pair_codes.tolist(), strict=True
        )
    ]
    return users, keys, [addresses[code] for code in pair_codes.tolist()]


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
