"""Small groups: what is of fewer users than min_users is nowhere in the marts and pages, and it is
said how much that is."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import DAY, Demo

from infra.superset.overview import SUPPRESSED_GROUPS
from schemas import MARTS, TABLES, Table
from spark_jobs.jobs.ingest import publish_network
from spark_jobs.jobs.marts import update_marts
from spark_jobs.jobs.plot import bring_up_to_date as draw_examples
from spark_jobs.jobs.refresh import refresh_pages
from spark_jobs.marts.suppressed_groups import NETWORK_DAY_COLUMNS, without_small_groups
from spark_jobs.networks import Network
from spark_jobs.report import PLOTS, REPORT, bring_up_to_date, write_report
from spark_jobs.warehouse import Warehouse

FEWEST = 20
TOO_MANY = 1000
"""More users than any network has."""
CELL_OF_ALL = {"network": "n", "date": DAY, "country": "AA", "access": "gprs", "period": "peak"}


def of(mart: str, *rows: dict) -> pa.Table:
    """Rows of a mart, 0 where nothing is said."""
    schema = TABLES[mart].arrow_with_partitions
    zeros = {
        column.name: "" if column.type == pa.string() else 0
        for column in schema
        if column.type not in (pa.bool_(), pa.date32())
    }
    return pa.Table.from_pylist([zeros | CELL_OF_ALL | row for row in rows], schema)


def without(mart: str, rows: pa.Table, **least: int) -> tuple[pa.Table, list[tuple]]:
    kept, groups = without_small_groups(TABLES[mart], rows, least)
    names = ("network", "mart", "min_users", "groups", "suppressed")
    return kept, [tuple(row[name] for name in names) for row in groups.to_pylist()]


def test_users_are_counted_by_bits_in_all_bins_of_a_cell():
    """Of three users, one of them in two bins, at 9 h; of two of another side at 9 h, of three at
    10 h; what is kept stays in its order."""
    rows = of(
        "fig04_round_trip_time",
        {"hour": 9, "side": "access", "bin": 7, "user_groups": 0b11},
        {"hour": 9, "side": "internet", "bin": 7, "user_groups": 0b11},
        {"hour": 10, "side": "access", "bin": 1, "user_groups": -(2**63) + 0b11},
        {"hour": 9, "side": "internet", "bin": 6, "user_groups": 0b10},
        {"hour": 9, "side": "access", "bin": 5, "user_groups": 0b101},
    )
    kept, groups = without("fig04_round_trip_time", rows, n=3)
    assert kept == rows.take([0, 2, 4])
    assert groups == [("n", "fig04_round_trip_time", 3, 3, 1)]


def test_users_are_counted_by_groups_and_nulls_are_a_category():
    rows = of(
        "fig08_bottleneck",
        {"bottleneck": None, "user_group": 1},
        {"bottleneck": "access", "user_group": 1},
        {"bottleneck": None, "user_group": 2},
        {"bottleneck": "access", "user_group": 1, "hour": 3},
    )
    kept, groups = without("fig08_bottleneck", rows, n=2)
    assert kept == rows.take([0, 2])
    assert groups == [("n", "fig08_bottleneck", 2, 3, 2)]


def test_each_network_has_its_own_and_another_all():
    rows = of(
        "fig08_bottleneck",
        {"network": "a", "user_group": 1},
        {"network": "b", "user_group": 1},
        {"network": "c", "user_group": 1},
    )
    kept, groups = without("fig08_bottleneck", rows, a=2, b=1)
    assert kept.column("network").to_pylist() == ["b", "c"]
    assert sorted(groups) == [
        ("a", "fig08_bottleneck", 2, 1, 1),
        ("b", "fig08_bottleneck", 1, 1, 0),
    ]


def test_without_min_users_and_without_rows_nothing_is_done():
    rows = of("fig08_bottleneck", {"user_group": 1})
    assert without("fig08_bottleneck", rows) == (rows, [])
    assert without("fig08_bottleneck", rows[:0], n=2) == (rows[:0], [])


def test_every_single_connection_is_of_one_user():
    rows = of("examples", {"kind": "limit", "flow_id": 1}, {"kind": "stall", "flow_id": 2})
    assert without("examples", rows, n=2) == (rows[:0], [("n", "examples", 2, 2, 2)])
    assert without("examples", rows, n=1) == (rows, [("n", "examples", 1, 2, 0)])


def test_every_mart_tells_its_users_or_names_single_connections():
    told = {t.name for t in MARTS if {"user_group", "user_groups"} & set(t.arrow.names)}
    assert {table.name for table in MARTS} - told == {"examples"}


@pytest.mark.parametrize("table", MARTS, ids=lambda table: table.name)
def test_cells_have_the_hour_and_every_category(table: Table):
    """Whatever is in words, or yes or no."""
    named = [c.name for c in table.arrow if c.type in (pa.string(), pa.bool_())]
    categories = set(named) - {"country", "access", "period"}
    assert categories <= set(table.group_columns) <= set(table.arrow.names)
    assert ("hour" if "hour" in table.arrow.names else "period") in table.group_columns


def change(warehouse: Warehouse, network: Network, min_users: int) -> list:
    """The days whose marts are made anew."""
    publish_network(warehouse, network.model_copy(update={"min_users": min_users}))
    return update_marts(warehouse)


def files(warehouse: Warehouse, network: str) -> dict[str, bytes]:
    """A network's marts."""
    paths = [path for table in MARTS for path in warehouse.files(table, network)]
    return {path.parts[-4]: path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def small(demo: Demo, networks: dict[str, Network], tmp_path_factory) -> Warehouse:
    """The demo's, with min_users in two networks: one that has more users, one that has not."""
    root = tmp_path_factory.mktemp("small") / "w"
    shutil.copytree(demo.warehouse.root, root)
    warehouse = Warehouse(root)
    bring_up_to_date(warehouse)
    draw_examples(warehouse)
    assert update_marts(warehouse) == []
    assert change(warehouse, networks["aa-gprs"], FEWEST) == [("aa-gprs", DAY)]
    assert change(warehouse, networks["bb-gprs"], TOO_MANY) == [("bb-gprs", DAY)]
    return warehouse


def ask(warehouse: Warehouse, query: str) -> list[tuple]:
    return warehouse.connect().execute(query).fetchall()


def groups_sql(table: Table) -> str:
    """SQL: of how many groups of users a cell is."""
    if "user_group" in table.arrow.names:
        return "count(distinct user_group)"
    return "bit_count(bit_or(user_groups))" if "user_groups" in table.arrow.names else "1"


@pytest.mark.parametrize("table", MARTS, ids=lambda table: table.name)
def test_what_is_left_of_a_mart_is_its_cells_of_enough_users(demo, small, table):
    """Value by value; and suppressed_groups counts the others."""
    names = ", ".join((*NETWORK_DAY_COLUMNS, *table.group_columns))
    groups = ask(
        demo.warehouse, f"select {names}, {groups_sql(table)} from {table.name} group by all"
    )
    enough = {cell[:-1] for cell in groups if cell[0] == "cc-dialup"}
    enough |= {cell for *cell_, n in groups if (cell := (*cell_,))[0] == "aa-gprs" and n >= FEWEST}
    before = ask(demo.warehouse, f"select {names}, * from {table.name}")
    wanted = [
        row
        for row in before
        if row[: len(NETWORK_DAY_COLUMNS) + len(table.group_columns)] in enough
    ]
    assert Counter(wanted) == Counter(ask(small, f"select {names}, * from {table.name}"))

    told = f"select network, min_users, groups, suppressed from suppressed_groups where mart = '{table.name}'"
    counted = Counter(cell[0] for cell in groups)
    of_few = counted["aa-gprs"] - sum(cell[0] == "aa-gprs" for cell in enough)
    assert sorted(ask(small, told)) == [
        ("aa-gprs", FEWEST, counted["aa-gprs"], of_few),
        ("bb-gprs", TOO_MANY, counted["bb-gprs"], counted["bb-gprs"]),
    ]


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
"""What tells the groups of some marts apart, and which connections are in them, as SQL."""


@pytest.mark.parametrize("mart", OF_FLOWS)
def test_flows_say_that_every_cell_is_of_enough_users(demo, small, mart):
    """By the users themselves, not their groups; without min_users some are of fewer."""
    columns, source = OF_FLOWS[mart].split(" from ", 1)
    found = ask(
        demo.warehouse,
        f"""
        select {columns}, count(distinct "user") from {source}
            and network = 'aa-gprs' and initiator = 'mobile'
        group by all
        """,
    )
    users = {tuple(cell): count for *cell, count in found}
    groups = f"select distinct {', '.join(TABLES[mart].groups)} from {mart}"
    kept = ask(small, f"{groups} where network = 'aa-gprs'")
    assert min(users.values()) < FEWEST
    assert min(users[cell] for cell in kept) >= FEWEST


def test_another_networks_marts_are_byte_for_byte_as_before(demo, small):
    assert files(small, "cc-dialup") == files(demo.warehouse, "cc-dialup")
    assert files(small, "bb-gprs") == {}


def test_without_min_users_marts_are_byte_for_byte_as_before(demo, small, networks, tmp_path):
    root = tmp_path / "w"
    shutil.copytree(small.root, root)
    warehouse = Warehouse(root)
    assert change(warehouse, networks["aa-gprs"], FEWEST) == []
    assert change(warehouse, networks["aa-gprs"], 0) == [("aa-gprs", DAY)]
    assert files(warehouse, "aa-gprs") == files(demo.warehouse, "aa-gprs")
    assert ask(warehouse, "select distinct network from suppressed_groups") == [("bb-gprs",)]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_report_says_what_is_left_out(small, tmp_path):
    text = text_of(write_report(small, tmp_path / "report.html"))
    query = "select sum(suppressed), sum(groups) from suppressed_groups where network = 'aa-gprs'"
    ((suppressed, groups),) = ask(small, query)
    assert 0 < suppressed < groups
    assert f"aa-gprs: {suppressed:,} of {groups:,} groups have fewer than {FEWEST} users" in text
    assert "aa-gprs: left out, as each example is of one user (Suppressed groups)." in text
    query = "select suppressed, groups from suppressed_groups where (network, mart) = ('aa-gprs', 'metrics')"
    ((suppressed, groups),) = ask(small, query)
    words = re.sub(r"<[^>]+>|\s", " ", text).split()
    assert f"metrics aa-gprs {suppressed:,} {groups:,}" in " ".join(words)


def test_a_report_without_min_users_does_not_speak_of_it(small, tmp_path):
    text = text_of(write_report(small, tmp_path / "report.html", ["cc-dialup"]))
    assert "Suppressed groups" not in text


def test_the_report_says_which_days_are_from_before(small, networks, tmp_path):
    """As those that are held back or whose flows were purged stay."""
    root = tmp_path / "w"
    shutil.copytree(small.root, root)
    warehouse = Warehouse(root)
    publish_network(warehouse, networks["cc-dialup"].model_copy(update={"min_users": FEWEST}))
    text = text_of(write_report(warehouse, tmp_path / "report.html", ["cc-dialup"]))
    told = "cc-dialup: days from before min_users was set, with no group left out: 1."
    assert told in text


def test_a_dashboard_says_what_is_left_out(small):
    shown = ask(
        small,
        "select network, users, sum(suppressed), sum(groups)"
        f" from ({SUPPRESSED_GROUPS.sql}) group by all",
    )
    counted = ask(
        small, "select network, sum(suppressed), sum(groups) from suppressed_groups group by all"
    )
    ((_, *aa), (_, *bb)) = sorted(counted)
    assert sorted(shown) == [
        ("aa-gprs", f"fewer than {FEWEST}", *aa),
        ("bb-gprs", f"fewer than {TOO_MANY}", *bb),
        ("cc-dialup", "no min_users is set", 0, 0),
    ]


def test_a_report_of_which_all_is_left_out_says_so(small, tmp_path):
    text = text_of(write_report(small, tmp_path / "report.html", ["bb-gprs"]))
    ((groups,),) = ask(small, "select sum(groups) from suppressed_groups where network = 'bb-gprs'")
    assert f"bb-gprs: {groups:,} of {groups:,} groups have fewer than {TOO_MANY} users" in text
    assert "None is shown." in text


def test_pages_of_single_connections_go(small):
    """Those of the network that still has some stay."""
    before = {path.name for path in (small.root / PLOTS).glob("flow-*")}
    refresh_pages(small)
    after = {path.name for path in (small.root / PLOTS).glob("flow-*")}
    shown = ask(small, "select flow_id from flows where network = 'cc-dialup'")
    assert after
    assert after <= {f"flow-{flow_id}.html" for (flow_id,) in shown}
    assert before - after
    assert (small.root / REPORT).exists()
