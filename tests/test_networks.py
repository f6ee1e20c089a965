"""The networks file: each mistake in it is reported in one line."""

import pytest
from conftest import NETWORKS_FILE

from spark_jobs.base.errors import UserError
from spark_jobs.settings.networks import Network, find_network, load_networks

GOOD = """
[[network]]
name = "aa-gprs"
country = "AA"
access = "gprs"
timezone = "Europe/Budapest"
subscribers = ["10.64.0.0/14", "2001:db8::/32"]
"""


def load(tmp_path, text: str):
    path = tmp_path / "networks.toml"
    path.write_text(text)
    return load_networks(path)


def test_defaults_are_the_papers(tmp_path):
    network = load(tmp_path, GOOD)["aa-gprs"]
    assert network.peak_hours == (10, 12)
    assert network.off_peak_hours == (3, 7)
    assert network.flight_size_bytes == 4500


def test_sample_file_is_valid():
    assert set(load_networks(NETWORKS_FILE)) == {"aa-gprs", "bb-gprs", "cc-dialup", "dd-lte"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", r"no \[\[network\]\]"),
        ("x = [", "not TOML"),
        ("network = 3", r"no \[\[network\]\]"),
        ("network = [3]", "network number 1"),
        (GOOD + GOOD, "two networks are named 'aa-gprs'"),
        (GOOD.replace('"AA"', '"Hungary"'), "network aa-gprs: country"),
        (GOOD.replace("Europe/Budapest", "Europe/Nowhere"), 'Nowhere": no such time zone'),
        (GOOD.replace("10.64.0.0/14", "10.64.0.1/14"), "network aa-gprs: subscribers.0"),
        (GOOD.replace('["10.64.0.0/14", "2001:db8::/32"]', "[]"), "network aa-gprs: subscribers"),
        (GOOD + "peak_hours = [12, 12]", "peak_hours: .* two different hours"),
        (GOOD + "peak_hours = [24, 5]", "peak_hours: .* two different hours"),
        (
            GOOD + "peak_hours = [3, 12]",
            r"peak_hours = \[3, 12\] and .*= \[3, 7\] overlap: set both",
        ),
        (GOOD + "peak_hours = [23, 4]", "overlap: set both"),
        (GOOD + 'peak_hours = "busy"', 'peak_hours: "busy"'),
        (GOOD + 'peak_hours = "busiest"\noff_peak_hours = [3, 7]', "sets off_peak_hours, too"),
        (GOOD.replace("Europe/Budapest", "EST"), 'timezone: "EST": has no summer time: .*New_York'),
        (GOOD + "peak_hours = [12]", "network aa-gprs: peak_hours"),
        (GOOD + "min_users = 33", "network aa-gprs: min_users: 33: .*32"),
        (GOOD + "min_users = -1", "network aa-gprs: min_users: -1: .*0"),
        (GOOD + "subscriber = []", "network aa-gprs: subscriber:"),
        (GOOD.replace("aa-gprs", "../aa"), "network ../aa: name"),
        (GOOD.replace("10.64.0.0/14", "10.64.3.1/14"), r"10\.64\.3\.1/14.* is 10\.64\.0\.0/14$"),
        (GOOD.replace("2001:db8::/32", "2001:db8::1/32"), r"subscribers\.1: .* is 2001:db8::/32$"),
        (GOOD.replace('"10.64.0.0/14"', "167772160"), "subscribers.0: 167772160: .*in quotes"),
        (GOOD.replace('"10.64.0.0/14"', "true"), "subscribers.0: true: .*in quotes"),
        (
            GOOD.replace("10.64.0.0/14", "10.64.0.0/33"),
            'subscribers.0: "10.64.0.0/33": not an IPv4',
        ),
        (GOOD.replace("10.64.0.0/14", "1" * 5000), "subscribers.0: .{60,70}: not an IPv4"),
        (GOOD.replace('["10.64.0.0/14", "2001:db8::/32"]', '"10.0.0.0/8"'), "should be a list"),
        (GOOD.replace('"aa-gprs"', "3"), "network number 1: name: 3: .*string"),
        (GOOD.replace('country = "AA"', ""), "network aa-gprs: country: is missing"),
        (GOOD + 'peak_hours = ["10", 12]', 'peak_hours.0: "10": .*integer'),
        (GOOD + "peak_hours = 10", "peak_hours: 10: should be a list"),
        (GOOD + "user_partitions = true", "user_partitions: true: .*integer"),
        (GOOD + 'user_partitions = "8"', 'user_partitions: "8": .*integer'),
        (GOOD + "initial_rto_s = inf", "initial_rto_s: .*finite"),
        (GOOD + "quality = 3", "quality: 3: should be a table"),
        (GOOD + "[network.quality]\nskipped_share = 2", "quality.skipped_share: 2: .*equal to 1"),
        (
            GOOD + 'nat64 = ["64:ff9b::/97"]',
            r"nat64\.0: .*IPv6 prefix of 32, 40, .* bits \(RFC 6052\)",
        ),
        (GOOD + 'nat64 = ["10.0.0.0/8"]', r"nat64\.0: .*IPv6 prefix of 32, 40"),
        (GOOD + 'nat64 = ["2001:db8:0:0:100::/96"]', r"nat64\.0: .*bits 64 to 71 should be 0"),
        (GOOD + "[network.quality]\nskipped = 2", "quality.skipped: 2: no such key"),
    ],
)
def test_mistakes_name_file_network_and_key(tmp_path, text, reason):
    with pytest.raises(UserError, match=reason) as error:
        load(tmp_path, text)
    assert str(error.value).startswith(str(tmp_path / "networks.toml"))
    assert "\n" not in str(error.value)
    assert "pydantic" not in str(error.value)
    assert "lax-or-strict" not in str(error.value)


