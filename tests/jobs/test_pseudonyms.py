"""The tables do not identify a subscriber: no byte of a warehouse, of messages, or of Spark's pages
has an address. A holder of the key can look a subscriber up."""

import os
import re
import stat
from ipaddress import ip_address, ip_network

import numpy as np
import pytest
from conftest import NETWORKS_FILE, ask, contents

from spark_jobs.base.errors import UserError
from spark_jobs.capture import users
from spark_jobs.capture.addresses import AddressTable, subscriber_prefixes
from spark_jobs.capture.prefix_preserving import anonymize
from spark_jobs.capture.users import (
    FILE_VARIABLE,
    SECRET_VARIABLE,
    user_keys,
)
from spark_jobs.ingest.job import ingest
from spark_jobs.settings.networks import load_networks
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.command import giscope as run
from tests.helpers.subscribers_found import OTHER, SECRET, Finder, parts_of, subscribers
from tests.helpers.user_names import keys_of


@pytest.fixture(scope="module")
def known(few_captures, networks) -> set[str]:
    found = [
        subscribers(path, networks[path.parent.name]) for path in few_captures.glob("*/*.pcap")
    ]
    assert all(len(of_capture) > 2 for of_capture in found)
    return set().union(*found)


def test_no_byte_has_an_address(few_run, known):
    finder = Finder(known)
    assert "peak.pcap" in few_run.printed
    assert not finder.finds(few_run.printed.encode())
    assert finder.in_folder(few_run.root) == []
    assert len(list(few_run.root.rglob("*.parquet"))) > 50


def test_the_finder_finds_plain_addresses(few_captures, known, tmp_path):
    root, finder = tmp_path / "w", Finder(known)
    done = run(
        "run", "--plain-addresses", "--warehouse", root, "--networks", NETWORKS_FILE, few_captures
    )
    assert done.returncode == 0, done.stderr
    tables = {path.partition("/")[0] for path in finder.in_folder(root)}
    assert {"packets", "flows", "links", "pages", "plots"} <= tables
    address = ip_address(min(known))
    for planted in (address.packed, address.packed[::-1], str(address).encode()):
        assert finder.finds(b"abc" + planted + b"efg")
    assert not finder.finds(b"abc" + ip_address("192.0.2.1").packed + b"efg")
    long, key = ip_address("2001:db8:64:1:a9b8::d6e5"), SECRET[::-1]
    finder = Finder({str(long)}, key)
    planted = [long.packed, long.packed[::-1], *(long.exploded.encode(), str(long).encode())]
    planted += [long.packed.hex().encode(), str(long).upper().encode(), key, key.hex().encode()]
    assert all(finder.finds(b"abc" + one + b"efg") for one in planted)
    assert not finder.finds(b"abc" + (long + 1).packed[::2] + bytes(16) + str(long + 1).encode())


def test_only_users_differ_with_and_without_pseudonyms(few_captures, networks, tmp_path):
    """No measurement differs."""
    found = []
    for pseudonyms in ("keyed", "none"):
        warehouse = Warehouse(tmp_path / pseudonyms)
        chosen = networks["aa-gprs"].model_copy(update={"pseudonyms": pseudonyms})
        ingest(warehouse, [(chosen, few_captures / "aa-gprs/peak.pcap")])
        columns = 'frame, ts, server, seq, ack, ip_len, "window", tcp_flags, downlink'
        rows = ask(warehouse, f"select {columns} from packets order by all").fetchall()
        (users,) = ask(warehouse, 'select count(distinct "user") from packets').fetchone()
        found.append((rows, users))
    assert found[0] == found[1]
    assert len(found[0][0]) > 10_000


def test_the_pseudonym_command_finds_a_subscriber_with_the_key(
    few_captures, networks, known, tmp_path
):
    warehouse, network = Warehouse(tmp_path / "w"), networks["aa-gprs"]
    ingest(warehouse, [(network, few_captures / "aa-gprs/peak.pcap")])
    users = ask(warehouse, 'select distinct "user" from packets').fetchall()
    mine = subscribers(few_captures / "aa-gprs/peak.pcap", network)
    of = ("pseudonym", "--networks", NETWORKS_FILE, "--network", "aa-gprs")
    printed = [run(*of, "--address", address).stdout.strip() for address in sorted(mine)[:3]]
    assert len(set(printed)) == 3
    assert set(printed) <= {user for (user,) in users}
    assert {user for (user,) in users} == {user_keys(network).key_of_address(one) for one in mine}
    wrong = run(*of, "--address", "10.64.1")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "giscope: --address 10.64.1: not an IP address\n",
    )
    assert run(*of).returncode == 2


