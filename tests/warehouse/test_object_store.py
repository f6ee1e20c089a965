"""A warehouse in an object store has the same tables as one in a folder."""

import subprocess
from collections import Counter
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier, Thread

import pytest
from conftest import EMPTY_IN_DEMO, GISCOPE, NETWORKS_FILE, NOON, ask, contents
from pyiceberg.catalog import load_catalog
from scapy.layers.inet import IP, TCP

from schemas import NETWORKS, PACKETS
from spark_jobs.base.places import (
    STORE_OPTIONS,
    ConflictError,
    ObjectPath,
    Status,
    _store,
    path_of,
    tag_of,
    write_if_unchanged,
)
from spark_jobs.capture.users import user_keys
from spark_jobs.commands.cli import main
from spark_jobs.figures.tables import TABLES
from spark_jobs.report.build import REPORT
from spark_jobs.warehouse import compaction, orphans
from spark_jobs.warehouse.identity import MARK
from spark_jobs.warehouse.storage import VIEWS
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.capture_files import Frame, pcap
from tests.helpers.catalogs import new_database
from tests.helpers.lossy_store import losing_answers
from tests.helpers.object_store import new_bucket
from tests.helpers.small_captures import US, ingest_syns, packets_of
from tests.helpers.small_warehouse import countries, publish


def run(*args: str) -> None:
    """Run a command in a process of its own: workers of this process may not know the store."""
    subprocess.run([GISCOPE, "run", *args], check=True)


