"""`giscope forget` where clocks are wrong, where it is interrupted, where nobody has the name, and
where the user is another network's; and that its search finds what is there."""

import errno
import gzip
import json
import os
import re
import shutil
import sqlite3
import sys
import time
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import partial
from itertools import cycle
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DAY, NETWORKS_FILE, NOON, ask, run_in_this_process
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StringType
from scapy.layers.inet import IP, TCP

import spark_jobs.ingest.job as ingest_job
import spark_jobs.jobs.flows as flows_job
from schemas import PACKETS
from spark_jobs.base.errors import UserError
from spark_jobs.capture.users import UserKeys, user_keys
from spark_jobs.commands.cli import main
from spark_jobs.figures.tables import TABLES
from spark_jobs.jobs import marts as marts_job
from spark_jobs.jobs import remove_data
from spark_jobs.removal import search
from spark_jobs.removal.find_users import search_for_users
from spark_jobs.removal.search import CATALOG as IN_CATALOG
from spark_jobs.removal.search import Name, search_names
from spark_jobs.settings.networks import Subscribers, load_networks
from spark_jobs.warehouse.catalog import UnitCatalog
from spark_jobs.warehouse.database import CATALOG
from spark_jobs.warehouse.path_io import PathFile
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
from tests.helpers.accounting_messages import HOUR, STOP, UPDATE, message
from tests.helpers.accounting_messages import put as put_messages
from tests.helpers.capture_files import Frame, pcap

US = 1_000_000
YEAR_S = 366 * 86_400
USER, OTHER, SERVER = "10.64.0.1", "10.64.0.2", "198.51.100.1"
OF_BB = "10.128.0.1"
"""A subscriber of bb-gprs, where that has prefixes of its own."""

pytestmark = pytest.mark.usefixtures("in_this_process")


def put(
    warehouse, network, name: str, *packets: tuple[float, str], server: str = SERVER, folder=None
) -> Path:
    """Ingest a capture of one SYN per (time in s, subscriber)."""
    folder = folder or warehouse.root.parent / network.name
    folder.mkdir(exist_ok=True)
    capture = folder / f"{name}.pcap"
    syns = [
        Frame(bytes(IP(src=user, dst=server) / TCP(sport=1000 + n, seq=n)), int(at * US))
        for n, (at, user) in enumerate(packets)
    ]
    capture.write_bytes(pcap(syns))
    (result,) = ingest_job.ingest(warehouse, [(network, capture)])
    assert result.error is None
    return capture


def ingest_again(warehouse, network, capture: Path, written_s: float = NOON) -> None:
    """Ingest a capture a second time."""
    os.utime(capture, (written_s, written_s))
    (result,) = ingest_job.ingest(warehouse, [(network, capture)])
    assert (result.error, result.unchanged) == (None, False)


def called(network, address: str = USER) -> str:
    return user_keys(network).key_of_address(address)


def called_on(network, day: date, address: str) -> str:
    return user_keys(network).for_day(day).key_of_address(address)


def times(warehouse, user: str) -> list[int]:
    """Return the times of a user's packets, s."""
    found = ask(
        warehouse, f"""select epoch(ts)::bigint from packets where "user" = '{user}' order by 1"""
    ).fetchall()
    return [at for (at,) in found]


def parquet_files(root: Path) -> set[Path]:
    return set(root.rglob("*.parquet"))


def published(warehouse) -> set[Path]:
    return {path for paths in warehouse.files_by_table().values() for path in paths}


@contextmanager
def clock_ahead(monkeypatch, seconds: float):
    """Set this host's clock ahead within the block."""
    right = time.time_ns
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: right() + int(seconds * 1e9))
        yield


def test_packets_with_future_times_are_removed_for_good_and_later_ones_are_kept(warehouse, network):
    late, user = int(time.time() + 50 * YEAR_S), called(network)
    capture = put(
        warehouse, network, "ahead", (NOON, USER), (late, USER), (late + 9, USER), (late, OTHER)
    )
    assert len(times(warehouse, user)) == 3

    assert remove_data.forget(warehouse, network, [user]) == 3

    assert times(warehouse, user) == []
    assert len(times(warehouse, called(network, OTHER))) == 1
    assert search_for_users(warehouse, network, [user]).problems == []
    ingest_again(warehouse, network, capture)
    assert times(warehouse, user) == []
    soon = int(time.time()) + 3600
    put(warehouse, network, "later", (soon, USER), (late + 3600, USER))
    assert times(warehouse, user) == [soon, late + 3600]


