"""The hint that a capture with few packets of subscribers gives: the likely prefix."""

from collections import Counter
from ipaddress import ip_network

import pytest
from conftest import CAPTURES, ask

from spark_jobs.capture.subscribers_hint import _likely_prefix
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.settings.networks import Subscribers
from spark_jobs.warehouse.store import Warehouse

CAPTURE = CAPTURES / "aa-gprs/off-peak.pcap.zst"
LIKELY = "100 % of its SYNs come from 10.64.0.0/14: is this the prefix of the mobiles?"


def test_a_wrong_prefix_gets_the_one_that_the_lab_uses(tmp_path, network):
    """The lab's mobiles have addresses in all of 10.64.0.0/14. Nothing of them is stored."""
    wrong = network.model_copy(update={"subscribers": (Subscribers(prefix="192.168.0.0/16"),)})
    warehouse = Warehouse(tmp_path)
    outcome = ingest_capture(warehouse, wrong, CAPTURE)
    assert outcome.notes == [
        f"{CAPTURE}: 100 % of its IP packets are of no subscriber of aa-gprs; {LIKELY}"
    ]
    assert "no packet of a subscriber" in (outcome.error or "")
    stored = ask(warehouse, "from ingest_log").fetchall()
    assert "10.64" not in str(stored)


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("0.0.0.0/0", "both ends of the packets are subscribers of aa-gprs, servers, too"),
        ("198.51.100.0/24", "all SYNs go to the subscribers of aa-gprs, as to servers"),
        ("10.65.0.0/16", "% of its IP packets are of no subscriber of aa-gprs"),
    ],
)
def test_a_prefix_that_the_packets_contradict_is_reported(tmp_path, network, prefix, words):
    """Everyone; the servers; a part of the mobiles with less than a quarter of the packets."""
    wrong = network.model_copy(update={"subscribers": (Subscribers(prefix=prefix),)})
    [note] = ingest_capture(Warehouse(tmp_path), wrong, CAPTURE).notes
    assert words in note
    assert note.endswith(LIKELY)


def test_the_right_prefix_gets_no_hint(tmp_path, network):
    assert ingest_capture(Warehouse(tmp_path), network, CAPTURE).notes == []


@pytest.mark.parametrize(
    ("sources", "prefix", "share"),
    [
        # 10 of 100 SYNs come from elsewhere, as those of a scan do.
        ({"10.1.0.1": 45, "10.1.255.1": 45, "198.51.100.1": 10}, "10.1.0.0/16", 0.9),
        # Never a single user's address: not more of it than a network on the Internet has.
        ({"10.1.2.3": 9}, "10.1.2.0/24", 1),
        ({"2001:db8:1:2::3": 9}, "2001:db8:1::/48", 1),
        # No prefix has most: the usual length.
        ({"10.1.2.3": 6, "198.51.100.1": 4}, "10.1.0.0/16", 0.6),
        # The IP version with most SYNs, of all SYNs.
        ({"2001:db8:1::1": 3, "10.1.2.3": 1}, "2001:db8::/32", 0.75),
    ],
)
def test_likely_prefix(sources, prefix, share):
    assert _likely_prefix(Counter(sources)) == (ip_network(prefix), pytest.approx(share))


def test_without_syns_nothing_is_likely():
    assert _likely_prefix(Counter()) is None
