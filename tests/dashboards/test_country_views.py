"""The views that a choice of countries has, and the last line: a process that cannot write."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from infra.superset.country_views import FOLDERS_FILE, country_views_folder
from schemas import LINKS, PARTITION_COLUMNS
from spark_jobs.base.errors import UserError
from spark_jobs.queries.views import (
    DESCRIPTION,
    create_views,
    folders,
    read_description,
    restricted_views,
)
from spark_jobs.warehouse.storage import VIEWS
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
from spark_jobs.warehouse.views import view_of
from tests.helpers.small_warehouse import publish

CONFINED = Path(__file__).parents[2] / "infra/superset/run_confined.py"
COUNT = "select network, count(*) from {} group by all order by all"


@pytest.fixture
def views(demo) -> Path:
    return demo.warehouse.root / VIEWS


def opened(made: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(made / VIEWS, read_only=True)


@pytest.mark.parametrize(
    ("countries", "seen"),
    [
        ({"AA"}, ["aa-gprs"]),
        ({"AA", "CC"}, ["aa-gprs", "cc-dialup"]),
        (None, ["aa-gprs", "bb-gprs", "cc-dialup"]),
        ({"XX"}, []),
        (set(), []),
    ],
)
def test_a_choice_of_countries_has_the_rows_of_its_networks(demo, views, tmp_path, countries, seen):
    names = "select view_name, comment from duckdb_views() where not internal order by all"
    whole = demo.warehouse.connect(names)
    with opened(country_views_folder(countries, views, tmp_path)) as part:
        assert part.execute(names).fetchall() == whole.execute(names).fetchall()
        columns = """
            select table_name, column_name, data_type, comment from duckdb_columns()
            where not internal order by table_name, column_index
        """
        assert part.execute(columns).fetchall() == whole.execute(columns).fetchall()
        for view, _ in part.execute(names).fetchall():
            expected = [
                row for row in whole.execute(COUNT.format(view)).fetchall() if row[0] in seen
            ]
            assert part.execute(COUNT.format(view)).fetchall() == expected, view
        [[sql]] = part.execute("select string_agg(sql) from duckdb_views()").fetchall()
        for network in ("aa-gprs", "bb-gprs", "cc-dialup"):
            assert (f"network={network}/" in sql) == (network in seen)


def test_duckdb_opens_the_files_of_these_networks_and_no_others(demo, views, tmp_path):
    made = country_views_folder({"AA"}, views, tmp_path)
    folders = json.loads((made / FOLDERS_FILE).read_text())
    assert folders
    with opened(made) as part:
        part.execute(f"set allowed_directories = {folders}")
        part.execute("set enable_external_access = false")
        assert part.execute("select count(*) > 0 from flows").fetchall() == [(True,)]
        root = demo.warehouse.root
        aa = f"{root}/flows/network=aa-gprs"
        bb = next(root.glob("flows/network=bb-gprs/*/*.parquet"))
        for path in (bb, f"{aa}/../{bb.relative_to(root / 'flows')}", views, "/etc/passwd"):
            with pytest.raises(duckdb.PermissionException):
                part.execute("select size from read_blob($1)", [str(path)])


@pytest.mark.parametrize("name", ["what?", "[a-z]", "s*r"])
def test_a_warehouse_may_have_any_name(tmp_path, name):
    warehouse = Warehouse(tmp_path / name)
    publish(warehouse, "AA")
    warehouse.update_views()
    made = country_views_folder({"AA"}, warehouse.root / VIEWS, tmp_path / "home")
    with opened(made) as part:
        part.execute(f"set allowed_directories = {json.loads((made / FOLDERS_FILE).read_text())}")
        part.execute("set enable_external_access = false")
        assert part.execute("select country from networks").fetchall() == [("AA",)]


def test_a_publication_makes_the_views_anew(demo, views, tmp_path):
    first = country_views_folder({"AA"}, views, tmp_path)
    assert country_views_folder({"AA"}, views, tmp_path) == first
    demo.warehouse.record_made(Unit.of_file(VIEWS), "of other tables")
    demo.warehouse.update_views()
    second = country_views_folder({"AA"}, views, tmp_path)
    assert second != first
    assert (second / FOLDERS_FILE).read_text() == (first / FOLDERS_FILE).read_text()
    os.utime(first, (0, 0))
    country_views_folder(set(), views, tmp_path)
    assert first.exists()
    demo.warehouse.record_made(Unit.of_file(VIEWS), "of other tables")
    demo.warehouse.update_views()
    country_views_folder({"AA"}, views, tmp_path)
    assert second.exists()
    assert not first.exists()


def test_a_view_whose_rows_belong_to_no_network_is_hidden_from_roles_of_countries(demo, views):
    """Such as a view of a later table without the column of networks, of the same files."""
    described = read_description(views)
    table = dataclasses.replace(LINKS, name="later", partitions=PARTITION_COLUMNS[1:])
    later = view_of(table, demo.warehouse.files(LINKS))
    described = described._replace(views=[*described.views, later])
    every = restricted_views(described, None)
    some = restricted_views(described, {"AA", "BB", "CC"})
    assert [view.name for view in every] == [*(view.name for view in some), "later"]
    assert {files.network for view in some for files in view.files} == set(described.countries)
    connection = duckdb.connect()
    create_views(connection, every)
    [(rows,)] = connection.execute("select count(*) from later").fetchall()
    assert connection.execute("select count(*) from links").fetchall() == [(rows,)]
    assert rows


def test_a_network_of_unknown_country_is_hidden_from_roles_of_countries(views):
    described = read_description(views)
    known = {name: country for name, country in described.countries.items() if name != "bb-gprs"}
    some = restricted_views(described._replace(countries=known), {"AA", "BB"})
    assert all("network=aa-gprs" in folder for folder in folders(some))


@pytest.mark.parametrize(
    "change", [f"drop table {DESCRIPTION}", f"update {DESCRIPTION} set format = 0"]
)
@pytest.mark.parametrize("countries", [{"AA"}, set(), None])
def test_views_of_another_version_are_refused_until_a_job_writes_them_again(
    demo, views, tmp_path, change, countries
):
    other = tmp_path / VIEWS
    shutil.copy(views, other)
    with duckdb.connect(other) as connection:
        connection.execute(change)
    with pytest.raises(UserError, match="run giscope maintain") as refused:
        country_views_folder(countries, other, tmp_path / "home")
    assert "\n" not in str(refused.value)
    assert not list((tmp_path / "home").rglob("*.*"))


LANDLOCK = """
import sys
sys.path.insert(0, {folder!r})
import run_confined
run_confined._call(run_confined.CREATE_RULESET, None, run_confined.ctypes.c_size_t(0), 1)
"""


@pytest.fixture
def landlock() -> None:
    asked = LANDLOCK.format(folder=str(CONFINED.parent))
    if subprocess.run([sys.executable, "-c", asked], capture_output=True, check=False).returncode:
        pytest.skip("this kernel has no Landlock")


COPY = """
import sys, duckdb
connection = duckdb.connect()
connection.execute("set threads = 4")
connection.execute(f"copy (select range as i from range(100)) to '{sys.argv[1]}' (format parquet)")
"""


def test_a_confined_process_writes_in_its_folder_only(landlock, tmp_path):
    published, home = tmp_path / "w/flows/network=aa-gprs/f.parquet", tmp_path / "home"
    published.parent.mkdir(parents=True)
    published.write_bytes(b"of a job")
    home.mkdir()

    def copied_to(path: Path, *confined: object) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, *confined, *([sys.executable] if confined else []), "-c", COPY, path],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    done = copied_to(published, CONFINED, home)
    assert "Permission denied" in done.stderr
    assert published.read_bytes() == b"of a job"
    assert [path.name for path in published.parent.iterdir()] == ["f.parquet"]
    assert copied_to(home / "f.parquet", CONFINED, home).returncode == 0
    assert (home / "f.parquet").stat().st_size > 0
    # Nothing else was in the way.
    assert copied_to(published).returncode == 0
    assert published.read_bytes() != b"of a job"


@pytest.mark.parametrize(
    "command",
    ["echo x > $W/new", "echo x >> $W/f", "rm $W/f", "mv $W/f $W/g", "mv $W/f .", "mkdir $W/d",
     "ln $W/f $W/g", "ln -s f $W/g", ": > $W/f", "truncate -s 0 $W/f", "rm -r $W"],
)  # fmt: skip
def test_a_confined_process_changes_nothing_elsewhere(landlock, tmp_path, command):
    home, warehouse = tmp_path / "home", tmp_path / "w"
    warehouse.mkdir()
    (warehouse / "f").write_text("of a job")
    done = subprocess.run(
        [sys.executable, CONFINED, home, "sh", "-c", f"cd {home}; {command}"],
        env=os.environ | {"W": str(warehouse)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert {path.name: path.read_text() for path in warehouse.iterdir()} == {"f": "of a job"}


def test_temporary_files_lie_in_the_folder(tmp_path):
    done = subprocess.run(
        [sys.executable, CONFINED, tmp_path / "home", "sh", "-c", "mktemp"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(done.stdout.strip()).parent == tmp_path / "home/tmp"
