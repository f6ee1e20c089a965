"""A user has another pseudonym in each key period: only a holder of the key sees one user."""

import re
import subprocess
import sys
from datetime import date, timedelta
from ipaddress import ip_network
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from conftest import CAPTURES, NETWORKS_FILE, ask, read_user

import spark_jobs.ingest.leases as leases_job
import spark_jobs.jobs.flows as flows_job
from schemas import ACCOUNTING, APPLICATION_LOG, FLOWS, LEASES, PACKETS
from schemas.zeek import ACCOUNTING_LOG
from spark_jobs.base.errors import UserError
from spark_jobs.capture.users import SECRET_VARIABLE, user_keys
from spark_jobs.ingest.job import ingest
from spark_jobs.jobs.remove_data import forget
from spark_jobs.settings.networks import Network, load_networks, period_of
from spark_jobs.tables.registry import ROWS
from spark_jobs.users.periods import NAME_COLUMNS
from spark_jobs.warehouse.files import read_rows
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.capture_files import Frame, pcap
from tests.helpers.sessions import conn, download, request
from tests.helpers.subscribers_found import OTHER, SECRET, subscribers
from tests.helpers.user_names import keys_of
from tests.helpers.zeek_logs import package_log, site_log
from tests.programs.many_days import moved

MIDNIGHT = 1_078_272_000
"""2004-03-03 00:00 UTC, s."""
DAYS = BEFORE, AFTER = date(2004, 3, 2), date(2004, 3, 3)
BEGINS = 1_078_223_403
"""When the shipped capture begins, s."""
PACKETS_READ, MIDST = 60_000, 120
"""Packets of the capture that are read, and seconds from its start to the new midnight."""

pytestmark = pytest.mark.usefixtures("in_this_process")


def with_period(network: Network, length: str | None) -> Network:
    return network.model_copy(update={"key_period": length})


def rows_of(warehouse: Warehouse, network: Network, table, day: date) -> pa.Table:
    """Return a table's rows of a day in a fixed order, with lasting pseudonyms of users and without
    flow_id, which is made of them."""
    rows = read_rows(table, warehouse.files(table, network.name, day))
    keys, lasting = user_keys(network).for_day(day), user_keys(with_period(network, None))
    for name in NAME_COLUMNS & set(rows.column_names):
        texts = rows[name].to_pylist()
        called = keys.translate([text or "" for text in texts], lasting)
        at = rows.column_names.index(name)
        column = [new if old else None for new, old in zip(called, texts, strict=True)]
        rows = rows.set_column(at, name, pa.array(column, pa.string()))
    if "flow_id" in rows.column_names:
        rows = rows.drop_columns(["flow_id"])
    return sorted(rows.to_pylist(), key=repr)


