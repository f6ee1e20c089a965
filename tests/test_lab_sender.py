"""Estimates of what the servers' TCP did, against the sending kernel's own record: `python -m
tests.programs.accuracy --why`. tests/data/sender has some users of three captures of the lab; of a
host's counters, which no extract has, a connection's own are the part."""

import duckdb
import pandas as pd
import pytest

from tests.programs.accuracy import why
from tests.programs.accuracy.__main__ import SENDER, main, why_shipped

FEWEST = {
    # connections recorded to their end; their retransmissions and RTO expiries; rows with data in
    # flight; connections busy for more than 5 s; time limited by the mobile's window (s)
    "gprs-jj-peak": (250, 900, 100, 6000, 30, 300),
    # windows of 28 and 56 segments on links of an LTE's rate, CUBIC
    "lte-windows": (60, 60, 1, 300, 9, 50),
    "umts-uc": (120, 2000, 10, 1500, 30, 300),
}


@pytest.fixture(scope="module", params=FEWEST)
def measured(request, networks):
    plain = networks["aa-gprs"].model_copy(update={"pseudonyms": "none"})  # as the truth has it
    return request.param, why_shipped(request.param, plain)


def test_every_extract_is_measured():
    assert {path.name for path in SENDER.iterdir()} == set(FEWEST)


def test_every_connection_is_found(measured):
    _, result = measured
    assert result.matched == result.reported


def test_there_are_enough_connections_to_compare(measured):
    extract, result = measured
    of = result.of_connections
    there = (
        result.ended,
        of["retransmissions: sum"].truth,
        of["timeouts: sum"].truth,
        of["rto: within 25 %"].of,
        of["busy: within 5 % or 0.3 s"].of,
        of["rwnd_limited: sum, s"].truth,
    )
    assert all(n >= least for n, least in zip(there, FEWEST[extract], strict=True))


def test_estimates_are_within_their_bounds(measured):
    _, result = measured
    assert {name: f for name, f in result.of_connections.items() if not f.kept} == {}


ENDED = pd.DataFrame(
    {
        "retransmissions": [3.0, 0.0, float("nan"), 1.0],
        "rto_expiries": [1.0, 0.0, float("nan"), 0.0],
        "caused": [3, 0, 0, 1],
        "busy": [10.2, 6.4, float("nan"), 1.0],
        "rwnd_limited": [2.0, 0.0, float("nan"), 0.5],
        "true_retransmissions": [3, 0, 2, 1],
        "true_timeouts": [1, 0, 1, 0],
        "true_busy": [10.0, 6.0, 7.0, 1.0],
        "true_rwnd_limited": [1.0, 1.0, 0.0, 0.5],
    }
)
"""Four connections; of the third we estimate nothing."""


def test_missing_estimates_are_not_equal():
    assert why.retransmissions(ENDED)["retransmissions: equal"] == why.Share(3, 4, 0.98)
    assert why.timeouts(ENDED)["timeouts: equal"] == why.Share(3, 4, 0.95)
    assert why.retransmissions(ENDED)["retransmissions: sum"] == why.Total(4, 6, 0.01)


def test_times_are_compared_where_the_server_was_busy_for_long():
    """10.2 s of 10 are within 5 %, 6.4 of 6 are not; 2 s of 10 busy are 1 s off, just within 10 %,
    and 1 s of 6 is not."""
    times = why.time(ENDED)
    assert times["busy: within 5 % or 0.3 s"] == why.Share(1, 3, 0.98)
    assert times["rwnd_limited: within 10 % of busy"] == why.Share(1, 3, 0.95)
    assert times["rwnd_limited: sum, s"] == why.Total(2.5, 2.5, 0.05)


def test_a_missing_rto_is_wrong():
    running = pd.DataFrame({"rto": [1.0, float("nan"), 2.6], "true_rto": [1.0, 1.0, 2.0]})
    of = why.rto(running)
    assert of["rto: within 25 %"] == why.Share(1, 3, 0.90)
    assert of["rto: median error"].value == pytest.approx(0.3)
    assert not any(figure.kept for figure in of.values())


def test_a_reused_port_belongs_to_the_flow_nearest_in_time():
    """The second connection of the port begins after the last row of the first; of the third, on
    another port, we have no flow."""
    who = "10.64.0.1", 5000, "198.51.100.1", 80
    with duckdb.connect() as db:
        db.execute(f"""
            create table flows as
            select * exclude start, make_timestamptz(start) as start_ts
            from (values {(*who, 1, 99_000_000)}, {(*who, 2, 199_000_000)})
                as t("user", user_port, server, server_port, flow_id, start)
        """)
        rows = [(100.0, 0), (110.0, 1), (200.0, 0), (210.0, 0), (220.0, 1)]
        sent = [(t, *who, last) for t, last in rows] + [(150.0, "10.64.0.1", 5001, *who[2:], 0)]
        db.register(
            "sender", pd.DataFrame(sent, columns=["t", "user", "sport", "server", "port", "last"])
        )
        assert why.match(db) == (3, 2)
        assert db.sql("select t, flow_id from kernel_rows order by t").fetchall() == [
            (100.0, 1), (110.0, 1), (150.0, None), (200.0, 2), (210.0, 2), (220.0, 2),
        ]  # fmt: skip


def test_causes_are_compared_with_the_hosts_counters():
    """A counter that the kernel does not list is 0."""
    with duckdb.connect() as db:
        db.execute("create table flows as from (values (2), (null), (3)) as t(rto_expiries)")
        db.execute("""
            create table retransmissions as from (
                values ('fast', null), ('fast', null), ('rto', true), ('rto', false), (null, null)
            ) as t(cause, spurious_rto)
        """)
        of = why.causes(db, {"TcpExtTCPTimeouts": 6, "TcpExtTCPFastRetrans": 20})
    assert of["timeouts, SYN ACKs' too"] == why.Total(5, 6, 0.05, 10)
    assert of["fast"] == why.Total(2, 20, 0.05, 10)
    assert not of["fast"].kept
    assert of["tlp"] == why.Total(0, 0, 0.05, 10)
    assert of["spurious_rto"] == why.Total(1, 0, 0.1, 5)


@pytest.mark.parametrize(
    ("figure", "kept"),
    [
        (why.Share(98, 100, 0.98), True),
        (why.Share(97, 100, 0.98), False),
        (why.Share(0, 0, 0.98), True),
        (why.Total(110, 100, 0.05, 10), True),
        (why.Total(89, 100, 0.05, 10), False),
        (why.Total(1051, 1000, 0.05, 10), False),
        (why.Total(1049, 1000, 0.05, 10), True),
        (why.Total(1, 0, 0.05), False),
        (why.Median(0.05, 0.05), True),
        (why.Median(0.051, 0.05), False),
    ],
)
def test_a_figure_is_accepted_within_its_bound(figure, kept):
    assert figure.kept is kept


@pytest.mark.parametrize("option", [[], ["--why"]])
def test_a_missing_file_is_named(option, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["accuracy", *option, str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"accuracy: {tmp_path / 'gi.pcap.gz'}: no such file\n"
