"""Subscribers of two networks who talk with each other: neither's address is in either's tables,
and either is called the same in both."""

import re
from dataclasses import replace
from datetime import date
from ipaddress import IPv6Address, ip_address
from pathlib import Path

import pytest
from conftest import NOON, ask, read_user

import spark_jobs.jobs.flows as flows_job
from schemas import PACKETS
from spark_jobs.base.errors import UserError
from spark_jobs.capture.users import SECRET_VARIABLE, user_keys
from spark_jobs.ingest.job import ingest
from spark_jobs.jobs.remove_data import forget
from spark_jobs.settings.networks import Network, load_networks
from spark_jobs.warehouse.files import read_rows
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.capture_files import pcap
from tests.helpers.command import giscope as run
from tests.helpers.embedded_addresses import embedded, teredo
from tests.helpers.far_subscribers import A4, A6, B4, B6, FILE, SERVER4, SERVER6, frames
from tests.helpers.subscribers_found import SECRET, Finder
from tests.helpers.user_names import keys_of
from tests.helpers.zeek_logs import log, site_log

WITHIN_AA = """
[[network]]
name = "cc"
country = "CC"
access = "lte"
timezone = "UTC"
subscribers = ["10.65.0.0/16"]
"""
MIDNIGHT = 1_078_272_000
"""2004-03-03 00:00 UTC, s."""


def embeddings(address: str) -> list[str]:
    """Return the IPv6 addresses that embed an IPv4 address."""
    return [
        str(IPv6Address(0x2002 << 112 | int(ip_address(address)) << 80 | 0x7A11_0000_5D3E)),
        f"64:ff9b::{ip_address(int(ip_address(address)))}",
        embedded("64:ff9b:1:5a00::/56", address),
        embedded("2001:db8:46::/96", address),
        embedded("2001:db8:4600::/40", address),
        teredo(address),
        f"::{address}",
        f"2001:db8:77:3:200:5efe:{address}",
    ]


PAIRS = {
    "aa": [(A4, B4), (A6, B6), *((A6, far) for far in embeddings(B4)), (A4, SERVER4)],
    "bb": [(B4, A4), (B6, A6), *((B6, far) for far in embeddings(A4)), (B6, SERVER6)],
}
ADDRESSES = {str(ip_address(a)) for pairs in PAIRS.values() for ends in pairs for a in ends}
ADDRESSES -= {SERVER4, SERVER6}


def packet_log(pairs: list[tuple[str, str]]) -> str:
    """Return a Zeek packet log with a packet of each pair."""
    return log(
        {
            "ts": f"{NOON + 3600 + i}.000000",
            "user": user,
            "user_port": "999",
            "server": server,
            "server_port": "80",
            "downlink": "F",
            "ip_proto": "6",
            "ip_len": "60",
            "ttl": "64",
            "dscp": "0",
            "ecn": "0",
            "tcp_flags": "16",
            "seq": "1",
            "ack": "1",
            "window": "100",
            "payload_len": "8",
        }
        for i, (user, server) in enumerate(pairs)
    )


def conn_log(pairs: list[tuple[str, str]]) -> str:
    return site_log(
        "conn",
        [
            {
                "ts": f"{NOON + i}.000000",
                "id.orig_h": user,
                "id.orig_p": str(2000 + i),
                "id.resp_h": server,
                "id.resp_p": "80",
                "proto": "tcp",
                "service": "http",
                "duration": "1.0",
                "conn_state": "SF",
            }
            for i, (user, server) in enumerate(pairs)
        ],
    )


def captures_in(folder: Path) -> Path:
    """Write captures and logs of both networks, with connections between their subscribers."""
    for name, pairs in PAIRS.items():
        mine = folder / name
        mine.mkdir(parents=True)
        every = [frame for i, ends in enumerate(pairs) for frame in frames(*ends, 2000 + i)]
        mine.joinpath("a.pcap").write_bytes(pcap(sorted(every, key=lambda frame: frame.ts)))
        mine.joinpath("giscope_packets.log").write_text(packet_log(pairs))
        mine.joinpath("conn.log").write_text(conn_log(pairs))
    return folder