def test_a_capture_is_counted_as_if_it_were_read_after_the_removal(warehouse, network):
    """Its first and last packets, and all packets of one of its days, are the user's."""
    at = [(NOON, USER), (NOON + 9, OTHER), (NOON + 10, OTHER), (NOON + 24 * HOUR, USER)]
    capture = put(warehouse, network, "a", *at)
    only = put(warehouse, network, "b", (NOON + 60, USER))
    remove_data.forget(warehouse, network, [called(network)])
    logged = "select * exclude (seconds) from ingest_log order by capture"
    forgotten = ask(warehouse, logged).fetchall()
    dates = [one.facts["dates"] for one in warehouse.published_units("capture")]
    assert dates == [[DAY.isoformat()], []]
    counts = "select packets, skipped['removed'], epoch(first_ts) from ingest_log order by capture"
    assert ask(warehouse, counts).fetchall() == [(2, 2, NOON + 9), (0, 1, None)]
    for file in (capture, only):
        ingest_again(warehouse, network, file)
    assert ask(warehouse, logged).fetchall() == forgotten


def test_a_user_who_comes_back_is_kept_when_another_is_forgotten(warehouse, network):
    soon, user = int(time.time()) + 3600, called(network)
    put(warehouse, network, "a", (NOON, USER), (NOON, OTHER))
    remove_data.forget(warehouse, network, [user])
    put(warehouse, network, "b", (soon, USER), (soon, OTHER))
    flows_job.bring_up_to_date(warehouse, [network])
    links = f"""select count(*) from links where "user" = '{user}'"""
    before = ask(warehouse, links).fetchall()
    remove_data.forget(warehouse, network, [called(network, OTHER)])
    assert times(warehouse, user) == [soon]
    assert ask(warehouse, links).fetchall() == before


def test_superseded_files_with_future_times_are_removed(warehouse, network, monkeypatch):
    """Files published, or staged, when a clock was ahead."""
    capture = put(warehouse, network, "a", (NOON, USER), (NOON, OTHER))
    put(warehouse, network, "b", (NOON + 60, USER))
    with clock_ahead(monkeypatch, YEAR_S):
        ingest_again(warehouse, network, capture)
        with monkeypatch.context() as patch:
            patch.setattr(UnitCatalog, "publish", lambda *_: sys.exit())
            with pytest.raises(SystemExit):
                ingest_again(warehouse, network, capture, NOON + 1)
    assert len(parquet_files(warehouse.root)) > len(published(warehouse))

    remove_data.forget(warehouse, network, [called(network)])

    assert parquet_files(warehouse.root) == published(warehouse)
    assert search_for_users(warehouse, network, [called(network)]).problems == []
    with pytest.raises(UserError, match="is not kept: files superseded before"):
        warehouse.connect(as_of=datetime.now(UTC))


def test_messages_of_the_next_key_period_do_not_bring_a_user_back(warehouse, network):
    """They also show a lease of the period in which the user is forgotten."""
    network, midnight = network.model_copy(update={"key_period": "day"}), NOON + 12 * HOUR
    messages = [
        message(midnight - HOUR, UPDATE, "a", session_time="3600"),
        message(midnight + HOUR, STOP, "a", session_time="10800"),
    ]
    put_messages(warehouse, network, *messages)
    put(warehouse, network, "a", *((midnight + n, who) for n in (-9, 9) for who in (USER, OTHER)))
    leases = "select date, subscriber from leases order by all"
    (day, user), (next_day, next_user) = ask(warehouse, leases).fetchall()
    assert (day, user != next_user) == (DAY, True)
    assert remove_data.forget(warehouse, network, [user]) == 3
    assert search_for_users(warehouse, network, [user]).problems == []
    assert ask(warehouse, leases).fetchall() == [(next_day, next_user)]
    other = called_on(network, DAY, OTHER)
    assert remove_data.forget(warehouse, network, [other]) > 0
    assert search_for_users(warehouse, network, [other]).problems == []


