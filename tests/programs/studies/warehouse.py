"""giscope's tables of the recordings, and the lab's truth beside them, in DuckDB."""

from pathlib import Path
from typing import Any

import duckdb

from spark_jobs.warehouse.store import Warehouse
from tests.programs.lab.profile import Group, read

STUDIES = Path(__file__).parents[2] / "data/studies"
CAPTURES, TRUTH = STUDIES / "captures", STUDIES / "truth"
TABLES = ("users", "clients", "sender", "events")


def connect(folder: Path, truth: Path = TRUTH) -> duckdb.DuckDBPyConnection:
    """The warehouse's views, and of the truth `true_users`, `true_clients`, `true_sender` and
    `true_events`, all with the column `network`; `cells`: flows with the group of their user."""
    db = Warehouse(folder).connect()
    for table in TABLES:
        files = truth / "*" / f"{table}.csv.zst"
        db.execute(f"""
            create temp table true_{table} as
            select * exclude filename, split_part(filename, '/', -2) as network
            from read_csv('{files}', filename = true)
        """)
    db.execute("""
        create temp table cells as
        select flows.*, true_users."group" as cell
        from flows join true_users using (network, "user")
    """)
    return db


def groups(network: str, truth: Path = TRUTH) -> dict[str, Group]:
    """The recording's groups, by name, in the profile's order."""
    return {group.name: group for group in read(truth / network / "profile.toml").groups}


def rows(db: duckdb.DuckDBPyConnection, query: str) -> dict[str, dict[str, Any]]:
    """A query's rows as dictionaries, by the column `cell`."""
    return {row["cell"]: row for row in db.sql(query).df().to_dict("records")}