def file_with(folder: Path, **settings: str) -> Path:
    """Write a networks file with one more line in each network named."""
    text = FILE
    for name, line in settings.items():
        text = text.replace(f'name = "{name}"', f'name = "{name}"\n{line}')
    path = folder / "networks.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def captures(tmp_path_factory) -> Path:
    return captures_in(tmp_path_factory.mktemp("between") / "captures")


def made(folder: Path, captures: Path, **settings: str) -> tuple[Path, dict[str, Network]]:
    """Make a warehouse of both networks with their flows; return it and the networks."""
    networks = load_networks(file_with(folder, **settings))
    store = Warehouse(folder / "w")
    done = ingest(store, [(networks[p.parent.name], p) for p in sorted(captures.glob("*/*"))])
    assert [one.error for one in done] == [None] * 6
    flows_job.bring_up_to_date(store, networks.values())
    return store.root, networks


def names(root: Path, network: str, column: str = "server", table: str = "packets") -> set[str]:
    query = f"select distinct \"{column}\" from {table} where network = '{network}'"
    return {name for (name,) in Warehouse(root).connect(query).execute(query).fetchall()}


pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.mark.parametrize("pseudonyms", ["keyed", "prefix"])
def test_no_byte_has_an_address_of_either(captures, tmp_path, pseudonyms):
    line = f'pseudonyms = "{pseudonyms}"'
    root, networks = made(tmp_path, captures, aa=line, bb=line)
    assert Finder(ADDRESSES).in_folder(root) == []
    keys = {name: user_keys(network) for name, network in networks.items()}
    for mine, far, direct, v4, server in (
        ("aa", "bb", B6, B4, SERVER4),
        ("bb", "aa", A6, A4, SERVER6),
    ):
        v4_name = keys[far].key_of_address(v4)
        expected = {v4_name, f"v6:{v4_name}", keys[far].key_of_address(direct), server}
        assert names(root, mine) == expected
        assert names(root, mine, table="flows") == expected
        assert names(root, mine, "service", "sessions") == {"http"}
        assert names(root, mine, table="application_log") == expected
        assert {v4_name, keys[far].key_of_address(direct)} == names(root, far, "user")


def test_the_finder_finds_plain_addresses(captures, tmp_path):
    """Otherwise the test above would prove nothing."""
    root, _ = made(tmp_path, captures, aa='pseudonyms = "none"', bb='pseudonyms = "none"')
    found = {path.partition("/")[0] for path in Finder(ADDRESSES).in_folder(root)}
    assert {"packets", "flows", "application_log", "links"} <= found
    one = Finder({embeddings(B4)[0]})
    assert one.in_folder(root)


def test_a_network_without_pseudonyms_shows_the_others_subscribers_by_pseudonym(captures, tmp_path):
    """Its own addresses stay where they were, the other's are nowhere."""
    root, networks = made(tmp_path, captures, aa='servers = "hashed"', bb='pseudonyms = "none"')
    assert Finder({A4, A6}).in_folder(root) == []
    assert B4 in names(root, "bb", "user")
    assert all(re.fullmatch("(v6:)?[a-z2-7]{16}", name) for name in names(root, "aa"))
    assert not networks["aa"].others
    keys = user_keys(networks["aa"])
    v4_name = keys.key_of_address(A4)
    assert names(root, "bb") == {v4_name, f"v6:{v4_name}", keys.key_of_address(A6), SERVER6}


def test_no_byte_of_a_whole_run_has_an_address_of_either(captures, tmp_path):
    done = run("run", "--warehouse", tmp_path / "w", "--networks", file_with(tmp_path), captures)
    assert done.returncode == 0, done.stderr
    assert not Finder(ADDRESSES).finds((done.stdout + done.stderr).encode())
    assert Finder(ADDRESSES).in_folder(tmp_path / "w") == []