def test_no_dictionary_has_a_user_without_rows(warehouse, network):
    """One log has messages of two days, of another user each."""
    days = [NOON + 24 * HOUR * n for n in range(2)]
    put_messages(
        warehouse, network, *(message(day, STOP, who) for day, who in zip(days, "ab", strict=True))
    )
    user = user_keys(network).key_of_identity("a")
    places = {place.path for place in search_names(warehouse, [user]).found}
    assert sum("accounting" in path for path in places) == 1
    remove_data.forget(warehouse, network, [user])
    assert search_for_users(warehouse, network, [user]).problems == []
    assert ask(warehouse, "select count(*) from accounting").fetchall() == [(1,)]


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> Path:
    """Make a warehouse of two networks with flows and marts, its networks file and captures."""
    folder = tmp_path_factory.mktemp("both")
    text = NETWORKS_FILE.read_text()
    (folder / "networks.toml").write_text(text)
    known = load_networks(folder / "networks.toml")
    with pytest.MonkeyPatch.context() as patch:
        run_in_this_process(patch)
        make(Warehouse(folder / "w"), [known["aa-gprs"], known["bb-gprs"]])
    return folder


def make(warehouse, networks) -> None:
    for network in networks:
        put(warehouse, network, "a", (NOON, USER), (NOON + 1, OTHER))
        put(warehouse, network, "b", (NOON + 60, USER), (NOON + 61, OTHER))
    flows_job.bring_up_to_date(warehouse, networks)
    for name in networks:
        marts_job.update_marts(warehouse, network=name.name)


@pytest.fixture
def here(both, tmp_path) -> Path:
    """Return a copy of that folder for one test."""
    return Path(shutil.copytree(both, tmp_path / "here"))


def command(here: Path, *words: object) -> None:
    main([str(word) for word in (words[0], "--warehouse", here / "w", *words[1:])])


def forget(here: Path, *users: str, network: str = "aa-gprs") -> None:
    named = [word for user in users for word in ("--user", user)]
    command(
        here, "forget", "--networks", here / "networks.toml", "--network", network, *named
    )  # fmt: skip


def test_the_search_reports_how_many_places_it_searched(here, networks, capsys):
    user = called(networks["aa-gprs"])
    forget(here, user)
    rows, looked = capsys.readouterr().out.splitlines()
    root = here / "w"
    files = [path for path in root.rglob("*") if path.is_file()]
    tables = {path.relative_to(root).parts[0] for path in parquet_files(root)}
    assert rows == "3 rows removed"
    assert looked == (
        f"looked for 1 name in {len(tables)} tables, {len(tables)} snapshots, {len(files)} files "
        "and the catalog: not found"
    )
    forget(here, user)
    assert capsys.readouterr().out.splitlines()[:2] == [
        "0 rows removed",
        f"{user} was forgotten before, too",
    ]


def test_forget_fails_where_a_file_still_has_the_name(here, networks, capsys):
    user = called(networks["aa-gprs"])
    (here / "w" / "notes.txt").write_text(f"he is {user}, I think")
    with pytest.raises(SystemExit, match="2"):
        forget(here, user)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("giscope: looked for 1 name in ")
    assert lines[1:] == [
        f"giscope: {here}/w/notes.txt: still contains {user}: remove the file, or the name from it"
    ]


def test_forget_refuses_an_unknown_name_and_removes_nothing(here, networks, capsys):
    user = called(networks["aa-gprs"])
    before = state(here / "w")
    unknown = ("a2a2a2a2a2a2a2a2", called(networks["bb-gprs"], "10.64.0.99"), SERVER)
    with pytest.raises(SystemExit, match="2"):
        forget(here, user, *unknown)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"giscope: {here}/w: no user named {name} is known in aa-gprs; nothing was removed: "
        "giscope pseudonym prints a user's name"
        for name in unknown
    ]
    assert state(here / "w") == before


def state(root: Path) -> tuple:
    """Return the published files and the catalog's whole content."""
    with sqlite3.connect(root / CATALOG) as catalog:
        return sorted(parquet_files(root)), list(catalog.iterdump())


