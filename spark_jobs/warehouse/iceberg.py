"""The tables as Apache Iceberg tables (format version 2): the metadata that a catalog points to.

Iceberg's manifests name the Parquet files that the jobs wrote, at their locations. The files have
no field IDs, so columns are identified by name (schema.name-mapping.default). Partition columns are
in the manifests and not in the files, as Iceberg allows for identity partitions.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import copy
from datetime import date
from itertools import count, pairwise
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import (
    CommitTableResponse,
    CreateTableTransaction,
    StagedTable,
    TableProperties,
    Transaction,
)
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import RemoveSnapshotsUpdate
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles
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
from schemas.former_names import renamed_columns, stored_names
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.catalog import NAMESPACE, File, TableUpdate
from spark_jobs.warehouse.path_io import PathIO
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


class WrittenMetadata(NamedTuple):
    """The location of a table's next metadata, and files that only its earlier metadata needed."""

    location: str
    unneeded: list[str]


def write_metadata(update: TableUpdate) -> WrittenMetadata:
    """Write a table's next metadata; nobody reads them until the catalog points there."""
    table, catalog = TABLES[update.table], _MetadataWriter()
    folder = f"{update.root}/{table.name}"
    current = catalog.load(folder, update.location) if update.location else None
    transaction: Transaction
    if current:
        transaction = _CachedTransaction(current)
        if _columns(schema_of(table)) - _columns(current.schema()):
            with transaction.update_schema() as evolving:
                for former, name in renamed_columns(
                    table.name, current.schema().column_names
                ).items():
                    evolving.rename_column(former, name)
            with transaction.update_schema() as evolving:
                evolving.union_by_name(schema_of(table))
            transaction.set_properties(_name_mapping(table, transaction.table_metadata.schema()))
    else:
        transaction = _CreateTransaction(catalog.new(table, folder))
    _add_snapshot(transaction, table, update)
    if update.properties.items() - transaction.table_metadata.properties.items():
        transaction.set_properties({**update.properties})
    expired = _expired_snapshots(transaction.table_metadata, update)
    if expired:
        transaction._stage((RemoveSnapshotsUpdate(snapshot_ids=expired),))  # type: ignore[call-arg]
    previous = copy(current)  # the commit changes it
    after = transaction.commit_transaction()
    return WrittenMetadata(
        after.metadata_location, sorted(_unneeded_files(previous, after) if previous else ())
    )


def schema_of(table: Table) -> Schema:
    """Return the Iceberg schema of a table, its partition columns first.

    All columns are optional: files of an early version lack some, and what could not be measured is
    null.
    """
    ids = count(1)
    fields = [
        NestedField(
            next(ids),
            column.name,
            _iceberg_type(column.stored_type, ids),
            False,
            doc=column.comment,
        )
        for column in (*table.partitions, *table.columns)
    ]
    return assign_fresh_schema_ids(Schema(*fields))


def _columns(schema: Schema) -> set[tuple[str, str, str | None]]:
    return {(field.name, str(field.field_type), field.doc) for field in schema.fields}


def _name_mapping(table: Table, schema: Schema) -> dict[str, str]:
    """Return the property by which readers find columns in files, by today's and former names."""
    mapping = schema.name_mapping.model_dump()
    for field in mapping:
        field["names"] = stored_names(table.name, field["names"])
    return {TableProperties.DEFAULT_NAME_MAPPING: json.dumps(mapping)}


def _iceberg_type(type_: pa.DataType, ids: Iterator[int]) -> IcebergType:
    """Return the Iceberg type of an Arrow type. Raises KeyError for types that no table has."""
    if pa.types.is_list(type_):
        return ListType(next(ids), _iceberg_type(type_.value_type, ids), element_required=False)
    if pa.types.is_map(type_):
        key, value = _iceberg_type(type_.key_type, ids), _iceberg_type(type_.item_type, ids)
        return MapType(next(ids), key, next(ids), value, value_required=False)
    return ICEBERG_TYPES[type_]


