"""The facts of units: a model for each kind, which the catalog keeps as JSON.

Facts say how a job made a unit. Other jobs decide by them what to make again.
"""

from __future__ import annotations

import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from spark_jobs.settings.networks import KeyPeriod
from spark_jobs.warehouse.files import to_datetime
from spark_jobs.warehouse.units import PublishedUnit, Unit


class Facts(BaseModel):
    """Facts of a unit of any kind. Facts of another format may lack values."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def of(cls, published: PublishedUnit) -> Self:
        """Return the facts of a published unit."""
        return cls.model_validate(published.facts)

    def replace(self, **changes: Any) -> Self:
        """Return the facts with some other values."""
        return self.model_copy(update=changes)

    def as_json(self) -> dict[str, Any]:
        """Return the facts as the catalog keeps them."""
        return self.model_dump(mode="json")


class NetworkFacts(Facts):
    """A network's row of the table of networks, and how its users' names were made.

    - row: the row's columns
    - users: the key scheme (see capture/users.py); None if it is not known any more
    """

    model_config = ConfigDict(extra="allow")

    users: str | None = "plain"

    @property
    def row(self) -> dict[str, Any]:
        """The network's row of the table of networks."""
        return dict(self.__pydantic_extra__ or {})


class MadeFacts(Facts):
    """The inputs of a unit that is made again if they change (see steps.py).

    - inputs: a hash of everything that it depends on; None or empty: it must be made again
    - failed: the reason why it could not be made; what is published is of an earlier run
    - answer: the result, if the catalog keeps it (see Warehouse.cached_result)
    """

    inputs: str | None = None
    failed: str | None = None
    answer: Any = None


class CaptureFacts(MadeFacts):
    """The last read of a capture or a log: counts and times.

    - format: the format of its rows (see ingest/plan.py); None if it is not known
    - content: the hash of the uncompressed file
    - frames, skipped: records read from the file, and how many of them gave no row, by reason
    - packets, ipv6_packets: rows published in packets; those of IPv6
    - rows: rows published in all tables
    - first_us, last_us: times of its first and last packet (µs since 1970)
    - dates: the days of which it has packets
    - duplicate_of: the capture that has the same content, and counts instead
    - size, seconds, error: the file's size (bytes), the time that reading took, and why it gave no
      rows
    """

    format: int | None = None
    content: str = ""
    front_end: str = "builtin"
    frames: int = 0
    skipped: dict[str, int] = {}
    packets: int = 0
    ipv6_packets: int = 0
    rows: int = 0
    first_us: int | None = None
    last_us: int | None = None
    dates: list[datetime.date] = []
    duplicate_of: str | None = None
    size: int = 0
    seconds: float = 0
    error: str | None = None

    def without_rows(self, error: str | None, duplicate_of: str | None = None) -> Self:
        """Return the facts of a capture that gives no rows, and must be read again if it can be."""
        return self.replace(
            inputs=None,
            packets=0,
            ipv6_packets=0,
            rows=0,
            dates=[],
            error=error,
            duplicate_of=duplicate_of,
        )

    def log_row(self, capture: str) -> dict[str, Any]:
        """Return the capture's row of ingest_log."""
        return {
            "capture": capture,
            "front_end": self.front_end,
            "frames": self.frames,
            "packets": self.packets,
            "ipv6_packets": self.ipv6_packets,
            "rows": self.rows,
            "skipped": list(self.skipped.items()),
            "bytes": self.size,
            "seconds": self.seconds,
            "first_ts": to_datetime(self.first_us),
            "last_ts": to_datetime(self.last_us),
            "content": self.content,
            "error": self.error,
            "duplicate_of": self.duplicate_of,
        }


class DayFacts(MadeFacts):
    """The inputs of a day's flows.

    - near: a hash of what they depend on, but for the packets of later days
    - settings: the network's settings for the estimators (see tables/user_partition.py); None: the
      catalog was rebuilt, and they are not known
    - others: (name, key_period) of the networks whose users' names are looked up
    - until: the last day that was read, if connections went on after the next day
    - packets, packets_going_on: numbers of TCP packets of the rows, by day (see day_tables.Made)
    """

    near: str | None = None
    settings: list[Any] | None = None
    user_partitions: int | None = None
    key_period: KeyPeriod | None = None
    others: tuple[tuple[str, KeyPeriod], ...] = ()
    until: datetime.date | None = None
    packets: dict[str, int] = {}
    packets_going_on: dict[str, int] = {}


class QualityFacts(MadeFacts):
    """The verdict on a day.

    - findings: the findings of the failed checks
    - released: the reason why the day is published in spite of them
    - remark: what is unusual about the day, though it passes
    - data: a hash of the data that the verdict is about, without the limits
    """

    findings: list[str] = []
    released: str | None = None
    remark: str | None = None
    data: str | None = None


class PurgeFacts(Facts):
    """The first day of a network's table that the purges kept."""

    before: datetime.date = datetime.date.min


class ForgottenFacts(Facts):
    """A network's forgotten users, by hashes of their names.

    - spans: (hash that needs the secret, begin, end): the user's rows from this time (µs since
      1970) are in no table
    - made_with: identifies the secret of the hashes
    - own_names: whether the users' names mean the same users in all networks
    - far_in: the networks in which no other user has these addresses, so that the far end of a
      connection is the user
    """

    spans: list[tuple[str, int, int]] = []
    made_with: str | None = None
    own_names: bool = False
    far_in: list[str] = []


class RemovalFacts(Facts):
    """A removal in progress.

    - users: by network, the users to remove; their spans cover all times
    - networks: the networks that have rows about these users: name -> its entry in the networks
      file, or None if it has none
    - purged: the days to remove, as (network, table, first day that is kept)
    - tables: names of tables whose superseded files are removed, too
    """

    users: dict[str, ForgottenFacts] = {}
    networks: dict[str, dict[str, Any] | None] = {}
    purged: list[tuple[str, str, datetime.date]] = []
    tables: list[str] = []


class HistoryHorizon(Facts):
    """The time since which the tables can be shown as they were (ns since 1970).

    - until_ns: what was superseded before this time is removed
    - erased_ns: the same for single tables: table -> time
    """

    until_ns: int = 0
    erased_ns: dict[str, int] = {}


class ShownFacts(Facts):
    """The time whose files the Iceberg tables show (ns since 1970)."""

    until_ns: int = 0


def purge_unit(network: str, table: str) -> Unit:
    """Return the unit that records a purge of a network's table."""
    return Unit("purged", network, table)
