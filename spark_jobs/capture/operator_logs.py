"""Conversion of the operator's Zeek logs to rows of application_log and accounting.

The logs conn, http and ssl give rows of application_log. Logs of RADIUS give rows of accounting.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

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
from spark_jobs.capture.reader import ReadStats
from spark_jobs.capture.untrusted import parser
from spark_jobs.capture.users import UserKeys
from spark_jobs.capture.zeek_lines import (
    AddressNumbers,
    has_value,
    read_log_rows,
    skip_rows,
    to_microseconds,
)

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

Columns = dict[str, Any]


@parser
def read_operator_log(
    path: Path,
    log: Log,
    prefixes: np.ndarray,
    stats: ReadStats,
    capture: str,
    partitions: int,
    keys: UserKeys,
) -> Iterator[pa.Table]:
    """Yield the rows that a log adds to its table (see TABLE_BY_LOG)."""
    table = TABLE_BY_LOG[log.path]
    make_rows = _ROW_MAKERS[log.path]
    users = _UserNames(AddressNumbers(prefixes), partitions, keys)
    for block in read_log_rows(path, log, stats):
        for parsed, _, lines in block:
            frame = _to_data_frame(parsed, log, users.addresses)
            present = [has_value(parsed, name) for name in log.required]
            present += [frame[name] > 0 for name in _address_fields(log) if name in log.required]
            complete = np.logical_and.reduce(present)
            plausible = frame["ts"].to_numpy() >= 0
            skip_rows(stats, path, lines, ~complete, "malformed_line")
            skip_rows(stats, path, lines, complete & ~plausible, "implausible_time")
            for columns in make_rows(frame[complete & plausible], log, users, stats):
                yield _to_table(columns | {"capture": capture}, table)


def _address_fields(log: Log) -> list[str]:
    return [name for name, kind in log.fields.items() if pa.types.is_dictionary(kind)]


def _to_data_frame(parsed: pa.Table, log: Log, addresses: AddressNumbers) -> pd.DataFrame:
    """Return every field of the log as a column.

    Times are in µs (-1 if implausible), addresses are numbers (0 if null). attrs["fields"] lists
    the fields that the log has.
    """
    columns: Columns = dict.fromkeys(log.fields)
    for name in parsed.column_names:
        if name in _address_fields(log):
            columns[name] = addresses.numbers(parsed[name])
        else:
            columns[name] = parsed[name].to_pandas()
    columns["ts"] = to_microseconds(parsed["ts"])
    frame = pd.DataFrame(columns, index=range(len(parsed)))
    frame.attrs["fields"] = parsed.column_names
    return frame


def _to_table(columns: Columns, table: Table) -> pa.Table:
    n = len(columns["ts"])
    arrays = []
    for field in table.arrow:
        values = columns.get(field.name)
        if values is None or isinstance(values, str):
            array = pa.repeat(pa.scalar(values, field.type), n)
        elif pa.types.is_timestamp(field.type):
            array = pa.array(values, pa.int64()).cast(field.type)
        else:
            array = pa.array(values, field.type, from_pandas=True)
        arrays.append(array)
    return pa.table(arrays, schema=table.arrow).cast(table.arrow_dictionary)


@dataclass
class _UserNames:
    """Names of the users and servers with these addresses."""

    addresses: AddressNumbers
    partitions: int
    keys: UserKeys

    def are_subscribers(self, numbers: pd.Series) -> np.ndarray:
        """Return which addresses belong to subscribers: bool[n]."""
        return self.addresses.is_subscriber(numbers.to_numpy())

    def names(self, numbers: pd.Series, ts: pd.Series, infrastructure: bool = False) -> pd.Series:
        """Return the names of addresses at these times (µs); see UserKeys.names."""

        def names_in_period(keys: UserKeys, values: pd.Series) -> pd.Series:
            unique = values.unique()
            texts = keys.names(self.addresses.table, unique, infrastructure)
            return values.map(dict(zip(unique.tolist(), texts, strict=True)))

        return self._by_period(numbers, ts, names_in_period)

    def identities(self, names: pd.Series, ts: pd.Series) -> pd.Series:
        """Return the names of subscribers whom RADIUS identifies, at these times (µs)."""
        return self._by_period(
            names, ts, lambda keys, values: _map_unique(values, keys.key_of_identity)
        )

    def user_partitions(self, names: pd.Series, ts: pd.Series) -> pd.Series:
        """Return the user partitions of users by their names at these times (µs)."""
        return self._by_period(
            names,
            ts,
            lambda keys, values: _map_unique(
                values, lambda key: keys.partition(key, self.partitions)
            ),
        )

    def _by_period(
        self, values: pd.Series, ts: pd.Series, function: Callable[[UserKeys, pd.Series], pd.Series]
    ) -> pd.Series:
        """Apply a function to the values of each key period."""
        if not self.keys.has_key_periods or values.empty:
            return function(self.keys, values)
        keys_by_row = _map_unique(
            ts // DAY_US, lambda day: self.keys.for_day(EPOCH + timedelta(days=int(day)))
        )
        parts = [function(keys, values[keys_by_row == keys]) for keys in keys_by_row.unique()]
        return pd.concat(parts).reindex(values.index)


def _map_unique(values: pd.Series, function: Callable[[Any], Any]) -> pd.Series:
    """Return function(value) for each value, called once for equal values."""
    return values.map({value: function(value) for value in values.unique()})


def _keep_rows(frame: pd.DataFrame, keep: pd.Series, reason: str, stats: ReadStats) -> pd.DataFrame:
    """Return the rows to keep, and count the others."""
    if dropped := int((~keep).sum()):
        stats.skipped[reason] += dropped
    return frame[keep]


def _connection_rows(
    frame: pd.DataFrame, log: Log, users: _UserNames, stats: ReadStats
) -> Iterator[Columns]:
    """Yield rows of application_log, one for each endpoint that is a subscriber."""
    if log is CONN_LOG:
        frame = _keep_rows(frame, frame["proto"] == "tcp", "not_tcp", stats)
    if log is HTTP_LOG and "method" in frame.attrs["fields"]:
        is_request = frame["method"].notna() | frame["status_code"].notna()
        frame = _keep_rows(frame, is_request, "no_request", stats)
    is_subscriber = users.are_subscribers(frame["id.orig_h"]) | users.are_subscribers(
        frame["id.resp_h"]
    )
    frame = _keep_rows(frame, pd.Series(is_subscriber, frame.index), "not_subscriber", stats)
    for user, server in (("orig", "resp"), ("resp", "orig")):
        rows = frame[users.are_subscribers(frame[f"id.{user}_h"])]
        keys = users.names(rows[f"id.{user}_h"], rows["ts"])
        columns = {
            "log": log.path,
            "user_partition": users.user_partitions(keys, rows["ts"]),
            "user": keys,
            "user_port": rows[f"id.{user}_p"],
            "server": users.names(rows[f"id.{server}_h"], rows["ts"]),
            "server_port": rows[f"id.{server}_p"],
            "ts": rows["ts"],
            "end_ts": rows["ts"],
            "service": log.path,
        }
        if log is CONN_LOG:
            duration_us = 1e6 * pd.to_numeric(rows["duration"])
            is_plausible = duration_us.between(0, LATEST_TS_US - rows["ts"])
            columns["end_ts"] = rows["ts"] + duration_us.where(is_plausible, 0).round().astype(
                "int64"
            )
            columns["service"] = rows["service"]
        if log is HTTP_LOG:
            columns["request"] = rows["trans_depth"]
            columns["answered"] = _is_answered(rows["method"], rows["status_code"])
        if log is SSL_LOG:
            columns["answered"] = rows["established"]
        yield columns


def _is_answered(method: pd.Series, status: pd.Series) -> pd.Series:
    status = pd.to_numeric(status)
    tunnel = (method == "CONNECT") & (status < FIRST_REDIRECTION)
    return (status >= FIRST_FINAL_STATUS) & ~tunnel


def _accounting_rows(
    frame: pd.DataFrame, log: Log, users: _UserNames, stats: ReadStats
) -> Iterator[Columns]:
    """Yield rows of accounting from the accounting log of zeek_scripts/."""
    frame = frame.assign(
        ts=frame["ts"] - _to_int(frame["delay"]) * 1_000_000, status=frame["status"].map(STATUSES)
    )
    frame = _keep_rows(frame, frame["status"].notna(), "other_status", stats)
    is_nas = frame["status"] == NAS
    yield {
        "ts": frame["ts"][is_nas],
        "status": NAS,
        "nas": users.names(frame["nas"][is_nas], frame["ts"][is_nas], True),
    }
    leases = _lease_messages(frame[~is_nas], "address", users, stats)
    yield {
        **_lease_columns(leases, "address", users),
        "status": leases["status"],
        "nas": users.names(leases["nas"], leases["ts"], True),
        "session": leases["session"],
        "subscriber": users.identities(leases["subscriber"], leases["ts"]),
        "session_time": leases["session_time"],
    }


def _authentication_rows(
    frame: pd.DataFrame, log: Log, users: _UserNames, stats: ReadStats
) -> Iterator[Columns]:
    """Yield rows of accounting from Zeek's own log of RADIUS authentications."""
    frame = frame.assign(subscriber=frame["username"].fillna(frame["mac"]))
    frame = _keep_rows(frame, frame["result"] == "success", "other_status", stats)
    leases = _lease_messages(frame, "framed_addr", users, stats)
    yield {
        **_lease_columns(leases, "framed_addr", users),
        "status": ACCEPTED,
        "nas": users.names(leases["id.orig_h"], leases["ts"], True),
        "subscriber": users.identities(leases["subscriber"], leases["ts"]),
    }


