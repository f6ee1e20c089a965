"""The networks file: what is wrong in it is said in one line."""

import pytest
from conftest import NETWORKS_FILE

from spark_jobs.errors import UserError
from spark_jobs.networks import find_network, load_networks

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
    assert set(load_networks(NETWORKS_FILE)) == {"aa-gprs", "bb-gprs", "cc-dialup"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", r"no \[\[network\]\]"),
        ("x = [", "not TOML"),
        ("network = 3", r"no \[\[network\]\]"),
        ("network = [3]", "network number 1"),
        (GOOD + GOOD, "two networks are named 'aa-gprs'"),
        (GOOD.replace('"AA"', '"Hungary"'), "network aa-gprs: country"),
        (GOOD.replace("Europe/Budapest", "Europe/Nowhere"), "no such time zone: 'Europe/Nowhere'"),
        (GOOD.replace("10.64.0.0/14", "10.64.0.1/14"), "network aa-gprs: subscribers.0"),
        (GOOD.replace('["10.64.0.0/14", "2001:db8::/32"]', "[]"), "network aa-gprs: subscribers"),
        (GOOD + "peak_hours = [12, 10]", "peak_hours: .* must rise"),
        (GOOD + "peak_hours = [12]", "network aa-gprs: peak_hours"),
        (GOOD + "subscriber = []", "network aa-gprs: subscriber:"),
        (GOOD.replace("aa-gprs", "../aa"), "network ../aa: name"),
    ],
)
def test_mistakes_name_file_network_and_key(tmp_path, text, reason):
    with pytest.raises(UserError, match=reason) as error:
        load(tmp_path, text)
    assert str(error.value).startswith(str(tmp_path / "networks.toml"))
    assert "\n" not in str(error.value)


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match=r"none\.toml: No such file"):
        load_networks(tmp_path / "none.toml")


def test_unknown_network_lists_the_known(tmp_path):
    with pytest.raises(UserError, match="no network 'zz'; it has aa-gprs"):
        find_network(load(tmp_path, GOOD), "zz", tmp_path)
