"""An address belongs to a subscriber of the network itself or of another one, also when an IPv6
address embeds it."""

from ipaddress import IPv6Address, ip_address, ip_network

import numpy as np
import pytest

from spark_jobs.capture.address_text import format_address, parse_address
from spark_jobs.capture.addresses import split_halves
from spark_jobs.capture.network_lookup import NO_NETWORK, NetworkLookup
from spark_jobs.settings.networks import Subscribers
from tests.helpers.embedded_addresses import FAR_USER, embedded, teredo

OWN, FAR = "10.64.0.0/14", "203.0.113.0/24"


def lookup(*subscribers: list[str], nat64: tuple[str, ...] = ()) -> NetworkLookup:
    networks = [[Subscribers(prefix=prefix) for prefix in of_one] for of_one in subscribers]
    return NetworkLookup(networks, tuple(map(ip_network, nat64)))


def owner(address: str, *subscribers: list[str], nat64: tuple[str, ...] = ()) -> tuple[int, str]:
    """Return the network's place, and the embedded IPv4 address by which it was found."""
    owners = lookup(*(subscribers or ([OWN], [FAR])), nat64=nat64)
    (network,), (ipv4,), *_ = owners.find(split_halves([parse_address(address)]))
    return int(network), format_address(bytes(8) + int(ipv4).to_bytes(8, "big")) if ipv4 else ""


RFC_6052 = {
    "2001:db8::/32": "2001:db8:c000:221::",
    "2001:db8:100::/40": "2001:db8:1c0:2:21::",
    "2001:db8:122::/48": "2001:db8:122:c000:2:2100::",
    "2001:db8:122:300::/56": "2001:db8:122:3c0:0:221::",
    "2001:db8:122:344::/64": "2001:db8:122:344:c0:2:2100::",
    "2001:db8:122:344::/96": "2001:db8:122:344::192.0.2.33",
}
"""The examples of section 2.4, of 192.0.2.33."""


@pytest.mark.parametrize("prefix", RFC_6052)
def test_addresses_behind_a_translator_are_recognized_as_in_its_rfc(prefix):
    address = RFC_6052[prefix]
    assert ip_address(embedded(prefix, "192.0.2.33")) == ip_address(address)
    networks = ([OWN], ["192.0.2.33"])
    assert owner(address, *networks, nat64=(prefix,)) == (1, "192.0.2.33")
    assert owner(address, *networks) == (NO_NETWORK, "")
    assert owner(address, [OWN], ["192.0.2.32"], nat64=(prefix,)) == (NO_NETWORK, "")


EMBEDDING = {
    "6to4": str(IPv6Address(0x2002 << 112 | int(ip_address(FAR_USER)) << 80 | 0x1_0000_1234)),
    "nat64": f"64:ff9b::{FAR_USER}",
    "nat64 of a site, 96": embedded("64:ff9b:1:abcd::/96"),
    "nat64 of a site, 64": embedded("64:ff9b:1:abcd::/64"),
    "nat64 of a site, 56": embedded("64:ff9b:1:ab00::/56"),
    "nat64 of a site, 48": embedded("64:ff9b:1::/48"),
    "teredo": teredo(FAR_USER),
    "compatible": f"::{FAR_USER}",
    "translated": f"::ffff:0:{FAR_USER}",
    "isatap": f"2001:db8:1:2:200:5efe:{FAR_USER}",
    "isatap, private": f"2001:db8:1:2:0:5efe:{FAR_USER}",
}


@pytest.mark.parametrize("kind", EMBEDDING)
def test_an_address_that_embeds_a_subscribers_is_recognized(kind):
    address = EMBEDDING[kind]
    assert owner(address) == (1, FAR_USER)
    assert owner(address, [FAR], [OWN]) == (0, FAR_USER)
    assert owner(address, [OWN], ["203.0.112.0/24"]) == (NO_NETWORK, "")


def test_an_ipv4_mapped_address_is_the_ipv4_address():
    assert owner(f"::ffff:{FAR_USER}") == owner(FAR_USER) == (1, "")


def test_a_teredo_server_is_recognized_without_an_embedded_address():
    """All hosts behind a Teredo server are not one: the pseudonym is that of the whole address."""
    assert owner(teredo("198.51.100.1", server=FAR_USER)) == (1, "")


def test_addresses_that_only_look_alike_belong_to_no_network():
    """A site's NAT64 prefix that begins as a subscriber's address would: the rest differs."""
    alike = "64:ff9b:1:cb00:71:4d00:c633:6401"
    assert owner(alike) == (NO_NETWORK, "")
    assert owner("2003:cb00:714d::1") == (NO_NETWORK, "")
    assert owner("2001:db8::203.0.113.77") == (NO_NETWORK, "")


def test_of_several_networks_the_own_one_comes_first_then_the_longest_prefix():
    assert owner("10.64.1.1", ["10.0.0.0/8"], ["10.64.0.0/16"]) == (0, "")
    assert owner("10.64.1.1", [FAR], ["10.0.0.0/8"], ["10.64.0.0/16"]) == (2, "")
    assert owner("10.64.1.1", [FAR], ["10.64.0.0/16"], ["10.64.0.0/16"]) == (1, "")
    assert owner("64:ff9b::10.64.1.1", ["10.0.0.0/8"], ["10.64.0.0/16"]) == (0, "10.64.1.1")
    assert owner(f"64:ff9b::{FAR_USER}", [OWN], [FAR], ["64:ff9b::/96"]) == (2, "")


def test_many_addresses_are_looked_up_at_once():
    addresses = [
        parse_address(text) for text in (FAR_USER, "192.0.2.1", "10.64.0.9", EMBEDDING["6to4"])
    ]
    networks, ipv4, *_ = lookup([OWN], [FAR]).find(split_halves(addresses))
    assert networks.tolist() == [1, NO_NETWORK, 0, 1]
    assert np.flatnonzero(ipv4).tolist() == [3]
