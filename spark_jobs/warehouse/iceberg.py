"""The tables as Apache Iceberg tables (format version 2): the metadata that a catalog points to.

The Parquet files are those that the jobs wrote, named in Iceberg's manifests by their places.
Columns are told by their names (schema.name-mapping.default), for the files have no field ids;
partition columns are in the manifests and not in the files, as Iceberg allows for identity
partitions.
"""

from __future__ import annotations

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

from schemas import TABLES, Table
from spark_jobs.warehouse.journal import NAMESPACE, File, Update
from spark_jobs.warehouse.place_io import PlaceIO
from spark_jobs.warehouse.staging import NO_DATE

PREVIOUS = 8
"""Metadata files that are kept of earlier snapshots."""
PROPERTIES = {TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: str(PREVIOUS)}
MANIFESTS_LOG2 = 4
MANIFESTS = 1 << MANIFESTS_LOG2
"""So many manifests of a size are merged into one of the next, which has so many times the files:
planning and commits stay as cheap with years of days. Merging them all each time would write every
file's entry again."""
FIRST_PARTITION_ID = 1000
EPOCH = date(1970, 1, 1)
MS = 1_000_000
"""In ns."""
DAMAGED = OSError, ValueError, LookupError, EOFError, ValidationError
"""What PyIceberg raises for metadata that are missing or damaged."""
TYPES: dict[pa.DataType, IcebergType] = {
    pa.string(): StringType(),
    pa.bool_(): BooleanType(),
    pa.float64(): DoubleType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.date32(): DateType(),
    pa.timestamp("us", "UTC"): TimestamptzType(),
}


class Updated(NamedTuple):
    """Where the next metadata are, and the files that only those before them needed."""

    location: str
    unneeded: list[str]


def update(wanted: Update) -> Updated:
    """Write a table's next metadata. Nobody reads them until the catalog points there."""
    table, catalog = TABLES[wanted.table], _Unlisted()
    place = f"{wanted.root}/{table.name}"
    current = catalog.load(place, wanted.location) if wanted.location else None
    transaction: Transaction
    if current:
        transaction = _Changing(current)
        if _columns(schema_of(table)) - _columns(current.schema()):
            with transaction.update_schema() as evolving:
                evolving.union_by_name(schema_of(table))
            transaction.set_properties(_names(transaction.table_metadata.schema()))
    else:
        transaction = _Creating(catalog.new(table, place))
    _show(transaction, table, wanted)
    if wanted.properties.items() - transaction.table_metadata.properties.items():
        transaction.set_properties({**wanted.properties})
    expired = _expired(transaction.table_metadata, wanted)
    if expired:
        transaction._stage((RemoveSnapshotsUpdate(snapshot_ids=expired),))  # type: ignore[call-arg]
    before = copy(current)  # the commit changes it
    after = transaction.commit_transaction()
    return Updated(after.metadata_location, sorted(_unneeded(before, after) if before else ()))


def schema_of(table: Table) -> Schema:
    """A table's columns, its partitions first. All are optional: files of an early version lack
    some, and what could not be measured is null."""
    ids = count(1)
    fields = [
        NestedField(
            next(ids), column.name, _type(column.stored_type, ids), False, doc=column.comment
        )
        for column in (*table.partitions, *table.columns)
    ]
    return assign_fresh_schema_ids(Schema(*fields))


def _columns(schema: Schema) -> set[tuple[str, str, str | None]]:
    return {(field.name, str(field.field_type), field.doc) for field in schema.fields}


def _names(schema: Schema) -> dict[str, str]:
    return {TableProperties.DEFAULT_NAME_MAPPING: schema.name_mapping.model_dump_json()}


def _type(of: pa.DataType, ids: Iterator[int]) -> IcebergType:
    """Iceberg's type. Raises KeyError: no table has such a column so far."""
    if pa.types.is_list(of):
        return ListType(next(ids), _type(of.value_type, ids), element_required=False)
    if pa.types.is_map(of):
        key, value = _type(of.key_type, ids), _type(of.item_type, ids)
        return MapType(next(ids), key, next(ids), value, value_required=False)
    return TYPES[of]


