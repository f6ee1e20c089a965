"""Users and days that are removed are in no table, no page and no file, and do not come back."""

import os
import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest
from conftest import NETWORKS_FILE, NOON
from scapy.layers.inet import IP, TCP

import spark_jobs.ingest.job as ingest_job
import spark_jobs.jobs.flows as flows_job
from schemas import DAILY_TABLES, PACKETS, RTO_VALUES
from spark_jobs.figures.tables import MARTS, RETENTION_GROUPS, SINGLE_CONNECTIONS, TABLES
from spark_jobs.jobs import marts as marts_job
from spark_jobs.jobs import remove_data
from spark_jobs.removal import rewrite
from spark_jobs.settings.networks import Retention
from spark_jobs.tables.registry import ROWS
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.accounting_messages import HOUR, START, STOP, message, put
from tests.helpers.capture_files import Frame, pcap
from tests.helpers.command import giscope as run
from tests.helpers.stale_days import stale_days
from tests.helpers.subscribers_found import parts_of

NETWORK = "aa-gprs"
BY_USER = [t.name for t in (PACKETS, *DAILY_TABLES) if "user" in t.arrow.names]


pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def here(few_run, few_captures, tmp_path) -> tuple[Path, Path]:
    """Return a copy of a warehouse with a report, and of its captures, for one test."""
    root, captures = tmp_path / "w", tmp_path / "captures"
    shutil.copytree(few_run.root, root)
    shutil.copytree(few_captures, captures)
    return root, captures


def rows(root: Path, query: str) -> list[tuple]:
    return Warehouse(root).connect(query).execute(query).fetchall()


def user_of_most(root: Path) -> str:
    """Return a user with many connections, one of them an example."""
    (found, _) = rows(
        root,
        f"""select "user", count(*) as n from flows where network = '{NETWORK}'
        and "user" in (select "user" from flows join examples using (network, date, flow_id))
        group by all order by n desc limit 1""",
    )[0]
    return found


def holders(root: Path, *texts: str) -> set[str]:
    """Return the first folders of the files that have one of these texts."""
    wanted = [text.encode() for text in texts]
    return {
        path.relative_to(root).parts[0]
        for path in root.rglob("*")
        if path.is_file() and any(text in part for part in parts_of(path) for text in wanted)
    }


def by_network(root: Path, user: str) -> dict[str, list[tuple]]:
    """Return the rows of the tables of packets and connections, but for a user's."""
    store = Warehouse(root)
    connection = store.connect()
    found = {}
    for table in (PACKETS, *DAILY_TABLES):
        names = ", ".join(f'"{name}"' for name in table.arrow.names)
        whose = f"\"user\" <> '{user}'" if "user" in table.arrow.names else "true"
        if whose == "true":
            whose = f"flow_id not in (select flow_id from flows where \"user\" = '{user}')"
        found[table.name] = connection.execute(
            f"select {names} from {table.name} where {whose} order by all"
        ).fetchall()
    return found


def forget(root: Path, *users: str):
    options = [part for user in users for part in ("--user", user)]
    return run(
        "forget", "--warehouse", root, "--networks", NETWORKS_FILE, "--network", NETWORK, *options
    )


def test_a_forgotten_user_is_nowhere(here):
    root, captures = here
    user = user_of_most(root)
    flow_ids = [
        str(flow_id)
        for (flow_id,) in rows(root, f"select flow_id from flows where \"user\" = '{user}'")
    ]
    before = by_network(root, user)
    assert {"packets", "flows", "links", "plots"} <= holders(root, user, *flow_ids)
    assert any((root / "plots" / f"flow-{flow_id}.html").exists() for flow_id in flow_ids)

    done = forget(root, user)

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(" files and the catalog: not found\n")
    assert by_network(root, user) == before
    assert holders(root, user, *flow_ids) == set()
    for name in BY_USER:
        assert rows(root, f"select count(*) from {name} where \"user\" = '{user}'") == [(0,)]
    assert run("check", "--warehouse", root, "--networks", NETWORKS_FILE).returncode == 0
    again = run("run", "--warehouse", root, "--networks", NETWORKS_FILE, captures)
    assert again.returncode == 0, again.stderr
    assert by_network(root, user) == before

    for path in captures.rglob("*.pcap"):
        os.utime(path, (NOON, NOON))
    again = run("run", "--warehouse", root, "--networks", NETWORKS_FILE, captures)
    assert again.returncode == 0, again.stderr
    assert by_network(root, user) == before
    assert holders(root, user) == set()
    assert rows(root, "select sum(skipped['removed']) > 0 from ingest_log") == [(True,)]


