"""Make Superset's metadata and pages in its container before it starts: `init.py ASSETS NETWORKS`.

That takes a minute. A fingerprint in the metadata's database says what it was made from; a start
with the same fingerprint has nothing to do.
"""

import hashlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import load
import psycopg2
from duckdb_connections import VIEWS
from superset_config import METADATA


def inputs(assets: Path, networks: Path) -> Iterator[str]:
    """Yield all that decides what a set-up makes."""
    yield version("apache-superset")
    for path in (*sorted(Path(__file__).parent.glob("*.py")), assets, networks):
        yield path.read_text()
    yield str(load.known_networks(VIEWS, tomllib.loads(networks.read_text())["network"]))


def main(assets: Path, networks: Path) -> None:
    """Set up Superset unless an earlier start did it from the same inputs."""
    fingerprint = hashlib.sha256("\0".join(inputs(assets, networks)).encode()).hexdigest()
    address = METADATA.set(drivername="postgresql").render_as_string(hide_password=False)
    with closing(psycopg2.connect(address)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("create table if not exists giscope_set_up (fingerprint text)")
        cursor.execute("select fingerprint from giscope_set_up")
        if cursor.fetchall() == [(fingerprint,)]:
            print("Superset's metadata and dashboards are up to date")
            return
        cursor.execute("delete from giscope_set_up")
        for command in ("db upgrade", "init"):
            subprocess.run(["superset", *command.split()], check=True)
        load.main(assets, networks)
        cursor.execute("insert into giscope_set_up values (%s)", [fingerprint])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
