"""Access links: which addresses one link has, by RADIUS and by VLAN, and whose link it is."""

import pytest
from conftest import NOON, ask
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether

import spark_jobs.ingest.job as ingest_job
import spark_jobs.ingest.leases as leases_job
import spark_jobs.jobs.flows as flows_job
from schemas.zeek import ACCOUNTING_LOG
from spark_jobs.capture.users import user_keys, without_vlan
from spark_jobs.jobs import quality
from spark_jobs.settings.networks import Subscribers
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.accounting_messages import HOUR, START, STOP, UPDATE, message, put
from tests.helpers.capture_files import Frame, pcap
from tests.helpers.quic_layers import Ends, connection
from tests.helpers.zeek_logs import package_log

pytestmark = pytest.mark.usefixtures("in_this_process")

IPV4, PREFIX, IPV6 = "10.64.0.1", "2001:db8:64:1::/64", ["2001:db8:64:1::a", "2001:db8:64:1::b"]
OTHER = "10.64.0.2"
SECOND = 1_000_000


@pytest.fixture(params=["none", "keyed"])
def network(request, network):
    subscribers = tuple(Subscribers(prefix=p) for p in ("10.64.0.0/14", "2001:db8:64::/48"))
    options = {"pseudonyms": request.param, "subscribers": subscribers, "user_partitions": 64}
    return network.model_copy(update=options)


def handshake(mobile: str, at_s: float, isn: int = 0, vlan: int | None = None) -> list[Frame]:
    """Return a connection of 0.2 s: a handshake, a request and a response."""
    ipv6, port = ":" in mobile, 40000
    server = "2001:db8:5::7" if ipv6 else "198.51.100.7"
    steps = [
        (True, TCP(flags="S", seq=isn)),
        (False, TCP(flags="SA", seq=0, ack=isn + 1)),
        (True, TCP(flags="PA", seq=isn + 1, ack=1) / bytes(100)),
        (False, TCP(flags="PA", seq=1, ack=isn + 101) / bytes(1000)),
        (True, TCP(flags="A", seq=isn + 101, ack=1001)),
    ]
    frames = []
    for number, (up, segment) in enumerate(steps):
        source, target = (mobile, server) if up else (server, mobile)
        segment.sport, segment.dport = (port, 80) if up else (80, port)
        ends = {"src": source, "dst": target}
        packet = IPv6(**ends) if ipv6 else IP(**ends, id=isn + number + 1)
        link = Ether() / Dot1Q(vlan=vlan) if vlan else Ether()
        at_us = NOON * SECOND + round((at_s + 0.05 * number) * SECOND)
        frames.append(Frame(bytes(link / packet / segment), at_us))
    return frames


def put_packets(warehouse, network, *frames: Frame, name: str = "a.pcap") -> None:
    path = warehouse.root.parent / name
    path.write_bytes(pcap(sorted(frames, key=lambda frame: frame.ts), 1))
    (result,) = ingest_job.ingest(warehouse, [(network, path)])
    assert result.error is None


def flows(warehouse, network) -> list[tuple]:
    """Return (user, link, single, parallel, other bytes) of the connections, by start."""
    leases_job.update_leases(warehouse, [network])
    flows_job.bring_up_to_date(warehouse, [network])
    query = (
        'select "user", link, single, parallel, server, ip_bytes_down from flows order by start_ts'
    )
    return ask(warehouse, query).fetchall()


def one_bearer(**more: str) -> list[list[dict]]:
    """Return the ways in which RADIUS says that IPV4 and PREFIX are of one bearer."""
    plain = {"address": IPV4, "prefixes": PREFIX}
    alone = [{"address": IPV4}, {"address": "-", "prefixes": PREFIX}]
    return [
        [message(NOON - HOUR, START, "a", **plain, **more)],
        *(
            [
                message(NOON - HOUR, START, "a", session=f"s{n}", **{key: "7"}, **one, **more)
                for n, one in enumerate(alone)
            ]
            for key in ("charging", "multi_session")
        ),
    ]


