"""The logs that a site's Zeek writes of connections and addresses, to rows of application_log
(conn, http, ssl) and accounting (RADIUS)."""

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
from spark_jobs.capture.reader import Reading
from spark_jobs.capture.untrusted import parser
from spark_jobs.capture.users import UserKeys
from spark_jobs.capture.zeek_lines import Addresses, leave_out, microseconds, read_lines, valid

TABLES: dict[str, Table] = {
    CONN_LOG.path: APPLICATION_LOG,
    HTTP_LOG.path: APPLICATION_LOG,
    SSL_LOG.path: APPLICATION_LOG,
    ACCOUNTING_LOG.path: ACCOUNTING,
    RADIUS_LOG.path: ACCOUNTING,
    MONITOR_LOG.path: APPLICATION_LOG,
}
"""Where each log's rows go; the monitor's become none, they are counted."""
FIRST_FINAL_STATUS, FIRST_REDIRECTION = 200, 300
"""RFC 9110, 15: a smaller one than the first is interim; one between them is a success."""

Columns = dict[str, Any]


@parser
def read_site_log(
    path: Path,
    log: Log,
    prefixes: np.ndarray,
    reading: Reading,
    capture: str,
    partitions: int,
    keys: UserKeys,
) -> Iterator[pa.Table]:
    """The rows that a log adds to its table (see TABLES)."""
    table = TABLES[log.path]
    rows_of = _ROWS[log.path]
    users = _Users(Addresses(prefixes), partitions, keys)
    for block in read_lines(path, log, reading):
        for parsed, _, lines in block:
            frame = _frame(parsed, log, users.addresses)
            there = [valid(parsed, name) for name in log.required]
            there += [frame[name] > 0 for name in _addresses_of(log) if name in log.required]
            whole = np.logical_and.reduce(there)
            timely = frame["ts"].to_numpy() >= 0
            leave_out(reading, path, lines, ~whole, "malformed_line")
            leave_out(reading, path, lines, whole & ~timely, "implausible_time")
            for columns in rows_of(frame[whole & timely], log, users, reading):
                yield _table(columns | {"capture": capture}, table)


def _addresses_of(log: Log) -> list[str]:
    return [name for name, kind in log.fields.items() if pa.types.is_dictionary(kind)]


def _frame(parsed: pa.Table, log: Log, addresses: Addresses) -> pd.DataFrame:
    """Every field of the log; times in us (-1: not plausible), addresses as numbers (0: none).
    attrs["fields"]: those that the log has."""
    columns: Columns = dict.fromkeys(log.fields)
    for name in parsed.column_names:
        if name in _addresses_of(log):
            columns[name] = addresses.numbers(parsed[name])
        else:
            columns[name] = parsed[name].to_pandas()
    columns["ts"] = microseconds(parsed["ts"])
    frame = pd.DataFrame(columns, index=range(len(parsed)))
    frame.attrs["fields"] = parsed.column_names
    return frame