@pytest.fixture(scope="module")
def across(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a shipped capture, moved across midnight."""
    raw = zstandard.decompress(CAPTURES.joinpath("aa-gprs/peak.pcap.zst").read_bytes())
    path = tmp_path_factory.mktemp("across") / "across.pcap"
    path.write_bytes(moved(raw, timedelta(seconds=MIDNIGHT - BEGINS - MIDST), PACKETS_READ))
    return path


def logs_of(capture: Path, network: Network, folder: Path) -> list[Path]:
    """Write RADIUS messages about some of its subscribers, before midnight and after, and Zeek's
    log of a connection across midnight. Two subscribers have two links each."""
    mine = sorted(subscribers(capture, network))[::2]
    messages = [
        {
            "ts": f"{MIDNIGHT + 60 * i}.0",
            "nas": "192.0.2.1",
            "status": status,
            "session": f"s{n}",
            "address": address,
            "subscriber": f"0010112345{n // 2 if n < 4 else n:05d}",
        }
        for i, status in ((-600, "1"), (-1, "3"), (40, "2"))
        for n, address in enumerate(mine)
    ]
    path = folder / "giscope_accounting.log"
    path.write_text(package_log(ACCOUNTING_LOG, messages))
    return [path]


@pytest.fixture(scope="module")
def both(across, networks, tmp_path_factory) -> list[tuple[Warehouse, Network]]:
    """Ingest the capture and its RADIUS log without and with a key a day, and make all days."""
    found = []
    for length in (None, "day"):
        network = with_period(networks["aa-gprs"], length)
        folder = tmp_path_factory.mktemp(f"by-{length}")
        warehouse = Warehouse(folder / "w")
        done = ingest(
            warehouse, [(network, path) for path in [across, *logs_of(across, network, folder)]]
        )
        assert [one.error for one in done] == [None, None]
        flows_job.bring_up_to_date(warehouse, [network])
        found.append((warehouse, network))
    return found


@pytest.mark.parametrize("table", [PACKETS, ACCOUNTING, LEASES, *ROWS], ids=lambda t: t.name)
@pytest.mark.parametrize("day", DAYS)
def test_tables_are_the_same_but_for_daily_pseudonyms(both, table, day):
    (lasting, network), (by_day, other) = both
    expected = rows_of(lasting, network, table, day)
    assert rows_of(by_day, other, table, day) == expected
    if table in (PACKETS, LEASES, FLOWS):
        assert len(expected) > 20


def test_the_capture_has_connections_across_midnight(both):
    """Otherwise the test above would prove nothing."""
    warehouse, network = both[1]
    rows = read_rows(FLOWS, warehouse.files(FLOWS, network.name, BEFORE)).to_pylist()
    assert sum(row["end_ts"].date() == AFTER for row in rows) > 10


def test_no_pseudonym_appears_on_two_days(both):
    (lasting, network), (by_day, other) = both
    for table in (PACKETS, ACCOUNTING, LEASES, *ROWS):
        for name in {"user", "link", "address", "subscriber", "session"} & set(table.arrow.names):
            called = [
                set(read_rows(table, by_day.files(table, other.name, day))[name].to_pylist())
                for day in DAYS
            ]
            assert not (called[0] & called[1]) - {None}, (table.name, name)
    users = [
        set(read_rows(PACKETS, lasting.files(PACKETS, network.name, day))["user"].to_pylist())
        for day in DAYS
    ]
    assert len(users[0] & users[1]) > 10


def test_a_users_packets_are_whole_with_the_key_and_end_at_midnight_without(
    both, monkeypatch, tmp_path
):
    (lasting, network), (warehouse, other) = both
    rows = read_rows(FLOWS, warehouse.files(FLOWS, other.name, BEFORE)).to_pylist()
    user = next(row["user"] for row in rows if row["end_ts"].date() == AFTER)
    (mine,) = user_keys(other).for_day(BEFORE).translate([user], user_keys(network))
    whole = read_user(lasting, network.name, BEFORE, mine)
    with_key = read_user(warehouse, other.name, BEFORE, user)
    assert with_key.packets.ts.tolist() == whole.packets.ts.tolist()
    assert with_key.packets.ts.max() > MIDNIGHT * 1_000_000
    monkeypatch.delenv(SECRET_VARIABLE)
    monkeypatch.setenv("GISCOPE_KEY_FILE", str(tmp_path / "none"))
    without = read_user(warehouse, other.name, BEFORE, user)
    assert 0 < len(without.packets.ts) < len(with_key.packets.ts)
    assert without.packets.ts.max() < MIDNIGHT * 1_000_000


def test_logs_of_both_days_join_one_connection(network, tmp_path):
    """Zeek logs the connection on the day before, and its request on the day after."""
    network = with_period(network, "day")
    warehouse, path = Warehouse(tmp_path / "w"), tmp_path / "a.pcap"
    start = MIDNIGHT - 0.5
    frames: list[Frame] = sorted(download(start), key=lambda frame: frame.ts)
    path.write_bytes(pcap(frames))
    logs = {
        "conn.log": site_log("conn", [conn(start, 16)]),
        "http.log": site_log("http", [request(start + 0.61)]),
    }
    for name, text in logs.items():
        (tmp_path / name).write_text(text)
    ingest(warehouse, [(network, file) for file in [path, *map(tmp_path.joinpath, logs)]])
    flows_job.bring_up_to_date(warehouse, [network])
    users = {
        (row["log"], row["user"])
        for day in DAYS
        for row in read_rows(
            APPLICATION_LOG, warehouse.files(APPLICATION_LOG, network.name, day)
        ).to_pylist()
    }
    assert len({user for _, user in users}) == len(users) == 2
    (session,) = ask(warehouse, "from sessions").to_arrow_table().to_pylist()
    assert (session["service"], session["requests"]) == ("http", 1)
    (flow,) = ask(warehouse, "from flows").to_arrow_table().to_pylist()
    assert flow["date"] == BEFORE
    assert flow["payload_bytes_down"] == 150_000


def test_a_user_is_forgotten_in_one_key_period_only(both, across, tmp_path):
    network = both[1][1]
    warehouse = Warehouse(tmp_path / "w")
    ingest(warehouse, [(network, across)])
    counts = {}
    for day in DAYS:
        rows = read_rows(PACKETS, warehouse.files(PACKETS, network.name, day))["user"].to_pylist()
        counts[day] = {user: rows.count(user) for user in set(rows)}
    keys = user_keys(network)
    chosen = next(
        user
        for user in counts[BEFORE]
        if keys.for_day(BEFORE).translate([user], keys.for_day(AFTER))[0] in counts[AFTER]
    )
    assert forget(warehouse, network, [chosen]) == counts[BEFORE][chosen]
    ingest(warehouse, [(network, across)])
    left = {
        day: set(
            read_rows(PACKETS, warehouse.files(PACKETS, network.name, day))["user"].to_pylist()
        )
        for day in DAYS
    }
    assert left == {BEFORE: set(counts[BEFORE]) - {chosen}, AFTER: set(counts[AFTER])}


def test_a_warehouse_keeps_its_key_period(both, across):
    warehouse, network = both[1]
    (refused,) = ingest(warehouse, [(with_period(network, "month"), across)])
    assert "are pseudonyms of another key or key_period: use that one" in refused.error


@pytest.mark.parametrize("address", ["10.64.0.1", "2001:db8::1"])
def test_pseudonyms_of_a_key_period(address):
    keys = keys_of(secret=SECRET, key_period="month")
    days = [date(2004, 1, 31), date(2004, 2, 1), date(2004, 2, 29)]
    names = [keys.for_day(day).key_of_address(address) for day in days]
    assert names[0] != names[1] == names[2]
    assert all(re.fullmatch("(v6:)?[a-z2-7]{26}", name) for name in names)
    assert (":" in names[0]) == (":" in address)
    assert keys.for_day(days[0]).translate(names[:1], keys.for_day(days[1])) == names[1:2]
    lasting = keys_of(secret=SECRET)
    assert keys.for_day(days[0]).translate(names[:1], lasting) == [lasting.key_of_address(address)]
    assert {
        keys.for_day(day).partition(name, 1000) for day, name in zip(days, names, strict=True)
    } == {lasting.partition(lasting.key_of_address(address), 1000)}
    others = ["198.51.100.1", "2001:db8::5", ""]
    assert keys.for_day(days[0]).translate(others, keys.for_day(days[1])) == others
    with pytest.raises(UserError, match="a: the pseudonyms of 2004-01 were made with another key"):
        keys_of(secret=OTHER, key_period="month").for_day(days[0]).translate(
            names[:1], keys.for_day(days[1])
        )


def test_every_day_is_in_one_key_period():
    days = [date(2003, 12, 1) + timedelta(days=n) for n in range(800)]
    for length, most in (("day", 1), ("week", 7), ("month", 31), ("year", 366)):
        names = [period_of(length, day) for day in days]
        changes = [n for n, (a, b) in enumerate(pairwise(names), 1) if a != b]
        assert len(set(names)) == len(changes) + 1
        assert max(b - a for a, b in pairwise(changes)) == most
    assert days[[period_of("week", day) for day in days].index("2004-W01")] == date(2003, 12, 29)
    assert period_of(None, days[0]) == ""


def test_the_pseudonym_command_asks_for_the_day(tmp_path):
    text = NETWORKS_FILE.read_text()
    file = tmp_path / "networks.toml"
    file.write_text(text.replace("[[network]]", '[[network]]\nkey_period = "month"', 1))
    (network, *_) = load_networks(file).values()
    address = str(ip_network(network.prefixes[0])[1])
    command = ["pseudonym", "--networks", file, "--network", network.name, "--address", address]
    giscope = Path(sys.executable).with_name("giscope")

    def run_pseudonym(*more: object) -> subprocess.CompletedProcess:
        return subprocess.run(
            [giscope, *map(str, [*command, *more])], capture_output=True, text=True, check=False
        )

    keys = user_keys(network)
    assert run_pseudonym("--date", BEFORE).stdout.strip() == keys.for_day(BEFORE).key_of_address(
        address
    )
    assert run_pseudonym("--date", BEFORE).stdout != run_pseudonym("--date", "2004-04-01").stdout
    shown = run_pseudonym()
    assert (shown.returncode, shown.stderr) == (
        2,
        f"giscope: pseudonym: pseudonyms of {network.name} change every month: "
        "give the day with --date\n",
    )


def test_a_key_period_needs_keyed_pseudonyms(tmp_path):
    file = tmp_path / "networks.toml"
    text = NETWORKS_FILE.read_text()
    file.write_text(
        text.replace("[[network]]", '[[network]]\nkey_period = "month"\npseudonyms = "prefix"', 1)
    )
    with pytest.raises(UserError, match='key_period needs pseudonyms = "keyed", not "prefix"'):
        load_networks(file)


def test_leases_are_current_after_they_were_made(both, monkeypatch):
    warehouse, network = both[1]
    monkeypatch.setattr(leases_job, "run_tasks", lambda *_: 1 / 0)
    leases_job.update_leases(warehouse, [network])
