"""warehouse.duckdb: every table as a view that others can read at any time."""

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas import LEASES, NETWORKS
from spark_jobs.base.sources import version
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.database import CATALOG
from spark_jobs.warehouse.files import Staged, Written
from spark_jobs.warehouse.identity import MARK
from spark_jobs.warehouse.storage import VIEWS
from spark_jobs.warehouse.store import VIEW_SOURCES, Warehouse
from spark_jobs.warehouse.units import Unit, content_of
from spark_jobs.warehouse.views import _views_without_files, sql_type, view_of
from tests.helpers.small_warehouse import countries, data_files, publish

EARLIER = date(2004, 3, 1)
DAYS = [EARLIER + timedelta(days=n) for n in range(1, 5)]
COUNT = """
import sys, duckdb
with duckdb.connect(sys.argv[1], read_only=True) as connection:
    print(connection.sql("select country from networks order by 1").fetchall())
"""


def opened(warehouse: Warehouse, read_only: bool = True) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(warehouse.root / VIEWS, read_only=read_only)


def test_views_have_the_rows_of_the_command(demo):
    ours = demo.warehouse.connect()
    with opened(demo.warehouse) as theirs:
        for name in TABLES:
            count = f'select count(*) from "{name}"'
            assert theirs.sql(count).fetchall() == ours.sql(count).fetchall()
            assert theirs.sql(f'from "{name}"').types == ours.sql(f'from "{name}"').types


def test_every_view_and_column_has_a_comment(demo):
    with opened(demo.warehouse) as connection:
        views = connection.sql("select view_name, comment from duckdb_views() where not internal")
        columns = connection.sql("""
            select table_name, column_name, comment from duckdb_columns()
            where not internal and schema_name = 'main'
        """)
        comments = {t.name: f"one row is {t.row}" for t in TABLES.values()}
        published = [name for name in TABLES if name not in ("networks", "quality")]
        assert dict(views.fetchall()) == comments | {
            f"published_{name}": f"{comments[name]}, of a day not held" for name in published
        }
        assert set(columns.fetchall()) == {
            (name, column.name, column.comment)
            for table in TABLES.values()
            for name in (table.name, f"published_{table.name}")
            for column in (*table.partitions, *table.columns)
            if name.removeprefix("published_") in (*published, name)
        }


@pytest.mark.parametrize("kept", [b"", b"\xff nonsense\n", "damaged", "folder"])
def test_views_that_the_cache_does_not_keep_well_are_made_again(tmp_path, monkeypatch, kept):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make, cached = _views_without_files.__wrapped__, tmp_path / "giscope/views"
    made = make((NETWORKS,))
    good = cached.read_bytes()
    assert make((NETWORKS,)) == made
    if kept == "folder":
        cached.unlink()
        cached.mkdir()
    else:
        cached.write_bytes(good[:-1] + b"!" if kept == "damaged" else kept)
    made = make((NETWORKS,))
    (tmp_path / "views").write_bytes(made)
    with duckdb.connect(tmp_path / "views") as connection:
        assert connection.execute("from networks").fetchall() == []
    assert kept == "folder" or cached.read_bytes().endswith(made)


def test_views_are_made_for_a_user_without_a_home(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("spark_jobs.warehouse.views.cache_folder", no_home)
    assert _views_without_files.__wrapped__((NETWORKS,))


FILE_LIMIT = """
import resource, sys
from pathlib import Path
from spark_jobs.base.errors import UserError
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.views import write_views
tables = {table: [] for table in TABLES.values()}
write_views(Path(sys.argv[1], "whole"), tables)
whole = Path(sys.argv[1], "whole").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (whole - 100_000, whole - 100_000))
try:
    write_views(Path(sys.argv[1], "cut"), tables)
except UserError as error:
    print(error)
"""


def test_views_that_the_disk_has_no_room_for_are_an_error(tmp_path):
    """DuckDB says nothing when it closes the file."""
    done = subprocess.run(
        [sys.executable, "-c", FILE_LIMIT, str(tmp_path)], capture_output=True, text=True
    )
    assert done.stdout.startswith(f"{tmp_path}/cut: "), done.stderr


def test_a_connection_has_comments_for_queries_that_read_them(demo):
    for query, commented in (
        ("select comment from duckdb_views() where view_name = 'flows'", True),
        ("from flows", False),
    ):
        connection = demo.warehouse.connect(query)
        views = "select comment is not null from duckdb_views() where view_name = 'flows'"
        assert connection.sql(views).fetchall() == [(commented,)]


def test_rows_of_every_table_belong_to_a_network():
    """And so to a country: users of some countries do not see a table that does not say so."""
    owners = {name: view_of(table, []).owner for name, table in TABLES.items()}
    assert owners == dict.fromkeys(TABLES, "network")


def test_a_change_of_any_source_of_the_views_makes_them_again():
    assert version() not in {version(source) for source in VIEW_SOURCES}


def test_a_column_comment_holds_meaning_unit_and_source():
    columns = {column.name: column for column in TABLES["flows"].columns}
    assert (
        columns["setup_delay"].comment
        == "time from the first SYN to the first ACK [s] (INFOCOM III.A)"
    )
    assert columns["user"].comment.startswith("the user's key: the subscriber")


def test_another_program_reads_the_views_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    warehouse = Warehouse(Path("w"))
    publish(warehouse, "AA", "BB")
    warehouse.update_views()
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(tmp_path / "w" / VIEWS)],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert done.stdout == "[('AA',), ('BB',)]\n"


def test_an_open_view_file_can_be_replaced(tmp_path):
    """Even if it is open for writing: DuckDB locks the file, not its name."""
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    warehouse.update_views()
    with opened(warehouse, read_only=False):
        publish(warehouse, "BB")
        warehouse.update_views()
    with opened(warehouse) as after:
        assert after.sql("select country from networks").fetchall() == [("BB",)]


