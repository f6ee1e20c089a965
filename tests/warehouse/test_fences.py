"""A job that stood still does not publish over another; a lost answer of the store loses
nothing."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from conftest import NETWORKS_FILE, ROOT
from pyiceberg.catalog import load_catalog

from schemas import NETWORKS
from spark_jobs.base import places
from spark_jobs.base.errors import UserError
from spark_jobs.base.places import tag_of, write_if_unchanged
from spark_jobs.commands.cli import main
from spark_jobs.warehouse.catalog import CatalogChange, MetadataChange
from spark_jobs.warehouse.database import CATALOG
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
from tests.helpers.lossy_store import losing_answers
from tests.helpers.small_captures import ingest_syns, packets_of
from tests.helpers.small_warehouse import countries, publish

UNIT = Unit("network", "aa-gprs")
ROUNDS = 4


@pytest.fixture
def lossy(store, bucket, monkeypatch) -> Iterator[Path]:
    """Make an S3 bucket that loses the first two answers of three, for each object."""
    seen: Counter[str] = Counter()

    def loses(path: str) -> bool:
        seen[path] += 1
        return seen[path] % 3 != 0

    with losing_answers(store["AWS_ENDPOINT_URL"], loses) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        places._store.cache_clear()
        yield bucket
        assert seen, "nothing went through it"


def test_a_released_lock_may_be_taken_again(bucket):
    one, other = Warehouse(bucket / "w"), Warehouse(bucket / "w")
    for warehouse, country in ((one, "AA"), (other, "BB"), (one, "CC")):
        with warehouse.locked("content-aa-gprs"):
            publish(warehouse, country)
    assert countries(other) == ["CC"]


STOPPED = """
import sys, time
from spark_jobs.base.places import path_of
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
warehouse = Warehouse(path_of(sys.argv[1]))
with warehouse.locked("content-aa-gprs"):
    print("held", flush=True)
    sys.stdin.readline()
    warehouse.publish(Unit("network", "aa-gprs"), [], {"of": "who was stopped"})