def test_a_user_is_forgotten_by_the_address(here, networks, capsys):
    """As by the pseudonym; a text that is no address, and one that nobody has, are refused."""
    options = ("forget", "--networks", here / "networks.toml", "--network", "aa-gprs")
    for given, said in (
        ((), "give --user or --address"),
        (("--address", "nonsense"), "--address nonsense: not an IP address"),
        (("--address", "10.64.0.99"), "no user named "),
    ):
        with pytest.raises(SystemExit, match="2"):
            command(here, *options, *given)
        assert said in capsys.readouterr().err
    name, warehouse = called(networks["aa-gprs"]), Warehouse(here / "w")
    of_network = "select distinct \"user\" from packets where network = 'aa-gprs'"
    assert (name,) in ask(warehouse, of_network).fetchall()
    command(here, *options, "--address", USER)
    assert ask(warehouse, of_network).fetchall() == [(called(networks["aa-gprs"], OTHER),)]


def test_a_user_only_in_superseded_files_is_found(here, networks):
    network, user = networks["aa-gprs"], called(networks["aa-gprs"])
    warehouse = Warehouse(here / "w")
    for n, name in enumerate("ab"):
        put(warehouse, network, name, (NOON + n, OTHER))
    flows_job.bring_up_to_date(warehouse, [network])
    assert search_names(warehouse, [user]).found
    forget(here, user)
    assert not search_names(warehouse, [user]).problems


class InterruptedRemovalError(Exception):
    """Raised instead of the nth change."""


def interrupt_at_change(patch, at: int) -> list[int]:
    """Let each change of the catalog or of files fail from the nth on.

    Return a list that gets an item for each change."""
    seen: list[int] = []
    change, remove = UnitCatalog._transaction, removal_of_files()

    def count() -> None:
        seen.append(1)
        if len(seen) >= at:
            raise InterruptedRemovalError

    def counted(catalog):
        count()
        return change(catalog)

    def counted_removal(paths):
        for path in list(paths):
            count()
            remove([path])

    patch.setattr(UnitCatalog, "_transaction", counted)
    patch.setattr("spark_jobs.warehouse.history.remove_all", counted_removal)
    return seen


def removal_of_files():
    from spark_jobs.base.places import remove_all

    return remove_all


ENDINGS = {
    "forget": lambda here: forget(here, called_in(here, "bb-gprs", OTHER), network="bb-gprs"),
    "purge": lambda here: command(here, "purge", "--before", "1990-01-01"),
    "run": lambda here: command(
        here, "run", "--networks", here / "networks.toml", captures_of(here)
    ),
}


def called_in(here: Path, network: str, address: str) -> str:
    return called(load_networks(here / "networks.toml")[network], address)


def captures_of(here: Path) -> Path:
    folder = here / "captures"
    folder.mkdir(exist_ok=True)
    for name in ("aa-gprs", "bb-gprs"):
        if not (folder / name).exists():
            shutil.copytree(here / name, folder / name, copy_function=shutil.copy2)
    return folder


@pytest.mark.parametrize(
    ("part", "ending"),
    [*zip((0, 0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1), cycle(ENDINGS), strict=False)],
)
def test_a_removal_interrupted_anywhere_is_finished_by_the_next_command(
    here, networks, monkeypatch, changes, part, ending
):
    """Interrupted between the change after that which begins it and its last one."""
    network, user = networks["aa-gprs"], called(networks["aa-gprs"])
    with monkeypatch.context() as patch:
        interrupt_at_change(patch, 2 + round(part * (changes - 2)))
        with pytest.raises(InterruptedRemovalError):
            remove_data.forget(Warehouse(here / "w"), network, [user], networks.values())
    assert remove_data.is_pending(Warehouse(here / "w"))
    ENDINGS[ending](here)
    warehouse = Warehouse(here / "w")
    assert not remove_data.is_pending(warehouse)
    assert search_for_users(warehouse, network, [user]).problems == []