def _count_monitor_losses(
    frame: pd.DataFrame, log: Log, users: _UserNames, stats: ReadStats
) -> Iterator[Columns]:
    """Count what a live Zeek missed, beside the packets that it got; return no rows."""
    for reason, column in (("dropped_by_monitor", "dropped"), ("unseen_data", "gaps")):
        if count := int(frame[column].sum()):
            stats.skipped[reason] += count
    if len(frame):
        times = [*(stats.counted_span_us or ()), *frame["ts"]]
        stats.counted_span_us = (min(times), max(times))
    return iter(())


def _lease_messages(
    frame: pd.DataFrame, address: str, users: _UserNames, stats: ReadStats
) -> pd.DataFrame:
    """Return the messages that assign one of the network's addresses to a subscriber."""
    frame = frame.assign(**{address: _to_int(frame[address])})
    names_lease = (frame[address] > 0) & frame["subscriber"].notna()
    frame = _keep_rows(frame, names_lease, "no_lease", stats)
    is_subscriber = pd.Series(users.are_subscribers(frame[address]), frame.index)
    return _keep_rows(frame, is_subscriber, "not_subscriber", stats)


def _lease_columns(frame: pd.DataFrame, address: str, users: _UserNames) -> Columns:
    ts = frame["ts"]
    keys = users.names(frame[address], ts)
    return {"ts": ts, "address": keys, "user_partition": users.user_partitions(keys, ts)}


def _to_int(column: pd.Series) -> pd.Series:
    """Return a column as whole numbers, with 0 for null."""
    return pd.to_numeric(column).fillna(0).astype("int64")


_ROW_MAKERS: dict[str, Callable[[pd.DataFrame, Log, _UserNames, ReadStats], Iterator[Columns]]] = {
    CONN_LOG.path: _connection_rows,
    HTTP_LOG.path: _connection_rows,
    SSL_LOG.path: _connection_rows,
    ACCOUNTING_LOG.path: _accounting_rows,
    RADIUS_LOG.path: _authentication_rows,
    MONITOR_LOG.path: _count_monitor_losses,
}