def test_views_work_until_they_are_updated(tmp_path):
    """A unit published again: the old rows, then the new ones, never an error between."""
    warehouse = Warehouse(tmp_path, grace_time=timedelta(0))
    publish(warehouse, "AA")
    warehouse.update_views()
    publish(warehouse, "BB")
    with opened(warehouse) as connection:
        assert connection.sql("select country from networks").fetchall() == [("AA",)]
    warehouse.update_views()
    with opened(warehouse) as connection:
        assert connection.sql("select country from networks").fetchall() == [("BB",)]
    assert len(data_files(warehouse)) == 1


def test_files_that_another_job_supersedes_stay_until_the_views_are_updated(tmp_path, monkeypatch):
    warehouse = Warehouse(tmp_path, grace_time=timedelta(0))
    publish(warehouse, "AA")
    published = warehouse._published_paths

    def just_before_another() -> list[str]:
        listed = published()
        publish(warehouse, "BB")
        return listed

    with monkeypatch.context() as patch:
        patch.setattr(warehouse, "_published_paths", just_before_another)
        warehouse.update_views()
    with opened(warehouse) as connection:
        assert connection.sql("select country from networks").fetchall() == [("AA",)]
    assert countries(warehouse) == ["BB"]
    warehouse.update_views()
    assert len(data_files(warehouse)) == 1


@pytest.fixture
def dated(tmp_path) -> Warehouse:
    """Make a warehouse with a lease a day; the first file is of another format."""
    warehouse = Warehouse(tmp_path / "w")
    for day in (EARLIER, *DAYS):
        with warehouse.staging() as staging:
            staging.write(LEASES, "aa-gprs", day, "log", a_lease(day))
            if day == EARLIER:
                staging.files = [without_addresses(written) for written in staging.files]
            warehouse.publish(Unit.of_day("leases", "aa-gprs", day), staging.files, {})
    warehouse.update_views()
    return warehouse


def without_addresses(written: Written) -> Written:
    """Return the file in a format without addresses."""
    target, path = written.staged
    pq.write_table(pq.read_table(path).drop_columns(["address"]), path)
    staged = Staged(target.replace(f"-{LEASES.layout}-", "-"), path)
    return written._replace(staged=staged, content=content_of(path))


def a_lease(day: date) -> pa.Table:
    start = datetime.combine(day, datetime.min.time(), UTC)
    name = f"s{day.day}"
    whose = {"user_partition": 0, "subscriber": name, "link": name, "address": f"10.0.0.{day.day}"}
    return pa.Table.from_pylist([whose | {"start_ts": start, "end_ts": start}], LEASES.arrow)


def test_files_of_another_format_have_null_for_what_they_lack(dated):
    with opened(dated) as connection:
        asked = connection.sql("select date, subscriber, address from leases order by date")
        assert asked.fetchall() == [
            (EARLIER, "s1", None),
            *((day, f"s{day.day}", f"10.0.0.{day.day}") for day in DAYS),
        ]


@pytest.mark.parametrize(
    "condition",
    [
        f"network = 'aa-gprs' and date = '{DAYS[-1]}'",
        f"network like 'aa%' and date between '{DAYS[-1]}' and '{DAYS[-1] + timedelta(days=1)}'",
        "date = (select max(date) from present_days)",
    ],
)
def test_a_query_opens_the_files_of_its_days_only(dated, condition):
    """It also opens the first file with the present columns, and those of another format."""
    for path in dated.files(LEASES)[2:-1]:
        path.write_bytes(b"")
    with opened(dated) as connection:
        connection.sql(f"create temp view present_days as select date '{DAYS[-1]}' as date")
        asked = connection.sql(f"select subscriber from leases where {condition}")
        assert asked.fetchall() == [(f"s{DAYS[-1].day}",)]
        with pytest.raises(duckdb.Error):
            connection.sql("select subscriber from leases").fetchall()


def test_a_query_opens_no_file_of_other_tables(dated):
    """Not even when the view file is opened."""
    publish(dated, "AA")
    dated.update_views()
    for path in dated.files(LEASES):
        path.write_bytes(b"")
    with opened(dated) as connection:
        assert connection.sql("select country from networks").fetchall() == [("AA",)]
    assert dated.connect("from networks").sql("select country from networks").fetchall()


def test_an_update_leaves_no_file_but_the_views(tmp_path):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    warehouse.update_views()
    files = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert files == {VIEWS, CATALOG, MARK}


def test_sql_types_are_those_that_duckdb_gives_arrow_types():
    """Asked through pandas, which takes half a second to import."""
    connection = duckdb.connect()
    for table in TABLES.values():
        schema = table.arrow_with_partitions
        theirs = connection.from_arrow(schema.empty_table()).types
        assert [sql_type(field.type) for field in schema] == [str(type_) for type_ in theirs]


@pytest.mark.parametrize(
    ("query", "some", "others"),
    [
        ("select 1", set(), True),
        ('select count(*) from "flows" natural join Losses', {"flows", "losses"}, True),
        ("show tables", set(TABLES), False),
        ("select view_name from duckdb_views()", set(TABLES), False),
        ("from query_table('fl' || 'ows')", set(TABLES), False),
    ],
)
def test_only_tables_that_a_query_may_name_are_opened(tmp_path, query, some, others):
    connection = Warehouse(tmp_path).connect(query)
    names = connection.sql("select view_name from duckdb_views() where not internal").fetchall()
    opened = {name for (name,) in names}
    assert opened >= some
    assert (opened < set(TABLES)) is others