@pytest.fixture(scope="module")
def changes(both, networks, tmp_path_factory) -> int:
    """Return the number of changes that a removal makes."""
    folder = shutil.copytree(both, tmp_path_factory.mktemp("changes") / "here")
    with pytest.MonkeyPatch.context() as patch:
        run_in_this_process(patch)
        seen = interrupt_at_change(patch, 10_000)
        user = called(networks["aa-gprs"])
        remove_data.forget(Warehouse(folder / "w"), networks["aa-gprs"], [user], networks.values())
    assert len(seen) > 20
    return len(seen)


def test_a_removal_that_did_not_begin_changes_nothing(here, networks, monkeypatch):
    before = state(here / "w")
    user = called(networks["aa-gprs"])
    with monkeypatch.context() as patch:
        interrupt_at_change(patch, 1)
        with pytest.raises(InterruptedRemovalError):
            remove_data.forget(
                Warehouse(here / "w"), networks["aa-gprs"], [user], networks.values()
            )
    assert state(here / "w") == before


@pytest.mark.parametrize("at", [2, 4, 8])
def test_an_interrupted_purge_is_finished_by_a_removal_in_another_network(
    here, networks, monkeypatch, at
):
    warehouse = Warehouse(here / "w")
    purge = partial(remove_data.purge_networks, warehouse, "aa-gprs", date(2100, 1, 1), [PACKETS])
    with monkeypatch.context() as patch:
        interrupt_at_change(patch, at)
        with pytest.raises(InterruptedRemovalError):
            purge()
    forget(here, called(networks["bb-gprs"]), network="bb-gprs")
    left = parquet_files(here / "w" / "packets" / "network=aa-gprs")
    assert left == set()
    assert Warehouse(here / "w").purged_before("aa-gprs", PACKETS) == date(2100, 1, 1)


def test_a_damaged_file_stops_the_removal_until_it_is_made_again(here, networks, capsys):
    user, root = called(networks["aa-gprs"]), here / "w"
    (broken, *_) = sorted((root / "packets/network=aa-gprs").rglob("*.parquet"))
    broken.write_bytes(b"PAR1" + bytes(broken.stat().st_size - 8) + b"PAR1")
    with pytest.raises(SystemExit, match="2"):
        forget(here, user)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"giscope: {broken}: cannot be read (")
    assert line.endswith("remove it, and read its capture again with giscope run")
    broken.unlink()
    command(here, "run", "--networks", here / "networks.toml", captures_of(here))
    forget(here, user)
    assert not search_names(Warehouse(root), [user]).problems


@pytest.mark.parametrize("kind", [r"-m\d+\.avro", r"/snap-", r"\.metadata\.json"])
def test_what_a_full_disk_leaves_is_removed_by_the_next_forget(
    here, networks, monkeypatch, capsys, kind
):
    """Metadata of Iceberg that are cut: the search cannot read them."""
    user, create, cut = called(networks["aa-gprs"]), PathFile.create, []

    def cut_first(file: PathFile, overwrite: bool = False):
        made = create(file, overwrite)
        if re.search(kind, file.location) and not cut:
            cut.append(Path(file.location))
            made.close = partial(cut_at_end, made, made.close)
        return made

    with monkeypatch.context() as patch:
        patch.setattr(PathFile, "create", cut_first)
        with pytest.raises(SystemExit, match="2"):
            forget(here, user)
    (line,) = capsys.readouterr().err.splitlines()
    assert "no space left on the device" in line
    assert cut[0].exists()
    forget(here, user)
    assert capsys.readouterr().out.endswith(" files and the catalog: not found\n")
    assert not cut[0].exists()


