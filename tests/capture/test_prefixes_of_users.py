"""Users who are prefixes: the addresses of one access link have one name."""

import re
from ipaddress import ip_network

import numpy as np
import pytest

from spark_jobs.capture.address_text import parse_address
from spark_jobs.capture.addresses import AddressTable, split_halves, subscriber_prefixes
from spark_jobs.capture.users import AddressPools, UserKeys
from spark_jobs.settings.networks import Subscribers
from tests.helpers.subscribers_found import SECRET

POOL, ELSEWHERE = "2001:db8:64::/48", "2001:db8:ffff::1"
PHONE = ["2001:db8:64:1::a", "2001:db8:64:1:ffff::b"]
NEIGHBOUR = "2001:db8:64:2::a"
IPV4 = ["10.64.0.1", "10.64.0.2"]


def keys_of(user: int | None = None, nat64: str | None = None, **options) -> UserKeys:
    subscribers = (
        Subscribers(prefix=ip_network("10.64.0.0/14")),
        Subscribers(prefix=ip_network(POOL), user=user),
    )
    pools = AddressPools((subscribers,), (ip_network(nat64),) if nat64 else ())
    return UserKeys("a", pools=pools, **options)


def table_of(addresses: list[str]) -> AddressTable:
    table = AddressTable(subscriber_prefixes([ip_network("10.64.0.0/14"), ip_network(POOL)]), 100)
    for halves in split_halves(map(parse_address, addresses)):
        table.add(*halves.tolist())
    return table


def names_of(addresses: list[str], keys: UserKeys) -> list[str]:
    return keys.names(table_of(addresses), np.arange(1, len(addresses) + 1))


def test_addresses_of_a_64_are_one_user():
    assert names_of([*PHONE, NEIGHBOUR, *IPV4, ELSEWHERE], keys_of()) == [
        "2001:db8:64:1::/64",
        "2001:db8:64:1::/64",
        "2001:db8:64:2::/64",
        *IPV4,
        ELSEWHERE,
    ]


@pytest.mark.parametrize(
    ("user", "users"), [(48, 1), (56, 1), (63, 2), (64, 2), (65, 3), (127, 3), (128, 3)]
)
def test_the_networks_file_says_how_long_a_users_prefix_is(user, users):
    names = names_of([*PHONE, NEIGHBOUR], keys_of(user))
    assert len(set(names)) == users
    assert all(name.endswith(f"/{user}") for name in names) == (user < 128)
    pseudonyms = names_of([*PHONE, NEIGHBOUR], keys_of(user, secret=SECRET))
    assert [names.index(name) for name in names] == [pseudonyms.index(p) for p in pseudonyms]


@pytest.mark.parametrize(
    "options", [{}, {"secret": SECRET}, {"secret": SECRET, "keep_prefixes": True}]
)
def test_a_user_is_found_by_any_address(options):
    keys = keys_of(**options)
    for address, name in zip(PHONE, names_of(PHONE, keys), strict=True):
        assert keys.key_of_address(address) == name


def test_prefix_pseudonyms_of_users_keep_common_prefixes():
    keys = keys_of(secret=SECRET, keep_prefixes=True)
    phone, neighbour = (ip_network(name) for name in names_of([PHONE[0], NEIGHBOUR], keys))
    assert phone.prefixlen == neighbour.prefixlen == 64
    assert phone != neighbour
    assert phone.supernet(new_prefix=62) == neighbour.supernet(new_prefix=62)
    assert not phone.overlaps(ip_network(POOL))


@pytest.mark.parametrize("secret", [None, SECRET])
def test_addresses_that_share_a_user_have_names_of_their_own(secret):
    found = keys_of(secret=secret).names_of_all(table_of([*PHONE, *IPV4, ELSEWHERE]))
    assert found.addresses is not None
    own = found.addresses[1:]
    assert own[2:] == [None] * 3
    assert len(set(own[:2])) == 2
    if secret:
        assert all(re.fullmatch("v6:[a-z2-7]{16}", name or "") for name in own[:2])
        assert not set(own) & set(found.names)
    else:
        assert own[:2] == PHONE
    assert found.user_numbers().tolist() == [0, 1, 1, 3, 4, 5]


def test_users_of_ipv4_have_no_other_names():
    found = keys_of(secret=SECRET).names_of_all(table_of([*IPV4, ELSEWHERE]))
    assert found.addresses is None
    assert found.user_numbers() is None


def test_an_embedded_address_is_that_of_the_ipv4_user():
    embedded = "64:ff9b::a40:1"
    names = names_of([embedded, IPV4[0]], keys_of(secret=SECRET))
    assert names[0] == f"v6:{names[1]}"
    assert names_of([embedded], keys_of()) == [embedded]
