"""Rows of some days with the pseudonyms of one day, if pseudonyms change from period to period."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from schemas import Table
from spark_jobs.capture.removal_filter import KEY_COLUMNS
from spark_jobs.capture.users import UserKeys, secret
from spark_jobs.settings.networks import KeyPeriod, Network, period_of
from spark_jobs.warehouse.files import read_rows
from spark_jobs.warehouse.targets import day_text

NAME_COLUMNS = {*KEY_COLUMNS, "session", "link", "charging", "multi_session"}
"""Columns with pseudonyms."""


@dataclass(frozen=True)
class NamesOfDay:
    """The names of a network's users on one day.

    other_networks: the names and key_periods of other networks whose users are far ends. These
    users, too, have other names in each period.
    """

    network: str
    key_period: KeyPeriod | None
    day: date
    other_networks: tuple[tuple[str, KeyPeriod], ...] = ()

    @classmethod
    def of(cls, network: Network, day: date) -> NamesOfDay:
        """Return the names of a network of the networks file."""
        other_networks = tuple(
            (one.name, one.key_period) for one in network.others if one.key_period
        )
        return cls(network.name, network.key_period, day, other_networks)

    def apply_to(self, path: Path) -> bool:
        """Return whether a file's users have these names already; the file's path says its day."""
        return self._periods_on(self.day) == self._periods_on(_day_of(path))

    def renamed(self, rows: pa.Table, path: Path) -> pa.Table:
        """Return a file's rows with these names of the users.

        Raises UserError if that needs the secret key, and the key is missing or another one.
        """
        if self.apply_to(path):
            return rows
        other_keys = tuple(
            UserKeys(name, secret(), key_period=p) for name, p in self.other_networks
        )
        keys = UserKeys(
            self.network, secret(), key_period=self.key_period, other_networks=other_keys
        )
        before, now = keys.for_day(_day_of(path)), keys.for_day(self.day)
        for name in NAME_COLUMNS & set(rows.column_names):
            column = rows[name].combine_chunks()
            texts = column if pa.types.is_string(column.type) else column.dictionary
            old_names = [text or "" for text in texts.to_pylist()]
            new_names = before.translate(old_names, now, far_ends=name == "server")
            renamed = pa.array(
                new_names, pa.string(), mask=texts.is_null().to_numpy(zero_copy_only=False)
            )
            if texts is not column:
                renamed = pa.DictionaryArray.from_arrays(column.indices, renamed)
            position = rows.column_names.index(name)
            rows = rows.set_column(position, rows.schema.field(position), renamed)
        return rows

    def rows(
        self, table: Table, paths: Iterable[Path], filters: list[Any] | None = None
    ) -> pa.Table:
        """Return rows as files.read_rows does, with these names of the users."""
        found = [self.renamed(read_rows(table, [path], filters), path) for path in paths]
        return pa.concat_tables([table.arrow.empty_table(), *found])

    def _periods_on(self, day: date) -> list[str]:
        lengths = [self.key_period, *(length for _, length in self.other_networks)]
        return [period_of(length, day) for length in lengths]


def _day_of(path: Path) -> date:
    return date.fromisoformat(day_text(str(path)))
