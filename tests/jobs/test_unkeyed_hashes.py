"""Nobody who guesses an address can check the guess: no stored value can be computed from the
address without the key, not even by writing the whole capture again."""

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import xxhash
from conftest import NOON, ask

from spark_jobs.base.errors import UserError
from spark_jobs.capture.users import FILE_VARIABLE, SECRET_VARIABLE
from spark_jobs.figures.tables import TABLES
from spark_jobs.ingest.exclusions import forgotten_unit
from spark_jobs.ingest.job import ingest
from spark_jobs.jobs.remove_data import forget
from spark_jobs.jobs.run import refresh
from spark_jobs.settings.networks import Network, load_networks
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.capture_files import pcap
from tests.helpers.far_subscribers import A4, B4, FILE, SERVER4, frames
from tests.helpers.subscribers_found import OTHER, SECRET

ANOTHER, NEIGHBOUR = "10.65.7.10", "10.66.1.1"
LEAST = 8
"""Characters of a value that is no small number: those are the same by chance."""
CONNECTIONS = 20
PLAIN = FILE.replace('access = "lte"', 'access = "lte"\npseudonyms = "none"')

pytestmark = pytest.mark.usefixtures("in_this_process")


def values(root: Path) -> set[str]:
    """Return every value that a warehouse keeps: in tables and in the catalog."""
    store, found = Warehouse(root), set()
    for table in TABLES.values():
        for path in store.files(table):
            for column in pq.read_table(path, partitioning=None).columns:
                found.update(parts(column.to_pylist()))
    with closing(sqlite3.connect(root / "catalog.sqlite")) as catalog:
        names = catalog.execute("select name from sqlite_master where type = 'table'").fetchall()
        for (name,) in names:
            found.update(parts(catalog.execute(f'select * from "{name}"').fetchall()))
    return {value for value in found if len(value) >= LEAST}


def parts(value) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from parts(item)
    elif isinstance(value, dict):
        yield from parts(list(value.items()))
    elif isinstance(value, str) and value.startswith(("[", "{")):
        yield from parts(json.loads(value))
    elif value is not None:
        yield str(value)


def capture(folder: Path, *users: str, server: str = SERVER4) -> Path:
    """Write a capture of these users' connections, the same but for their addresses."""
    every = [
        frame
        for n in range(CONNECTIONS)
        for i, user in enumerate(users)
        for frame in frames(user, server, 1024 + n, NOON + n + i / 100)
    ]
    path = folder / "captures/aa/a.pcap"
    path.parent.mkdir(parents=True)
    path.write_bytes(pcap(sorted(every, key=lambda frame: frame.ts)))
    os.utime(path, (NOON, NOON))
    return path


@contextmanager
def keyed_with(key: bytes) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET_VARIABLE, key.hex())
        yield


def networks_in(folder: Path, text: str) -> dict[str, Network]:
    path = folder / "networks.toml"
    path.write_text(text)
    return load_networks(path)


def warehouse(folder: Path, key: bytes, text: str, *users: str, server: str = SERVER4) -> Path:
    """Make a warehouse of a capture of these users with a key."""
    folder.mkdir()
    network, store = networks_in(folder, text)["aa"], Warehouse(folder / "w")
    with keyed_with(key):
        (done,) = ingest(store, [(network, capture(folder, *users, server=server))])
        assert done.error is None
        refresh(store, [network], ["aa"])
    return store.root


def forgotten(root: Path, key: bytes, user: str) -> Path:
    network, store = load_networks(root.parent / "networks.toml")["aa"], Warehouse(root)
    with keyed_with(key):
        assert forget(store, network, [user])
    return root


def values_of_right_guess(kept: Path, guessed: Path, wrong: Path) -> set[str]:
    """Return the values that a right guess gives and a wrong one does not, without the key."""
    return values(kept) & values(guessed) - values(wrong)