def _add_snapshot(transaction: Transaction, table: Table, update: TableUpdate) -> None:
    """Add a snapshot with the update's changes."""
    changes = update.changes
    if not (changes.add or changes.remove):
        return
    operation = Operation.OVERWRITE if changes.remove else Operation.APPEND
    snapshot = _MergedSnapshot(operation, transaction, transaction._table.io)
    spec = transaction.table_metadata.default_spec_id
    for file in changes.add:
        snapshot.append_data_file(_data_file(table, update.root, file, spec))
    for file in changes.remove:
        snapshot.delete_data_file(_data_file(table, update.root, file, spec))
    snapshot.commit()


def _data_file(table: Table, root: str, file: File, spec: int) -> DataFile:
    found = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{root}/{file.path}",
        file_format=FileFormat.PARQUET,
        partition=partition_of(table, file.path),
        record_count=file.rows,
        file_size_in_bytes=file.content.size,
    )
    found.spec_id = spec
    return found


class _MergedSnapshot(_OverwriteFiles):
    """A snapshot with other files than the one before it, in few manifests."""

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        merger = _ManifestMergeManager(0, MERGE_FACTOR, True, self)
        by_class: dict[int, list[ManifestFile]] = defaultdict(list)
        for manifest in manifests:
            by_class[_size_class(manifest)].append(manifest)
        for size_class in count():
            if size_class > max(by_class):
                break
            if len(by_class[size_class]) >= MERGE_FACTOR:
                merged = merger._create_manifest(
                    manifests[0].partition_spec_id, by_class.pop(size_class)
                )
                by_class[max(_size_class(merged), size_class + 1)].append(merged)
        return [manifest for size_class in sorted(by_class) for manifest in by_class[size_class]]


def _size_class(manifest: ManifestFile) -> int:
    """Return the size class of a manifest: its number of files in powers of MERGE_FACTOR."""
    files = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
    return max(0, files.bit_length() - 1) // MERGE_FACTOR_LOG2


def partition_of(table: Table, path: str) -> Record:
    """Return a file's partition values, from its path below the root."""
    _, network, day = Partition.of(path)
    values = (network, day and (day - EPOCH).days)
    return Record(*values[: len(table.partitions)])


def _expired_snapshots(metadata: TableMetadata, update: TableUpdate) -> list[int]:
    """Return the IDs of the snapshots to drop."""
    in_order = sorted(metadata.snapshots, key=sequence_number)
    return [
        old.snapshot_id
        for old, new in pairwise(in_order)
        if new.timestamp_ms * NS_PER_MS < update.replaced_ns
        or old.timestamp_ms * NS_PER_MS <= update.made_ns
    ]


def load_table(location: str) -> IcebergTable:
    """Return the table whose metadata are at a location."""
    return _MetadataWriter().load(location.partition("/metadata/")[0], location)


def files_of(location: str) -> set[str]:
    """Return all metadata files that a table needs."""
    return _all_metadata_files(load_table(location))


def shown_files(location: str) -> set[str]:
    """Return the data files that a table's current snapshot shows, as paths below the root."""
    table = load_table(location)
    prefix_length = len(table.metadata.location.rpartition("/")[0]) + 1
    snapshot = table.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot else []
    return {path[prefix_length:] for manifest in manifests for path in _data_files(table, manifest)}


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
                found.append((load_table(location).metadata.last_updated_ms, location))
    for _, location in sorted(found, reverse=True):
        with suppress(*DAMAGE_ERRORS):
            return shown_files(location), load_table(location).properties
    return None


def files_by_snapshot(location: str) -> dict[int, set[str]]:
    """Return the data files that each snapshot of a table shows, by the snapshot's ID."""
    table = load_table(location)
    files_by_manifest: dict[str, set[str]] = {}
    found: dict[int, set[str]] = {}
    for snapshot in table.metadata.snapshots:
        manifests = {one.manifest_path: one for one in snapshot.manifests(table.io)}
        for path in manifests.keys() - files_by_manifest.keys():
            files_by_manifest[path] = _data_files(table, manifests[path])
        found[snapshot.snapshot_id] = set().union(*map(files_by_manifest.__getitem__, manifests))
    return found


