"""The Iceberg tables in a site's REST catalog, for engines that use that one.

A table that the REST catalog does not know is registered with the present metadata. From then on
the server writes metadata of its own, next to giscope's and with the same snapshots. giscope sends
it the snapshots and the current one. All tables change in one transaction if the server supports
that. The requests are those of Iceberg's REST protocol (CommitTransactionRequest,
CommitTableRequest).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import API_PREFIX, Endpoint, HttpMethod, RestCatalog
from pyiceberg.exceptions import (
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from schemas import CATALOG_NAME
from spark_jobs.errors import UserError
from spark_jobs.secret_files import secret_of
from spark_jobs.warehouse.catalog import NAMESPACE
from spark_jobs.warehouse.iceberg import load_table, metadata_files, sequence_number

CREDENTIAL_VARIABLE = f"PYICEBERG_CATALOG__{CATALOG_NAME.upper()}__CREDENTIAL"
"""The environment variable with PyIceberg's credential; a file may hold it, too (see secret_of)."""
TIMEOUT_S = 60
"""Maximum time to wait for an answer (s)."""
UNEXPECTED_ERRORS = NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
"""Errors of a server that contradict its previous answer."""
MAIN_BRANCH = "main"
TRANSACTION, TABLE = "transactions/commit", f"namespaces/{NAMESPACE}/tables/{{}}"
HAS_TRANSACTIONS = Endpoint(http_method=HttpMethod.POST, path=f"{API_PREFIX}/{TRANSACTION}")
"""The endpoint that a server with transactions lists."""

Json = dict[str, Any]


def sync_tables(uri: str, locations: Mapping[str, str]) -> set[str]:
    """Make the tables of the REST catalog at a URI equal to these metadata.

    locations: by table, the location of giscope's metadata. Returns the metadata files that the
    REST catalog has then.

    Raises UserError if the server cannot be reached, refuses, or has other tables of these names.
    """
    local_tables = {name: load_table(location).metadata for name, location in locations.items()}
    with _catalog(uri) as catalog:
        if not catalog.namespace_exists(NAMESPACE):
            catalog.create_namespace_if_not_exists(NAMESPACE)
        tables: list[Table] = []
        requests = []
        for name, local in local_tables.items():
            try:
                table = catalog.load_table((NAMESPACE, name))
            except NoSuchTableError:
                tables.append(catalog.register_table((NAMESPACE, name), locations[name]))
                continue
            if updates := updates_between(name, table.metadata, local):
                requests.append(_request(name, table.metadata, updates))
            else:
                tables.append(table)
        _commit(catalog, requests)
        tables += [catalog.load_table((NAMESPACE, r["identifier"]["name"])) for r in requests]
    return {_path(file) for table in tables for file in metadata_files(table)}


def _path(location: str) -> str:
    """Return a location in giscope's form."""
    scheme, _, rest = location.partition(":")
    if scheme == "file":
        return urlsplit(location).path
    return f"s3:{rest}" if scheme in ("s3a", "s3n") else location


def updates_between(name: str, server: TableMetadata, local: TableMetadata) -> list[Json]:
    """Return the updates that make the server's metadata of a table equal to the local ones.

    They concern schemas, properties and snapshots. Raises UserError if the server's is another
    table, or others have changed it.
    """
    server_ids = {snapshot.snapshot_id for snapshot in server.snapshots}
    new = [snapshot for snapshot in local.snapshots if snapshot.snapshot_id not in server_ids]
    latest = _latest(server)
    if (
        server.table_uuid != local.table_uuid
        or latest > _latest(local)
        or any(sequence_number(snapshot) <= latest for snapshot in new)
    ):
        raise UserError(
            f"{NAMESPACE}.{name} there belongs to another warehouse, or another program has "
            "changed it: drop it there without purging its files"
        )
    schemas = {schema.schema_id for schema in server.schemas}
    updates: list[Json] = [
        {"action": "add-schema", "schema": json.loads(schema.model_dump_json())}
        for schema in local.schemas
        if schema.schema_id not in schemas
    ]
    if server.current_schema_id != local.current_schema_id:
        updates.append({"action": "set-current-schema", "schema-id": local.current_schema_id})
    properties = dict(local.properties.items() - server.properties.items())
    if properties:
        updates.append({"action": "set-properties", "updates": properties})
    updates += [
        {"action": "add-snapshot", "snapshot": json.loads(snapshot.model_dump_json())}
        for snapshot in sorted(new, key=sequence_number)
    ]
    shown = local.current_snapshot_id
    if shown != server.current_snapshot_id:
        branch = {"ref-name": MAIN_BRANCH, "type": "branch", "snapshot-id": shown}
        updates.append({"action": "set-snapshot-ref", **branch})
    removed = server_ids - {snapshot.snapshot_id for snapshot in local.snapshots}
    if removed:
        updates.append({"action": "remove-snapshots", "snapshot-ids": sorted(removed)})
    return updates


def _latest(metadata: TableMetadata) -> int:
    return max(map(sequence_number, metadata.snapshots), default=0)


def _request(name: str, server: TableMetadata, updates: list[Json]) -> Json:
    """Return a request with a table's updates, valid if nobody else has changed the table."""
    requirements = [
        {"type": "assert-table-uuid", "uuid": str(server.table_uuid)},
        {
            "type": "assert-ref-snapshot-id",
            "ref": MAIN_BRANCH,
            "snapshot-id": server.current_snapshot_id,
        },
    ]
    identifier = {"namespace": [NAMESPACE], "name": name}
    return {"identifier": identifier, "requirements": requirements, "updates": updates}


def _commit(catalog: RestCatalog, requests: list[Json]) -> None:
    """Send requests, in one transaction if the server supports that."""
    if requests and HAS_TRANSACTIONS in catalog._supported_endpoints:
        _post(catalog, TRANSACTION, {"table-changes": requests})
    else:
        for request in requests:
            _post(catalog, TABLE.format(request["identifier"]["name"]), request)


def _post(catalog: RestCatalog, endpoint: str, request: Json) -> None:
    answer = catalog._session.post(catalog.url(endpoint), json=request)
    if not answer.ok:
        raise RESTError(_reason(answer))


class TimedRestCatalog(RestCatalog):
    """A REST catalog whose requests time out."""

    def _create_session(self) -> Any:
        session = super()._create_session()
        session.request = partial(session.request, timeout=TIMEOUT_S)  # type: ignore[method-assign]
        return session


@contextmanager
def _catalog(uri: str) -> Iterator[Any]:
    """Open the catalog, with PyIceberg's own settings (PYICEBERG_CATALOG__GISCOPE__...).

    Its errors are raised as a UserError of one line.
    """
    host = uri
    try:
        host = urlsplit(uri).netloc.rpartition("@")[2] or uri
        settings = {
            "py-catalog-impl": f"{TimedRestCatalog.__module__}.{TimedRestCatalog.__qualname__}"
        }
        credential = secret_of(CREDENTIAL_VARIABLE)
        settings |= {"credential": credential} if credential else {}
        yield load_catalog(CATALOG_NAME, uri=uri, **settings)
    except UserError as error:
        raise UserError(f"REST catalog at {host}: {error}") from error
    except OSError as error:  # the errors of requests are OSErrors
        raise UserError(f"REST catalog at {host}: cannot be reached") from error
    except (RESTError, NotImplementedError, *UNEXPECTED_ERRORS) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"REST catalog at {host}: {reason}") from error
    except ValueError as error:
        raise UserError(f"REST catalog at {host}: its answer is not a REST catalog's") from error


def _reason(answer: Any) -> str:
    """Return the server's reason for a refusal."""
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} {answer.reason}"