def test_every_mistake_has_a_line_of_its_own(tmp_path):
    other = GOOD.replace("aa-gprs", "bb").replace('"AA"', '"x"') + "user_partitions = 0"
    with pytest.raises(UserError) as error:
        load(tmp_path, GOOD.replace("10.64.0.0/14", "10.64.0.1/14") + "peak_hours = [2, 2]" + other)
    lines = str(error.value).splitlines()
    file = f"{tmp_path}/networks.toml: network"
    assert [line.removeprefix(file).split(": ")[:2] for line in lines] == [
        [" aa-gprs", "subscribers.0"],
        [" aa-gprs", "peak_hours"],
        [" bb", "country"],
        [" bb", "user_partitions"],
    ]


def test_integers_and_single_addresses_are_accepted(tmp_path):
    """An integer where a fraction may be; a host as a prefix of its own."""
    text = GOOD.replace("10.64.0.0/14", "10.64.0.1") + "slot_rate = 13400\npeak_hours = [23, 3]"
    network = load(tmp_path, text)["aa-gprs"]
    assert network.slot_rate == 13400
    assert network.peak_hours == (23, 3)
    assert str(network.prefixes[0]) == "10.64.0.1/32"
    assert Network(**network.model_dump()) == network


def test_a_network_knows_the_others(tmp_path):
    """But not networks without pseudonyms, nor prefixes within its own."""
    more = {"bb": '"10.0.0.0/8", "10.65.0.0/16"', "cc": '"10.66.0.0/16"', "dd": '"192.0.2.0/24"'}
    text = GOOD + 'nat64 = ["2001:db8:64::/96"]'
    for name, prefixes in more.items():
        text += GOOD.replace("aa-gprs", name).replace(
            '["10.64.0.0/14", "2001:db8::/32"]', f"[{prefixes}]"
        )
    networks = load(tmp_path, text + 'pseudonyms = "none"')
    others = {
        name: {other.name: [str(p) for p in other.prefixes] for other in network.others}
        for name, network in networks.items()
    }
    assert others == {
        "aa-gprs": {"bb": ["10.0.0.0/8"]},
        "bb": {"aa-gprs": ["2001:db8::/32"]},
        "cc": {
            "aa-gprs": ["10.64.0.0/14", "2001:db8::/32"],
            "bb": ["10.0.0.0/8", "10.65.0.0/16"],
        },
        "dd": {
            "aa-gprs": ["10.64.0.0/14", "2001:db8::/32"],
            "bb": ["10.0.0.0/8", "10.65.0.0/16"],
            "cc": ["10.66.0.0/16"],
        },
    }
    assert {tuple(map(str, n.nat64)) for n in networks.values()} == {("2001:db8:64::/96",)}
    assert [name for name, network in networks.items() if not network.needs_key] == []
    plain = networks["cc"].with_plain_addresses()
    assert (plain.others, plain.needs_key) == ((), False)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.toml: No such file"):
        load_networks(tmp_path / "none.toml")


def test_unknown_network_lists_the_known(tmp_path):
    with pytest.raises(UserError, match="no network 'zz'; it has aa-gprs"):
        find_network(load(tmp_path, GOOD), "zz", tmp_path)
