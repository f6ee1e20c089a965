"""A job that stood still does not publish over another; a lost answer of the store loses
nothing."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from conftest import NETWORKS_FILE, ROOT
from lossy_store import losing_answers
from pyiceberg.catalog import load_catalog
from small_captures import ingest_syns, packets_of
from test_warehouse import countries, publish

from schemas import NETWORKS
from spark_jobs import places
from spark_jobs.cli import main
from spark_jobs.errors import UserError
from spark_jobs.places import read_if_changed, write_if_unchanged
from spark_jobs.warehouse import object_store_database
from spark_jobs.warehouse.catalog import MetadataChange
from spark_jobs.warehouse.database import CATALOG
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit

UNIT = Unit("network", "aa-gprs")


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
        assert any("catalog" in path for path in seen), "nothing went through it"


@pytest.fixture
def short_locks(monkeypatch) -> None:
    """Let locks expire soon, and not be renewed, as if their holders stood still."""
    monkeypatch.setattr(object_store_database, "EXPIRY_S", 0.5)
    monkeypatch.setattr(object_store_database, "RENEWAL_S", 3600)


def test_a_job_that_lost_its_lock_publishes_nothing(bucket, short_locks):
    one, other = Warehouse(bucket / "w"), Warehouse(bucket / "w")
    publish(one, "AA")
    with one.locked("content-aa-gprs"):
        with other.locked("content-aa-gprs"):
            publish(other, "BB")
        with pytest.raises(UserError, match="was stopped for so long"):
            publish(one, "CC")
    assert countries(Warehouse(bucket / "w")) == ["BB"]
    publish(one, "DD")
    assert countries(other) == ["DD"]


def test_a_released_lock_may_be_taken_again(bucket):
    one, other = Warehouse(bucket / "w"), Warehouse(bucket / "w")
    for warehouse, country in ((one, "AA"), (other, "BB"), (one, "CC")):
        with warehouse.locked("content-aa-gprs"):
            publish(warehouse, country)
    assert countries(other) == ["CC"]


def test_a_job_that_lost_its_lock_leaves_the_new_holders(bucket, short_locks):
    lock = bucket / "lock"
    with object_store_database.hold_lock(lock):
        with object_store_database.hold_lock(lock) as second:
            assert second.took_over
            mine = lock.read_bytes()
            first_tag = write_if_unchanged(bucket / "x", b"1", None)
            assert first_tag
        assert lock.read_bytes() == object_store_database.RELEASED
        assert mine != object_store_database.RELEASED
    assert lock.read_bytes() == object_store_database.RELEASED


STOPPED = """
import sys, time
from spark_jobs.places import path_of
from spark_jobs.warehouse import object_store_database
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
object_store_database.RENEWAL_S, object_store_database.EXPIRY_S = 0.2, 2.0
warehouse = Warehouse(path_of(sys.argv[1]))
with warehouse.locked("content-aa-gprs"):
    print("held", flush=True)
    sys.stdin.readline()
    warehouse.publish(Unit("network", "aa-gprs"), [], {"of": "who was stopped"})
"""


def test_a_process_that_was_stopped_publishes_nothing(bucket, monkeypatch):
    monkeypatch.setattr(object_store_database, "RENEWAL_S", 0.2)
    monkeypatch.setattr(object_store_database, "EXPIRY_S", 2.0)
    root = bucket / "w"
    publish(Warehouse(root), "AA")
    job = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(root)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert job.stdout.readline() == "held\n"
    os.kill(job.pid, signal.SIGSTOP)
    other = Warehouse(root)
    began = time.monotonic()
    with other.locked("content-aa-gprs"):
        assert time.monotonic() - began > 1
        other.publish(UNIT, [], {"of": "other"})
        os.kill(job.pid, signal.SIGCONT)
        _, stderr = job.communicate("go\n", timeout=60)
    assert "was stopped for so long" in stderr
    assert Warehouse(root).published(UNIT).facts == {"of": "other"}


def test_a_lock_lost_with_its_connection_publishes_nothing(uri, tmp_path):
    one, other = Warehouse(tmp_path), Warehouse(tmp_path)
    publish(one, "AA")
    with one.locked("content-aa-gprs"):
        with psycopg.connect(uri, autocommit=True) as administrator:
            administrator.execute(
                """select pg_terminate_backend(pid) from pg_locks
                where locktype = 'advisory' and granted"""
            )
        with other.locked("content-aa-gprs"):
            publish(other, "BB")
            with pytest.raises(UserError, match="was stopped for so long"):
                publish(one, "CC")
    assert countries(Warehouse(tmp_path)) == ["BB"]


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
    tag = write_if_unchanged(path, b"1", None)
    tag = write_if_unchanged(path, b"2", tag)
    assert read_if_changed(path, None) == (b"2", tag)


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


def test_a_change_with_a_lost_answer_counts_after_another_jobs_change(bucket):
    """The change's answer was lost, and the file has changed again since."""
    one, other = Warehouse(bucket / "w"), Warehouse(bucket / "w")
    publish(one, "AA")

    def answer_lost(path: Path, content: bytes, tag: str | None) -> str:
        write_if_unchanged(path, content, tag)
        losing.undo()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(object_store_database.ObjectStoreSQLite, "locked", unlocked)
            other.publish(Unit("network", "zz"), [], {"of": "other"})
        raise places.ConflictError(str(path))

    def unlocked(self, name, wait=None):
        from contextlib import nullcontext

        return nullcontext()

    def only_catalog(path: Path, content: bytes, tag: str | None) -> str:
        write = answer_lost if path.name == CATALOG else write_if_unchanged
        return write(path, content, tag)

    losing = pytest.MonkeyPatch()
    losing.setattr(object_store_database, "write_if_unchanged", only_catalog)
    one.publish(UNIT, [], {"of": "one"})
    reader = Warehouse(bucket / "w")
    assert reader.published(UNIT).facts == {"of": "one"}
    assert reader.published(Unit("network", "zz")).facts == {"of": "other"}


def test_published_files_stay_when_the_catalogs_answer_is_lost(bucket, monkeypatch):
    """Staged files are removed only if no catalog can name them."""
    warehouse = Warehouse(bucket / "w")
    publish(warehouse, "AA")
    written = write_if_unchanged

    def unheard(path: Path, content: bytes, tag: str | None) -> str:
        found = written(path, content, tag)
        if path.name == CATALOG and b'"of": "unheard"' in content:
            raise OSError("the object store: timed out")
        return found

    monkeypatch.setattr(object_store_database, "write_if_unchanged", unheard)
    with warehouse.staging() as staging:
        staging.write(NETWORKS, "aa-gprs", None, "BB", NETWORKS.arrow.empty_table())
        with pytest.raises(OSError, match="timed out"):
            warehouse.publish(UNIT, staging.files, {"of": "unheard"})
        warehouse.remove_staged(staging.files)
    monkeypatch.undo()
    reader = Warehouse(bucket / "w")
    assert reader.published(UNIT).facts == {"of": "unheard"}
    assert reader.damaged(all_bytes=True) == {}
