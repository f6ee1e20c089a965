"""Conversion of the operator's Zeek logs to rows of application_log and accounting.

The logs conn, http and ssl give rows of application_log. Logs of RADIUS give rows of accounting.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv6Network
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import ACCOUNTING, APPLICATION_LOG, Table
from schemas.accounting import ACCEPTED, NAS, STATUSES
from schemas.zeek import (
    ACCOUNTING_LOG,
    CONN_LOG,
    HTTP_LOG,
    MONITOR_LOG,
    RADIUS_LOG,
    SSL_LOG,
    Log,
)
from spark_jobs.capture.columns import DAY_US, EPOCH
from spark_jobs.capture.decode import LATEST_TS_US
from spark_jobs.capture.labels import label_columns
from spark_jobs.capture.reader import ReadStats
from spark_jobs.capture.untrusted import parser
from spark_jobs.capture.users import ADDRESS_BITS, IDENTITY, SESSION, UserKeys
from spark_jobs.capture.zeek_lines import (
    AddressNumbers,
    has_value,
    read_log_rows,
    skip_rows,
    to_microseconds,
)
from spark_jobs.settings.networks import Area, Device

TABLE_BY_LOG: dict[str, Table] = {
    CONN_LOG.path: APPLICATION_LOG,
    HTTP_LOG.path: APPLICATION_LOG,
    SSL_LOG.path: APPLICATION_LOG,
    ACCOUNTING_LOG.path: ACCOUNTING,
    RADIUS_LOG.path: ACCOUNTING,
    MONITOR_LOG.path: APPLICATION_LOG,
}
"""Table of each log's rows; the monitor's log gives no rows, its values are counted."""
FIRST_FINAL_STATUS, FIRST_REDIRECTION = 200, 300
"""Limits of HTTP status codes (RFC 9110, 15).

