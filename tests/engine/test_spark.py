"""The session's settings for Iceberg, and the error where its packages cannot be downloaded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from schemas import CATALOG_NAME
from spark_jobs.base.errors import UserError
from spark_jobs.engine.spark import ICEBERG, iceberg_settings

STARTED = """
import json, sys
from schemas import CATALOG_NAME
from spark_jobs.engine.spark import spark_session
from spark_jobs.base.errors import UserError
settings, *queries = json.loads(sys.argv[1])
try:
    spark = spark_session(settings)
except UserError as error:
    sys.exit(str(error))
for query in queries:
    print([tuple(row) for row in spark.sql(query).collect()])
"""


def started(
    folder: Path, settings: dict[str, str], *queries: str
) -> subprocess.CompletedProcess[str]:
    """Run queries in a session with these settings; it prints each query's rows in a line."""
    return subprocess.run(
        [sys.executable, "-c", STARTED, json.dumps([settings, *queries])],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("uri", "catalog"),
    [
        (
            "sqlite:////a b/catalog.sqlite",
            {"type": "jdbc", "uri": "jdbc:sqlite:/a b/catalog.sqlite"},
        ),
        (
            "postgresql+psycopg2://me:p%40ss@db:5433/lake",
            {
                "type": "jdbc", "uri": "jdbc:postgresql://db:5433/lake",
                "jdbc.user": "me", "jdbc.password": "p@ss",
            },
        ),
    ],
)  # fmt: skip
def test_a_catalogs_uri_becomes_settings_of_spark(uri, catalog):
    settings = iceberg_settings(uri, "/w")
    got = {key: settings.get(f"spark.sql.catalog.{CATALOG_NAME}.{key}") for key in catalog}
    assert got == catalog


def test_a_catalog_of_another_kind_is_refused():
    with pytest.raises(UserError, match="no driver for a catalog in mysql"):
        iceberg_settings("mysql://db/lake", "/w")


def test_packages_that_cannot_be_downloaded_are_named_in_one_line(tmp_path):
    nothing = tmp_path / "ivy.xml"
    nothing.write_text(
        "<ivysettings><settings defaultResolver='here'/><resolvers><filesystem name='here'>"
        f"<artifact pattern='{tmp_path}/[artifact]-[revision].[ext]'/>"
        "</filesystem></resolvers></ivysettings>"
    )
    settings = iceberg_settings(f"sqlite:///{tmp_path}/catalog.sqlite", str(tmp_path))
    settings |= {"spark.jars.ivySettings": str(nothing), "spark.jars.ivy": str(tmp_path / "ivy")}
    ended = started(tmp_path, settings)
    assert ended.returncode == 1
    assert ended.stderr.strip().startswith(f"Spark could not download {ICEBERG}: ")
    assert "\n" not in ended.stderr.strip()


def test_tables_of_a_catalog_are_written_and_read(tmp_path):
    settings = iceberg_settings(f"sqlite:///{tmp_path}/catalog.sqlite", str(tmp_path / "tables"))
    table = f"{CATALOG_NAME}.lake.flows"
    done = started(
        tmp_path,
        settings,
        f"create namespace {CATALOG_NAME}.lake",
        f"create table {table} (user string, bytes bigint, date date) using iceberg"
        " partitioned by (date)",
        f"insert into {table} values ('a', 4294967295, date'2004-03-02')",
        f"insert into {table} values ('b', 1, date'2004-03-03')",
        f"select user, bytes from {table} where date = date'2004-03-02'",
        f"select count(*) from {table}.snapshots",
    )
    if "could not download" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["[('a', 4294967295)]", "[(2,)]"]
    assert (tmp_path / "catalog.sqlite").exists()
