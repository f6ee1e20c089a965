"""Rows of some days with users called as on one of them, where pseudonyms change from period to
period."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from schemas import Table
from spark_jobs.capture.removed import KEYS
from spark_jobs.capture.users import UserKeys, secret
from spark_jobs.networks import KeyPeriod, Network, period_of
from spark_jobs.warehouse.files import read_rows


@dataclass(frozen=True)
class NamesOfDay:
    """What the users of a network are called on a day. others: names and key_periods of the other
    networks whose users are far ends, and have other names in each period."""

    network: str
    key_period: KeyPeriod | None
    day: date
    others: tuple[tuple[str, KeyPeriod], ...] = ()

    @classmethod
    def of(cls, network: Network, day: date) -> NamesOfDay:
        """Those of a network of the networks file."""
        others = tuple((one.name, one.key_period) for one in network.others if one.key_period)
        return cls(network.name, network.key_period, day, others)

    def apply_to(self, path: Path) -> bool:
        """Whether users are called so in a file of a table, which says its day."""
        return self._periods_on(self.day) == self._periods_on(_day_of(path))

    def renamed(self, rows: pa.Table, path: Path) -> pa.Table:
        """A file's rows, users called so. Raises UserError where this asks for the secret, and it
        is not there or another one."""
        if self.apply_to(path):
            return rows
        of_others = tuple(UserKeys(name, secret(), key_period=p) for name, p in self.others)
        keys = UserKeys(self.network, secret(), key_period=self.key_period, others=of_others)
        before, now = keys.on(_day_of(path)), keys.on(self.day)
        for name in set(KEYS) & set(rows.column_names):
            column = rows[name].combine_chunks()
            texts = column if pa.types.is_string(column.type) else column.dictionary
            keys_of = [text or "" for text in texts.to_pylist()]
            others = before.renamed(keys_of, now, far_ends=name == "server")
            renamed = pa.array(
                others, pa.string(), mask=texts.is_null().to_numpy(zero_copy_only=False)
            )
            if texts is not column:
                renamed = pa.DictionaryArray.from_arrays(column.indices, renamed)
            at = rows.column_names.index(name)
            rows = rows.set_column(at, rows.schema.field(at), renamed)
        return rows

    def rows(
        self, table: Table, paths: Iterable[Path], filters: list[Any] | None = None
    ) -> pa.Table:
        """As files.read_rows, users called so."""
        found = [self.renamed(read_rows(table, [path], filters), path) for path in paths]
        return pa.concat_tables([table.arrow.empty_table(), *found])

    def _periods_on(self, day: date) -> list[str]:
        lengths = [self.key_period, *(length for _, length in self.others)]
        return [period_of(length, day) for length in lengths]


def _day_of(path: Path) -> date:
    return date.fromisoformat(path.parent.name.removeprefix("date="))
