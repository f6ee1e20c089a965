"""The filter that leaves removed users and days out when a capture is read again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from schemas import Table
from spark_jobs.capture.users import keyed_hash, secret, secret_check
from spark_jobs.errors import UserError

FAR_END_COLUMN = "server"
"""Column of the far end of a connection."""
KEY_COLUMNS = ("user", FAR_END_COLUMN, "address", "subscriber")
"""Columns that name the users a row is about; the far end's is FAR_END_COLUMN."""
TIME_COLUMNS = ("ts", "start_ts")
REMOVED_REASON = "removed"
"""Reason in ingest_log for rows that are left out."""
HASH_PERSON, HASH_BYTES = b"forgotten", 16
UNKEYED_SPANS, KEYED_SPANS, SECRET_CHECK = "spans", "keyed_spans", "made_with"
"""Names of the facts that store removed spans.

UNKEYED_SPANS: spans of earlier versions, whose hashes anybody can make
KEYED_SPANS: spans with keyed hashes
SECRET_CHECK: identifies the secret that the keyed hashes are made with
"""


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


def spans_to_facts(spans: Iterable[RemovedSpan]) -> dict[str, Any]:
    """Return the facts that store spans."""
    return {KEYED_SPANS: sorted(spans), SECRET_CHECK: secret_check(secret())}


def spans_from_facts(facts: Mapping[str, Any], network: str) -> tuple[RemovedSpan, ...]:
    """Return the spans that facts store.

    Raises UserError if they were made with another secret, because removed users would come back.
    """
    if not facts.get(KEYED_SPANS) and not facts.get(UNKEYED_SPANS):
        return ()
    current_secret = secret()
    if facts.get(SECRET_CHECK, secret_check(current_secret)) != secret_check(current_secret):
        raise UserError(
            f"{network}: the users who were removed are recorded with another key of the "
            "pseudonyms: use that key, or their rows would come back"
        )
    unkeyed = [
        RemovedSpan(keyed_hash(key_hash, current_secret), *times)
        for key_hash, *times in facts.get(UNKEYED_SPANS, ())
    ]
    return tuple(sorted({*unkeyed, *(RemovedSpan(*span) for span in facts.get(KEYED_SPANS, ()))}))


@dataclass(frozen=True)
class RemovalFilter:
    """The users and days that were removed from a network's tables.

    spans: spans of removed users
    purged_before: by table, the day before which all rows were removed
    far_end_spans: spans of users of other networks. Users of this network may have the same names,
        so they are removed only from the far end.
    """

    spans: tuple[RemovedSpan, ...] = ()
    purged_before: Mapping[str, date] = field(default_factory=dict)
    far_end_spans: tuple[RemovedSpan, ...] = ()

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
        return any(
            self._spans_of(key, spans)
            for name, spans in self._by_column.items()
            if name in rows.schema.names
            for key in _dictionary_codes(rows[name])[0]
        )

    def _spans_of(self, key: str | None, spans: _SpansByHash) -> Iterable[tuple[int, int]]:
        return spans.get(_hash_key(key, self._secret), ()) if key is not None else ()

    @cached_property
    def _secret(self) -> bytes:
        """Return the secret of the process that leaves rows out.

        It is never sent to another process.
        """
        return secret()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "spans": self.spans,
            "purged_before": self.purged_before,
            "far_end_spans": self.far_end_spans,
        }

    @cached_property
    def _by_column(self) -> dict[str, _SpansByHash]:
        """Return the spans to look for in each column."""
        far_end = _by_key_hash((*self.spans, *self.far_end_spans))
        own = _by_key_hash(self.spans)
        by_column = {name: far_end if name == FAR_END_COLUMN else own for name in KEY_COLUMNS}
        return {name: spans for name, spans in by_column.items() if spans}


_SpansByHash = Mapping[str, list[tuple[int, int]]]
"""Begin and end of spans by key hash."""


def _by_key_hash(spans: Iterable[RemovedSpan]) -> _SpansByHash:
    by_hash: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for key_hash, begin_us, end_us in spans:
        by_hash[key_hash].append((begin_us, end_us))
    return dict(by_hash)


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
    """Return the texts of a column, and each row's index among them (int[n], -1 for null)."""
    combined = column.combine_chunks()
    if not pa.types.is_dictionary(combined.type):
        combined = combined.dictionary_encode()
    return combined.dictionary.to_pylist(), combined.indices.fill_null(-1).to_numpy(
        zero_copy_only=False
    )


def _hash_key(key: str, secret: bytes) -> str:
    unkeyed = blake2b(key.encode(), digest_size=HASH_BYTES, person=HASH_PERSON).hexdigest()
    return keyed_hash(unkeyed, secret)  # so that the unkeyed spans of earlier versions stay usable
