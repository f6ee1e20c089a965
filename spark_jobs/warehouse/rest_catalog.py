"""The Iceberg tables in a site's REST catalog, too, for engines that are given that one.

A table that it does not know is registered, with the metadata that there are. From then on the
server writes metadata of its own, beside ours and of the same snapshots: it is told which there
are, and which one is shown, of all tables at one stroke where it has transactions (requests as in
Iceberg's REST protocol: CommitTransactionRequest, CommitTableRequest).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import API_PREFIX, Endpoint, HttpMethod, RestCatalog
from pyiceberg.exceptions import NoSuchTableError, RESTError, ServerError
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata

from schemas import CATALOG_NAME
from spark_jobs.errors import UserError
from spark_jobs.warehouse.journal import NAMESPACE
from spark_jobs.warehouse.place_io import PlaceIO

MAIN = "main"
TRANSACTION, TABLE = "transactions/commit", f"namespaces/{NAMESPACE}/tables/{{}}"
HAS_TRANSACTIONS = Endpoint(http_method=HttpMethod.POST, path=f"{API_PREFIX}/{TRANSACTION}")
"""What a server lists that has them."""

Json = dict[str, Any]


def follow(uri: str, locations: Mapping[str, str]) -> None:
    """Let the tables in the REST catalog at this URI, by name, be what these metadata of ours say.

    Raises UserError where it cannot be reached, or refuses.
    """
    of_ours = {
        name: FromInputFile.table_metadata(PlaceIO().new_input(location))
        for name, location in locations.items()
    }
    with _catalog(uri) as catalog:
        catalog.create_namespace_if_not_exists(NAMESPACE)
        behind = []
        for name, ours in of_ours.items():
            theirs = _same(catalog, name, ours)
            if theirs is None:
                catalog.register_table((NAMESPACE, name), locations[name])
            elif updates := updates_between(theirs, ours):
                behind.append(_request(name, theirs, updates))
        _commit(catalog, behind)


def files(uri: str, names: list[str]) -> set[str]:
    """The metadata files of the server's own for these tables. Raises UserError as follow does."""
    with _catalog(uri) as catalog:
        known = [found for name in names if (found := _metadata(catalog, name)) is not None]
    earlier = chain.from_iterable(metadata.metadata_log for _, metadata in known)
    return {location for location, _ in known} | {entry.metadata_file for entry in earlier}


def updates_between(theirs: TableMetadata, ours: TableMetadata) -> list[Json]:
    """What makes their metadata of a table tell what ours do: schemas, properties, snapshots."""
    schemas = {schema.schema_id for schema in theirs.schemas}
    updates: list[Json] = [
        {"action": "add-schema", "schema": json.loads(schema.model_dump_json())}
        for schema in ours.schemas
        if schema.schema_id not in schemas
    ]
    if theirs.current_schema_id != ours.current_schema_id:
        updates.append({"action": "set-current-schema", "schema-id": ours.current_schema_id})
    properties = dict(ours.properties.items() - theirs.properties.items())
    if properties:
        updates.append({"action": "set-properties", "updates": properties})
    there = {snapshot.snapshot_id for snapshot in theirs.snapshots}
    updates += [
        {"action": "add-snapshot", "snapshot": json.loads(snapshot.model_dump_json())}
        for snapshot in sorted(ours.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
        if snapshot.snapshot_id not in there
    ]
    shown = ours.current_snapshot_id
    if shown != theirs.current_snapshot_id:
        branch = {"ref-name": MAIN, "type": "branch", "snapshot-id": shown}
        updates.append({"action": "set-snapshot-ref", **branch})
    gone = there - {snapshot.snapshot_id for snapshot in ours.snapshots}
    if gone:
        updates.append({"action": "remove-snapshots", "snapshot-ids": sorted(gone)})
    return updates


def _same(catalog: RestCatalog, name: str, ours: TableMetadata) -> TableMetadata | None:
    """The server's metadata of a table; None where it does not know it any more: of another one, as
    where the warehouse was made anew, or whose metadata it cannot read, as where it was moved, it
    is told to forget."""
    try:
        known = _metadata(catalog, name)
        if known is None or known[1].table_uuid == ours.table_uuid:
            return known and known[1]
    except ServerError:
        pass
    catalog.drop_table((NAMESPACE, name))
    return None


def _request(name: str, theirs: TableMetadata, updates: list[Json]) -> Json:
    """A table's updates, unless others have changed it."""
    as_it_was = [
        {"type": "assert-table-uuid", "uuid": str(theirs.table_uuid)},
        {
            "type": "assert-ref-snapshot-id",
            "ref": MAIN,
            "snapshot-id": theirs.current_snapshot_id,
        },
    ]
    identifier = {"namespace": [NAMESPACE], "name": name}
    return {"identifier": identifier, "requirements": as_it_was, "updates": updates}


def _commit(catalog: RestCatalog, requests: list[Json]) -> None:
    """At one stroke, where the server can."""
    if requests and HAS_TRANSACTIONS in catalog._supported_endpoints:
        _post(catalog, TRANSACTION, {"table-changes": requests})
    else:
        for request in requests:
            _post(catalog, TABLE.format(request["identifier"]["name"]), request)


def _post(catalog: RestCatalog, endpoint: str, request: Json) -> None:
    answer = catalog._session.post(catalog.url(endpoint), json=request)
    if not answer.ok:
        raise RESTError(_reason(answer))


def _metadata(catalog: RestCatalog, name: str) -> tuple[str, TableMetadata] | None:
    """Where the server has a table's metadata, and what they are; None: it does not know it."""
    try:
        table = catalog.load_table((NAMESPACE, name))
    except NoSuchTableError:
        return None
    return table.metadata_location, table.metadata


@contextmanager
def _catalog(uri: str) -> Iterator[Any]:
    """The catalog, with what PyIceberg is told of it otherwise (PYICEBERG_CATALOG__GISCOPE__...);
    its errors in a line."""
    host = urlsplit(uri).netloc.rpartition("@")[2]
    try:
        yield load_catalog(CATALOG_NAME, type="rest", uri=uri)
    except OSError as error:  # those of requests are
        raise UserError(f"REST catalog at {host}: cannot be reached") from error
    except (RESTError, NotImplementedError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"REST catalog at {host}: {reason}") from error


def _reason(answer: Any) -> str:
    """Why a server refuses."""
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} {answer.reason}"