"""


BROKEN = {
    "of the lock": "was stopped for so long",
    "all": "terminating connection",
}
"""The connections of a process that break, and its error."""


def break_connections(uri: str, which: str = "of the lock") -> None:
    """Break connections to a database, as the server does if their hosts do not answer."""
    of_locks = "pid in (select pid from pg_locks where locktype = 'advisory' and granted)"
    with psycopg.connect(uri, autocommit=True) as administrator:
        administrator.execute(
            f"""select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()
            and ({which == "all"} or {of_locks})"""
        )


@pytest.mark.parametrize("which", BROKEN)
def test_a_process_that_was_stopped_publishes_nothing(bucket, uri, which):
    root = bucket / "w"
    publish(Warehouse(root), "AA")
    job = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(root)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert job.stdout.readline() == "held\n"
    os.kill(job.pid, signal.SIGSTOP)
    break_connections(uri, which)
    other = Warehouse(root)
    with other.locked("content-aa-gprs"):
        other.publish(UNIT, [], {"of": "other"})
        os.kill(job.pid, signal.SIGCONT)
        _, stderr = job.communicate("go\n", timeout=60)
    assert BROKEN[which] in stderr
    assert Warehouse(root).published(UNIT).facts == {"of": "other"}


def test_a_lock_lost_with_its_connection_publishes_nothing(bucket, uri):
    one, other = Warehouse(bucket / "w"), Warehouse(bucket / "w")
    publish(one, "AA")
    with one.locked("content-aa-gprs"):
        break_connections(uri)
        with other.locked("content-aa-gprs"):
            publish(other, "BB")
            with pytest.raises(UserError, match="was stopped for so long"):
                publish(one, "CC")
    assert countries(Warehouse(bucket / "w")) == ["BB"]
    publish(one, "DD")
    assert countries(other) == ["DD"]


KILLED = """
import os, signal, sys
from schemas import NETWORKS
from spark_jobs.base.places import path_of
from spark_jobs.warehouse.catalog import UnitCatalog
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
warehouse = Warehouse(path_of(sys.argv[1]))
setattr(UnitCatalog, sys.argv[2], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
with warehouse.staging() as staging:
    staging.write(NETWORKS, "aa-gprs", None, "BB", NETWORKS.arrow.empty_table())
    warehouse.publish(Unit("network", "aa-gprs"), staging.files, {})
"""


@pytest.mark.parametrize("step", ["register", "publish"])
def test_a_job_killed_while_publishing_in_an_object_store_changes_nothing(bucket, step):
    """The server releases its locks. Its file is not read; the catalog knows it if the job
    registered it."""
    root = bucket / "w"
    warehouse = Warehouse(root, timedelta(0))
    publish(warehouse, "AA")
    job = subprocess.run([sys.executable, "-c", KILLED, str(root), step], check=False, cwd=ROOT)
    assert job.returncode == -signal.SIGKILL
    assert countries(Warehouse(root)) == ["AA"]
    assert len([*(root / "networks").walk()]) == 2
    publish(warehouse, "CC")
    warehouse.update_views()
    assert countries(Warehouse(root)) == ["CC"]
    left = [path for path, _ in (root / "networks").walk() if path.endswith(".parquet")]
    assert len(left) == (2 if step == "register" else 1)


def test_jobs_that_publish_at_once_lose_nothing(bucket):
    """Their files, the views and the Iceberg tables are in an object store."""

    def publish_some(job: int) -> None:
        warehouse = Warehouse(bucket / "w")
        for number in range(ROUNDS):
            with warehouse.staging() as staging:
                rows = NETWORKS.arrow.empty_table()
                staging.write(NETWORKS, f"n{job}", None, str(number), rows)
                warehouse.publish(Unit("network", f"n{job}", str(number)), staging.files, {})
            warehouse.update_views()

    with ThreadPoolExecutor(2) as jobs:
        list(jobs.map(publish_some, range(2)))
    warehouse = Warehouse(bucket / "w")
    published = {(one.unit.network, one.unit.name) for one in warehouse.published_units("network")}
    assert published == {(f"n{job}", str(number)) for job in range(2) for number in range(ROUNDS)}
    assert warehouse.damaged(all_bytes=True) == {}
    assert warehouse.iceberg_mismatches() == {}


def test_metadata_that_another_job_changed_are_not_replaced(tmp_path):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    warehouse.update_views()
    before = warehouse._catalog.metadata_locations()["networks"]
    publish(warehouse, "BB")
    until_ns = warehouse._catalog.latest_ns()
    changes = warehouse._catalog.changes(until_ns)["networks"]
    assert len(changes.add) == len(changes.remove) == 1
    for stale in (None, "elsewhere"):
        with pytest.raises(UserError, match="Iceberg table networks: another job changed it"):
            warehouse._catalog.set_metadata({"networks": MetadataChange(stale, "new")}, until_ns)
    assert warehouse._catalog.metadata_locations()["networks"] == before
    assert warehouse._catalog.changes(until_ns)["networks"] == changes
    warehouse._catalog.set_metadata({"networks": MetadataChange(before, "new")}, until_ns)
    assert warehouse._catalog.changes(until_ns) == {}
    assert warehouse._catalog.metadata_locations()["networks"] == "new"


def test_missing_files_of_an_iceberg_table_are_reported_and_maintain_adds_them(tmp_path, capsys):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    warehouse.update_views()
    old = warehouse._catalog.metadata_locations()["networks"]
    publish(warehouse, "BB")
    warehouse.update_views()
    files = ["--warehouse", str(tmp_path), "--networks", str(NETWORKS_FILE)]
    main(["check", *files])
    capsys.readouterr()
    with warehouse._catalog._transaction() as session:  # as a job that stood still did
        session.exec_driver_sql(
            "update iceberg_tables set metadata_location = ? where table_name = 'networks'", (old,)
        )
    with pytest.raises(SystemExit) as stopped:
        main(["check", *files])
    assert stopped.value.code == 2
    stderr = capsys.readouterr().err
    assert "the Iceberg table networks lacks 1 files and has 1 others" in stderr
    main(["maintain", "--warehouse", str(tmp_path)])
    main(["check", *files])
    catalog = load_catalog("giscope", type="sql", uri=f"sqlite:///{tmp_path / CATALOG}")
    shown = catalog.load_table("giscope.networks").scan().to_arrow()
    assert shown["country"].to_pylist() == ["BB"]


def test_views_that_another_job_replaced_are_not_replaced(bucket, tmp_path):
    warehouse = Warehouse(bucket / "w")
    publish(warehouse, "AA")
    tag = warehouse._storage.views_tag()
    warehouse.update_views()
    made = tmp_path / "views"
    made.write_bytes(b"stale")
    with pytest.raises(UserError, match="another job replaced it meanwhile"):
        warehouse._storage.replace_views(made, 0, tag)


def test_a_write_whose_answer_was_lost_counts(lossy):
    path = lossy / "catalog-like"
    write_if_unchanged(path, b"1", None)
    write_if_unchanged(path, b"2", tag_of(path))
    assert path.read_bytes() == b"2"


def test_nothing_is_lost_when_an_object_stores_answers_are_lost(
    lossy, network, tmp_path, in_this_process
):
    warehouse = Warehouse(lossy / "w")
    ingest_syns(warehouse, network, tmp_path, a=1, b=2)
    ingest_syns(warehouse, network, tmp_path, b=3)
    assert packets_of(Warehouse(lossy / "w")) == [1, 3]
    warehouse.update_views()
    assert Warehouse(lossy / "w").damaged(all_bytes=True) == {}
    assert Warehouse(lossy / "w").iceberg_mismatches() == {}


def test_published_files_stay_when_the_catalogs_answer_is_lost(bucket, monkeypatch):
    """Staged files are removed only if the catalog cannot name them."""
    warehouse = Warehouse(bucket / "w")
    publish(warehouse, "AA")
    published = warehouse._catalog.publish

    def unheard(changes: list[CatalogChange]) -> None:
        published(changes)
        raise UserError("catalog at db/lake: server closed the connection unexpectedly")

    monkeypatch.setattr(warehouse._catalog, "publish", unheard)
    with warehouse.staging() as staging:
        staging.write(NETWORKS, "aa-gprs", None, "BB", NETWORKS.arrow.empty_table())
        with pytest.raises(UserError, match="closed the connection"):
            warehouse.publish(UNIT, staging.files, {"of": "unheard"})
        warehouse.remove_staged(staging.files)
    reader = Warehouse(bucket / "w")
    assert reader.published(UNIT).facts == {"of": "unheard"}
    assert reader.damaged(all_bytes=True) == {}
