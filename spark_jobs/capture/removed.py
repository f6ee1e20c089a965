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
from spark_jobs.capture.users import check_of, keyed_hash, secret
from spark_jobs.errors import UserError

FAR = "server"
KEYS = ("user", FAR, "address", "subscriber")
"""Columns that say whom a row is about; FAR: at the far end."""
TIMES = ("ts", "start_ts")
REMOVED = "removed"
"""The reason for which rows are left out, in ingest_log."""
HASH, HASH_BYTES = b"forgotten", 16
SPANS, KEYED_SPANS, MADE_WITH = "spans", "keyed_spans", "made_with"
"""In the facts of what was removed: spans of earlier versions, whose hashes everyone can make;
those of keyed hashes, and with which secret these are made."""


class Span(NamedTuple):
    """Whose rows of when (µs since 1970, the end not included) are in no table. who: a keyed hash,
    for who was removed is not to be read here, nor found by trying addresses."""

    who: str
    begin_us: int
    end_us: int

    @classmethod
    def of(cls, key: str, begin_us: int, end_us: int) -> Span:
        """That of a user's key. Raises UserError where there is no secret."""
        return cls(_hashed(key, secret()), begin_us, end_us)


def as_facts(spans: Iterable[Span]) -> dict[str, Any]:
    """Spans as they are kept."""
    return {KEYED_SPANS: sorted(spans), MADE_WITH: check_of(secret())}


def from_facts(facts: Mapping[str, Any], network: str) -> tuple[Span, ...]:
    """Spans that were kept. Raises UserError where the secret is not the one that they were made
    with: those who were removed would come back."""
    if not facts.get(KEYED_SPANS) and not facts.get(SPANS):
        return ()
    known = secret()
    if facts.get(MADE_WITH, check_of(known)) != check_of(known):
        raise UserError(
            f"{network}: the users who were removed are known by another key of the pseudonyms: "
            "that one is needed, or they would come back"
        )
    earlier = [Span(keyed_hash(who, known), *times) for who, *times in facts.get(SPANS, ())]
    return tuple(sorted({*earlier, *(Span(*span) for span in facts.get(KEYED_SPANS, ()))}))


@dataclass(frozen=True)
class Removed:
    """Users who were removed, and for each table before which day all was; far: users of other
    networks, whose names may be other users' in this one: removed where they are the far end."""

    spans: tuple[Span, ...] = ()
    before: Mapping[str, date] = field(default_factory=dict)
    far: tuple[Span, ...] = ()

    def kept(self, table: Table, day: date, rows: pa.Table) -> pa.Table:
        """The rows of a table's day that are not to be left out, as its writer has them."""
        if day < self.before.get(table.name, date.min):
            return rows.slice(0, 0)
        return without(table, rows, self.about(rows))

    def about(self, rows: pa.Table) -> np.ndarray:
        """bool[n]: which rows of a table are about a user who was removed."""
        found = np.zeros(len(rows), bool)
        there = [name for name in TIMES if name in rows.schema.names]
        times = [rows[name].cast(pa.int64()).to_numpy() for name in there]
        for name, spans in self._by_column.items():
            if name not in rows.schema.names:
                continue
            keys, codes = _coded(rows[name])
            for code, key in enumerate(keys):
                for begin_us, end_us in self._spans_of(key, spans):
                    mine = codes == code
                    if times:
                        mine &= (times[0] >= begin_us) & (times[0] < end_us)
                    found |= mine
        return found

    def may_be_about(self, rows: pa.Table) -> bool:
        """Whether rows may be about such a user, whatever their times; only their KEYS are asked
        for."""
        return any(
            self._spans_of(key, spans)
            for name, spans in self._by_column.items()
            if name in rows.schema.names
            for key in _coded(rows[name])[0]
        )

    def _spans_of(self, key: str | None, spans: _Spans) -> Iterable[tuple[int, int]]:
        return spans.get(_hashed(key, self._secret), ()) if key is not None else ()

    @cached_property
    def _secret(self) -> bytes:
        """Of the process that leaves rows out: it is handed to none."""
        return secret()

    def __getstate__(self) -> dict[str, Any]:
        return {"spans": self.spans, "before": self.before, "far": self.far}

    @cached_property
    def _by_column(self) -> dict[str, _Spans]:
        """By column, whom to look for in it."""
        far = _by_who((*self.spans, *self.far))
        near = _by_who(self.spans)
        found = {name: far if name == FAR else near for name in KEYS}
        return {name: spans for name, spans in found.items() if spans}


_Spans = Mapping[str, list[tuple[int, int]]]
"""By hashed key."""


def _by_who(spans: Iterable[Span]) -> _Spans:
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for who, begin_us, end_us in spans:
        found[who].append((begin_us, end_us))
    return dict(found)


def texts_of(rows: pa.Table) -> dict[str, set[str]]:
    """Whom rows are about: by column of KEYS, its texts."""
    return {
        name: {key for key in _coded(rows[name])[0] if key is not None}
        for name in KEYS
        if name in rows.schema.names
    }


def without(table: Table, rows: pa.Table, those: np.ndarray) -> pa.Table:
    """A table's rows but for some, as its writer has them: what only those said is not in the
    dictionaries either."""
    if not those.any():
        return rows
    return rows.filter(pa.array(~those)).cast(table.arrow).cast(table.arrow_dictionary)


def _coded(column: pa.ChunkedArray) -> tuple[list[str | None], np.ndarray]:
    """The texts of a column, and int[n] each row's place among them, -1 for null."""
    whole = column.combine_chunks()
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    return whole.dictionary.to_pylist(), whole.indices.fill_null(-1).to_numpy(zero_copy_only=False)


def _hashed(key: str, secret: bytes) -> str:
    unkeyed = blake2b(key.encode(), digest_size=HASH_BYTES, person=HASH).hexdigest()
    return keyed_hash(unkeyed, secret)  # so that spans of earlier versions can be told, too