def cut_at_end(file, close) -> None:
    """Close a file as on a full disk: without the last quarter of its bytes."""
    if not file.closed:
        file.flush()
        file.truncate(file.tell() * 3 // 4)
        close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def separate_networks(networks):
    """Return two networks with prefixes of their own."""
    text = NETWORKS_FILE.read_text()
    aa, bb = networks["aa-gprs"], networks["bb-gprs"]
    assert '"10.64.0.0/14"' in text
    prefix = Subscribers(prefix="10.128.0.0/16")
    return aa, bb.model_copy(update={"subscribers": (prefix,)})


def test_a_user_is_removed_from_the_tables_of_other_networks(
    warehouse, separate_networks, monkeypatch
):
    """The user is the far end of others' connections."""
    aa, bb = separate_networks
    user, as_servers = called(bb, OF_BB), UserKeys._server_names

    def of_servers(keys, addresses):
        return [user if name == OF_BB else name for name in as_servers(keys, addresses)]

    monkeypatch.setattr(UserKeys, "_server_names", of_servers)
    capture = put(warehouse, aa, "to-bb", (NOON, USER), server=OF_BB)
    put(warehouse, aa, "to-server", (NOON + 9, USER))
    put(warehouse, bb, "c", (NOON, OF_BB))
    flows_job.bring_up_to_date(warehouse, [aa, bb])
    marts_job.update_marts(warehouse)
    counted = "select sum(flows)::int from table1_summary where network = 'aa-gprs'"
    assert ask(warehouse, counted).fetchall() == [(2,)]

    assert remove_data.forget(warehouse, bb, [user], separate_networks) > 2

    assert search_for_users(warehouse, bb, [user], separate_networks).problems == []
    assert ask(warehouse, "select distinct server from flows").fetchall() == [(SERVER,)]
    assert ask(warehouse, counted).fetchall() == [(1,)]
    ingest_again(warehouse, aa, capture)
    assert ask(warehouse, "select distinct server from packets").fetchall() == [(SERVER,)]


def test_tables_of_a_network_not_in_the_file_are_made_without_the_user(
    warehouse, separate_networks, monkeypatch
):
    aa, bb = separate_networks
    user = called(bb, OF_BB)
    monkeypatch.setattr(UserKeys, "_server_names", lambda _, addresses: [user for _ in addresses])
    put(warehouse, aa, "to-bb", (NOON, USER), server=OF_BB)
    flows_job.bring_up_to_date(warehouse, [aa])
    marts_job.update_marts(warehouse)
    remove_data.forget(warehouse, bb, [user], [bb])
    assert search_for_users(warehouse, bb, [user], [bb]).problems == []
    assert ask(warehouse, "select count(*) from flows").fetchall() == [(0,)]
    assert ask(warehouse, "select sum(flows) from table1_summary").fetchall() == [(None,)]


def test_a_plain_address_in_another_networks_prefixes_is_another_user(
    warehouse, networks, separate_networks
):
    plain = {"pseudonyms": "none"}
    aa, bb = (networks[name].model_copy(update=plain) for name in ("aa-gprs", "bb-gprs"))
    cc = networks["cc-dialup"].model_copy(
        update={**plain, "subscribers": separate_networks[1].subscribers, "name": "cc"}
    )
    every = [aa, bb, cc]
    capture = put(warehouse, cc, "to-aa", (NOON, OF_BB), (NOON, "10.128.0.2"), server=USER)
    for network in (aa, bb):
        put(warehouse, network, "a", (NOON, USER), (NOON + 1, "10.64.0.12"))
    assert remove_data.forget(warehouse, aa, [USER], every) == 3
    whose = ask(warehouse, 'select network, "user" from packets order by all').fetchall()
    assert whose == [("aa-gprs", "10.64.0.12"), ("bb-gprs", USER), ("bb-gprs", "10.64.0.12")]
    assert search_for_users(warehouse, aa, [USER], every).problems == []
    ingest_again(warehouse, cc, capture)
    assert ask(warehouse, "select count(*) from packets where network = 'cc'").fetchall() == [(0,)]
    with pytest.raises(UserError, match=f"no user named {SERVER} is known in aa-gprs"):
        remove_data.forget(warehouse, aa, [SERVER], every)


PLANTED = "abcdefghijklmnop"


def planted_in_column(root: Path, values: pa.Array) -> Path:
    path = root / "flows" / f"planted-{len(list((root / 'flows').iterdir()))}.parquet"
    pq.write_table(pa.table({"number": pa.array(range(len(values))), "text": values}), path)
    return path


def in_dictionary(root: Path) -> Path:
    """Plant the name in a dictionary, in no row."""
    values = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), ["one", PLANTED])
    return planted_in_column(root, values)


def in_map(root: Path) -> Path:
    return planted_in_column(
        root, pa.array([[(PLANTED, 1)]], pa.map_(pa.string(), pa.int64()))
    )  # fmt: skip


def in_list(root: Path) -> Path:
    return planted_in_column(root, pa.array([["a", PLANTED]]))


