"""Packets of some users, read from Parquet files into the estimators' record in user order."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from schemas import PACKETS
from schemas.arrow_types import ARROW_TYPES
from schemas.packets import QUIC
from spark_jobs.capture.users import in_vlan
from spark_jobs.compiled.arrays import (
    gather,
    group_offsets,
    group_order,
    inverse_order,
    scatter,
    select_span,
    sorted_within_groups,
)
from spark_jobs.estimators.quic.packets import FORMS, NO_SPIN, QuicPackets, no_quic
from spark_jobs.estimators.records import NO_SCALE, Packets
from spark_jobs.estimators.sequence import downlink_bytes_before
from spark_jobs.users.subscribers import find_links
from spark_jobs.warehouse.row_groups import RowGroup, read_columns

ORDER_COLUMNS = ("user", "address", "vlan", "server", "ts")
"""The columns that are read first: they determine which packets are wanted, and their order."""
PRESENCE_COLUMNS = {
    "is_tcp": "tcp_flags",
    "sack_permitted": "sack_permitted",
    "has_timestamps": "ts_val",
    "options_cut": "options_cut",
}
"""The record's columns that say whether a packet has a value, and the column of that value."""
ABSENT_COLUMNS = ("mss", "window_scale")
"""Columns of options, for which the record has a value of its own if there is none."""
NUMBERS = tuple(
    column.name
    for column in PACKETS.columns
    if column.name in Packets._fields
    and column.name not in (*ORDER_COLUMNS, *PRESENCE_COLUMNS, *ABSENT_COLUMNS, "capture")
)
"""The columns that are in both records, with null as any value."""
NOBODY = np.int32(-1)


@dataclass(frozen=True)
class Names:
    """The texts for the numbers in a Packets record, whose users are access links.

    - users: the user's key of each link
    - links: the link's key
    - servers: the server's address. It may have a number for each address of a link.
    - of_links: the address or prefix of each link, as in packets.user
    - of_servers: that of each server's number, if links have several
    - captures: the captures' names
    """

    users: list[str]
    links: list[str]
    servers: list[str]
    of_links: list[str]
    of_servers: list[str] | None
    captures: list[str]

    def addresses_of(self, user: np.ndarray, server: np.ndarray) -> tuple[np.ndarray, list[str]]:
        """Return the address or prefix of each pair of these numbers, as indices into texts."""
        return (user, self.of_links) if self.of_servers is None else (server, self.of_servers)


