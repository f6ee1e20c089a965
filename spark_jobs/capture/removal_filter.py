"""The filter that leaves removed users and days out when a capture is read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from schemas import Table
from spark_jobs.capture.users import secret, without_vlan

OWN_COLUMNS = ("user", "address", "subscriber")
"""Columns that name a network's own users."""
FAR_END_COLUMN = "server"
"""Column of the far end of a connection."""
KEY_COLUMNS = (*OWN_COLUMNS, FAR_END_COLUMN)
"""Columns that name the users a row is about."""
TIME_COLUMNS = ("ts", "start_ts")
REMOVED_REASON = "removed"
"""Reason in ingest_log for rows that are left out."""
HASH_PERSON, HASH_BYTES = b"forgotten", 16


class RemovedSpan(NamedTuple):
    """A time span of which a user's rows are in no table.

    key_hash: keyed hash of the user's key. Nobody can read from it who was removed, nor find it out
        by trying addresses.
    begin_us, end_us: the span (µs since 1970), without its end
    """

    key_hash: str
    begin_us: int
    end_us: int

    @classmethod
    def from_key(cls, key: str, begin_us: int, end_us: int) -> RemovedSpan:
        """Return the span of a user's key.

        Raises UserError if there is no secret.
        """
        return cls(_hash_key(key, secret()), begin_us, end_us)


@dataclass(frozen=True)
class RemovalFilter:
    """The users and days that were removed from a network's tables.

    spans: spans of removed users, by the column in which their names are looked for. Users of other
        networks may only be the far end: somebody else may have the name in the other columns.
    purged_before: by table, the day before which all rows were removed
    """

    spans: Mapping[str, Sequence[RemovedSpan]] = field(default_factory=dict)
    purged_before: Mapping[str, date] = field(default_factory=dict)

    def apply(self, table: Table, day: date, rows: pa.Table) -> pa.Table:
        """Return the rows of a table's day without removed ones, in the writer's schema."""
        if day < self.purged_before.get(table.name, date.min):
            return rows.slice(0, 0)
        return drop_rows(table, rows, self.matches(rows))

    def matches(self, rows: pa.Table) -> np.ndarray:
        """Return which rows of a table are about a removed user: bool[n]."""
        matches = np.zeros(len(rows), bool)
        time_columns = [name for name in TIME_COLUMNS if name in rows.schema.names]
        times = [rows[name].cast(pa.int64()).to_numpy() for name in time_columns]
        for name, spans in self._by_column.items():
            if name not in rows.schema.names:
                continue
            keys, codes = _dictionary_codes(rows[name])
            for code, key in enumerate(keys):
                for begin_us, end_us in self._spans_of(key, spans):
                    is_match = codes == code
                    if times:
                        is_match &= (times[0] >= begin_us) & (times[0] < end_us)
                    matches |= is_match
        return matches

    def may_match(self, rows: pa.Table) -> bool:
        """Return whether rows may be about a removed user, at any time.

        Only the columns KEY_COLUMNS are needed.
        """
        keys = keys_by_column(rows)
        return any(
            self._spans_of(key, spans)
            for name, spans in self._by_column.items()
            for key in keys.get(name, ())
        )

    def _spans_of(self, key: str | None, spans: _SpansByHash) -> Iterable[tuple[int, ...]]:
        return spans.get(_hash_key(key, self._secret), ()) if key is not None else ()

    @cached_property
    def _secret(self) -> bytes:
        """Return the secret of the process that leaves rows out.

        It is never sent to another process.
        """
        return secret()

    def __getstate__(self) -> dict[str, Any]:
        return {"spans": self.spans, "purged_before": self.purged_before}

    @cached_property
    def _by_column(self) -> dict[str, _SpansByHash]:
        """Return, for each column with spans, their begin and end by key hash."""
        by_column: dict[str, _SpansByHash] = {}
        for name, spans in self.spans.items():
            for key_hash, *times in spans:
                by_column.setdefault(name, {}).setdefault(key_hash, []).append(tuple(times))
        return by_column


_SpansByHash = dict[str, list[tuple[int, ...]]]


def keys_by_column(rows: pa.Table) -> dict[str, set[str]]:
    """Return the keys in rows, for each of KEY_COLUMNS that they have."""
    return {
        name: {key for key in _dictionary_codes(rows[name])[0] if key is not None}
        for name in KEY_COLUMNS
        if name in rows.schema.names
    }


def drop_rows(table: Table, rows: pa.Table, mask: np.ndarray) -> pa.Table:
    """Return a table's rows without those of a mask, in the writer's schema.

    Texts that only the dropped rows have are not in the dictionaries either.
    """
    if not mask.any():
        return rows
    return rows.filter(pa.array(~mask)).cast(table.arrow).cast(table.arrow_dictionary)


def _dictionary_codes(column: pa.ChunkedArray) -> tuple[list[str | None], np.ndarray]:
    """Return the keys in a column, and each row's index among them (int[n], -1 for null).

    A user in one VLAN has the key of the user in all of them.
    """
    combined = column.combine_chunks()
    if not pa.types.is_dictionary(combined.type):
        combined = combined.dictionary_encode()
    keys = [text and without_vlan(text) for text in combined.dictionary.to_pylist()]
    return keys, combined.indices.fill_null(-1).to_numpy(zero_copy_only=False)


def _hash_key(key: str, secret: bytes) -> str:
    return blake2b(key.encode(), key=secret, digest_size=HASH_BYTES, person=HASH_PERSON).hexdigest()