def _show(transaction: Transaction, table: Table, wanted: Update) -> None:
    """Add a snapshot with the changes."""
    changes = wanted.changes
    if not (changes.add or changes.remove):
        return
    operation = Operation.OVERWRITE if changes.remove else Operation.APPEND
    snapshot = _Snapshot(operation, transaction, transaction._table.io)
    spec = transaction.table_metadata.default_spec_id
    for file in changes.add:
        snapshot.append_data_file(_data_file(table, wanted.root, file, spec))
    for file in changes.remove:
        snapshot.delete_data_file(_data_file(table, wanted.root, file, spec))
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


class _Snapshot(_OverwriteFiles):
    """A snapshot with other files than the one before, in few manifests."""

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        merging = _ManifestMergeManager(0, MANIFESTS, True, self)
        of_size: dict[int, list[ManifestFile]] = defaultdict(list)
        for manifest in manifests:
            of_size[_size(manifest)].append(manifest)
        for size in count():
            if size > max(of_size):
                break
            if len(of_size[size]) >= MANIFESTS:
                one = merging._create_manifest(manifests[0].partition_spec_id, of_size.pop(size))
                of_size[max(_size(one), size + 1)].append(one)
        return [manifest for size in sorted(of_size) for manifest in of_size[size]]


def _size(manifest: ManifestFile) -> int:
    """Of how many files a manifest tells, in powers of MANIFESTS."""
    files = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
    return max(0, files.bit_length() - 1) // MANIFESTS_LOG2


def partition_of(table: Table, path: str) -> Record:
    """A file's partition values, as its path under the root says."""
    values: list[str | int | None] = []
    for column, folder in zip(table.partitions, path.split("/")[1:], strict=False):
        text = folder.removeprefix(f"{column.name}=")
        if column.type != pa.date32():
            values.append(text)
        else:
            values.append(None if text == NO_DATE else (date.fromisoformat(text) - EPOCH).days)
    return Record(*values)


def _expired(metadata: TableMetadata, wanted: Update) -> list[int]:
    """The snapshots to be forgotten."""
    in_order = sorted(metadata.snapshots, key=sequence)
    return [
        old.snapshot_id
        for old, new in pairwise(in_order)
        if new.timestamp_ms * MS < wanted.replaced_ns or old.timestamp_ms * MS <= wanted.made_ns
    ]


def table_at(location: str) -> IcebergTable:
    """A table whose metadata are there."""
    return _Unlisted().load(location.partition("/metadata/")[0], location)


def files_of(location: str) -> set[str]:
    """All files of the metadata that a table has."""
    return _needed(table_at(location))


def shown_files(location: str) -> set[str]:
    """The paths under the warehouse's root of the files that a table's current snapshot shows."""
    table = table_at(location)
    begin = len(table.metadata.location.rpartition("/")[0]) + 1
    snapshot = table.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot else []
    return {path[begin:] for manifest in manifests for path in _data_files(table, manifest)}


def newest(root: str, names: Iterable[str]) -> tuple[set[str], dict[str, str]] | None:
    """The files that the newest of a table's metadata show, and its properties; names: the paths
    under the root of all files of its metadata. Older ones stand in for those that cannot be read;
    None if none can."""
    found = []
    for name in names:
        if name.endswith(".metadata.json"):
            with suppress(*DAMAGED):
                location = f"{root}/{name}"
                found.append((table_at(location).metadata.last_updated_ms, location))
    for _, location in sorted(found, reverse=True):
        with suppress(*DAMAGED):
            return shown_files(location), table_at(location).properties
    return None