def test_counts_and_samples_of_a_capture_are_those_without_the_user(here):
    """Counts and samples, by which duplicate captures are detected."""
    root, captures = here
    user = user_of_most(root)
    assert forget(root, user).returncode == 0
    unit = "select capture, packets, rows from ingest_log where network = 'aa-gprs' order by all"
    counted = "select capture, count(*), count(*) from packets where network = 'aa-gprs' group by 1"
    assert rows(root, unit) == rows(root, f"{counted} order by all")
    facts = Warehouse(root).published_units("capture", NETWORK)[0].facts
    for path in captures.rglob("*.pcap"):
        os.utime(path, (NOON, NOON))
    assert run(
        "ingest", "--warehouse", root, "--networks", NETWORKS_FILE, "--network", NETWORK,
        captures / NETWORK,
    ).returncode == 0  # fmt: skip
    again = Warehouse(root).published_units("capture", NETWORK)[0].facts
    for one in (facts, again):
        del one["inputs"], one["seconds"]
    assert facts == again
    assert facts["skipped"]["removed"] > 0


def test_no_earlier_version_has_a_forgotten_user(here):
    """Neither superseded files nor Iceberg's snapshots stay, even if a reader holds them."""
    root, captures = here
    store = Warehouse(root)
    user = user_of_most(root)
    held = store.lock_version()
    shutil.copy2(next(captures.rglob("*.pcap")), root.parent / "again.pcap")
    assert forget(root, user).returncode == 0
    assert held
    held.close()
    there = {str(path.relative_to(root)) for path in root.rglob("*.parquet")}
    published = {
        str(path.relative_to(root)) for paths in store.files_by_table().values() for path in paths
    }
    assert there == published
    done = run("sql", "--warehouse", root, "--at", "2026-01-01", "select count(*) from packets")
    assert (done.returncode, "is not kept" in done.stderr) == (2, True)


