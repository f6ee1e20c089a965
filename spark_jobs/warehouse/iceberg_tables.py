"""The warehouse's Iceberg tables, which follow the catalog's list of files."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from schemas import NETWORKS
from spark_jobs.base.places import path_of, remove_all
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.catalog import FileChanges, MetadataChange, UnitCatalog
from spark_jobs.warehouse.facts import MadeFacts
from spark_jobs.warehouse.units import Unit, fingerprint

METADATA = "metadata"
"""The folder of a table's Iceberg metadata, in the table's folder."""
FACTS_BACKUP = Unit("made", "all", "facts kept")
"""The unit that records which facts were last copied into the Iceberg table `networks`."""
BACKED_UP_KINDS = ("network", "forgotten", "purged")
"""The kinds of units whose facts cannot be recovered from files.

These facts are copied into properties of the Iceberg table `networks`, so that a lost catalog can
be rebuilt.
"""
FACTS_PREFIX = "giscope."
"""The first part of the names of these table properties."""


class IcebergTables:
    """The Iceberg tables of a warehouse. One process at a time may change them."""

    def __init__(self, root: Path, catalog: UnitCatalog):
        self._root, self._catalog = root, catalog

    def follow(self, replaced_ns: int, also: Collection[str] = ()) -> None:
        """Let the tables show what is published now, with the columns of the schemas.

        Tables without changes are left out, unless `also` names them. Snapshots that were replaced
        before replaced_ns (ns since 1970) are dropped.
        """
        self._catalog.drop_iceberg_tables(self._unusable())
        until_ns = self._catalog.latest_ns()
        new = TABLES.keys() - self._catalog.metadata_locations()
        facts = self._facts_to_back_up()
        inputs = fingerprint(facts)
        backup = self._catalog.published(FACTS_BACKUP)
        is_backed_up = backup is not None and MadeFacts.of(backup).inputs == inputs
        named = {*also, *new, *(() if is_backed_up else (NETWORKS.name,))}
        changes = {name: FileChanges() for name in named} | self._catalog.changes(until_ns, new)
        if changes or until_ns > self._catalog.shown_ns():
            self._write(changes, until_ns, replaced_ns, facts=facts)
        if not is_backed_up:
            self._catalog.record(FACTS_BACKUP, MadeFacts(inputs=inputs))

    def drop_snapshots(self, made_ns: Mapping[str, int], replaced_ns: int) -> None:
        """Drop snapshots that are not current, so that nothing shows the files that only they have.

        made_ns: by table, the time up to which the dropped snapshots were made. Those replaced
        before replaced_ns are dropped, too.
        """
        changes = {name: FileChanges() for name in made_ns}
        self._write(changes, self._catalog.shown_ns(), replaced_ns, made_ns)

    def mismatches(self) -> dict[str, str]:
        """Return a line for each table that shows other files than the catalog lists, by table."""
        from spark_jobs.warehouse.iceberg import shown_files

        found = {}
        for table, location in self._catalog.metadata_locations().items():
            if not location.startswith(f"{self._root.resolve()}/"):
                continue  # the warehouse was moved: the next job makes the table again
            shown = shown_files(location)
            listed = {*self._catalog.paths([table], self._catalog.shown_ns())}
            if shown != listed:
                found[table] = (
                    f"{self._root}: the Iceberg table {table} lacks {len(listed - shown):,} files "
                    f"and has {len(shown - listed):,} others: giscope maintain makes a new one"
                )
        return found

    def metadata_files(self) -> set[str]:
        """Return the paths below the root of all metadata files that the tables need."""
        from spark_jobs.warehouse.iceberg import files_of

        prefix_length = len(str(self._root.resolve())) + 1
        locations = self._catalog.metadata_locations().values()
        return {file[prefix_length:] for location in locations for file in files_of(location)}

    def _unusable(self) -> Collection[str]:
        """Return all tables if the warehouse was moved, else none."""
        locations, root = self._catalog.metadata_locations(), f"{self._root.resolve()}/"
        was_moved = not all(location.startswith(root) for location in locations.values())
        return [*locations] if was_moved else []

    def _facts_to_back_up(self) -> dict[str, str]:
        return {
            f"{FACTS_PREFIX}{one.unit.kind}.{one.unit.network}.{one.unit.name}": json.dumps(
                one.facts
            )
            for kind in BACKED_UP_KINDS
            for group in self._catalog.unit_groups(kind=kind)
            for one in group.units
        }

    def _write(
        self,
        changes: Mapping[str, FileChanges],
        until_ns: int,
        replaced_ns: int,
        made_ns: Mapping[str, int] | None = None,
        facts: Mapping[str, str] | None = None,
    ) -> None:
        """Write the next metadata of tables; set them all in one transaction."""
        from spark_jobs.warehouse.iceberg import TableUpdate, write_metadata

        locations, root = self._catalog.metadata_locations(), str(self._root.resolve())
        written = {
            name: write_metadata(
                TableUpdate(
                    name,
                    root,
                    locations.get(name),
                    change,
                    replaced_ns,
                    (made_ns or {}).get(name, 0),
                    (facts or {}) if name == NETWORKS.name else {},
                )
            )
            for name, change in changes.items()
        }
        moves = {
            name: MetadataChange(locations.get(name), new.location) for name, new in written.items()
        }
        self._catalog.set_metadata(moves, until_ns)
        for new in written.values():
            remove_all(map(path_of, new.unneeded))


def read_lost(
    root: Path, files: Mapping[str, Collection[str]]
) -> tuple[dict[str, set[str]], dict[Unit, dict[str, Any]]]:
    """Return what the newest metadata say, to rebuild a catalog that was lost.

    files: all files in the folder of each table. Returns the published files by table, and the
    facts of units that no file has.
    """
    from spark_jobs.warehouse.iceberg import read_newest

    shown, facts = {}, {}
    for table, paths in files.items():
        found = read_newest(str(root.resolve()), [p for p in paths if f"/{METADATA}/" in p])
        if found is None:
            continue
        shown[table], properties = found
        for name, text in properties.items():
            if name.startswith(FACTS_PREFIX):
                kind, _, rest = name.removeprefix(FACTS_PREFIX).partition(".")
                network, _, unit_name = rest.rpartition(".")
                facts[Unit(kind, network, unit_name)] = json.loads(text)
    return shown, facts