@dataclass(frozen=True)
class Span:
    """The time span of the wanted packets (µs since 1970).

    The packets of a day are wanted. Around it, packets of a user are wanted as long as the user is
    not silent for silence_us at that end of the day.
    """

    begin: int
    end: int
    silence_us: int
    until: int

    def wanted_users(self, user: np.ndarray, ts: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Return int32[packets]: the user of each wanted packet, NOBODY for the others.

        user: int32[packets], each packet's user as an index into `wanted`, or NOBODY. wanted:
        bool[users].
        """
        return select_span(user, ts, wanted, self.begin, self.end, self.silence_us, self.until)


def read_packets(
    groups: Sequence[RowGroup],
    span: Span,
    is_wanted: Callable[[str, str], bool] = lambda user, link: True,
    leases: pa.Table | None = None,
    rename_users: Callable[[pa.Table, Path], pa.Table] = lambda rows, path: rows,
    moved: Collection[Path] | None = None,
) -> tuple[Packets, Names, QuicPackets]:
    """Return the packets of a span, of the wanted access links, and QUIC's among them.

    - is_wanted: decides by the keys of a link's user and of the link
    - leases: rows of that table, with their homes; they name an address's links (see
      subscribers.py)
    - rename_users: returns a file's rows with the users' names of the wanted day (see periods.py)
    - moved: the files of moved packets, so that these are left out where they are stored. None: no
      packets were moved.

    The files are read twice: first the users and times, then the rest. Each row group's values go
    straight to their places in user order. Beside them, no more than one row group is held in
    memory.
    """
    paths = (group.path for group in groups)
    table = pa.concat_tables(
        map(rename_users, read_columns(groups, ORDER_COLUMNS), paths), promote_options="default"
    )
    user, ts, addresses = codes_and_times(table)
    server, servers = _dictionary_codes(table["server"])
    if any(group.wanted is not None for group in groups):
        user = np.where(np.concatenate([*map(_in_partitions, groups)]), user, NOBODY)
    address, texts = user, addresses
    if table["address"].null_count < len(table):
        own, own_texts = _address_codes(table["address"])
        address = user.astype(np.int64) * len(own_texts) + own
        texts = [text for text in addresses for _ in own_texts]
    if table["vlan"].null_count < len(table):
        downlink = [_values(rows["downlink"]) for rows in read_columns(groups, ["downlink"])]
        vlan = table["vlan"].fill_null(0).to_numpy()
        leased = set() if leases is None else {*leases["address"].to_pylist()}
        user, addresses = _by_vlan(user, addresses, vlan, np.concatenate(downlink), leased)
    users, links = addresses, addresses
    if leases is not None and len(leases):
        are_moved = None
        if moved is not None:
            are_moved = np.repeat(
                [group.path in moved for group in groups], [g.rows for g in groups]
            )
        user, users, links = _by_leases(user, ts, addresses, leases, are_moved)
    wanted = np.array([*map(is_wanted, users, links)], bool)
    user = span.wanted_users(user, ts, wanted)
    server, servers, of_servers, of_links = _for_each_address(
        user, len(links), server, servers, address, texts
    )
    first = group_offsets(user, len(users))
    order = _user_order(user, first, ts)
    captures = sorted({group.capture for group in groups})
    places = inverse_order(order, len(user))
    columns, quic = _read_columns(_wanted_row_groups(groups, places), captures)
    packets = Packets(
        **columns,
        first=first,
        user=gather(user, order),
        server=gather(server, order),
        ts=gather(ts, order),
        downlink_bytes_before=downlink_bytes_before(columns["downlink"], columns["ip_len"]),
        out_of_window=np.zeros(len(order), np.bool_),
    )
    names = Names(users, links, servers, of_links, of_servers, captures)
    return packets, names, _quic_packets(packets, quic)


def _by_leases(
    user: np.ndarray,
    ts: np.ndarray,
    addresses: list[str],
    leases: pa.Table,
    are_moved: np.ndarray | None,
) -> tuple[np.ndarray, list[str], list[str]]:
    """Return packets' links, and the links' users and keys.

    are_moved: which packets are from the files of moved ones, bool[packets]. The others whose home
    is another user partition are NOBODY's, because they were moved. None: no packets were moved.
    """
    present = np.flatnonzero(user >= 0)
    found = find_links(user[present], ts[present], addresses, leases)
    link = np.full(len(user), NOBODY)
    link[present] = found.link
    if are_moved is not None:
        link[present[(found.home >= 0) & ~are_moved[present]]] = NOBODY
    return link, found.users, found.names


def _for_each_address(
    link: np.ndarray,
    links: int,
    server: np.ndarray,
    servers: list[str],
    address: np.ndarray,
    texts: list[str],
) -> tuple[np.ndarray, list[str], list[str] | None, list[str]]:
    """Return servers, their texts and addresses, and the links' addresses.

    If links have several addresses, a server has a number for each, so that the connections of two
    addresses of a link stay apart, though the estimators know only links. If none has, the servers
    stay, and have no addresses. link, address: each packet's, the address as an index into texts.
    """
    wanted = np.flatnonzero(link >= 0)
    of_link = np.zeros(links, np.int64)
    of_link[link[wanted]] = address[wanted]
    of_links = [texts[k] for k in of_link.tolist()] if texts else []
    if (of_link[link[wanted]] == address[wanted]).all():
        return server, servers, None, of_links
    count = len(servers)
    pairs, numbers = np.unique(
        address[wanted].astype(np.int64) * count + server[wanted], return_inverse=True
    )
    server = np.zeros(len(server), np.int32)
    server[wanted] = numbers
    names = [servers[k] for k in (pairs % count).tolist()]
    return server, names, [texts[k] for k in (pairs // count).tolist()], of_links


def _by_vlan(
    user: np.ndarray, users: list[str], vlan: np.ndarray, downlink: np.ndarray, leased: set[str]
) -> tuple[np.ndarray, list[str]]:
    """Return packets' users, and their keys, with one for each VLAN of a user.

    VLANs separate users only if two of them have packets in both directions: a mirror may put each
    direction into a VLAN of its own. Packets of other VLANs are the first of these users'. vlan:
    uint32[packets]; 0: none. leased: users of whom RADIUS says whose they are.
    """
    present = np.flatnonzero(user >= 0)
    codes = user[present].astype(np.int64) << 24 | vlan[present]
    pairs, pair = np.unique(codes, return_inverse=True)
    both = np.ones(len(pairs), bool)
    for way in (False, True):
        both &= np.bincount(pair[downlink[present] == way], minlength=len(pairs)) > 0
    owner = pairs >> 24
    both &= ~np.array([text in leased for text in users], bool)[owner]
    separate = both & (np.bincount(owner[both], minlength=len(users)) > 1)[owner]
    own = np.flatnonzero(separate)
    if not len(own):
        return user, users
    number = np.arange(len(users))
    number[owner[own[::-1]]] = len(users) + np.arange(len(own))[::-1]  # the first one counts
    of_pair = number[owner]
    of_pair[own] = len(users) + np.arange(len(own))
    out = np.full(len(user), NOBODY)
    out[present] = of_pair[pair]
    keys = [in_vlan(users[k >> 24], k & 0xFFFFFF) for k in pairs[own].tolist()]
    return out, [*users, *keys]


def _address_codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    encoded = column.cast(pa.string()).combine_chunks().dictionary_encode("encode")
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()


def _wanted_row_groups(
    groups: Sequence[RowGroup], places: np.ndarray
) -> list[tuple[RowGroup, np.ndarray]]:
    """Return the row groups that have wanted packets, with the places of their packets.

    If there is none, returns the first row group. For places see _read_columns.
    """
    ends = np.cumsum([group.rows for group in groups])
    parts = list(zip(groups, np.split(places, ends[:-1]), strict=True))
    return [(group, places_) for group, places_ in parts if (places_ >= 0).any()] or parts[:1]


def _in_partitions(group: RowGroup) -> np.ndarray:
    """Return bool[rows]: whether a packet is of the wanted user partitions."""
    if group.wanted is None:
        return np.ones(group.rows, bool)
    (rows,) = read_columns([group], ["user_partition"])
    return np.isin(rows["user_partition"], group.wanted)


def _user_order(user: np.ndarray, first: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Return int32[wanted packets]: the packets by user and time.

    Packets of equal times keep the order in which they were read.
    """
    order = group_order(user, first)
    in_order = gather(ts, order)
    if not sorted_within_groups(first, in_order):
        order = order[np.argsort(in_order, kind="stable")]
        order = order[group_order(user[order], first)]
    return order