def test_an_interrupted_removal_is_finished_by_the_next(here, networks, monkeypatch):
    root, _ = here
    user, store = user_of_most(root), Warehouse(root)
    monkeypatch.setattr(rewrite, "rewrite_day", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        remove_data.forget(store, networks[NETWORK], [user])
    monkeypatch.undo()
    assert forget(root, user).returncode == 0
    assert holders(root, user) == set()


def test_a_forgotten_user_is_in_no_merged_file(here, monkeypatch):
    root, _ = here
    user = user_of_most(root)
    before = by_network(root, user)
    monkeypatch.setattr("spark_jobs.warehouse.compaction.MIN_FILES", 2)
    Warehouse(root).maintain()
    assert forget(root, user).returncode == 0
    assert by_network(root, user) == before
    assert holders(root, user) == set()


def test_purged_packets_are_removed_and_tables_made_from_them_stay(here):
    root, captures = here
    kept = [*DAILY_TABLES, *(mart for mart in MARTS if mart not in SINGLE_CONNECTIONS)]
    before = {table: Warehouse(root).content_hashes(table) for table in kept}
    assert all(before[table] for table in (RTO_VALUES, TABLES["table1_summary"]))
    purge = ("purge", "--warehouse", root, "--table", "packets", "--before", "2100-01-01")
    done = run(*purge)
    assert (done.returncode, done.stdout) == (
        0,
        "removed from examples, packets, worst_connections\n",
    ), done.stderr
    assert not list((root / "packets").rglob("*.parquet"))
    assert not list((root / "plots").glob("flow-*"))
    for path in captures.rglob("*.pcap"):
        os.utime(path, (NOON, NOON))
    again = run("run", "--warehouse", root, "--networks", NETWORKS_FILE, captures)
    assert again.returncode == 0, again.stderr
    assert {table: Warehouse(root).content_hashes(table) for table in kept} == before
    assert not list((root / "packets").rglob("*.parquet"))
    assert run("check", "--warehouse", root, "--networks", NETWORKS_FILE).returncode == 0
    assert run(*purge).stdout == "nothing to remove\n"

    user = user_of_flows(root)
    assert forget(root, user).returncode == 0
    assert holders(root, user) == set()
    assert Warehouse(root).content_hashes(RTO_VALUES)
    marts = TABLES["table1_summary"]
    assert Warehouse(root).content_hashes(marts) != before[marts]


def user_of_flows(root: Path) -> str:
    query = f"""select "user" from flows where network = '{NETWORK}'
        group by 1 order by count(*) desc limit 1"""
    return rows(root, query)[0][0]


def test_purging_all_tables_removes_everything(here):
    root, _ = here
    done = run("purge", "--warehouse", root, "--before", "2100-01-01")
    assert done.returncode == 0, done.stderr
    assert [
        path for path in root.rglob("*.parquet") if not path.is_relative_to(root / "networks")
    ] == []
    assert not (root / "report.html").exists()


def test_retention_removes_days_table_by_table(here, networks):
    root, _ = here
    store, network = Warehouse(root), networks[NETWORK]
    (day,) = {day for _, day in store.days("day", NETWORK)}
    (other,) = {n for n, _ in store.days("day")} - {NETWORK}
    before = {table: store.content_hashes(table, other) for table in TABLES.values()}
    chosen = network.model_copy(update={"retention": Retention(packets=3, rto_values=5, flows=9)})

    def gone(days: int) -> set[str]:
        return {table.name for table in remove_data.retain(store, [chosen], day + timedelta(days))}

    assert gone(3) == set()
    assert gone(4) == {"packets", *(mart.name for mart in SINGLE_CONNECTIONS)}
    assert gone(5) == set()
    assert gone(6) == {"rto_values"}
    assert gone(10) == {t.name for t in DAILY_TABLES if t is not RTO_VALUES and before[t]}
    assert store.content_hashes(TABLES["table1_summary"], NETWORK)
    assert marts_job.update_marts(store) == []
    assert stale_days(store, [chosen]) == []
    assert {table: store.content_hashes(table, other) for table in TABLES.values()} == before


def test_an_unknown_table_is_reported_in_a_line(here, tmp_path):
    root, _ = here
    file = tmp_path / "networks.toml"
    text = NETWORKS_FILE.read_text().replace(
        f'name = "{NETWORK}"', f'name = "{NETWORK}"\nretention = {{ packet = 3 }}'
    )
    file.write_text(text)
    done = run("purge", "--warehouse", root, "--networks", file)
    assert done.returncode == 2
    message = f"giscope: {file}: network {NETWORK}: retention.packet: 3: no such key\n"
    assert done.stderr == message
    done = run("purge", "--warehouse", root, "--before", "2004-01-01", "--table", "x")
    assert (done.returncode, done.stderr) == (
        2,
        "giscope: no table 'x' with days: giscope schema lists the tables\n",
    )
    done = run("purge", "--warehouse", root)
    assert done.stderr == (
        "giscope: purge: give either --before (with or without --table), or --networks, or "
        "--network and --capture\n"
    )


def test_a_subscriber_named_by_radius_is_removed_with_the_packets_of_the_lease(
    warehouse, plain_network
):
    """The address's other subscriber stays, with the packets of that lease."""
    put(
        warehouse,
        plain_network,
        message(NOON, START, "a"),
        message(NOON + HOUR, STOP, "a"),
        message(NOON + HOUR, START, "b"),
        message(NOON + 3 * HOUR, STOP, "b"),
    )
    ip = IP(src="10.64.0.1", dst="198.51.100.1")
    capture = warehouse.root.parent / "a.pcap"
    times = (NOON + 60, NOON + 120, NOON + 2 * HOUR)
    frames = [
        Frame(bytes(ip / TCP(sport=1000 + n, seq=n)), at * 1_000_000) for n, at in enumerate(times)
    ]
    capture.write_bytes(pcap(frames))
    (result,) = ingest_job.ingest(warehouse, [(plain_network, capture)])
    assert result.error is None
    flows_job.bring_up_to_date(warehouse, [plain_network])
    users = 'select "user", user_port from flows order by all'
    assert rows(warehouse.root, users) == [("a", 1000), ("a", 1001), ("b", 1002)]

    remove_data.forget(warehouse, plain_network, ["a"])

    assert rows(warehouse.root, users) == [("b", 1002)]
    assert rows(warehouse.root, "select user_port from packets") == [(1002,)]
    assert rows(warehouse.root, "select distinct subscriber from leases") == [("b",)]
    assert rows(warehouse.root, "select distinct subscriber from accounting") == [("b",)]


def test_every_table_with_days_has_a_retention():
    kept = [table for tables in RETENTION_GROUPS.values() for table in tables]
    assert len(kept) == len(set(kept))
    assert set(TABLES.values()) - set(kept) == {TABLES["networks"]}
    assert set(ROWS) == set(DAILY_TABLES)
    assert Retention(marts=7).days[TABLES["quality"]] == 7
    assert Retention(flows=7, rto_values=5).days[RTO_VALUES] == 5
    assert date.min == Warehouse(Path("/nonexistent/x")).purged_before("a", PACKETS)