@pytest.mark.parametrize("messages", one_bearer(), ids=["a session", "charging", "multi-session"])
def test_both_families_of_a_bearer_are_one_link(warehouse, network, messages):
    """Connections at the same time, of IPv4 and of two addresses of the prefix."""
    put(warehouse, network, *messages)
    put_packets(
        warehouse,
        network,
        *handshake(IPV4, 0.00),
        *handshake(IPV6[0], 0.01),
        *handshake(IPV6[1], 0.02),
    )
    found = flows(warehouse, network)
    subscriber = user_keys(network).key_of_identity("a")
    assert [row[:4] for row in found] == [(subscriber, subscriber, False, 3)] * 3


def test_moved_packets_are_read_in_an_object_store_and_leave_nothing(
    bucket, uri, network, tmp_path
):
    """uri: of the catalog."""
    warehouse = Warehouse(bucket / "w")
    log, capture = tmp_path / "giscope_accounting.log", tmp_path / "a.pcap"
    log.write_text(package_log(ACCOUNTING_LOG, one_bearer()[0]))
    packets = [*handshake(IPV4, 0), *handshake(IPV6[0], 1), *handshake(IPV6[1], 2)]
    capture.write_bytes(pcap(packets, 1))
    results = ingest_job.ingest(warehouse, [(network, log), (network, capture)])
    assert [result.error for result in results] == [None, None]
    subscriber = user_keys(network).key_of_identity("a")
    assert [row[:2] for row in flows(warehouse, network)] == [(subscriber, subscriber)] * 3
    assert not [name for name, _ in warehouse.root.walk() if "moved" in name]


def test_quic_of_one_family_is_other_traffic_of_tcp_of_the_other(warehouse, network):
    put(warehouse, network, *one_bearer()[0])
    quic = connection(ends=Ends(user=IPV6[0], server="2001:db8:5::9"))
    seen = [
        Frame(bytes(Ether() / IPv6(each.packet)), NOON * SECOND + 40_000 * number)
        for number, each in enumerate(quic)
    ]
    put_packets(warehouse, network, *handshake(IPV4, 0), *seen)
    subscriber = user_keys(network).key_of_identity("a")
    assert [row[:4] for row in flows(warehouse, network)] == [(subscriber, subscriber, False, 2)]
    found = ask(warehouse, 'select "user", link from quic_flows').fetchall()
    assert found == [(subscriber, subscriber)]


def test_without_radius_the_families_are_two_users(warehouse, network):
    put_packets(warehouse, network, *handshake(IPV4, 0), *handshake(IPV6[0], 0))
    users = [row[0] for row in flows(warehouse, network)]
    assert len({*users}) == 2
    assert [row[1] for row in flows(warehouse, network)] == users
    quality.check(warehouse, [network])
    query = "select value, finding from quality where measure = 'ipv6_share'"
    [(share, finding)] = ask(warehouse, query).fetchall()
    assert share == 0.5
    assert "two users" in finding
    assert ask(warehouse, "select packets, ipv6_packets from ingest_log").fetchall() == [(10, 5)]


def test_with_radius_the_finding_does_not_speak_of_two_users(warehouse, network):
    put(warehouse, network, *one_bearer()[0])
    put_packets(warehouse, network, *handshake(IPV4, 0), *handshake(IPV6[0], 0))
    flows(warehouse, network)
    quality.check(warehouse, [network])
    query = "select finding from quality where measure = 'ipv6_share'"
    assert ask(warehouse, query).fetchall() == [("50.00% of the packets are IPv6",)]


def test_two_bearers_of_a_subscriber_are_two_links_of_one_user(warehouse, network):
    put(
        warehouse,
        network,
        message(NOON - HOUR, START, "a", session="internet", address=IPV4),
        message(NOON - HOUR, START, "a", session="ims", address=OTHER),
    )
    put_packets(warehouse, network, *handshake(IPV4, 0), *handshake(OTHER, 0.01))
    first, second = flows(warehouse, network)
    subscriber = user_keys(network).key_of_identity("a")
    assert first[0] == second[0] == subscriber
    assert first[1] != second[1]
    assert all(row[1].startswith(f"{subscriber}/") for row in (first, second))
    assert [row[2:4] for row in (first, second)] == [(True, 1)] * 2
    links = ask(warehouse, 'select "user", link from leases order by address').fetchall
    assert [row[1] for row in (first, second)] == sorted(
        {row[1] for row in links()}, key=[first[1], second[1]].index
    )