def test_no_guess_gives_a_stored_value(tmp_path):
    kept = warehouse(tmp_path / "kept", SECRET, FILE, A4)
    guessed = warehouse(tmp_path / "guessed", OTHER, FILE, A4)
    wrong = warehouse(tmp_path / "wrong", OTHER, FILE, ANOTHER)
    assert values_of_right_guess(kept, guessed, wrong) == set()
    (content,) = ask(Warehouse(kept), "select content from ingest_log").fetchone()
    assert re.fullmatch("[0-9a-f]{40}", content)


def test_a_right_guess_of_a_plain_address_is_found(tmp_path):
    """With plain addresses."""
    folders = [
        warehouse(tmp_path / name, key, PLAIN, address)
        for name, key, address in (("k", SECRET, A4), ("g", OTHER, A4), ("w", OTHER, ANOTHER))
    ]
    found = values_of_right_guess(*folders)
    raw = (tmp_path / "k/captures/aa/a.pcap").read_bytes()
    assert {A4, xxhash.xxh3_128_hexdigest(raw)} <= found


def test_no_guess_of_a_far_subscriber_gives_a_stored_value(tmp_path):
    """The network itself has plain addresses."""
    text = FILE.replace('name = "aa"', 'name = "aa"\npseudonyms = "none"')
    kept = warehouse(tmp_path / "kept", SECRET, text, A4, server=B4)
    guessed = warehouse(tmp_path / "guessed", OTHER, text, A4, server=B4)
    wrong = warehouse(tmp_path / "wrong", OTHER, text, A4, server="203.0.113.78")
    assert values_of_right_guess(kept, guessed, wrong) == set()


def test_no_guess_finds_a_removed_user(tmp_path):
    """With plain addresses."""
    kept, guessed, wrong = (
        forgotten(warehouse(tmp_path / name, key, PLAIN, address, NEIGHBOUR), key, address)
        for name, key, address in (("k", SECRET, A4), ("g", OTHER, A4), ("w", OTHER, ANOTHER))
    )
    assert NEIGHBOUR in values(kept)
    assert values_of_right_guess(kept, guessed, wrong) == set()
    unkeyed = blake2b(A4.encode(), digest_size=16, person=b"forgotten").hexdigest()
    assert unkeyed not in values(kept)


@pytest.fixture
def plain(tmp_path):
    """Return a network without pseudonyms, a capture of it, and a warehouse that has it."""
    network = networks_in(tmp_path, PLAIN)["aa"]
    store, file = Warehouse(tmp_path / "w"), capture(tmp_path, A4, NEIGHBOUR)
    (done,) = ingest(store, [(network, file)])
    assert done.error is None
    return network, file, store


def users(store: Warehouse) -> set[str]:
    return {user for (user,) in ask(store, 'select "user" from packets').fetchall()}


def read_again(store: Warehouse, network, file: Path) -> None:
    os.utime(file)
    (done,) = ingest(store, [(network, file)])
    assert done.error is None
    assert not done.unchanged


def test_plain_addresses_need_no_key_until_one_is_removed(plain, monkeypatch, tmp_path):
    network, file, store = plain
    monkeypatch.delenv(SECRET_VARIABLE)
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "key"))
    read_again(store, network, file)
    assert not (tmp_path / "key").exists()
    forget(store, network, [A4])
    assert (tmp_path / "key").exists()
    read_again(store, network, file)
    assert users(store) == {NEIGHBOUR}
    monkeypatch.setenv(SECRET_VARIABLE, OTHER.hex())
    os.utime(file)
    (done,) = ingest(store, [(network, file)])
    assert "aa: the users who were removed are recorded with another key" in done.error
    assert users(store) == {NEIGHBOUR}


def test_a_pseudonym_is_removed_with_its_key_only(plain, tmp_path, monkeypatch):
    _, file, _ = plain
    network, store = networks_in(tmp_path, FILE)["aa"], Warehouse(tmp_path / "keyed")
    ingest(store, [(network, file)])
    before = users(store)
    monkeypatch.setenv(SECRET_VARIABLE, OTHER.hex())
    with pytest.raises(UserError, match="pseudonyms of another key: use that key to remove a user"):
        forget(store, network, [min(before)])
    assert users(store) == before
    assert store.published(forgotten_unit("aa")) is None