def in_staged(root: Path) -> Path:
    path = root / "_staging" / "x" / "y.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"user": [PLANTED]}), path)
    return path


def in_file_metadata(root: Path) -> Path:
    path = root / "flows" / "words.parquet"
    with pq.ParquetWriter(path, pa.schema([("n", pa.int64())]), store_schema=False) as writer:
        writer.add_key_value_metadata({"note": f"of {PLANTED}"})
    return path


def in_manifest(root: Path) -> Path:
    path = root / "flows" / "metadata" / "planted.avro"
    schema = Schema(NestedField(1, "path", StringType(), required=True))
    with AvroOutputFile(
        PathFile(str(path)), schema, "planted", metadata={"write.avro.compression-codec": "gzip"}
    ) as file:
        file.write_block([Record(f"x/{PLANTED}.parquet")] * 100)
    assert PLANTED.encode() not in path.read_bytes()
    return path


def in_metadata(root: Path) -> Path:
    path = next((root / "flows" / "metadata").glob("*.json"))
    content = json.loads(path.read_text())
    content["properties"]["note"] = PLANTED
    path.write_text(json.dumps(content))
    return path


def in_compressed_metadata(root: Path) -> Path:
    path = root / "flows" / "metadata" / "00000.gz.metadata.json"
    path.write_bytes(gzip.compress(PLANTED.encode() * 3))
    return path


def in_report(root: Path) -> Path:
    path = root / "report.html"
    path.write_text(f"<td>{PLANTED}</td>")
    return path


def in_page(root: Path) -> Path:
    path = root / "plots" / "flow-1.html"
    path.parent.mkdir()
    path.write_text(" " * (search.CHUNK_BYTES - 5) + PLANTED + " " * 99)
    return path


def in_views(root: Path) -> Path:
    path = root / "warehouse.duckdb"
    with duckdb.connect(path) as database:
        database.execute(f"create table mine as select '{PLANTED}' as who, * from range(9)")
    return path


def in_name_of_file(root: Path) -> Path:
    path = root / "flows" / f"{PLANTED}-1.txt"
    path.write_text("nothing")
    return path


def in_log_of_catalog(root: Path) -> Path:
    path = root / f"{CATALOG}-wal"
    path.write_bytes(bytes(100) + PLANTED.encode() + bytes(100))
    return path


PLACES = [
    in_dictionary, in_map, in_list, in_staged, in_file_metadata, in_manifest, in_metadata,
    in_compressed_metadata, in_report, in_page, in_views, in_name_of_file, in_log_of_catalog,
]  # fmt: skip


def test_the_search_finds_what_is_planted(here):
    warehouse = Warehouse(here / "w")
    assert search_names(warehouse, [PLANTED]).problems == []
    warehouse.catalog_texts = lambda: iter(())  # type: ignore[method-assign]
    # SQLite would remove what is planted beside the catalog, when it is queried.
    planted = {str(plant(here / "w")) for plant in PLACES}
    assert len(planted) == len(PLACES)
    found = search_names(warehouse, [PLANTED, "zyxwvutsrqponmlk"])
    assert {place.path for place in found.found} == planted
    assert {place.name for place in found.found} == {PLANTED}
    assert found.unread == []


def value_of(field: pa.Field, planted: bool) -> pa.Array:
    if field.type == pa.string():
        return pa.array([PLANTED if planted else "x"])
    return pa.array([[]], field.type) if field.type.num_fields else pa.array([0]).cast(field.type)


def test_the_search_reads_every_text_column_of_every_table(here):
    """In published files, and in superseded ones."""
    warehouse, unit = Warehouse(here / "w"), Unit("planted", "aa-gprs")
    planted = []
    with warehouse.staging() as staging:
        for table in TABLES.values():
            for column in (f.name for f in table.arrow if f.type == pa.string()):
                values = [value_of(field, field.name == column) for field in table.arrow]
                rows = pa.Table.from_arrays(values, schema=table.arrow)
                day = DAY if len(table.partitions) > 1 else None
                with staging.writer(table, "aa-gprs", day, column, False) as writer:
                    writer.write_table(rows)
                target = staging.files[-1].staged.target
                planted.append((str(here / "w" / target), column, PLANTED))
        warehouse.publish(unit, staging.files, {})
    assert len(planted) > 50
    for _ in ("published", "superseded"):
        assert {tuple(place) for place in search_names(warehouse, [PLANTED]).found} == set(planted)
        warehouse.publish(unit, [], {})
    warehouse.update_views()
    assert {tuple(place) for place in search_names(warehouse, [PLANTED]).found} == set(planted)


