"""The tables as Apache Iceberg tables (format version 2): the metadata that a catalog points to.

Iceberg's manifests name the Parquet files that the jobs wrote, at their locations. The files have
no field IDs, so columns are identified by name (schema.name-mapping.default). Partition columns are
in the manifests and not in the files, as Iceberg allows for identity partitions.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from itertools import count, pairwise
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    update_table_metadata,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    TimestamptzType,
)

from schemas import Table
from schemas.arrow_types import ARROW_TYPES
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.catalog import File, FileChanges
from spark_jobs.warehouse.catalog_tables import NAMESPACE
from spark_jobs.warehouse.path_io import PathFile, PathIO
from spark_jobs.warehouse.targets import Partition

MAX_PREVIOUS_METADATA = 8
"""Number of earlier metadata files that are kept."""
PROPERTIES = {TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: str(MAX_PREVIOUS_METADATA)}
MERGE_FACTOR_LOG2 = 4
MERGE_FACTOR = 1 << MERGE_FACTOR_LOG2
"""Number of manifests of one size class that are merged into one of the next class.

A manifest of the next class has MERGE_FACTOR times as many files. So planning and commits stay
cheap with years of days. If all manifests were merged each time, every file's entry would be
written again.
"""
FORMAT_VERSION: Final = 2
COMPRESSION: Final = "deflate"
FIRST_PARTITION_ID = 1000
EPOCH = date(1970, 1, 1)
NS_PER_MS = 1_000_000
"""Nanoseconds in a millisecond."""
DAMAGE_ERRORS = OSError, ValueError, LookupError, EOFError, ValidationError
"""The errors that PyIceberg raises for metadata that are missing or damaged."""
ICEBERG_TYPES: dict[pa.DataType, IcebergType] = {
    pa.string(): StringType(),
    pa.bool_(): BooleanType(),
    pa.float64(): DoubleType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.date32(): DateType(),
    pa.timestamp("us", "UTC"): TimestamptzType(),
}


@dataclass(frozen=True)
class TableUpdate:
    """An order to write the next metadata of an Iceberg table.

    - table: the table's name
    - root: the warehouse's root, absolute
    - location: the location of the present metadata; None for a new table
    - changes: what the next snapshot adds and removes
    - replaced_ns: snapshots that were replaced before this time are dropped (ns since 1970)
    - made_ns: snapshots that were made up to this time, and replaced at any time, are dropped, too
    - properties: table properties to set
    """

    table: str
    root: str
    location: str | None
    changes: FileChanges
    replaced_ns: int
    made_ns: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


class WrittenMetadata(NamedTuple):
    """The location of a table's next metadata, and files that only its earlier metadata needed."""

    location: str
    unneeded: list[str]


def write_metadata(update: TableUpdate) -> WrittenMetadata:
    """Write a table's next metadata; nobody reads them until the catalog points there."""
    table = TABLES[update.table]
    folder = f"{update.root}/{table.name}"
    before = _load(update.location) if update.location else None
    metadata = _with_present_columns(table, before) if before else _new_metadata(table, folder)
    properties = dict(update.properties.items() - metadata.properties.items())
    expired = _expired_snapshots(metadata, update)
    is_changed = update.changes or properties or expired
    if metadata is before and not is_changed:
        return WrittenMetadata(update.location or "", [])
    after = metadata
    if before or is_changed:
        drop = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": expired})
        updates = (
            SetPropertiesUpdate(updates={**PROPERTIES, **properties}),
            *_snapshot_updates(metadata, folder, update),
            *([drop] if expired else []),
        )
        after = update_table_metadata(metadata, updates, metadata_location=update.location)
    location = f"{folder}/metadata/{_next_version(update.location):05d}-{uuid4()}.metadata.json"
    ToOutputFile.table_metadata(after, PathFile(location))
    unneeded = _unneeded_files(update, before, after) if before else set()
    return WrittenMetadata(location, sorted(unneeded))


def _next_version(location: str | None) -> int:
    return int(location.rpartition("/")[2].partition("-")[0]) + 1 if location else 0


