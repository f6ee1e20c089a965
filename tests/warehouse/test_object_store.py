"""A warehouse in an object store has the same tables as one in a folder."""

import subprocess
import sys
from contextlib import ExitStack, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest
from conftest import CAPTURES, NETWORKS_FILE, contents
from object_store import new_bucket
from pyiceberg.catalog import load_catalog
from small_captures import ingest_syns, packets_of
from test_warehouse import assert_one_at_a_time, countries, publish

from schemas import NETWORKS, PACKETS
from spark_jobs.cli import main
from spark_jobs.errors import UserError
from spark_jobs.places import ConflictError, path_of, write_if_unchanged
from spark_jobs.report.build import REPORT
from spark_jobs.warehouse import compaction, object_store_database, orphans
from spark_jobs.warehouse.database import CATALOG, LOCKS
from spark_jobs.warehouse.storage import VIEWS
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit

UNIT = Unit("network", "aa-gprs")


def run(*args: str) -> str:
    """Run a command in a process of its own: workers of this process may not know the store."""
    command = [Path(sys.executable).with_name("giscope"), "run", *args]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def upload(folder: Path, to: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            (to / path.relative_to(folder).as_posix()).write_bytes(path.read_bytes())


def test_a_run_in_an_object_store_makes_the_tables_of_a_folder(demo, bucket, capsys):
    """Captures are read from the object store, too; the second run changes nothing."""
    upload(CAPTURES, bucket / "captures")
    root = bucket / "a prefix" / "w"
    args = ["--warehouse", str(root), "--networks", str(NETWORKS_FILE)]
    run(*args, str(bucket / "captures"))
    assert contents(root) == contents(demo.warehouse.root)
    assert (root / REPORT).read_bytes().startswith(b"<!doctype html>")
    assert (root / VIEWS).exists()
    before = {path: status for path, status in root.walk() if not path.startswith(LOCKS)}
    again = run(*args, str(bucket / "captures"))
    assert again.count("unchanged") == len(list(CAPTURES.glob("*/*.pcap*")))
    after = {path: status for path, status in root.walk() if not path.startswith(LOCKS)}
    assert after == before
    main(["check", *args])
    capsys.readouterr()
    query = "select max(ip_bytes_down) from flows"
    main(["sql", "--warehouse", str(root), "--format", "csv", query])
    connection = demo.warehouse.connect()
    (most,) = connection.execute(query).fetchone()
    assert capsys.readouterr().out.split()[-1] == str(most)


def test_units_are_published_whole_and_shown(bucket, tmp_path, store):
    root = bucket / "w"
    warehouse = Warehouse(root, timedelta(0))
    assert warehouse.published_units("network") == []
    publish(warehouse, "AA", "BB")
    reader = Warehouse(root)
    assert countries(reader) == ["AA", "BB"]
    then = datetime.now(UTC)
    publish(warehouse, "CC")
    assert countries(reader) == ["CC"]
    rows = reader.connect(as_of=then).sql("select country from networks order by all").fetchall()
    assert rows == [("AA",), ("BB",)]
    warehouse.update_views()
    assert [path for path in root.walk() if path[0].endswith(".parquet")] == [
        (str(path)[len(str(root)) + 1 :], path.stat()) for path in reader.files(NETWORKS)
    ]
    (tmp_path / CATALOG).write_bytes((root / CATALOG).read_bytes())
    catalog = load_catalog(
        "giscope",
        type="sql",
        uri=f"sqlite:///{tmp_path / CATALOG}",
        **{
            "s3.endpoint": store["AWS_ENDPOINT_URL"],
            "s3.access-key-id": store["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": store["AWS_SECRET_ACCESS_KEY"],
            "s3.region": store["AWS_REGION"],
        },
    )
    shown = catalog.load_table("giscope.networks").scan().to_arrow()
    assert shown["country"].to_pylist() == ["CC"]


def test_unpublished_files_of_a_failed_change_are_removed(bucket):
    warehouse = Warehouse(bucket / "w")
    change = ExitStack()
    staging = change.enter_context(warehouse.staging())
    staging.write(NETWORKS, "aa-gprs", None, "AA", NETWORKS.arrow.empty_table())
    assert len(list((bucket / "w" / "networks").walk())) == 1
    with suppress(KeyError), change:
        raise KeyError
    assert list((bucket / "w" / "networks").walk()) == []


def test_orphan_files_of_a_killed_job_are_removed_after_a_day(bucket, monkeypatch):
    warehouse = Warehouse(bucket / "w")
    publish(warehouse, "AA")
    orphan = bucket / "w" / "networks" / "network=aa-gprs" / "x-01234567-89abcdef.parquet"
    orphan.write_bytes(b"begun")
    warehouse.maintain(remove_orphans=True)
    assert orphan.exists(), "a job may be at work on it"
    monkeypatch.setattr(orphans, "MIN_AGE", timedelta(days=-1))
    warehouse.maintain()
    assert orphan.exists()
    assert warehouse.too_many_orphans
    warehouse.maintain(remove_orphans=True)
    assert not orphan.exists()
    assert countries(warehouse) == ["AA"]


def test_small_files_are_merged_and_split(bucket, network, tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "MIN_FILES", 2)
    warehouse = Warehouse(bucket / "w")
    ingest_syns(warehouse, network, tmp_path, a=1, b=2)
    assert warehouse.compact() == (4, 2)
    assert packets_of(warehouse) == packets_of(Warehouse(bucket / "w")) == [1, 2]
    ingest_syns(warehouse, network, tmp_path, b=3)
    assert packets_of(warehouse) == [1, 3]
    assert len(warehouse.files(PACKETS)) == 2
    assert warehouse.damaged(all_bytes=True) == {}


def test_a_missing_file_is_reported(bucket):
    warehouse = Warehouse(bucket / "w")
    publish(warehouse, "AA")
    assert warehouse.damaged() == {}
    (path,) = warehouse.files(NETWORKS)
    path.unlink()
    (line,) = Warehouse(bucket / "w").damaged().values()
    assert line == f"{path}: is missing (network all of aa-gprs)"


def test_a_lock_has_one_holder_at_a_time(bucket):
    assert_one_at_a_time(Warehouse(bucket / "w"), Warehouse(bucket / "w"))
    assert all(size == 0 for _, (size, _) in (bucket / "w").walk()), "nobody's"


def test_a_lock_is_renewed_as_long_as_it_is_held(bucket, monkeypatch):
    monkeypatch.setattr(object_store_database, "RENEWAL_S", 0.05)
    monkeypatch.setattr(object_store_database, "EXPIRY_S", 1)
    lock, got = bucket / "lock", Event()

    def take() -> None:
        with object_store_database.hold_lock(lock):
            got.set()

    taking = Thread(target=take)
    with object_store_database.hold_lock(lock):
        taking.start()
        assert not got.wait(3)
    assert got.wait(10)
    taking.join()


def test_the_lock_of_a_killed_job_expires(bucket, monkeypatch):
    monkeypatch.setattr(object_store_database, "EXPIRY_S", 0.5)
    lock = bucket / "lock"
    lock.write_bytes(b"of a job that is no more")
    with object_store_database.hold_lock(lock):
        assert lock.read_bytes() != b"of a job that is no more"
    assert lock.read_bytes() == object_store_database.RELEASED


def test_an_expired_holder_leaves_the_new_holders_lock(bucket, monkeypatch):
    monkeypatch.setattr(object_store_database, "RENEWAL_S", 0)
    lock = bucket / "lock"
    with object_store_database.hold_lock(lock):
        lock.write_bytes(b"another's")
    assert lock.read_bytes() == b"another's"


def test_no_change_is_lost_when_locks_fail(bucket, monkeypatch):
    """The object store's conditional writes decide."""
    one, other = Warehouse(bucket / "w"), Warehouse(bucket / "w")
    publish(one, "AA")
    monkeypatch.setattr(
        object_store_database, "write_if_unchanged", write_after_another_change(bucket / "w", other)
    )
    with pytest.raises(UserError, match="another job changed it; try again"):
        one.publish(UNIT, [], {"of": "one"})
    monkeypatch.undo()
    assert Warehouse(bucket / "w").published(UNIT).facts == {"of": "other"}


def write_after_another_change(root: Path, other: Warehouse):
    """Return a write_if_unchanged before which another job changes the catalog, once."""
    done = []

    def write(path: Path, content: bytes, tag: str | None) -> str:
        if path == root / CATALOG and not done:
            done.append(path)
            bypassed = write_if_unchanged
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    object_store_database.ObjectStoreSQLite,
                    "locked",
                    lambda *_, **__: nullcontext(),
                )
                patch.setattr(object_store_database, "write_if_unchanged", bypassed)
                other.publish(UNIT, [], {"of": "other"})
        return write_if_unchanged(path, content, tag)

    return write


def test_conditional_writes_fail_when_the_object_changed(bucket):
    path = bucket / "x"
    tag = write_if_unchanged(path, b"1", None)
    with pytest.raises(ConflictError):
        write_if_unchanged(path, b"2", None)
    newer = write_if_unchanged(path, b"2", tag)
    with pytest.raises(ConflictError):
        write_if_unchanged(path, b"3", tag)
    path.unlink()
    with pytest.raises(ConflictError):
        write_if_unchanged(path, b"3", newer)


@pytest.mark.parametrize(
    ("variables", "root", "reason"),
    [
        ({}, "s3://no-such-bucket/w", "NoSuchBucket"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "s3://x/w", "error sending request"),
    ],
)
def test_an_unreachable_object_store_is_reported_in_a_line(
    bucket, monkeypatch, capsys, few_captures, variables, root, reason
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as stopped:
        main(["run", "--warehouse", root, "--networks", str(NETWORKS_FILE), str(few_captures)])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"giscope: {root}")
    assert line.endswith(reason)


def test_the_keys_of_a_store_may_be_in_files(bucket, store, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        (tmp_path / name).write_text(f"{store[name]}\n")
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / name))
        monkeypatch.delenv(name)
    path = path_of(f"s3://{new_bucket(store)}/x")
    path.write_bytes(b"1")
    assert path.read_bytes() == b"1"


def test_threads_that_share_a_file_each_read_at_their_own_position(bucket):
    """DuckDB's threads do."""
    path = bucket / "x"
    path.write_bytes(bytes(range(256)))
    file, sought = path.open(buffering=0), Barrier(2)
    found = {}

    def read(at: int) -> None:
        file.seek(at)
        sought.wait()
        found[at] = file.read(2)

    threads = [Thread(target=read, args=(at,)) for at in (10, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {10: bytes([10, 11]), 100: bytes([100, 101])}
    assert file.seek(-1, 2) == 255
    assert file.read(9) == b"\xff"
    assert file.read(9) == b""
    file.seek(3)
    assert (file.read(1), file.read(1)) == (b"\3", b"\4")
