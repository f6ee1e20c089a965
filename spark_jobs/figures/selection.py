"""A selection of networks and days, whose tables the pages of the figures read."""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import duckdb

from schemas import Table

Day = tuple[str, datetime.date]
T = TypeVar("T")


@dataclass(frozen=True)
class ShownNetwork:
    """A network and its colour in all figures."""

    name: str
    country: str
    access: str
    colour: str


@dataclass
class Selection:
    """Networks, days, and a database connection whose tables are restricted to them.

    table_of_days: a function that returns SQL of a table's rows of some days.
    results: what `once` has computed, by name.
    served: whether `giscope serve` shows the page, and so makes the pages of its connections.
    """

    networks: list[ShownNetwork]
    first_day: datetime.date
    last_day: datetime.date
    connection: duckdb.DuckDBPyConnection
    table_of_days: Callable[[Table, Sequence[Day]], str]
    results: dict[str, Any] = field(default_factory=dict)
    served: bool = False

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return what `compute` returns, computed only once for all sections that ask by name."""
        if name not in self.results:
            self.results[name] = compute()
        return self.results[name]

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Return a query's rows; NaN, the result of a division by zero, becomes None."""
        answer = self.connection.sql(query)
        names = answer.columns
        return [
            {
                name: None if isinstance(value, float) and value != value else value
                for name, value in zip(names, row, strict=True)
            }
            for row in answer.fetchall()
        ]