def _data_files(table: IcebergTable, manifest: ManifestFile) -> set[str]:
    """Return the data files that a manifest shows, without those that it marks as deleted."""
    return {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}


def _all_metadata_files(table: IcebergTable) -> set[str]:
    """Return all files of a table's metadata, manifests included."""
    return metadata_files(table).union(
        *(_manifest_files(table, snapshot) for snapshot in table.metadata.snapshots)
    )


def _unneeded_files(before: IcebergTable, after: IcebergTable) -> set[str]:
    """Return the metadata files that a table's next metadata do not need any more.

    Only the oldest of the remaining snapshots is read. Snapshots are dropped oldest first, and a
    manifest that one snapshot leaves out is in no later one.
    """
    remaining = sorted(after.metadata.snapshots, key=sequence_number)
    dropped = {old.snapshot_id: old for old in before.metadata.snapshots}
    for snapshot in remaining:
        dropped.pop(snapshot.snapshot_id, None)
    files = metadata_files(before) - metadata_files(after)
    if dropped:
        files |= set().union(*(_manifest_files(before, old) for old in dropped.values()))
        files -= _manifest_files(after, remaining[0])
    return files


def metadata_files(table: IcebergTable) -> set[str]:
    """Return the locations of a table's metadata, and of its earlier metadata."""
    earlier = {entry.metadata_file for entry in table.metadata.metadata_log}
    return earlier | {table.metadata_location}


def _manifest_files(table: IcebergTable, snapshot: Snapshot) -> set[str]:
    """Return a snapshot's manifest list and its manifests."""
    manifests = snapshot.manifests(table.io)
    return {snapshot.manifest_list, *(manifest.manifest_path for manifest in manifests)}


def sequence_number(snapshot: Snapshot) -> int:
    """Return the number that orders snapshots."""
    return snapshot.sequence_number or 0


class _CachedTransaction(Transaction):
    """A transaction that copies the metadata once a change.

    PyIceberg copies them at each access, so that a commit's time grows with the number of
    snapshots.
    """

    _cached: tuple[tuple[Any, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The metadata with the transaction's changes."""
        if self._cached is None or self._cached[0] is not self._updates:
            self._cached = self._updates, super().table_metadata
        return self._cached[1]


class _CreateTransaction(_CachedTransaction, CreateTableTransaction):
    """A _CachedTransaction for a new table."""


class _MetadataWriter(MetastoreCatalog, NoopCatalog):
    """A catalog that lists nothing: a commit writes metadata and returns their location."""

    def __init__(self) -> None:
        super().__init__("unlisted")

    def new(self, table: Table, folder: str) -> StagedTable:
        """Return a table that does not exist yet."""
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
        properties = {
            **PROPERTIES,
            **_name_mapping(table, schema),
            "comment": f"one row is {table.row}",
        }
        metadata = new_table_metadata(
            schema, PartitionSpec(*fields), UNSORTED_SORT_ORDER, folder, properties
        )
        return StagedTable((NAMESPACE, table.name), metadata, "", PathIO(), self)

    def load(self, folder: str, location: str) -> IcebergTable:
        """Return the table whose metadata are at a location."""
        io = PathIO()
        metadata = FromInputFile.table_metadata(io.new_input(location))
        return IcebergTable((NAMESPACE, folder.rpartition("/")[2]), metadata, location, io, self)

    def commit_table(
        self, table: IcebergTable, requirements: Any, updates: Any
    ) -> CommitTableResponse:
        """Write a table's metadata after its updates."""
        current = table if table.metadata_location else None
        staged = self._update_and_stage_table(current, table.name(), requirements, updates)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        return CommitTableResponse(
            metadata=staged.metadata, **{"metadata-location": staged.metadata_location}
        )

    def _load_file_io(self, *_: Any, **__: Any) -> PathIO:
        return PathIO()