def shown_by(location: str) -> dict[int, set[str]]:
    """The data files that each snapshot of a table shows, by the snapshot's id."""
    table = table_at(location)
    of_manifest: dict[str, set[str]] = {}
    found: dict[int, set[str]] = {}
    for snapshot in table.metadata.snapshots:
        manifests = {one.manifest_path: one for one in snapshot.manifests(table.io)}
        for path in manifests.keys() - of_manifest.keys():
            of_manifest[path] = _data_files(table, manifests[path])
        found[snapshot.snapshot_id] = set().union(*map(of_manifest.__getitem__, manifests))
    return found


def _data_files(table: IcebergTable, manifest: ManifestFile) -> set[str]:
    """The data files that a manifest shows; those that it says are deleted are left out."""
    return {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}


def _needed(table: IcebergTable) -> set[str]:
    """All files of a table's metadata."""
    return metadata_files(table).union(*(_files(table, one) for one in table.metadata.snapshots))


def _unneeded(before: IcebergTable, after: IcebergTable) -> set[str]:
    """The files that a table's next metadata need no more. Of the snapshots that stay only the
    oldest is looked at: the oldest go first, and what one leaves out has none after it."""
    kept = sorted(after.metadata.snapshots, key=sequence)
    gone = {old.snapshot_id: old for old in before.metadata.snapshots}
    for snapshot in kept:
        gone.pop(snapshot.snapshot_id, None)
    files = metadata_files(before) - metadata_files(after)
    if gone:
        files |= set().union(*(_files(before, old) for old in gone.values()))
        files -= _files(after, kept[0])
    return files


def metadata_files(table: IcebergTable) -> set[str]:
    """Where a table's metadata are, and those before them."""
    earlier = {entry.metadata_file for entry in table.metadata.metadata_log}
    return earlier | {table.metadata_location}


def _files(table: IcebergTable, snapshot: Snapshot) -> set[str]:
    """A snapshot's list of manifests, and these."""
    manifests = snapshot.manifests(table.io)
    return {snapshot.manifest_list, *(manifest.manifest_path for manifest in manifests)}


def sequence(snapshot: Snapshot) -> int:
    """Snapshots' order."""
    return snapshot.sequence_number or 0


class _Changing(Transaction):
    """A transaction that copies the metadata once a change, not at every look (which made a commit
    take as long as there are snapshots)."""

    _seen: tuple[tuple[Any, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The metadata as they will be."""
        if self._seen is None or self._seen[0] is not self._updates:
            self._seen = self._updates, super().table_metadata
        return self._seen[1]


class _Creating(_Changing, CreateTableTransaction):
    """One for a new table."""


class _Unlisted(MetastoreCatalog, NoopCatalog):
    """A catalog that lists nothing: a commit writes metadata, and says where."""

    def __init__(self) -> None:
        super().__init__("unlisted")

    def new(self, table: Table, place: str) -> StagedTable:
        """A table that is not there yet."""
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
        properties = {**PROPERTIES, **_names(schema), "comment": f"one row is {table.row}"}
        metadata = new_table_metadata(
            schema, PartitionSpec(*fields), UNSORTED_SORT_ORDER, place, properties
        )
        return StagedTable((NAMESPACE, table.name), metadata, "", PlaceIO(), self)

    def load(self, place: str, location: str) -> IcebergTable:
        """A table as its metadata say."""
        io = PlaceIO()
        metadata = FromInputFile.table_metadata(io.new_input(location))
        return IcebergTable((NAMESPACE, place.rpartition("/")[2]), metadata, location, io, self)

    def commit_table(
        self, table: IcebergTable, requirements: Any, updates: Any
    ) -> CommitTableResponse:
        """Write what the table's metadata become."""
        current = table if table.metadata_location else None
        staged = self._update_and_stage_table(current, table.name(), requirements, updates)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        return CommitTableResponse(
            metadata=staged.metadata, **{"metadata-location": staged.metadata_location}
        )

    def _load_file_io(self, *_: Any, **__: Any) -> PlaceIO:
        return PlaceIO()