def _table(columns: Columns, table: Table) -> pa.Table:
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
class _Users:
    """Who addresses belong to."""

    addresses: Addresses
    partitions: int
    of: UserKeys

    def ours(self, numbers: pd.Series) -> np.ndarray:
        """bool[n]: which are subscribers'."""
        return self.addresses.is_subscriber(numbers.to_numpy())

    def texts(self, numbers: pd.Series, ts: pd.Series, infrastructure: bool = False) -> pd.Series:
        """What the addresses are called at these times (us); see UserKeys.texts."""

        def called(keys: UserKeys, some: pd.Series) -> pd.Series:
            each = some.unique()
            texts = keys.texts(self.addresses.table, each, infrastructure)
            return some.map(dict(zip(each.tolist(), texts, strict=True)))

        return self._by_period(numbers, ts, called)

    def identities(self, names: pd.Series, ts: pd.Series) -> pd.Series:
        """What those whom RADIUS names are called at these times (us)."""
        return self._by_period(names, ts, lambda keys, some: _each(some, keys.of_identity))

    def partitions_of(self, called: pd.Series, ts: pd.Series) -> pd.Series:
        """Those of addresses, as they are called at these times (us)."""
        return self._by_period(
            called,
            ts,
            lambda keys, some: _each(some, lambda key: keys.partition(key, self.partitions)),
        )

    def _by_period(
        self, values: pd.Series, ts: pd.Series, function: Callable[[UserKeys, pd.Series], pd.Series]
    ) -> pd.Series:
        """function of the values of each period of the pseudonyms."""
        if not self.of.have_periods or values.empty:
            return function(self.of, values)
        of_day = _each(ts // DAY_US, lambda day: self.of.on(EPOCH + timedelta(days=int(day))))
        parts = [function(keys, values[of_day == keys]) for keys in of_day.unique()]
        return pd.concat(parts).reindex(values.index)


def _each(values: pd.Series, function: Callable[[Any], Any]) -> pd.Series:
    """function of each value, called once for equal ones."""
    return values.map({value: function(value) for value in values.unique()})


def _only(frame: pd.DataFrame, keep: pd.Series, reason: str, reading: Reading) -> pd.DataFrame:
    """The rows to keep; the others are counted."""
    if others := int((~keep).sum()):
        reading.skipped[reason] += others
    return frame[keep]


def _connections(
    frame: pd.DataFrame, log: Log, users: _Users, reading: Reading
) -> Iterator[Columns]:
    """Rows of application_log: one for each end that is a subscriber."""
    if log is CONN_LOG:
        frame = _only(frame, frame["proto"] == "tcp", "not_tcp", reading)
    if log is HTTP_LOG and "method" in frame.attrs["fields"]:
        said = frame["method"].notna() | frame["status_code"].notna()
        frame = _only(frame, said, "no_request", reading)
    ours = users.ours(frame["id.orig_h"]) | users.ours(frame["id.resp_h"])
    frame = _only(frame, pd.Series(ours, frame.index), "not_subscriber", reading)
    for user, server in (("orig", "resp"), ("resp", "orig")):
        mine = frame[users.ours(frame[f"id.{user}_h"])]
        keys = users.texts(mine[f"id.{user}_h"], mine["ts"])
        columns = {
            "log": log.path,
            "user_partition": users.partitions_of(keys, mine["ts"]),
            "user": keys,
            "user_port": mine[f"id.{user}_p"],
            "server": users.texts(mine[f"id.{server}_h"], mine["ts"]),
            "server_port": mine[f"id.{server}_p"],
            "ts": mine["ts"],
            "end_ts": mine["ts"],
            "service": log.path,
        }
        if log is CONN_LOG:
            lasted = 1e6 * pd.to_numeric(mine["duration"])
            known = lasted.between(0, LATEST_TS_US - mine["ts"])  # not where it ends too late
            columns["end_ts"] = mine["ts"] + lasted.where(known, 0).round().astype("int64")
            columns["service"] = mine["service"]
        if log is HTTP_LOG:
            columns["request"] = mine["trans_depth"]
            columns["answered"] = _answered(mine["method"], mine["status_code"])
        if log is SSL_LOG:
            columns["answered"] = mine["established"]
        yield columns


def _answered(method: pd.Series, status: pd.Series) -> pd.Series:
    status = pd.to_numeric(status)
    tunnel = (method == "CONNECT") & (status < FIRST_REDIRECTION)
    return (status >= FIRST_FINAL_STATUS) & ~tunnel


def _messages(frame: pd.DataFrame, log: Log, users: _Users, reading: Reading) -> Iterator[Columns]:
    """Rows of accounting, from the accounting log of zeek_scripts/."""
    frame = frame.assign(
        ts=frame["ts"] - _number(frame["delay"]) * 1_000_000, status=frame["status"].map(STATUSES)
    )
    frame = _only(frame, frame["status"].notna(), "other_status", reading)
    of_nas = frame["status"] == NAS
    yield {
        "ts": frame["ts"][of_nas],
        "status": NAS,
        "nas": users.texts(frame["nas"][of_nas], frame["ts"][of_nas], True),
    }
    mine = _leased(frame[~of_nas], "address", users, reading)
    yield {
        **_lease(mine, "address", users),
        "status": mine["status"],
        "nas": users.texts(mine["nas"], mine["ts"], True),
        "session": mine["session"],
        "subscriber": users.identities(mine["subscriber"], mine["ts"]),
        "session_time": mine["session_time"],
    }


def _accepted(frame: pd.DataFrame, log: Log, users: _Users, reading: Reading) -> Iterator[Columns]:
    """Rows of accounting, from Zeek's own log of RADIUS authentications."""
    frame = frame.assign(subscriber=frame["username"].fillna(frame["mac"]))
    frame = _only(frame, frame["result"] == "success", "other_status", reading)
    mine = _leased(frame, "framed_addr", users, reading)
    yield {
        **_lease(mine, "framed_addr", users),
        "status": ACCEPTED,
        "nas": users.texts(mine["id.orig_h"], mine["ts"], True),
        "subscriber": users.identities(mine["subscriber"], mine["ts"]),
    }


def _monitored(frame: pd.DataFrame, log: Log, users: _Users, reading: Reading) -> Iterator[Columns]:
    """No rows: what a live Zeek did not get is counted, beside the packets that it got."""
    for reason, column in (("dropped_by_monitor", "dropped"), ("unseen_data", "gaps")):
        if count := int(frame[column].sum()):
            reading.skipped[reason] += count
    if len(frame):
        times = [*(reading.counted_us or ()), *frame["ts"]]
        reading.counted_us = (min(times), max(times))
    return iter(())


def _leased(frame: pd.DataFrame, address: str, users: _Users, reading: Reading) -> pd.DataFrame:
    """The messages that say which subscriber has which of the network's addresses."""
    frame = frame.assign(**{address: _number(frame[address])})
    told = (frame[address] > 0) & frame["subscriber"].notna()
    frame = _only(frame, told, "no_lease", reading)
    ours = pd.Series(users.ours(frame[address]), frame.index)
    return _only(frame, ours, "not_subscriber", reading)


def _lease(frame: pd.DataFrame, address: str, users: _Users) -> Columns:
    ts = frame["ts"]
    keys = users.texts(frame[address], ts)
    return {"ts": ts, "address": keys, "user_partition": users.partitions_of(keys, ts)}


def _number(column: pd.Series) -> pd.Series:
    """Whole numbers; 0 where there is none."""
    return pd.to_numeric(column).fillna(0).astype("int64")


_ROWS: dict[str, Callable[[pd.DataFrame, Log, _Users, Reading], Iterator[Columns]]] = {
    CONN_LOG.path: _connections,
    HTTP_LOG.path: _connections,
    SSL_LOG.path: _connections,
    ACCOUNTING_LOG.path: _messages,
    RADIUS_LOG.path: _accepted,
    MONITOR_LOG.path: _monitored,
}