def test_the_same_charging_id_at_another_access_server_is_another_bearer(warehouse, network):
    put(
        warehouse,
        network,
        message(NOON, START, "a", session="s", address=IPV4, charging="7"),
        message(NOON, START, "a", session="t", address=OTHER, charging="7", nas="192.0.2.2"),
    )
    leases_job.update_leases(warehouse, [network])
    assert ask(warehouse, "select count(distinct link) from leases").fetchone() == (2,)


def test_a_session_that_got_its_address_again_is_the_same_link(warehouse, network):
    put(
        warehouse,
        network,
        message(NOON - 3 * HOUR, START, "a", session="s", address=IPV4),
        message(NOON - 2 * HOUR, STOP, "a", session="s", address=IPV4),
        message(NOON - HOUR, START, "a", session="t", address=IPV4),
    )
    leases_job.update_leases(warehouse, [network])
    rows = ask(warehouse, "select distinct subscriber, link from leases").fetchall()
    assert [subscriber for subscriber, _ in rows] == [link for _, link in rows]
    assert len(rows) == 1


def test_a_stop_ends_the_addresses_that_it_does_not_name(warehouse, network):
    put(
        warehouse,
        network,
        message(NOON, START, "a", address=IPV4, prefixes=PREFIX),
        message(NOON + HOUR, STOP, "a", address=IPV4),
    )
    leases_job.update_leases(warehouse, [network])
    ends = ask(warehouse, "select distinct epoch(end_ts) from leases").fetchall()
    assert ends == [(NOON + HOUR,)]


@pytest.mark.parametrize(("prefix", "users"), [("/64", 1), ("/60", 16), ("/56", 256), ("/55", 0)])
def test_a_delegated_prefix_is_a_lease_of_each_user_within_it(warehouse, network, prefix, users):
    result = put(
        warehouse,
        network,
        message(NOON, START, "a", address="-", prefixes=f"2001:db8:64:100::{prefix}"),
    )
    leases_job.update_leases(warehouse, [network])
    assert ask(warehouse, "select count(distinct address) from leases").fetchone() == (users,)
    assert result.facts.skipped.get("no_lease", 0) == (users == 0)


def test_users_in_two_vlans_with_one_address_are_two(warehouse, network):
    """With the same ports at the same time; and a check detects it."""
    packets = [*handshake(IPV4, 0, vlan=101), *handshake(IPV4, 0.01, 5000, vlan=102)]
    put_packets(warehouse, network, *packets, *handshake(OTHER, 1, vlan=101))
    found = flows(warehouse, network)
    address = user_keys(network).key_of_address(IPV4)
    users = [f"{address}@101", f"{address}@102", user_keys(network).key_of_address(OTHER)]
    assert [row[:4] for row in found] == [(user, user, True, 1) for user in users]
    quality.check(warehouse, [network])
    query = "select value from quality where measure = 'vlan_tuples'"
    assert ask(warehouse, query).fetchall() == [(1.0,)]


def test_a_mirror_with_a_vlan_for_each_direction_sees_one_user(warehouse, network):
    up, down = handshake(IPV4, 0, vlan=101), handshake(IPV4, 0, vlan=102)
    frames = [down[n] if n in (1, 3) else up[n] for n in range(5)]
    put_packets(warehouse, network, *frames)
    address = user_keys(network).key_of_address(IPV4)
    assert [row[:2] for row in flows(warehouse, network)] == [(address, address)]
    quality.check(warehouse, [network])
    query = "select value from quality where measure = 'vlan_tuples'"
    assert ask(warehouse, query).fetchall() == [(0.0,)]


def test_duplicates_in_two_vlans_are_duplicates(warehouse, network):
    """As of a mirror before and after a router, each with a VLAN."""
    before, after = handshake(IPV4, 0, vlan=101), handshake(IPV4, 0.0002, vlan=102)
    put_packets(warehouse, network, *before, *after)
    [row] = flows(warehouse, network)
    assert row[0] == user_keys(network).key_of_address(IPV4)
    assert ask(warehouse, "select skipped['duplicate'] from ingest_log").fetchall() == [(5,)]