def _read_columns(
    parts: Sequence[tuple[RowGroup, np.ndarray]], captures: list[str]
) -> tuple[dict[str, np.ndarray], list[tuple[np.ndarray, pa.Table]]]:
    """Return the record's columns, without those that ORDER_COLUMNS give, and QUIC's.

    QUIC's are the places of a row group's packets of QUIC's, and their QUIC columns.

    parts: row groups, each with int32[rows]: a packet's place in user order, -1 if it is not
    wanted.
    """
    groups, places = zip(*parts, strict=True)
    count = sum(np.count_nonzero(target >= 0) for target in places)
    types = {
        c.name: ARROW_TYPES[c.type].to_pandas_dtype() for c in PACKETS.columns if c.name in NUMBERS
    }
    types |= dict.fromkeys(PRESENCE_COLUMNS, np.bool_)
    types |= {"mss": np.uint16, "window_scale": np.int16, "capture": np.int32}
    types |= {"sack_at": np.int64, "sack_count": np.uint8}
    columns = {name: np.empty(count, dtype) for name, dtype in types.items()}
    edges: list[np.ndarray] = []
    edges_read = 0
    capture = [captures.index(group.capture) for group in groups]
    quic: list[tuple[np.ndarray, pa.Table]] = []
    own = (*NUMBERS, *PRESENCE_COLUMNS.values(), *ABSENT_COLUMNS, "sack", "quic_form")
    names = dict.fromkeys(own)
    tables = read_columns(groups, list(names))
    for group, code, target, table in zip(groups, capture, places, tables, strict=True):
        values = {name: _values(table[name]) for name in NUMBERS}
        values |= {name: _validity(table[column]) for name, column in PRESENCE_COLUMNS.items()}
        scale = _values(table["window_scale"]).astype(np.int16)
        values["window_scale"] = np.where(_validity(table["window_scale"]), scale, NO_SCALE)
        values["mss"] = np.where(_validity(table["mss"]), _values(table["mss"]), 0)
        values["capture"] = np.full(len(table), code, np.int32)
        offsets, values["sack_count"], items = _list_items(table["sack"])
        values["sack_at"] = offsets + edges_read
        for name, column in values.items():
            scatter(column, target, columns[name])
        edges.append(items)
        edges_read += len(items)
        if table["quic_form"].null_count < len(table):
            rows = np.flatnonzero(_validity(table["quic_form"]) & (target >= 0))
            if len(rows):
                (of_quic,) = read_columns([group], QUIC)
                quic.append((target[rows], of_quic.take(rows)))
    return columns | {"sack_edges": np.concatenate(edges)}, quic