Codes below the first are interim. Codes from the first to below the second are successes.
"""

MAX_USERS_OF_PREFIX = 256
"""Maximum number of users that a prefix in a RADIUS message may have."""
TEXT = pa.string()
_STATUS_OF_TYPE = pa.array(STATUSES.get(type_) for type_ in range(256))
"""`status` by Acct-Status-Type, null for messages that are left out."""

Columns = dict[str, pa.Array | str]


@parser
def read_operator_log(
    path: Path,
    log: Log,
    prefixes: np.ndarray,
    stats: ReadStats,
    capture: str,
    partitions: int,
    keys: UserKeys,
    area: Area = "none",
    device: Device = "none",
) -> Iterator[pa.Table]:
    """Yield the rows that a log adds to its table (see TABLE_BY_LOG).

    area, device: see label_columns.
    """
    table = TABLE_BY_LOG[log.path]
    make_rows = _ROW_MAKERS[log.path]
    users = _UserNames(AddressNumbers(prefixes), partitions, keys, area, device)
    for block in read_log_rows(path, log, stats):
        for parsed, _, lines in block:
            rows = _to_rows(parsed, log, users.addresses)
            present = {name: has_value(parsed, name) for name in log.required}
            for name in filter(lambda name: _is_address(log.fields[name]), present):
                present[name] = rows[name].to_numpy() > 0
            complete = skip_rows(stats, path, lines, present, "malformed_line")
            plausible = {"ts": ~complete | (rows["ts"].to_numpy() >= 0)}
            complete &= skip_rows(stats, path, lines, plausible, "implausible_time")
            for columns in make_rows(rows.filter(complete), log, users, stats):
                yield _to_table(columns | {"capture": capture}, table)


def _is_address(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind)


def _to_rows(parsed: pa.Table, log: Log, addresses: AddressNumbers) -> pa.RecordBatch:
    """Return every field of the log as a column.

    Times are in µs (-1 if implausible), addresses are numbers (0 if null). The column of a field
    that the log lacks has the type null.
    """
    rows = {}
    for name, kind in log.fields.items():
        if name not in parsed.column_names:
            rows[name] = pa.repeat(0, len(parsed)) if _is_address(kind) else pa.nulls(len(parsed))
        elif _is_address(kind):
            rows[name] = pa.array(addresses.numbers(parsed[name]))
        elif name == "ts":
            rows[name] = pa.array(to_microseconds(parsed[name]))
        else:
            rows[name] = parsed[name].combine_chunks()
    return pa.record_batch(rows)


def _to_table(columns: Columns, table: Table) -> pa.Table:
    n = len(columns["ts"])
    arrays = []
    for field in table.arrow:
        values = columns.get(field.name)
        if values is None or isinstance(values, str):
            arrays.append(pa.repeat(pa.scalar(values, field.type), n))
        else:
            arrays.append(values.cast(field.type))
    return pa.table(arrays, schema=table.arrow).cast(table.arrow_dictionary)


@dataclass
class _UserNames:
    """Names of the users and servers with these addresses, and what is kept of their labels."""

    addresses: AddressNumbers
    partitions: int
    keys: UserKeys
    area: Area
    device: Device

    def addresses_within(self, prefix: str) -> list[int]:
        """Return the number of an address of each user within a prefix of IPv6.

        There are none if the text is no such prefix, or if the prefix has too many users.
        """
        try:
            network = IPv6Network(prefix, strict=False)
        except ValueError:
            return []
        bits = self.keys.user_bits(network.network_address.packed)
        count = 1 << max(bits - network.prefixlen, 0)
        if count > MAX_USERS_OF_PREFIX:
            return []
        return [
            self.addresses.number_of(network.network_address + (k << ADDRESS_BITS - bits))
            for k in range(count)
        ]

    def are_subscribers(self, numbers: pa.Array) -> np.ndarray:
        """Return which addresses belong to subscribers: bool[n]."""
        return self.addresses.is_subscriber(numbers.to_numpy())

    def names(self, numbers: pa.Array, ts: pa.Array, infrastructure: bool = False) -> pa.Array:
        """Return the names of addresses at these times (µs); see UserKeys.names."""
        table = self.addresses.table
        return self._by_period(
            numbers, ts, lambda keys, unique: keys.names(table, unique.to_numpy(), infrastructure)
        )

    def identities(self, names: pa.Array, ts: pa.Array, kind: bytes = IDENTITY) -> pa.Array:
        """Return the names of what RADIUS identifies (see key_of_identity) at these times (µs)."""
        return self._by_period(
            names.cast(TEXT),
            ts,
            lambda keys, unique: (keys.key_of_identity(text, kind) for text in unique.to_pylist()),
        )

    def user_partitions(self, names: pa.Array, ts: pa.Array) -> pa.Array:
        """Return the user partitions of users by their names at these times (µs)."""
        return self._by_period(
            names,
            ts,
            lambda keys, unique: (
                keys.partition(key, self.partitions) for key in unique.to_pylist()
            ),
            pa.int64(),
        )

    def _by_period(
        self,
        values: pa.Array,
        ts: pa.Array,
        function: Callable[[UserKeys, pa.Array], Iterable[str] | Iterable[int]],
        kind: pa.DataType = TEXT,
    ) -> pa.Array:
        """Return each row's result of function(keys of a key period, its unique values)."""
        results, row_order = [pa.array([], kind)], [np.empty(0, np.int64)]
        for keys, rows in self._rows_by_period(ts.to_numpy()):
            encoded = values.take(rows).dictionary_encode()
            unique = pa.array(function(keys, encoded.dictionary), kind)
            results.append(unique.take(encoded.indices))
            row_order.append(rows)
        return pa.concat_arrays(results).take(np.argsort(np.concatenate(row_order)))

    def _rows_by_period(self, ts: np.ndarray) -> Iterator[tuple[UserKeys, np.ndarray]]:
        """Yield the keys of each key period, and the rows with times (µs) in it."""
        if not self.keys.has_key_periods:
            yield self.keys, np.arange(len(ts))
            return
        days, day_index = np.unique(ts // DAY_US, return_inverse=True)
        keys_by_day = [self.keys.for_day(EPOCH + timedelta(days=int(day))) for day in days]
        for keys in dict.fromkeys(keys_by_day):
            is_in_period = np.array([of_day == keys for of_day in keys_by_day])
            yield keys, np.flatnonzero(is_in_period[day_index])


def _keep_rows(
    rows: pa.RecordBatch, keep: pa.Array | np.ndarray, reason: str, stats: ReadStats
) -> pa.RecordBatch:
    """Return the rows to keep, and count the others."""
    kept = rows.filter(keep)
    if dropped := len(rows) - len(kept):
        stats.skipped[reason] += dropped
    return kept


def _connection_rows(
    rows: pa.RecordBatch, log: Log, users: _UserNames, stats: ReadStats
) -> Iterator[Columns]:
    """Yield rows of application_log, one for each endpoint that is a subscriber."""
    if log is CONN_LOG:
        rows = _keep_rows(rows, pc.equal(rows["proto"], "tcp"), "not_tcp", stats)
    if log is HTTP_LOG and rows["method"].type != pa.null():
        is_request = pc.or_(rows["method"].is_valid(), rows["status_code"].is_valid())
        rows = _keep_rows(rows, is_request, "no_request", stats)
    is_subscriber = users.are_subscribers(rows["id.orig_h"]) | users.are_subscribers(
        rows["id.resp_h"]
    )
    rows = _keep_rows(rows, is_subscriber, "not_subscriber", stats)
    for user, server in (("orig", "resp"), ("resp", "orig")):
        own = rows.filter(users.are_subscribers(rows[f"id.{user}_h"]))
        ts = own["ts"]
        keys = users.names(own[f"id.{user}_h"], ts)
        columns: Columns = {
            "log": log.path,
            "user_partition": users.user_partitions(keys, ts),
            "user": keys,
            "user_port": own[f"id.{user}_p"],
            "server": users.names(own[f"id.{server}_h"], ts),
            "server_port": own[f"id.{server}_p"],
            "ts": ts,
            "end_ts": ts,
            "service": log.path,
        }
        if log is CONN_LOG:
            columns |= {"end_ts": _ends(ts, own["duration"]), "service": own["service"]}
        if log is HTTP_LOG:
            columns["request"] = own["trans_depth"]
            columns["answered"] = _are_answered(own["method"], own["status_code"])
        if log is SSL_LOG:
            columns["answered"] = own["established"]
        yield columns


def _ends(ts: pa.Array, duration: pa.Array) -> pa.Array:
    """Return the ends of connections in µs; an implausible duration (s) is 0."""
    start_us = ts.to_numpy()
    seconds = duration.cast(pa.float64()).to_numpy(zero_copy_only=False)
    is_plausible = (seconds >= 0) & (seconds <= (LATEST_TS_US - start_us) / 1e6)
    return pa.array(start_us + np.rint(1e6 * np.where(is_plausible, seconds, 0)).astype(np.int64))


def _are_answered(method: pa.Array, status: pa.Array) -> pa.Array:
    status = _to_int(status)
    is_tunnel = pc.and_(
        pc.equal(method, "CONNECT").fill_null(False), pc.less(status, FIRST_REDIRECTION)
    )
    return pc.and_not(pc.greater_equal(status, FIRST_FINAL_STATUS), is_tunnel)


def _accounting_rows(
    rows: pa.RecordBatch, log: Log, users: _UserNames, stats: ReadStats
) -> Iterator[Columns]:
    """Yield rows of accounting from the accounting log of zeek_scripts/."""
    sent = pc.subtract(rows["ts"], pc.multiply(_to_int(rows["delay"]), 1_000_000))
    rows = _with_columns(rows, ts=sent, status=_STATUS_OF_TYPE.take(rows["status"]))
    rows = _keep_rows(rows, rows["status"].is_valid(), "other_status", stats)
    is_nas = pc.equal(rows["status"], NAS)
    of_nas = rows.filter(is_nas)
    yield {
        "ts": of_nas["ts"],
        "status": NAS,
        "nas": users.names(of_nas["nas"], of_nas["ts"], True),
    }
    rows = _for_each_prefix(rows.filter(pc.invert(is_nas)), users)
    leases = _lease_messages(rows, "address", users, stats)
    yield {
        **_lease_columns(leases, "address", users),
        "status": leases["status"],
        "nas": users.names(leases["nas"], leases["ts"], True),
        **{
            name: users.identities(leases[name], leases["ts"], SESSION)
            for name in ("session", "charging", "multi_session")
        },
        "subscriber": users.identities(leases["subscriber"], leases["ts"]),
        "session_time": leases["session_time"],
        **label_columns(leases, users.area, users.device, stats),
    }


def _authentication_rows(
    rows: pa.RecordBatch, log: Log, users: _UserNames, stats: ReadStats
) -> Iterator[Columns]:
    """Yield rows of accounting from Zeek's own log of RADIUS authentications."""
    names = (rows[name].cast(TEXT) for name in ("username", "mac"))
    rows = _with_columns(rows, subscriber=pc.coalesce(*names))
    rows = _keep_rows(rows, pc.equal(rows["result"], "success"), "other_status", stats)
    leases = _lease_messages(rows, "framed_addr", users, stats)
    yield {
        **_lease_columns(leases, "framed_addr", users),
        "status": ACCEPTED,
        "nas": users.names(leases["id.orig_h"], leases["ts"], True),
        "subscriber": users.identities(leases["subscriber"], leases["ts"]),
    }


def _count_monitor_losses(
    rows: pa.RecordBatch, log: Log, users: _UserNames, stats: ReadStats
) -> Iterator[Columns]:
    """Count what a live Zeek missed, beside the packets that it got; return no rows."""
    for reason, column in (("dropped_by_monitor", "dropped"), ("unseen_data", "gaps")):
        if count := int(rows[column].to_numpy().sum()):
            stats.skipped[reason] += count
    if len(rows):
        times = [*(stats.counted_span_us or ()), *rows["ts"].to_pylist()]
        stats.counted_span_us = (min(times), max(times))
    return iter(())


def _for_each_prefix(rows: pa.RecordBatch, users: _UserNames) -> pa.RecordBatch:
    """Return the rows, and for each user within a row's `prefixes` one with an address of it."""
    lists = rows["prefixes"].cast(pa.list_(TEXT))
    if lists.null_count == len(lists):
        return rows
    texts = lists.flatten().to_pylist()
    within = {text: users.addresses_within(text) for text in set(texts)}
    found = [within[text] for text in texts]
    row = np.repeat(pc.list_parent_indices(lists).to_numpy(), [*map(len, found)])
    own = np.flatnonzero((rows["address"].to_numpy() > 0) | ~np.isin(np.arange(len(rows)), row))
    addresses = np.append(rows["address"].to_numpy()[own], [n for users in found for n in users])
    return _with_columns(rows.take(np.append(own, row)), address=pa.array(addresses, pa.int32()))


def _lease_messages(
    rows: pa.RecordBatch, address: str, users: _UserNames, stats: ReadStats
) -> pa.RecordBatch:
    """Return the messages that assign one of the network's addresses to a subscriber."""
    names_lease = pc.and_(pc.greater(rows[address], 0), rows["subscriber"].is_valid())
    rows = _keep_rows(rows, names_lease, "no_lease", stats)
    return _keep_rows(rows, users.are_subscribers(rows[address]), "not_subscriber", stats)


def _lease_columns(rows: pa.RecordBatch, address: str, users: _UserNames) -> Columns:
    ts = rows["ts"]
    keys = users.names(rows[address], ts)
    return {"ts": ts, "address": keys, "user_partition": users.user_partitions(keys, ts)}


def _with_columns(rows: pa.RecordBatch, **columns: pa.Array) -> pa.RecordBatch:
    """Return the rows with these columns, which replace others of the same name."""
    return pa.record_batch(dict(zip(rows.schema.names, rows.columns, strict=True)) | columns)


def _to_int(column: pa.Array) -> pa.Array:
    """Return a column as whole numbers, with 0 for null."""
    return column.cast(pa.int64()).fill_null(0)


_ROW_MAKERS: dict[
    str, Callable[[pa.RecordBatch, Log, _UserNames, ReadStats], Iterator[Columns]]
] = {
    CONN_LOG.path: _connection_rows,
    HTTP_LOG.path: _connection_rows,
    SSL_LOG.path: _connection_rows,
    ACCOUNTING_LOG.path: _accounting_rows,
    RADIUS_LOG.path: _authentication_rows,
    MONITOR_LOG.path: _count_monitor_losses,
}