def test_a_network_may_be_some_vlans(warehouse, network):
    in_vlan = network.model_copy(update={"vlans": (102,)})
    packets = [*handshake(IPV4, 0, vlan=101), *handshake(IPV4, 1, vlan=102), *handshake(OTHER, 2)]
    put_packets(warehouse, in_vlan, *packets)
    assert len(flows(warehouse, in_vlan)) == 1
    query = "select distinct vlan from packets"
    assert ask(warehouse, query).fetchall() == [(102,)]
    query = "select skipped['not_subscriber'] from ingest_log"
    assert ask(warehouse, query).fetchall() == [(10,)]


def test_many_hosts_behind_one_address_are_detected(warehouse, network):
    """A mobile with its tethered hosts has four TTLs; a NAT's address has more."""
    frames = []
    for number, mobile in enumerate([IPV4] * 4 + [OTHER] * 5):
        port = 40000 + number
        syn = IP(src=mobile, dst="198.51.100.7", ttl=60 - number) / TCP(sport=port, flags="S")
        frames.append(Frame(bytes(Ether() / syn), (NOON + number) * SECOND))
    put_packets(warehouse, network, *frames)
    flows(warehouse, network)
    quality.check(warehouse, [network])
    query = "select value, finding from quality where measure = 'shared_share'"
    [(share, finding)] = ask(warehouse, query).fetchall()
    assert share == pytest.approx(5 / 9)
    assert "by users (1)" in finding


def test_a_session_id_that_is_used_again_keeps_both_leases(warehouse, network):
    put(
        warehouse,
        network,
        message(NOON - 5 * HOUR, START, "a", session="1", address=IPV4),
        message(NOON - 4 * HOUR, STOP, "a", session="1", address=IPV4),
        message(NOON - 3 * HOUR, START, "a", session="1", address=OTHER),
    )
    leases_job.update_leases(warehouse, [network])
    assert ask(warehouse, "select count(distinct address) from leases").fetchone() == (2,)


def test_a_prefix_that_a_later_message_adds_begins_with_this_message(warehouse, network):
    late = {"address": IPV4, "prefixes": PREFIX, "session_time": f"{6 * HOUR}"}
    put(
        warehouse,
        network,
        message(NOON - 6 * HOUR, START, "a", address=IPV4),
        message(NOON - 5 * HOUR, START, "b", address="-", prefixes=PREFIX),
        message(NOON - 1 * HOUR, STOP, "b", address="-", prefixes=PREFIX),
        message(NOON, UPDATE, "a", **late),
    )
    leases_job.update_leases(warehouse, [network])
    prefix = user_keys(network).key_of_address(IPV6[0])
    query = f"""
        select (epoch(min(start_ts)) - {NOON}) / {HOUR}, (epoch(max(end_ts)) - {NOON}) / {HOUR}
        from leases where address = '{prefix}' group by subscriber order by 1
    """
    assert ask(warehouse, query).fetchall() == [(-5, -1), (0, 24)]


def test_families_of_one_bearer_in_two_vlans_are_one_link(warehouse, network):
    """RADIUS says whose they are, so VLANs do not."""
    put(warehouse, network, *one_bearer()[0])
    packets = [*handshake(IPV4, 0, vlan=101), *handshake(IPV6[0], 0.01, vlan=102)]
    put_packets(warehouse, network, *packets, *handshake(IPV4, 1, 5000, vlan=103))
    subscriber = user_keys(network).key_of_identity("a")
    found = flows(warehouse, network)
    assert [row[:3] for row in found] == [
        (subscriber, subscriber, parallel < 2) for parallel in (2, 2, 1)
    ]


def test_packets_of_a_vlan_with_one_direction_are_of_the_first_of_two_users(warehouse, network):
    """Untagged frames, VLAN 101, and frames up in VLAN 102 and down in VLAN 103."""
    up, down = handshake(IPV4, 1, 7000, vlan=102), handshake(IPV4, 1, 7000, vlan=103)
    mixed = [down[n] if n in (1, 3) else up[n] for n in range(5)]
    put_packets(warehouse, network, *handshake(IPV4, 0), *handshake(IPV4, 0.01, 5000, 101), *mixed)
    found = flows(warehouse, network)
    address = user_keys(network).key_of_address(IPV4)
    assert [row[1] for row in found] == [address, f"{address}@101", address]
    query = "select count(*), count(distinct (link, hour)) from links"
    assert ask(warehouse, query).fetchone() == (2, 2)


