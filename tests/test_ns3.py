"""Links whose queues are short, and fast links, by another stack: ns-3's
(`tests.programs.recordings.ns3`).

The truth is the simulator's: each link's rate and kind of queue, each packet's fate, and what the
senders said of themselves.
"""

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

import pyarrow.csv
import pytest

from schemas import CHANNEL_RATES, LINKS
from tests.programs.accuracy.__main__ import NS3_LINKS, why_of_folder
from tests.programs.accuracy.lab import NETWORK, ingested, job_tables, stream


@dataclass(frozen=True)
class Expected:
    """What giscope must find: the least number of users with a channel rate, of eight; the kinds of
    queues that their links may show; the least shares of connections with equal retransmissions and
    equal RTO expiries."""

    with_rate: int
    kinds: set[str | None]
    retransmissions: float = 0.98
    timeouts: float = 0.95


EXPECTED = {
    # ns-3's queue for each connection shows if several are active, and drops early in any case.
    "fq-codel": Expected(7, {"fair", "early_drop", None}),
    "codel-bbr": Expected(5, {"early_drop", None}),
    "pie": Expected(4, {"early_drop", "fifo", None}),
    "fifo-no-sack": Expected(6, {"fifo", None}),
    "fast": Expected(4, {"fifo", None}),
    # The mobiles' windows leave the links idle.
    "window": Expected(0, {None}),
}


@pytest.fixture(scope="module", params=EXPECTED)
def recorded(request, tmp_path_factory):
    """The tables of a capture, the true rates of its links by user, and what is expected."""
    folder = NS3_LINKS / request.param
    warehouse = ingested(tmp_path_factory.mktemp("w"), folder / "gi.pcap.zst", NETWORK)
    rows = pyarrow.csv.read_csv(stream(folder / "users.csv.zst")).to_pylist()
    rates = {row["user"]: row["rate_bps"] for row in rows}
    return job_tables(warehouse, NETWORK), rates, EXPECTED[request.param]


def test_channel_rates_are_those_of_the_links(recorded):
    tables, rates, expected = recorded
    by_user = defaultdict(list)
    for row in tables[CHANNEL_RATES.name].to_pylist():
        by_user[row["user"]].append(row["rate"])
    assert len(by_user) >= expected.with_rate
    for user, measured in by_user.items():
        assert median(measured) == pytest.approx(rates[user], rel=0.02)
    every = [rate / rates[user] for user, found in by_user.items() for rate in found]
    assert sum(abs(ratio - 1) < 0.05 for ratio in every) >= 0.95 * len(every)


def test_rates_of_links_are_right_or_unknown(recorded):
    tables, rates, _ = recorded
    known = [row for row in tables[LINKS.name].to_pylist() if row["rate"] is not None]
    wrong = [row for row in known if abs(row["rate"] / rates[row["user"]] - 1) > 0.05]
    assert len(wrong) <= 1
    assert known


def test_kinds_of_queues_are_true_or_unknown(recorded):
    tables, _, expected = recorded
    found = {row["queue_kind"] for row in tables[LINKS.name].to_pylist()}
    assert found <= expected.kinds
    assert found != {None} or expected.kinds == {None}


@pytest.mark.parametrize("name", EXPECTED)
def test_senders_say_the_same(name):
    result = why_of_folder(NS3_LINKS / name, NETWORK)
    assert result.matched == result.reported
    figures, expected = result.of_connections, EXPECTED[name]
    assert figures["retransmissions: equal"].value >= expected.retransmissions
    assert figures["timeouts: equal"].value >= expected.timeouts
    assert figures["congestion window's share, points"].kept