def test_plain_addresses_option_keeps_far_addresses_plain(captures, tmp_path):
    path = file_with(tmp_path)
    done = run(
        "ingest", "--plain-addresses", "--warehouse", tmp_path / "w", "--networks", path,
        "--network", "aa", captures / "aa",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {B4, B6} <= names(tmp_path / "w", "aa")


def test_captures_are_read_again_once_a_network_with_their_far_ends_is_added(captures, tmp_path):
    """A network that changes nothing of theirs does not."""
    path = tmp_path / "networks.toml"
    alone, _, _ = FILE.partition('\n[[network]]\nname = "bb"')
    store, capture = Warehouse(tmp_path / "w"), captures / "aa/a.pcap"
    read = []
    for text in (alone, FILE, FILE + WITHIN_AA):
        path.write_text(text)
        (done,) = ingest(store, [(load_networks(path)["aa"], capture)])
        read.append((done.unchanged, B4 in names(store.root, "aa")))
    assert read == [(False, True), (False, False), (True, False)]


@pytest.fixture
def across_midnight(tmp_path) -> tuple[Warehouse, dict[str, Network]]:
    """Ingest a connection of aa's user with bb's across midnight; bb's pseudonyms change daily."""
    networks = load_networks(file_with(tmp_path, bb='key_period = "day"'))
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(frames(A4, B4, 2000, MIDNIGHT - 0.2)))
    warehouse = Warehouse(tmp_path / "w")
    (done,) = ingest(warehouse, [(networks["aa"], path)])
    assert done.error is None
    return warehouse, networks


def test_far_ends_change_pseudonym_with_the_key_periods_of_their_network(
    across_midnight, monkeypatch, tmp_path
):
    warehouse, networks = across_midnight
    days = date(2004, 3, 2), date(2004, 3, 3)
    for day in days:
        rows = read_rows(PACKETS, warehouse.files(PACKETS, "aa", day))
        expected = user_keys(networks["bb"]).for_day(day).key_of_address(B4)
        assert set(rows["server"].to_pylist()) == {expected}
    assert len(names(warehouse.root, "aa")) == 2
    assert len(names(warehouse.root, "aa", "user")) == 1
    flows_job.bring_up_to_date(warehouse, [networks["aa"]])
    (flow,) = ask(warehouse, "from flows").to_arrow_table().to_pylist()
    assert flow["payload_bytes_down"] == 900
    assert flow["server"] == user_keys(networks["bb"]).for_day(days[0]).key_of_address(B4)
    whole = read_user(warehouse, "aa", days[0], flow["user"])
    assert len(whole.packets.ts) == 9
    monkeypatch.delenv(SECRET_VARIABLE)
    monkeypatch.setenv("GISCOPE_KEY_FILE", str(tmp_path / "none"))
    until_midnight = read_user(warehouse, "aa", days[0], flow["user"])
    assert len(until_midnight.packets.ts) == 4


def test_pseudonyms_of_a_network_no_longer_in_the_file_stay():
    """The own network has key periods, too."""
    day, next_day = date(2004, 3, 2), date(2004, 3, 3)
    own, far = (keys_of(network=name, secret=SECRET, key_period="day") for name in ("aa", "bb"))
    name = far.for_day(day).key_of_address(B4)
    assert own.for_day(day).translate([name], own.for_day(next_day), far_ends=True) == [name]
    with pytest.raises(
        UserError, match="aa: the pseudonyms of 2004-03-02 were made with another key"
    ):
        own.for_day(day).translate([name], own.for_day(next_day))
    knows = replace(own, other_networks=(far,))
    renamed = knows.for_day(day).translate([name], knows.for_day(next_day))
    assert renamed == [far.for_day(next_day).key_of_address(B4)]


def test_a_forgotten_user_is_removed_also_where_ipv6_embeds_the_address(captures, tmp_path):
    root, networks = made(tmp_path, captures)
    # To bb's tables aa's user is a far end, to aa's own one: here a far end of the same network.
    path = tmp_path / "own.pcap"
    own = [frames("2001:db8:a::5", far, 3000 + i) for i, far in enumerate(embeddings(A4))]
    path.write_bytes(pcap(frame for each in own for frame in each))
    store, network = Warehouse(root), networks["aa"]
    (done,) = ingest(store, [(network, path)])
    assert done.error is None
    name = user_keys(network).key_of_address(A4)
    assert f"v6:{name}" in names(root, "aa")
    forget(store, network, [name])
    assert not {name, f"v6:{name}"} & (names(root, "aa") | names(root, "aa", "user"))