def test_other_vlans_of_a_network_are_another_reading_of_its_captures(warehouse, network):
    packets = [*handshake(IPV4, 0, vlan=101), *handshake(OTHER, 1, vlan=102)]
    put_packets(warehouse, network, *packets)
    assert len(flows(warehouse, network)) == 2
    in_vlan = network.model_copy(update={"vlans": (102,)})
    put_packets(warehouse, in_vlan, *packets)
    assert len(flows(warehouse, in_vlan)) == 1


@pytest.mark.parametrize("key", ["10.0.0.1@7", "2001:db8::/64@7", "abcdefghijklmnop@8199"])
def test_only_addresses_and_pseudonyms_have_a_vlan(key):
    """A name in RADIUS messages may have the mark, too (RFC 7542)."""
    assert without_vlan(key) == key.split("@")[0]
    assert without_vlan("bob@a.example") == "bob@a.example"
    assert without_vlan("anna@7") == "anna@7"


def labels(warehouse, network, *columns: str) -> list[tuple]:
    """Return these labels of the connections, by start."""
    flows(warehouse, network)
    return ask(warehouse, f"select {', '.join(columns)} from flows order by start_ts").fetchall()


TAI_AND_ECGI = "8262f2201a2b62f22000abcdef"
OF_SESSION = {
    "apn": "internet.mnc002.mcc262.gprs", "rat": "06", "area": TAI_AND_ECGI, "device": "35209900",
    "home": "26202", "visited": "310410", "qci": "08-4D09000003E8000007D0",
}  # fmt: skip


def test_a_connection_has_the_labels_of_its_start(warehouse, network):
    """An update names another radio; what it does not name stays. After the stop there are none."""
    put(
        warehouse,
        network,
        message(NOON - HOUR, START, "a", **OF_SESSION),
        message(NOON + 10, UPDATE, "a", rat="0a"),
        message(NOON + HOUR, STOP, "a"),
    )
    put_packets(
        warehouse, network, *handshake(IPV4, 0), *handshake(IPV4, 20, isn=10_000),
        *handshake(IPV4, 2 * HOUR, isn=20_000),
    )  # fmt: skip
    found = labels(warehouse, network, "apn", "rat", "home", "visited", "qci", "rat_changed")
    assert found == [
        ("internet", "EUTRAN", "262-02", "310-410", 9, False),
        ("internet", "NR", "262-02", "310-410", 9, False),
        (None, None, None, None, None, None),
    ]


def test_a_connection_may_outlive_its_radio(warehouse, network):
    put(
        warehouse,
        network,
        message(NOON - HOUR, START, "a", rat="06"),
        message(NOON + 5, UPDATE, "a", rat="01"),
    )
    last = handshake(IPV4, 10)[-1]
    put_packets(warehouse, network, *handshake(IPV4, 0), last)
    assert labels(warehouse, network, "rat", "rat_changed") == [("EUTRAN", True)]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, (None, None)),
        ({"area": "area", "device": "model"}, ("TAI 262-02 1a2b", "35209900")),
        ({"area": "cell"}, ("ECGI 262-02 00abcdef", None)),
    ],
)
def test_places_and_devices_are_stored_as_the_networks_file_says(
    warehouse, network, options, found
):
    network = network.model_copy(update=options)
    put(warehouse, network, message(NOON - HOUR, START, "a", **OF_SESSION))
    put_packets(warehouse, network, *handshake(IPV4, 0))
    assert labels(warehouse, network, "area", "device") == [found]


def test_a_change_of_the_settings_reads_the_log_again(warehouse, network):
    put(warehouse, network, message(NOON - HOUR, START, "a", **OF_SESSION))
    put_packets(warehouse, network, *handshake(IPV4, 0))
    assert labels(warehouse, network, "area") == [(None,)]
    network = network.model_copy(update={"area": "area"})
    put(warehouse, network, message(NOON - HOUR, START, "a", **OF_SESSION))
    assert labels(warehouse, network, "area") == [("TAI 262-02 1a2b",)]


def test_both_families_have_the_labels_of_their_bearer(warehouse, network):
    put(
        warehouse, network,
        message(NOON - HOUR, START, "a", address=IPV4, prefixes=PREFIX, rat="0a"),
    )  # fmt: skip
    put_packets(warehouse, network, *handshake(IPV4, 0), *handshake(IPV6[0], 1))
    assert labels(warehouse, network, "rat") == [("NR",), ("NR",)]