def test_the_search_reads_the_catalog_and_files_of_snapshots_elsewhere(here, monkeypatch):
    warehouse = Warehouse(here / "w")
    warehouse.publish(Unit("made", "all", "x"), [], {"note": PLANTED * 1000})
    assert IN_CATALOG in {place.path for place in search_names(warehouse, [PLANTED]).found}
    warehouse.publish(Unit("made", "all", "x"), [], {})
    path = here / "elsewhere.parquet"
    pq.write_table(pa.table({"user": [PLANTED]}), path)
    monkeypatch.setattr(
        "spark_jobs.warehouse.iceberg.files_by_snapshot", lambda _: {1: {str(path)}}
    )
    assert str(path) in {place.path for place in search_names(warehouse, [PLANTED]).found}


def test_files_that_cannot_be_searched_are_reported(here):
    marks = {
        "x.parquet": b"PAR1",
        "x.avro": b"Obj\1",
        "x.duckdb": bytes(8) + b"DUCK",
        "x.gz": b"\x1f\x8b",
    }
    for name, mark in marks.items():
        (here / "w" / name).write_bytes(mark + bytes(range(1, 100)))
    unread = search_names(Warehouse(here / "w"), [PLANTED]).unread
    assert [line.partition(": ")[0] for line in unread] == [
        str(here / "w" / name) for name in sorted(marks)
    ]
    assert all(": cannot be searched: " in line and "\n" not in line for line in unread)


def test_a_user_is_removed_from_an_object_store_and_the_search_reads_it(networks, bucket, tmp_path):
    network, user = networks["aa-gprs"], called(networks["aa-gprs"])
    root = bucket / "w"
    warehouse = Warehouse(root)
    put(warehouse, network, "a", (NOON, USER), (NOON, OTHER), folder=tmp_path / "captures")
    flows_job.bring_up_to_date(warehouse, [network])
    found = search_names(warehouse, [user])
    assert {one.column for one in found.found} == {"user", "link"}
    assert found.files == len(list(root.walk()))
    assert remove_data.forget(warehouse, network, [user]) == 2
    assert search_for_users(warehouse, network, [user]).problems == []
    (root / "report.html").write_bytes(f"<b>{user}</b>".encode())
    (problem,) = search_for_users(warehouse, network, [user]).problems
    assert problem.startswith(f"{root}/report.html: still contains {user}")


@pytest.mark.parametrize(
    ("name", "texts", "others"),
    [
        ("10.0.0.1", ["10.0.0.1", "x=10.0.0.1.", "core:10.0.0.1:80", "::ffff:10.0.0.1"],
         ["10.0.0.12", "110.0.0.1", "1.10.0.0.1", "10.0.0.1.5", "a10.0.0.1"]),
        ("2001:db8::1", ["2001:db8::1", "[2001:db8::1]:80"], ["2001:db8::12", "2001:db8::1:2"]),
        ("00101123", ["00101123", "IMSI:00101123.", "file-00101123"], ["001011234", "100101123"]),
        ("a&b é", ["a&b é", "<a&amp;b é>", "a%26b%20%C3%A9", '"a&b \\u00e9"'], ["a&b", "aa&b é"]),
        (PLANTED, [PLANTED, f"x{PLANTED}y"], [PLANTED[1:]]),
    ],
)  # fmt: skip
def test_a_name_is_distinguished_from_longer_ones(name, texts, others):
    wanted = Name(name)
    for text in texts:
        assert wanted.is_in(text), text
        assert wanted.is_in(b"\0" + text.encode() + b"\0"), text
        assert wanted.is_among(pa.array(["", None, text])), text
    for text in others:
        assert not wanted.is_in(text), text
        assert not wanted.is_among(pa.array([text])), text
