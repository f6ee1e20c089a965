"""What was removed from a network's tables, and is left out where a capture is read again."""

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
KEY_COLUMNS = ("user", FAR_END_COLUMN, "address", "subscriber")
"""Columns that say whom a row is about; FAR: at the far end."""
TIME_COLUMNS = ("ts", "start_ts")
REMOVED_REASON = "removed"
"""The reason for which rows are left out, in ingest_log."""
HASH_PERSON, HASH_BYTES = b"forgotten", 16
UNKEYED_SPANS, KEYED_SPANS, SECRET_CHECK = "spans", "keyed_spans", "made_with"
"""In the facts of what was removed: spans of earlier versions, whose hashes everyone can make;
those of keyed hashes, and with which secret these are made."""


class RemovedSpan(NamedTuple):
    """Whose rows of when (µs since 1970, the end not included) are in no table. who: a keyed hash,
    for who was removed is not to be read here, nor found by trying addresses."""

    key_hash: str
    begin_us: int
    end_us: int

    @classmethod
    def from_key(cls, key: str, begin_us: int, end_us: int) -> RemovedSpan:
        """That of a user's key. Raises UserError where there is no secret."""
        return cls(_hash_key(key, secret()), begin_us, end_us)


def spans_to_facts(spans: Iterable[RemovedSpan]) -> dict[str, Any]:
    """Spans as they are kept."""
    return {KEYED_SPANS: sorted(spans), SECRET_CHECK: secret_check(secret())}


def spans_from_facts(facts: Mapping[str, Any], network: str) -> tuple[RemovedSpan, ...]:
    """Spans that were kept. Raises UserError where the secret is not the one that they were made
    with: those who were removed would come back."""
    if not facts.get(KEYED_SPANS) and not facts.get(UNKEYED_SPANS):
        return ()
    current_secret = secret()
    if facts.get(SECRET_CHECK, secret_check(current_secret)) != secret_check(current_secret):
        raise UserError(
            f"{network}: the users who were removed are known by another key of the pseudonyms: "
            "that one is needed, or they would come back"
        )
    unkeyed = [
        RemovedSpan(keyed_hash(key_hash, current_secret), *times)
        for key_hash, *times in facts.get(UNKEYED_SPANS, ())
    ]
    return tuple(sorted({*unkeyed, *(RemovedSpan(*span) for span in facts.get(KEYED_SPANS, ()))}))


@dataclass(frozen=True)
class RemovalFilter:
    """Users who were removed, and for each table before which day all was; far: users of other
    networks, whose names may be other users' in this one: removed where they are the far end."""

    spans: tuple[RemovedSpan, ...] = ()
    purged_before: Mapping[str, date] = field(default_factory=dict)
    far_end_spans: tuple[RemovedSpan, ...] = ()

    def apply(self, table: Table, day: date, rows: pa.Table) -> pa.Table:
        """The rows of a table's day that are not to be left out, as its writer has them."""
        if day < self.purged_before.get(table.name, date.min):
            return rows.slice(0, 0)
        return drop_rows(table, rows, self.matches(rows))

    def matches(self, rows: pa.Table) -> np.ndarray:
        """bool[n]: which rows of a table are about a user who was removed."""
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
        """Whether rows may be about such a user, whatever their times; only their KEYS are asked
        for."""
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
        """Of the process that leaves rows out: it is handed to none."""
        return secret()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "spans": self.spans,
            "purged_before": self.purged_before,
            "far_end_spans": self.far_end_spans,
        }

    @cached_property
    def _by_column(self) -> dict[str, _SpansByHash]:
        """By column, whom to look for in it."""
        far_end = _by_key_hash((*self.spans, *self.far_end_spans))
        own = _by_key_hash(self.spans)
        by_column = {name: far_end if name == FAR_END_COLUMN else own for name in KEY_COLUMNS}
        return {name: spans for name, spans in by_column.items() if spans}


_SpansByHash = Mapping[str, list[tuple[int, int]]]
"""By hashed key."""


def _by_key_hash(spans: Iterable[RemovedSpan]) -> _SpansByHash:
    by_hash: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for key_hash, begin_us, end_us in spans:
        by_hash[key_hash].append((begin_us, end_us))
    return dict(by_hash)


def keys_by_column(rows: pa.Table) -> dict[str, set[str]]:
    """Whom rows are about: by column of KEYS, its texts."""
    return {
        name: {key for key in _dictionary_codes(rows[name])[0] if key is not None}
        for name in KEY_COLUMNS
        if name in rows.schema.names
    }


def drop_rows(table: Table, rows: pa.Table, mask: np.ndarray) -> pa.Table:
    """A table's rows but for some, as its writer has them: what only those said is not in the
    dictionaries either."""
    if not mask.any():
        return rows
    return rows.filter(pa.array(~mask)).cast(table.arrow).cast(table.arrow_dictionary)


def _dictionary_codes(column: pa.ChunkedArray) -> tuple[list[str | None], np.ndarray]:
    """The texts of a column, and int[n] each row's place among them, -1 for null."""
    combined = column.combine_chunks()
    if not pa.types.is_dictionary(combined.type):
        combined = combined.dictionary_encode()
    return combined.dictionary.to_pylist(), combined.indices.fill_null(-1).to_numpy(
        zero_copy_only=False
    )


def _hash_key(key: str, secret: bytes) -> str:
    unkeyed = blake2b(key.encode(), digest_size=HASH_BYTES, person=HASH_PERSON).hexdigest()
    return keyed_hash(unkeyed, secret)  # so that spans of earlier versions can be told, too