def test_pseudonyms_depend_on_the_key_and_the_network():
    keys = keys_of(secret=SECRET)
    assert re.fullmatch("[a-z2-7]{16}", keys.key_of_address("10.64.0.1"))
    assert keys.key_of_address("10.64.0.1") == keys.key_of_address("::ffff:10.64.0.1")
    others = {
        keys_of(secret=OTHER).key_of_address("10.64.0.1"),
        keys_of(network="b", secret=SECRET).key_of_address("10.64.0.1"),
        keys.key_of_address("10.64.0.2"),
        keys.key_of_identity("10.64.0.1"),
    }
    assert len(others | {keys.key_of_address("10.64.0.1")}) == 5
    assert "secret" not in repr(keys)
    assert keys_of().key_of_address("2001:db8::0:1") == "2001:db8::1"


def test_a_container_reads_the_key_from_its_secrets(tmp_path, monkeypatch):
    """A container's secrets are readable by its one user; elsewhere that is refused."""
    path = tmp_path / "giscope_key"
    path.write_text(SECRET.hex())
    path.chmod(0o444)
    monkeypatch.delenv(SECRET_VARIABLE, raising=False)
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    with pytest.raises(UserError, match="other users can read"):
        users.secret()
    monkeypatch.setattr(users, "CONTAINER_SECRETS", tmp_path)
    assert users.secret() == SECRET


def test_the_key_is_made_once_for_its_owner_alone(few_captures, tmp_path, monkeypatch):
    path = tmp_path / "keys" / "key"
    monkeypatch.delenv(SECRET_VARIABLE)
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    command = ["ingest", "--networks", NETWORKS_FILE, "--network", "aa-gprs"]
    command = [*command, few_captures / "aa-gprs/peak.pcap", "--warehouse"]
    first, again = run(*command, tmp_path / "w"), run(*command, tmp_path / "w")
    assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
    assert f"made the key of the pseudonyms, back it up: {path}" in first.stderr
    assert "key" not in again.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    secret = bytes.fromhex(path.read_text().strip())
    for part in (secret, secret.hex().encode()):
        assert not any(
            part in one for file in (tmp_path / "w").rglob("*.*") for one in parts_of(file)
        )
    path.chmod(0o640)
    shown = run(*command, tmp_path / "x")
    assert shown.returncode == 2
    assert shown.stderr == (
        f"giscope: {path}: other users can read the key of the pseudonyms: run chmod 600 {path}\n"
    )
    path.chmod(0o600)
    path.write_text("abc\n")
    shown = run(*command, tmp_path / "x")
    assert (shown.returncode, shown.stderr) == (
        2,
        f"giscope: {path}: not a key of 64 hexadecimal digits\n",
    )
    path.unlink()
    shown = run("pseudonym", "--networks", NETWORKS_FILE, "--network", "aa-gprs", "--name", "1")
    assert shown.stderr == (
        f"giscope: {path}: cannot read the key of the pseudonyms: No such file or directory\n"
    )


def refusal(warehouse, network, capture) -> str:
    """Return why nothing of a network is ingested."""
    (refused,) = ingest(warehouse, [(network, capture)])
    assert refused.network_refused
    return refused.error


def test_a_warehouse_refuses_another_key_or_plain_addresses(
    few_captures, networks, tmp_path, monkeypatch
):
    """A warehouse keeps the key that it was started with."""
    network, capture = networks["aa-gprs"], few_captures / "aa-gprs/peak.pcap"
    plain = network.model_copy(update={"pseudonyms": "none"})
    keyed, old = Warehouse(tmp_path / "keyed"), Warehouse(tmp_path / "old")
    ingest(keyed, [(network, capture)])
    ingest(old, [(plain, capture)])
    before = contents(keyed.root), contents(old.root)
    of_another = "of another key or key_period: use that one, or another warehouse"
    assert of_another in refusal(keyed, plain, capture)
    plainly = "are plain addresses: use --plain-addresses, or another warehouse"
    assert plainly in refusal(old, network, capture)
    monkeypatch.setitem(os.environ, SECRET_VARIABLE, OTHER.hex())
    assert "pseudonyms of another key" in refusal(keyed, network, capture)
    assert (contents(keyed.root), contents(old.root)) == before


def test_two_subscribers_with_the_same_pseudonym_are_refused(monkeypatch):
    monkeypatch.setattr("spark_jobs.capture.users.PSEUDONYM_BYTES", 1)
    table = AddressTable(subscriber_prefixes([ip_network("2001:db8::/32")]), 300)
    numbers = np.array([table.add(0x20010DB8 << 32, low) for low in range(300)])
    with pytest.raises(UserError, match="a: two addresses have the same pseudonym"):
        keys_of(secret=SECRET).names(table, numbers)
    assert len(set(keys_of(secret=SECRET).names(table, numbers[:2]))) == 2