def upload(folder: Path, to: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            (to / path.relative_to(folder).as_posix()).write_bytes(path.read_bytes())


def test_a_run_in_an_object_store_makes_the_tables_of_a_folder(
    few_captures, few_run, bucket, capsys
):
    """Captures are read from the object store, too; the second run changes nothing."""
    upload(few_captures, bucket / "captures")
    root = bucket / "a prefix" / "w"
    args = ["--warehouse", str(root), "--networks", str(NETWORKS_FILE)]
    run(*args, str(bucket / "captures"))
    expected = contents(few_run.root, catalog="")
    assert contents(root) == expected
    assert all(rows or TABLES[name] in EMPTY_IN_DEMO for name, (rows, _) in expected.items())
    assert (root / REPORT).read_bytes().startswith(b"<!doctype html>")
    assert (root / VIEWS).exists()
    before = dict(root.walk())
    main(["run", *args, str(bucket / "captures")])
    assert capsys.readouterr().out.count("unchanged") == 2
    assert dict(root.walk()) == before
    main(["check", *args])
    query = "select max(ip_bytes_down) from flows"
    command = [GISCOPE, "sql", "--warehouse", str(root), "--format", "csv", query]
    printed = subprocess.check_output(command, text=True)
    (most,) = ask(Warehouse(few_run.root, catalog=""), query).fetchone()
    assert printed.split()[-1] == str(most)


def test_units_are_published_whole_and_shown(bucket, uri, store):
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
    catalog = load_catalog(
        "giscope",
        type="sql",
        uri=uri.replace("postgresql", "postgresql+psycopg", 1),
        **{
            "s3.endpoint": store["AWS_ENDPOINT_URL"],
            "s3.access-key-id": store["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": store["AWS_SECRET_ACCESS_KEY"],
            "s3.region": store["AWS_REGION"],
        },
    )
    shown = catalog.load_table("giscope.networks").scan().to_arrow()
    assert shown["country"].to_pylist() == ["CC"]


def test_a_connection_asks_once_for_the_size_of_a_file(bucket, monkeypatch):
    publish(Warehouse(bucket / "w"), "AA", "BB")
    asked, stat = Counter(), ObjectPath.stat

    def counting(path: ObjectPath) -> Status:
        asked[path.key] += 1
        return stat(path)

    monkeypatch.setattr(ObjectPath, "stat", counting)
    connection = Warehouse(bucket / "w").connect()
    for _ in range(3):
        assert len(connection.sql("from networks").fetchall()) == 2
    assert {*asked.values()} == {1}


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


def test_conditional_writes_fail_when_the_object_changed(bucket):
    path = bucket / "x"
    write_if_unchanged(path, b"1", None)
    tag = tag_of(path)
    with pytest.raises(ConflictError):
        write_if_unchanged(path, b"2", None)
    write_if_unchanged(path, b"2", tag)
    newer = tag_of(path)
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
    bucket, monkeypatch, few_captures, variables, root, reason
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    files = "--networks", str(NETWORKS_FILE), str(few_captures)
    line = line_of("run", "--warehouse", root, *files)
    assert line.startswith(f"giscope: {root}")
    assert line.endswith(reason)


def line_of(*args: str) -> str:
    """Run a command that fails, in a process of its own; return its line."""
    done = subprocess.run([GISCOPE, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("command", [("maintain",), ("sql", "select 1")])
def test_a_warehouse_in_an_object_store_needs_postgresql(bucket, monkeypatch, command):
    publish(Warehouse(bucket / "w"), "AA")
    monkeypatch.delenv("GISCOPE_CATALOG")
    line = line_of(*command, "--warehouse", str(bucket / "w"))
    assert line == (
        f"giscope: {bucket}/w: a warehouse in an object store needs PostgreSQL for its catalog: "
        "set GISCOPE_CATALOG to postgresql://USER@HOST/DATABASE"
    )


def test_a_lost_catalog_is_rebuilt_in_an_empty_database(
    bucket, postgresql, network, tmp_path, monkeypatch, capsys, in_this_process
):
    root = bucket / "w"
    warehouse = Warehouse(root)
    ingest_syns(warehouse, network, tmp_path, a=1, b=2)
    publish(warehouse, "AA")
    warehouse.update_views()
    before = contents(root)
    monkeypatch.setenv("GISCOPE_CATALOG", new_database(postgresql))
    where = "--warehouse", str(root)
    line = line_of("sql", *where, "select 1")
    known = warehouse._database.location
    assert f"set GISCOPE_CATALOG to the database {known} that it was made with" in line
    main(["maintain", *where, "--rebuild-catalog"])
    assert capsys.readouterr().err == ""
    assert contents(root) == before
    assert countries(Warehouse(root)) == ["AA"]
    assert packets_of(Warehouse(root)) == [1, 2]
    assert Warehouse(root).damaged(all_bytes=True) == {}
    assert Warehouse(root).iceberg_mismatches() == {}
    ingest_syns(Warehouse(root), network, tmp_path, b=3)
    assert packets_of(Warehouse(root)) == [1, 3]


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


CUT = {"/packets/": True, "/ingest_log/": False, ".metadata.json": True, ".avro": False}
CUT |= {MARK: True, ".pcap": False, "list-type": True}
"""Parts of the paths of objects, or of requests for lists of them, and whether the answer's header
announces the whole body."""


def test_an_answer_that_is_cut_is_reported_in_a_line(
    bucket, store, network, tmp_path, monkeypatch, capsys, in_this_process
):
    """Whichever it is. With the store whole again, each command succeeds."""
    root, captures = bucket / "w", bucket / "captures"
    files = "--warehouse", str(root), "--networks", str(NETWORKS_FILE)
    (tmp_path / network.name).mkdir()
    ingest_syns(Warehouse(root), network, tmp_path / network.name, a=3, b=2)
    upload(tmp_path, captures)
    main(["run", *files, str(captures)])
    user = user_keys(network).key_of_address("10.64.0.1")
    commands = [
        ("sql", *files[:2], "select count(*) from packets, ingest_log where ip_len > frames"),
        ("run", *files, str(captures)),
        ("forget", *files, "--network", network.name, "--user", user),
    ]
    monkeypatch.setitem(STORE_OPTIONS, "retry_config", {"max_retries": 0})
    failed: dict[str, list[str]] = {}
    for n, (part, announces_all) in enumerate(CUT.items()):
        syn = Frame(bytes(IP(src="10.64.0.2", dst="198.51.100.1") / TCP(seq=n)), NOON * US + n)
        (captures / network.name / f"new{n}.pcap").write_bytes(pcap([syn]))
        with (
            losing_answers(
                store["AWS_ENDPOINT_URL"],
                cuts=lambda path, part=part: part in path,
                announces_all=announces_all,
            ) as url,
            monkeypatch.context() as patch,
        ):
            patch.setenv("AWS_ENDPOINT_URL", url)
            _store.cache_clear()
            failed[part] = [line for command in commands for line in lines_of(capsys, *command)]
        _store.cache_clear()
    assert all(any("the object store: " in line for line in lines) for lines in failed.values())
    for command in commands:
        main([*command])


def lines_of(capsys, *args: str) -> list[str]:
    """Run a command that may fail; return its lines."""
    capsys.readouterr()
    with suppress(SystemExit):
        main([*args])
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("giscope: ") and "Traceback" not in line for line in lines), lines
    return lines
