"""Suppressed groups: groups of fewer users than min_users are nowhere in the marts and pages, and
their number is shown."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import DAY, EMPTY_IN_DEMO, Demo, ask

from schemas import Table
from spark_jobs.figures.names import PLOTS
from spark_jobs.figures.suppressed_groups.dashboard import SUPPRESSED_GROUPS
from spark_jobs.figures.suppressed_groups.suppression import (
    NETWORK_DAY_COLUMNS,
    without_small_groups,
)
from spark_jobs.figures.tables import MARTS, SINGLE_CONNECTIONS, TABLES
from spark_jobs.ingest.networks import publish_network
from spark_jobs.jobs import plot
from spark_jobs.jobs.marts import update_marts
from spark_jobs.jobs.run import refresh_pages
from spark_jobs.report.build import REPORT, step, write_report
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.store import Warehouse

FEWEST = 20
TOO_MANY = 1000
"""More users than any network has."""
COMMON_COLUMNS = {"network": "n", "date": DAY, "country": "AA", "access": "gprs", "period": "peak"}


def mart_rows(mart: str, *rows: dict) -> pa.Table:
    """Return rows of a mart, 0 where no value is given."""
    schema = TABLES[mart].arrow_with_partitions
    zeros = {
        column.name: "" if column.type == pa.string() else 0
        for column in schema
        if column.type not in (pa.bool_(), pa.date32()) and not pa.types.is_list(column.type)
    }
    return pa.Table.from_pylist([zeros | COMMON_COLUMNS | row for row in rows], schema)


def suppress(mart: str, rows: pa.Table, **least: int) -> tuple[pa.Table, list[tuple]]:
    kept, groups = without_small_groups(TABLES[mart], rows, least)
    names = ("network", "mart", "min_users", "groups", "suppressed")
    return kept, [tuple(row[name] for name in names) for row in groups.to_pylist()]


def test_users_are_counted_by_bits_in_all_bins_of_a_group():
    """Three users, one of them in two bins, at 9 h; two of another side at 9 h, three at 10 h; kept
    rows stay in their order."""
    rows = mart_rows(
        "fig04_round_trip_time",
        {"hour": 9, "side": "access", "bin": 7, "user_groups": 0b11},
        {"hour": 9, "side": "internet", "bin": 7, "user_groups": 0b11},
        {"hour": 10, "side": "access", "bin": 1, "user_groups": -(2**63) + 0b11},
        {"hour": 9, "side": "internet", "bin": 6, "user_groups": 0b10},
        {"hour": 9, "side": "access", "bin": 5, "user_groups": 0b101},
    )
    kept, groups = suppress("fig04_round_trip_time", rows, n=3)
    assert kept == rows.take([0, 2, 4])
    assert groups == [("n", "fig04_round_trip_time", 3, 3, 1)]


def test_users_with_numbers_are_counted_by_them():
    """Users 65, 66 and 129 of whom two have the same bit, in two rows; two users with one bit."""
    rows = mart_rows(
        "fig04_round_trip_time",
        {"hour": 9, "side": "access", "bin": 7, "user_groups": 0b110, "user_numbers": [65, 66]},
        {"hour": 9, "side": "access", "bin": 8, "user_groups": 0b10, "user_numbers": [65, 129]},
        {"hour": 9, "side": "internet", "bin": 7, "user_groups": 0b10, "user_numbers": [65, 129]},
    )
    kept, groups = suppress("fig04_round_trip_time", rows, n=3)
    assert kept == rows.take([0, 1])
    assert groups == [("n", "fig04_round_trip_time", 3, 2, 1)]


def test_users_are_counted_by_user_groups_and_null_is_a_category():
    rows = mart_rows(
        "fig08_bottleneck",
        {"bottleneck": None, "user_group": 1},
        {"bottleneck": "access", "user_group": 1},
        {"bottleneck": None, "user_group": 2},
        {"bottleneck": "access", "user_group": 1, "hour": 3},
    )
    kept, groups = suppress("fig08_bottleneck", rows, n=2)
    assert kept == rows.take([0, 2])
    assert groups == [("n", "fig08_bottleneck", 2, 3, 2)]


def test_each_network_has_its_own_min_users():
    rows = mart_rows(
        "fig08_bottleneck",
        {"network": "a", "user_group": 1},
        {"network": "b", "user_group": 1},
        {"network": "c", "user_group": 1},
    )
    kept, groups = suppress("fig08_bottleneck", rows, a=2, b=1)
    assert kept.column("network").to_pylist() == ["b", "c"]
    assert sorted(groups) == [
        ("a", "fig08_bottleneck", 2, 1, 1),
        ("b", "fig08_bottleneck", 1, 1, 0),
    ]


def test_nothing_is_suppressed_without_min_users_or_rows():
    rows = mart_rows("fig08_bottleneck", {"user_group": 1})
    assert suppress("fig08_bottleneck", rows) == (rows, [])
    assert suppress("fig08_bottleneck", rows[:0], n=2) == (rows[:0], [])


def test_every_example_is_of_one_user():
    rows = mart_rows("examples", {"kind": "limit", "flow_id": 1}, {"kind": "stall", "flow_id": 2})
    assert suppress("examples", rows, n=2) == (rows[:0], [("n", "examples", 2, 2, 2)])
    assert suppress("examples", rows, n=1) == (rows, [("n", "examples", 1, 2, 0)])


def test_every_mart_has_user_groups_or_single_connections():
    with_users = {t.name for t in MARTS if {"user_group", "user_groups"} & set(t.arrow.names)}
    assert {table.name for table in MARTS} - with_users == {t.name for t in SINGLE_CONNECTIONS}


@pytest.mark.parametrize("table", MARTS, ids=lambda table: table.name)
def test_groups_have_the_hour_and_every_category(table: Table):
    """Every column of text or of truth values is a category."""
    named = [c.name for c in table.arrow if c.type in (pa.string(), pa.bool_())]
    categories = set(named) - {"country", "access", "period"}
    assert categories <= set(table.group_columns) <= set(table.arrow.names)
    assert ("hour" if "hour" in table.arrow.names else "period") in table.group_columns


def change(warehouse: Warehouse, network: Network, min_users: int) -> list:
    """Set min_users; return the days whose marts are made again."""
    publish_network(warehouse, network.model_copy(update={"min_users": min_users}))
    return update_marts(warehouse)


def files(warehouse: Warehouse, network: str) -> dict[str, bytes]:
    """Return the bytes of a network's marts."""
    paths = [path for table in MARTS for path in warehouse.files(table, network)]
    return {path.parts[-4]: path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def small(demo: Demo, networks: dict[str, Network], tmp_path_factory) -> Warehouse:
    """Make the demo's marts with min_users in two networks: one with more users, one without."""
    root = tmp_path_factory.mktemp("small") / "w"
    shutil.copytree(demo.warehouse.root, root)
    warehouse = Warehouse(root)
    step(warehouse).bring_up_to_date(warehouse)
    plot.step(warehouse).bring_up_to_date(warehouse)
    assert update_marts(warehouse) == []
    assert change(warehouse, networks["aa-gprs"], FEWEST) == [("aa-gprs", DAY)]
    assert change(warehouse, networks["bb-gprs"], TOO_MANY) == [("bb-gprs", DAY)]
    return warehouse


def groups_sql(table: Table) -> str:
    """Return SQL for the number of users in a group."""
    if "user_group" in table.arrow.names:
        return "count(distinct user_group)"
    numbers = "len(list_distinct(flatten(list(user_numbers))))"
    return numbers if "user_numbers" in table.arrow.names else "1"


@pytest.mark.parametrize("table", MARTS, ids=lambda table: table.name)
def test_marts_keep_exactly_the_groups_of_enough_users(demo, small, table):
    """Rows are compared value by value; suppressed_groups counts the other groups."""
    names = ", ".join((*NETWORK_DAY_COLUMNS, *table.group_columns))
    groups = ask(
        demo.warehouse, f"select {names}, {groups_sql(table)} from {table.name} group by all"
    ).fetchall()
    enough = {group[:-1] for group in groups if group[0] == "cc-dialup"}
    enough |= {tuple(key) for *key, n in groups if key[0] == "aa-gprs" and n >= FEWEST}
    before = ask(demo.warehouse, f"select {names}, * from {table.name}").fetchall()
    wanted = [
        row
        for row in before
        if row[: len(NETWORK_DAY_COLUMNS) + len(table.group_columns)] in enough
    ]
    kept = ask(small, f"select {names}, * from {table.name}").fetchall()
    assert sorted(map(str, wanted)) == sorted(map(str, kept))

    columns = "network, min_users, groups, suppressed"
    query = f"select {columns} from suppressed_groups where mart = '{table.name}'"
    counted = Counter(group[0] for group in groups)
    of_few = counted["aa-gprs"] - sum(group[0] == "aa-gprs" for group in enough)
    expected = [
        ("aa-gprs", FEWEST, counted["aa-gprs"], of_few),
        ("bb-gprs", TOO_MANY, counted["bb-gprs"], counted["bb-gprs"]),
    ]
    assert sorted(ask(small, query).fetchall()) == ([] if table in EMPTY_IN_DEMO else expected)


HOUR = "hour({} at time zone 'Europe/Budapest')"
START = HOUR.format("start_ts")
OF_FLOWS = {
    "fig08_bottleneck": f"{START}, bottleneck from flows where bottleneck is not null",
    "channel_rate_coverage": f"{START}, window_class from flows where payload_bytes_down > 102400",
    "recovery_by_restart": f"""
        {HOUR.format("stalls.start_ts")}, interruption, ended_by, slow_start
        from stalls join flows using (network, date, flow_id) where segments > 0
    """,
}
"""The group columns of some marts, and the connections in their groups, as SQL."""


@pytest.mark.parametrize("mart", OF_FLOWS)
def test_flows_confirm_that_every_kept_group_has_enough_users(demo, small, mart):
    """Counted from the flows: exactly these groups are kept; without min_users, others are, too."""
    columns, source = OF_FLOWS[mart].split(" from ", 1)
    found = ask(
        demo.warehouse,
        f"""
        select {columns}, count(distinct "user") from {source}
            and network = 'aa-gprs' and initiator = 'mobile'
        group by all
        """,
    ).fetchall()
    users = {tuple(group): count for *group, count in found}
    groups = f"select distinct {', '.join(TABLES[mart].group_columns)} from {mart}"
    kept = ask(small, f"{groups} where network = 'aa-gprs'").fetchall()
    assert min(users.values()) < FEWEST
    assert {*kept} == {group for group, count in users.items() if count >= FEWEST}


def test_marts_of_another_network_keep_their_bytes(demo, small):
    assert files(small, "cc-dialup") == files(demo.warehouse, "cc-dialup")
    assert files(small, "bb-gprs") == {}


def test_marts_have_their_former_bytes_once_min_users_is_unset(demo, small, networks, tmp_path):
    root = tmp_path / "w"
    shutil.copytree(small.root, root)
    warehouse = Warehouse(root)
    assert change(warehouse, networks["aa-gprs"], FEWEST) == []
    assert change(warehouse, networks["aa-gprs"], 0) == [("aa-gprs", DAY)]
    assert files(warehouse, "aa-gprs") == files(demo.warehouse, "aa-gprs")
    assert ask(warehouse, "select distinct network from suppressed_groups").fetchall() == [
        ("bb-gprs",)
    ]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_report_shows_the_number_of_suppressed_groups(small, tmp_path):
    text = text_of(write_report(small, tmp_path / "report.html"))
    query = "select sum(suppressed), sum(groups) from suppressed_groups where network = 'aa-gprs'"
    ((suppressed, groups),) = ask(small, query).fetchall()
    assert 0 < suppressed < groups
    assert f"aa-gprs: {suppressed:,} of {groups:,} groups have fewer than {FEWEST} users" in text
    assert "aa-gprs: left out, as each row is of one user (Suppressed groups)." in text
    query = """
        select suppressed, groups from suppressed_groups
        where (network, mart) = ('aa-gprs', 'metrics')
    """
    ((suppressed, groups),) = ask(small, query).fetchall()
    words = re.sub(r"<[^>]+>|\s", " ", text).split()
    assert f"metrics aa-gprs {suppressed:,} {groups:,}" in " ".join(words)


def test_a_report_without_min_users_does_not_mention_suppressed_groups(small, tmp_path):
    text = text_of(write_report(small, tmp_path / "report.html", ["cc-dialup"]))
    assert "Suppressed groups" not in text


def test_the_report_shows_days_made_before_min_users_was_set(small, networks, tmp_path):
    """Held days, and days whose flows were purged, stay as they were."""
    root = tmp_path / "w"
    shutil.copytree(small.root, root)
    warehouse = Warehouse(root)
    publish_network(warehouse, networks["cc-dialup"].model_copy(update={"min_users": FEWEST}))
    text = text_of(write_report(warehouse, tmp_path / "report.html", ["cc-dialup"]))
    line = "cc-dialup: days from before min_users was set, with no group left out: 1."
    assert line in text


def test_a_dashboard_shows_the_number_of_suppressed_groups(small):
    shown = ask(
        small,
        "select network, users, sum(suppressed), sum(groups)"
        f" from ({SUPPRESSED_GROUPS.sql}) group by all",
    ).fetchall()
    counted = ask(
        small, "select network, sum(suppressed), sum(groups) from suppressed_groups group by all"
    ).fetchall()
    ((_, *aa), (_, *bb)) = sorted(counted)
    assert sorted(shown) == [
        ("aa-gprs", f"fewer than {FEWEST}", *aa),
        ("bb-gprs", f"fewer than {TOO_MANY}", *bb),
        ("cc-dialup", "min_users is not set", 0, 0),
    ]


def test_a_report_whose_groups_are_all_suppressed_says_so(small, tmp_path):
    text = text_of(write_report(small, tmp_path / "report.html", ["bb-gprs"]))
    ((groups,),) = ask(
        small, "select sum(groups) from suppressed_groups where network = 'bb-gprs'"
    ).fetchall()
    assert f"bb-gprs: {groups:,} of {groups:,} groups have fewer than {TOO_MANY} users" in text
    assert "This page shows no examples." in text


def test_pages_of_single_connections_are_removed(small):
    """Those of a network that still has examples stay."""
    before = {path.name for path in (small.root / PLOTS).glob("flow-*")}
    refresh_pages(small)
    after = {path.name for path in (small.root / PLOTS).glob("flow-*")}
    shown = ask(small, "select flow_id from flows where network = 'cc-dialup'").fetchall()
    assert after
    assert after <= {f"flow-{flow_id}.html" for (flow_id,) in shown}
    assert before - after
    assert (small.root / REPORT).exists()