SAMPLE_KEY = bytes.fromhex("1522178d33a4cf80130a5b1649907d10d8988f8379796527 62574c2d2a842202")
"""Lines of the sample published with Crypto-PAn 1.0."""
SAMPLE = {
    "128.11.68.132": "135.242.180.132",
    "129.118.74.4": "134.136.186.123",
    "130.132.252.244": "133.68.164.234",
    "141.223.7.43": "141.167.8.160",
    "141.233.145.108": "141.129.237.235",
    "152.163.225.39": "151.140.114.167",
    "156.29.3.236": "147.225.12.42",
    "165.247.96.84": "162.9.99.234",
    "166.107.77.190": "160.132.178.185",
    "192.102.249.13": "252.138.62.131",
}
OF_IPV6 = {
    "::1": "78ff:f001:9fc0:20df:8380:b1f1:704:ed",
    "::2": "78ff:f001:9fc0:20df:8380:b1f1:704:ef",
    "::ffff": "78ff:f001:9fc0:20df:8380:b1f1:704:f838",
    "2001:db8::1": "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e",
    "2001:db8::2": "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1c",
}
"""The results of yacryptopan, another implementation, with that key."""


@pytest.mark.parametrize("published", [SAMPLE, OF_IPV6])
def test_prefix_pseudonyms_are_those_published_for_crypto_pan(published):
    given = [ip_address(text).packed for text in published]
    found = [str(ip_address(one)) for one in anonymize(given, SAMPLE_KEY)]
    assert found == list(published.values())
    assert anonymize([], SAMPLE_KEY) == []


def common_bits(a: str, b: str) -> int:
    one, other = ip_address(a), ip_address(b)
    return one.max_prefixlen - (int(one) ^ int(other)).bit_length()


def test_prefix_pseudonyms_keep_common_prefixes_of_addresses(few_captures, networks, tmp_path):
    network = networks["aa-gprs"].model_copy(update={"pseudonyms": "prefix"})
    keys = user_keys(network)
    mine = sorted(subscribers(few_captures / "aa-gprs/peak.pcap", network))
    called = [keys.key_of_address(one) for one in mine]
    assert not set(called) & set(mine)
    assert len(set(called)) == len(mine)
    for n in range(1, len(mine)):
        assert common_bits(mine[0], mine[n]) == common_bits(called[0], called[n])
    of_others = keys_of(network="other", secret=SECRET, keep_prefixes=True)
    assert of_others.key_of_address(mine[0]) != called[0]
    warehouse = Warehouse(tmp_path / "w")
    ingest(warehouse, [(network, few_captures / "aa-gprs/peak.pcap")])
    users = ask(warehouse, 'select distinct "user" from packets').fetchall()
    assert {user for (user,) in users} == set(called)
    assert Finder(set(mine)).in_folder(warehouse.root) == []
    why = refusal(warehouse, networks["aa-gprs"], few_captures / "aa-gprs/peak.pcap")
    assert "pseudonyms of another key" in why


@pytest.mark.parametrize(("servers", "form"), [("cut", r"[\d.]+\.0"), ("hashed", "[a-z2-7]{16}")])
def test_servers_are_hashed_or_cut_as_the_networks_file_says(
    few_captures, networks, tmp_path, servers, form
):
    """Measurements of connections stay."""
    network, capture = networks["aa-gprs"], few_captures / "aa-gprs/peak.pcap"
    called = network.model_copy(update={"servers": servers})
    whole, warehouse = Warehouse(tmp_path / "whole"), Warehouse(tmp_path / "w")
    ingest(whole, [(network, capture)])
    ingest(warehouse, [(called, capture)])
    distinct = "select distinct server from packets"
    names = {
        store.root.name: {name for (name,) in ask(store, distinct).fetchall()}
        for store in (whole, warehouse)
    }
    assert all(re.fullmatch(form, name) for name in names["w"])
    assert Finder(names["whole"]).in_folder(warehouse.root) == []
    columns = 'frame, ts, "user", seq, ack, ip_len, "window", tcp_flags, downlink'
    query = f"select {columns} from packets order by all"
    assert ask(warehouse, query).fetchall() == ask(whole, query).fetchall()


def test_a_pseudonym_shows_the_ip_version():
    """IPv6 headers are longer: the number of packets in a merged one depends on it."""
    for kind in ("kept", "hashed"):
        keys = keys_of("10.0.0.0/8", secret=SECRET, servers=kind)
        found = keys_of(secret=SECRET).key_of_address("2001:db8::1")
        assert re.fullmatch("v6:[a-z2-7]{16}", found)
        table = AddressTable(subscriber_prefixes([ip_network("10.0.0.0/8")]), 300)
        number = table.add(0x20010DB8 << 32, 1)
        (server,) = keys.names(table, np.array([number]))
        assert ":" in server


def test_servers_are_not_hashed_without_a_key(tmp_path):
    file = tmp_path / "networks.toml"
    begin = 'name = "aa-gprs"'
    more = f'{begin}\npseudonyms = "none"\nservers = "hashed"'
    file.write_text(NETWORKS_FILE.read_text().replace(begin, more))
    with pytest.raises(UserError, match='pseudonyms = "none" has none'):
        load_networks(file)