def _new_metadata(table: Table, folder: str) -> TableMetadata:
    """Return the metadata of a new table without snapshots."""
    own = {"location": folder, "table_uuid": uuid4(), "last_updated_ms": int(time.time() * 1000)}
    return _metadata_without_snapshots(table).model_copy(update=own)


@cache
def _metadata_without_snapshots(table: Table) -> TableMetadata:
    schema = schema_of(table)
    fields = [
        PartitionField(
            schema.find_field(column.name).field_id,
            FIRST_PARTITION_ID + n,
            IdentityTransform(),
            column.name,
        )
        for n, column in enumerate(table.partitions)
    ]
    comment = {"comment": f"one row is {table.row}"}
    properties = {**PROPERTIES, **_name_mapping(schema), **comment}
    return new_table_metadata(schema, PartitionSpec(*fields), UNSORTED_SORT_ORDER, "", properties)


def _with_present_columns(table: Table, metadata: TableMetadata) -> TableMetadata:
    """Return a table's metadata with the columns of its present schema, and their comments."""
    if not _columns(schema_of(table)) - _columns(metadata.schema()):
        return metadata
    current = IcebergTable((table.name,), metadata, "", PathIO(), NoopCatalog(NAMESPACE))
    transaction = current.transaction()
    with transaction.update_schema() as evolving:
        evolving.union_by_name(schema_of(table))
    transaction.set_properties(_name_mapping(transaction.table_metadata.schema()))
    return transaction.table_metadata


@cache
def schema_of(table: Table) -> Schema:
    """Return the Iceberg schema of a table, its partition columns first.

    All columns are optional: files of another format may lack some, and what could not be measured
    is null.
    """
    ids = count(1)
    fields = [
        NestedField(
            next(ids),
            column.name,
            _iceberg_type(ARROW_TYPES[column.stored_type], ids),
            False,
            doc=column.comment,
        )
        for column in (*table.partitions, *table.columns)
    ]
    return assign_fresh_schema_ids(Schema(*fields))


def _columns(schema: Schema) -> set[tuple[str, str, str | None]]:
    return {(field.name, str(field.field_type), field.doc) for field in schema.fields}


def _name_mapping(schema: Schema) -> dict[str, str]:
    """Return the property by which readers find columns in files, by their names."""
    return {TableProperties.DEFAULT_NAME_MAPPING: schema.name_mapping.model_dump_json()}


def _iceberg_type(type_: pa.DataType, ids: Iterator[int]) -> IcebergType:
    """Return the Iceberg type of an Arrow type. Raises KeyError for types that no table has."""
    if pa.types.is_list(type_):
        return ListType(next(ids), _iceberg_type(type_.value_type, ids), element_required=False)
    if pa.types.is_map(type_):
        key, value = _iceberg_type(type_.key_type, ids), _iceberg_type(type_.item_type, ids)
        return MapType(next(ids), key, next(ids), value, value_required=False)
    return ICEBERG_TYPES[type_]


def _snapshot_updates(
    metadata: TableMetadata, folder: str, update: TableUpdate
) -> list[AddSnapshotUpdate | SetSnapshotRefUpdate]:
    """Write the manifests of the next snapshot; return the updates that show it."""
    if not update.changes:
        return []
    parent = metadata.current_snapshot()
    writer = _ManifestWriter(metadata, folder)
    added = [_data_file(metadata, update, file) for file in update.changes.add]
    removed = {f"{update.root}/{file.path}" for file in update.changes.remove}
    manifests, removed_entries = writer.without(
        removed, parent.manifests(PathIO()) if parent else []
    )
    if added:
        manifests.append(writer.write(map(_added_entry, added)))
    manifests = writer.merged(manifests)
    if removed_entries:
        manifests.append(writer.write(removed_entries, are_deleted=True))
    counts = SnapshotSummaryCollector()
    for file in added:
        counts.add_file(file, metadata.schema(), metadata.spec())
    for entry in removed_entries:
        counts.remove_file(entry.data_file, metadata.schema(), metadata.spec())
    parent_id = parent.snapshot_id if parent else None
    sequence_number = metadata.next_sequence_number()
    path = f"{folder}/metadata/snap-{writer.snapshot_id}-0-{writer.uuid}.avro"
    with write_manifest_list(
        FORMAT_VERSION,
        PathFile(path),
        writer.snapshot_id,
        parent_id,
        sequence_number,
        COMPRESSION,
    ) as manifest_list:
        manifest_list.add_manifests(manifests)
    summary = update_snapshot_summaries(
        Summary(Operation.OVERWRITE if removed else Operation.APPEND, **counts.build()),
        parent.summary.additional_properties if parent and parent.summary else None,
    )
    snapshot = {
        "snapshot-id": writer.snapshot_id,
        "parent-snapshot-id": parent_id,
        "sequence-number": sequence_number,
        "manifest-list": path,
        "summary": summary,
        "schema-id": metadata.current_schema_id,
    }
    shown = {"ref-name": MAIN_BRANCH, "type": "branch", "snapshot-id": writer.snapshot_id}
    return [
        AddSnapshotUpdate.model_validate({"snapshot": snapshot}),
        SetSnapshotRefUpdate.model_validate(shown),
    ]