def _quic_packets(packets: Packets, quic: Sequence[tuple[np.ndarray, pa.Table]]) -> QuicPackets:
    """Return the packets of QUIC's, from their places in user order and their QUIC columns."""
    if not quic:
        return no_quic(len(packets.first) - 1)
    places = np.concatenate([target for target, _ in quic])
    order = np.argsort(places, kind="stable")
    places, table = places[order], pa.concat_tables(rows for _, rows in quic).take(order)
    codes, names = _dictionary_codes(table["quic_form"].dictionary_encode())
    forms = np.array([FORMS.index(name) for name in names], np.uint8)

    def values(name: str, dtype: type, null: int = 0) -> np.ndarray:
        return table[name].cast(pa.int64()).fill_null(null).to_numpy().astype(dtype)

    shared = [name for name in QuicPackets._fields if name in Packets._fields and name != "first"]
    return QuicPackets(
        first=np.searchsorted(places, packets.first),
        **{name: getattr(packets, name)[places] for name in shared},
        form=forms[codes],
        coalesced=values("quic_coalesced", np.uint16),
        has_version=_validity(table["quic_version"]),
        version=values("quic_version", np.uint32),
        spin=values("quic_spin", np.int8, int(NO_SPIN)),
        has_dcid=_validity(table["quic_dcid"]),
        dcid=values("quic_dcid", np.uint32),
        scid=values("quic_scid", np.uint32),
        length=values("quic_length", np.uint32),
    )


def codes_and_times(packets: pa.Table) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return each packet's user, as an index into texts, its time (int64, µs), and the texts."""
    user, users = _dictionary_codes(packets["user"])
    return user, _values(packets["ts"]), users


def _dictionary_codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """Return (int32[rows], texts): each row's text, as an index into the texts."""
    column = column.unify_dictionaries()
    codes = np.concatenate([_chunk_values(chunk.indices) for chunk in column.chunks])
    return codes, column.chunk(0).dictionary.to_pylist()


def _values(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column's values; a null has an arbitrary value."""
    return _concatenated([_chunk_values(chunk) for chunk in column.chunks])


def _validity(column: pa.ChunkedArray) -> np.ndarray:
    return _concatenated([_chunk_values(chunk.is_valid()) for chunk in column.chunks])


def _concatenated(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _list_items(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (start of each row's list, its length, all items); a null is an empty list."""
    starts, counts, items, begin = [], [], [], 0
    for chunk in column.chunks:
        offsets = chunk.offsets.to_numpy().astype(np.int64)
        values = chunk.values.to_numpy()[offsets[0] : offsets[-1]]
        starts.append(offsets[:-1] - offsets[0] + begin)
        counts.append(np.diff(offsets).astype(np.uint8))
        items.append(values)
        begin += len(values)
    return np.concatenate(starts), np.concatenate(counts), np.concatenate(items).astype(np.uint32)


def _chunk_values(chunk: pa.Array) -> np.ndarray:
    if pa.types.is_boolean(chunk.type):
        bits = np.frombuffer(chunk.buffers()[1], np.uint8)
        start = chunk.offset
        return np.unpackbits(bits, bitorder="little")[start : start + len(chunk)].view(bool)
    dtype = np.int64 if pa.types.is_timestamp(chunk.type) else chunk.type.to_pandas_dtype()
    data = chunk.buffers()[1]
    if data is None:
        return np.zeros(len(chunk), dtype)
    return np.frombuffer(data, dtype)[chunk.offset : chunk.offset + len(chunk)]
