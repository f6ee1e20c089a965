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