class _ManifestWriter:
    """Writes the manifests of a table's next snapshot."""

    def __init__(self, metadata: TableMetadata, folder: str):
        self.snapshot_id, self.uuid = metadata.new_snapshot_id(), uuid4()
        self._metadata, self._folder, self._numbers = metadata, folder, count()

    def write(self, entries: Iterable[ManifestEntry], are_deleted: bool = False) -> ManifestFile:
        """Write a manifest of some files; are_deleted: they are not shown any more."""
        path = f"{self._folder}/metadata/{self.uuid}-m{next(self._numbers)}.avro"
        schema, spec = self._metadata.schema(), self._metadata.spec()
        with write_manifest(
            FORMAT_VERSION, spec, schema, PathFile(path), self.snapshot_id, COMPRESSION
        ) as manifest:
            for entry in entries:
                if are_deleted:
                    manifest.delete(entry)
                elif entry.snapshot_id in (None, self.snapshot_id):
                    manifest.add(entry)
                else:
                    manifest.existing(entry)
        return manifest.to_manifest_file()

    def without(
        self, removed: set[str], manifests: list[ManifestFile]
    ) -> tuple[list[ManifestFile], list[ManifestEntry]]:
        """Return manifests of all files but the removed ones, and these files' entries."""
        found: list[ManifestFile] = []
        removed_entries: list[ManifestEntry] = []
        for manifest in manifests:
            if not _file_count(manifest):  # what an earlier snapshot removed
                continue
            if len(removed_entries) < len(removed):
                entries = manifest.fetch_manifest_entry(PathIO())
                others = [entry for entry in entries if entry.data_file.file_path not in removed]
                if len(others) < len(entries):
                    removed_entries += [
                        entry for entry in entries if entry.data_file.file_path in removed
                    ]
                    found += [self.write(others)] if others else []
                    continue
            found.append(manifest)
        return found, removed_entries

    def merged(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Return few manifests with the same files; see MERGE_FACTOR."""
        by_class: dict[int, list[ManifestFile]] = defaultdict(list)
        for manifest in manifests:
            by_class[_size_class(manifest)].append(manifest)
        for size_class in count():
            if size_class > max(by_class, default=-1):
                break
            if len(by_class[size_class]) >= MERGE_FACTOR:
                parts = by_class.pop(size_class)
                merged = self.write(
                    entry for m in parts for entry in m.fetch_manifest_entry(PathIO())
                )
                by_class[max(_size_class(merged), size_class + 1)].append(merged)
        return [manifest for size_class in sorted(by_class) for manifest in by_class[size_class]]


def _added_entry(file: DataFile) -> ManifestEntry:
    return ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file)


def _data_file(metadata: TableMetadata, update: TableUpdate, file: File) -> DataFile:
    found = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{update.root}/{file.path}",
        file_format=FileFormat.PARQUET,
        partition=partition_of(TABLES[update.table], file.path),
        record_count=file.rows,
        file_size_in_bytes=file.content.size,
    )
    found.spec_id = metadata.default_spec_id
    return found


def _size_class(manifest: ManifestFile) -> int:
    """Return the size class of a manifest: its number of files in powers of MERGE_FACTOR."""
    return max(0, _file_count(manifest).bit_length() - 1) // MERGE_FACTOR_LOG2


def _file_count(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def partition_of(table: Table, path: str) -> Record:
    """Return a file's partition values, from its path below the root."""
    _, network, day = Partition.of(path)
    values = (network, day and (day - EPOCH).days)
    return Record(*values[: len(table.partitions)])


def _expired_snapshots(metadata: TableMetadata, update: TableUpdate) -> list[int]:
    """Return the IDs of the snapshots to drop."""
    in_order = sorted(metadata.snapshots, key=_sequence_number)
    return [
        old.snapshot_id
        for old, new in pairwise(in_order)
        if new.timestamp_ms * NS_PER_MS < update.replaced_ns
        or old.timestamp_ms * NS_PER_MS <= update.made_ns
    ]


def _load(location: str) -> TableMetadata:
    return FromInputFile.table_metadata(PathFile(location))


def files_of(location: str) -> set[str]:
    """Return all metadata files that a table needs, by the location of its metadata."""
    metadata = _load(location)
    return _metadata_files(metadata, location).union(*map(_manifest_files, metadata.snapshots))


def shown_files(location: str) -> set[str]:
    """Return the data files that a table's current snapshot shows, as paths below the root."""
    metadata = _load(location)
    prefix_length = len(metadata.location.rpartition("/")[0]) + 1
    snapshot = metadata.current_snapshot()
    manifests = snapshot.manifests(PathIO()) if snapshot else []
    return {path[prefix_length:] for manifest in manifests for path in _data_files(manifest)}


def read_newest(root: str, names: Iterable[str]) -> tuple[set[str], dict[str, str]] | None:
    """Return the data files and the properties of a table's newest metadata.

    names: the paths below the root of all files of its metadata. If the newest cannot be read,
    older ones stand in; None if none can be read.
    """
    found = []
    for name in names:
        if name.endswith(".metadata.json"):
            with suppress(*DAMAGE_ERRORS):
                location = f"{root}/{name}"
                found.append((_load(location).last_updated_ms, location))
    for _, location in sorted(found, reverse=True):
        with suppress(*DAMAGE_ERRORS):
            return shown_files(location), _load(location).properties
    return None


def files_by_snapshot(location: str) -> dict[int, set[str]]:
    """Return the data files that each snapshot of a table shows, by the snapshot's ID."""
    files_by_manifest: dict[str, set[str]] = {}
    found: dict[int, set[str]] = {}
    for snapshot in _load(location).snapshots:
        manifests = {one.manifest_path: one for one in snapshot.manifests(PathIO())}
        for path in manifests.keys() - files_by_manifest.keys():
            files_by_manifest[path] = _data_files(manifests[path])
        found[snapshot.snapshot_id] = set().union(*map(files_by_manifest.__getitem__, manifests))
    return found


def _data_files(manifest: ManifestFile) -> set[str]:
    """Return the data files that a manifest shows, without those that it marks as deleted."""
    return {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(PathIO())}


def _unneeded_files(update: TableUpdate, before: TableMetadata, after: TableMetadata) -> set[str]:
    """Return the metadata files that a table's next metadata do not need any more.

    Only the oldest of the remaining snapshots is read. Snapshots are dropped oldest first, and a
    manifest that one snapshot leaves out is in no later one.
    """
    files = _metadata_files(before, update.location) - _metadata_files(after)
    kept = {snapshot.snapshot_id for snapshot in after.snapshots}
    dropped = [old for old in before.snapshots if old.snapshot_id not in kept]
    if dropped:
        files = files.union(*map(_manifest_files, dropped))
        files -= _manifest_files(min(after.snapshots, key=_sequence_number))
    return files


def _metadata_files(metadata: TableMetadata, location: str | None = None) -> set[str]:
    """Return the locations of a table's metadata, and of its earlier metadata."""
    return {location or "", *(entry.metadata_file for entry in metadata.metadata_log)} - {""}


def _manifest_files(snapshot: Snapshot) -> set[str]:
    """Return a snapshot's manifest list and its manifests."""
    manifests = snapshot.manifests(PathIO())
    return {snapshot.manifest_list, *(manifest.manifest_path for manifest in manifests)}


def _sequence_number(snapshot: Snapshot) -> int:
    """Return the number that orders snapshots."""
    return snapshot.sequence_number or 0
