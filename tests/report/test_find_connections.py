"""`giscope why` and `plot` find a connection by an address, a time, a port or a display filter."""

import re
from datetime import UTC, datetime, timedelta
from time import process_time
from zoneinfo import ZoneInfo

import pytest
from conftest import DAY, NETWORKS_FILE, ask
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import FLOWS, LEASES
from spark_jobs.base.errors import UserError
from spark_jobs.capture.users import user_keys
from spark_jobs.commands.cli import main
from spark_jobs.ingest.networks import publish_network
from spark_jobs.report.display_filter import Condition, parse_filter
from spark_jobs.report.find_connections import find_connections, parse_time, search_of
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.made_up import flow, publish

BUDAPEST = ZoneInfo("Europe/Budapest")
WORDS = (
    *("ip.addr", "ip.src", "tcp.port", "ipv6.dst", "tcp.stream", "==", "eq", "&&", "and", "||"),
    *("(", ")", "10.64.0.7", "2001:db8::7", "80", "65536", "'", "\0", "\n", "\u2028", "\udcff"),
)
TEXTS = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(WORDS), max_size=1000).map(" ".join),
    st.integers(1, 100_000).map(lambda depth: "(" * depth + "tcp.port==7" + ")" * depth),
    st.integers(1, 10_000).map(lambda terms: "&&".join(["ip.addr==10.64.0.7"] * terms)),
)
ENDS = {
    "ip.addr": ("user", "server"), "ip.src": ("user", "server"), "ip.dst": ("server", "user"),
    "tcp.port": ("user_port", "server_port"), "tcp.srcport": ("user_port", "server_port"),
    "tcp.dstport": ("server_port", "user_port"),
}  # fmt: skip
"""By field: the columns of flows that it means, uplink and downlink; *.addr and port mean both."""


@pytest.fixture(scope="module")
def known(demo, plain_demo) -> dict:
    """Return a connection with its plain address, and its flow_id in the demo with pseudonyms."""
    columns = '"user", user_port, server, server_port, start_ts'
    query = f"select {columns} from flows where network = 'aa-gprs' and payload_bytes_down > 50000"
    query = f"{query} order by start_ts limit 1"
    [connection] = ask(plain_demo.warehouse, query).to_arrow_table().to_pylist()
    same = "network = 'aa-gprs' and " + " and ".join(
        f"{name} = ?" for name in ("user_port", "server", "server_port", "start_ts")
    )
    found = ask(
        demo.warehouse, f"select flow_id from flows where {same}", list(connection.values())[1:]
    )
    ((flow_id,),) = found.fetchall()
    assert re.fullmatch(r"[\d.]+", connection["user"])
    return connection | {"flow_id": flow_id}


@pytest.fixture(scope="module")
def searched(demo, networks) -> Warehouse:
    """Return the demo after a first search, which loads modules and compiled functions."""
    find_connections(demo.warehouse, search_of(address="10.64.0.7"), networks)
    return demo.warehouse


def answer(capsys, *arguments: object) -> tuple[int, str, str]:
    """Return the exit status, the output and the errors of a command."""
    status = 0
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as end:
        status = end.code
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def options(known: dict, kind: str) -> list[str]:
    local = known["start_ts"].astimezone(BUDAPEST)
    user, server, port = known["user"], known["server"], known["user_port"]
    return {
        "local time": ["--address", user, "--time", f"{local:%Y-%m-%dT%H:%M:%S.%f}"],
        "offset": ["--address", user, "--time", f"{known['start_ts']:%Y-%m-%d %H:%M:%S.%fZ}"],
        "port": ["--network", "aa-gprs", "--port", str(port), "--time", f"{local:%Y-%m-%dT%H:%M}"],
        "conversation": [
            "--filter",
            f"(ip.addr eq {user} and ip.addr eq {server}) and "
            f"(tcp.port eq {port} and tcp.port eq {known['server_port']})",
        ],
        "uplink": ["--filter", f"ip.src=={user}&&tcp.srcport=={port}&&ip.dst=={server}"],
        "downlink": ["--filter", f"ip.dst=={user}&&tcp.dstport=={port}&&ip.src == {server}"],
    }[kind]  # fmt: skip


KINDS = ("local time", "offset", "port", "conversation", "uplink", "downlink")


@pytest.mark.parametrize("kind", KINDS)
def test_why_explains_the_connection_that_a_user_describes(demo, known, capsys, kind):
    root = ("--warehouse", demo.warehouse.root)
    expected = answer(capsys, "why", *root, known["flow_id"])
    found = answer(capsys, "why", *root, "--networks", NETWORKS_FILE, *options(known, kind))
    assert found == expected
    assert found[0] == 0


def test_plot_draws_the_connection_that_a_filter_finds(demo, known, capsys, tmp_path):
    status, out, _ = answer(
        capsys, "plot", "--warehouse", demo.warehouse.root, "--networks", NETWORKS_FILE,
        "--output", tmp_path, *options(known, "conversation"),
    )  # fmt: skip
    assert (status, out) == (0, f"{tmp_path}/flow-{known['flow_id']}.html\n")


def test_several_are_listed_with_the_nearest_first(demo, known, capsys):
    """Their number is that of the user's connections in the table."""
    at = known["start_ts"] - timedelta(seconds=1)
    ((pseudonym, total),) = ask(
        demo.warehouse,
        """select "user", count(*) over (partition by "user") from flows
            where network = 'aa-gprs' qualify flow_id = ?""",
        [known["flow_id"]],
    ).fetchall()
    for name in (pseudonym, known["user"]):
        status, out, err = answer(
            capsys, "why", "--warehouse", demo.warehouse.root, "--network", "aa-gprs",
            "--networks", NETWORKS_FILE, "--address", name, "--time", f"{at:%Y-%m-%dT%H:%M:%S.%fZ}",
        )  # fmt: skip
        first, *lines = err.splitlines()
        assert (status, out) == (2, "")
        assert first.startswith(f"giscope: {total} connections, none in progress then")
        assert len(lines) == min(total, 20)
        assert known["user"] not in err
        lives = {
            flow_id: max((begin - at).total_seconds(), (at - end).total_seconds())
            for flow_id, begin, end in ask(
                demo.warehouse,
                'select flow_id, start_ts, end_ts from flows where "user" = ?',
                [pseudonym],
            ).fetchall()
        }
        distances = [lives[int(line.split()[1])] for line in lines]
        assert distances == sorted(lives.values())[:20]
        assert distances[0] <= 1


def test_all_in_progress_then_are_listed_and_no_other(demo, networks):
    minute = datetime(2004, 3, 2, 10, 16, tzinfo=UTC)
    found = find_connections(demo.warehouse, search_of(time="2004-03-02T11:16"), networks)
    ((expected,),) = ask(
        demo.warehouse,
        "select count(*) from flows where start_ts < ? and end_ts >= ?",
        [minute + timedelta(minutes=1), minute],
    ).fetchall()
    assert found.total == expected > 20
    assert {row["distance"] for row in found.rows} == {0}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "give either FLOW_ID"),
        ((7, "--port", "80"), "give either FLOW_ID"),
        (("--address", "10.64.0.7"), "give --networks to find them"),
        (("--port", "http"), "--port http: not a port"),
        (("--port", "65536"), "--port 65536: not a port"),
        (("--time", "17:45"), "--time 17:45: not a time"),
        (("--time", "2004-02-30T17:45"), "not a time"),
        (("--network", "zz"), "no network zz in it"),
        (("--filter", "tcp.stream eq 5"), "--filter: tcp.stream is not understood: use ip.addr"),
        (("--filter", "(" * 5000), "--filter: 5,000 characters: use at most 4,096"),
        (("--filter", "(" * 4000), "--filter: its end is not understood"),
        (("--address", "\udcff\n\0"), "not UTF-8"),
        (("--networks", "none.toml", "--port", "80"), "none.toml: No such file"),
    ],
)
def test_mistakes_give_one_line_and_status_2(demo, capsys, arguments, reason):
    for command in ("why", "plot"):
        found = answer(capsys, command, "--warehouse", demo.warehouse.root, *arguments)
        status, out, err = found
        assert (status, out, len(err.splitlines())) == (2, "", 1)
        assert reason in err


def test_another_key_is_refused(demo, capsys, monkeypatch):
    monkeypatch.setenv("GISCOPE_KEY", "ab" * 32)
    status, _, err = answer(
        capsys, "why", "--warehouse", demo.warehouse.root, "--networks", NETWORKS_FILE,
        "--address", "10.64.0.7",
    )  # fmt: skip
    assert status == 2
    assert "pseudonyms of another key or key_period: use that one" in err


@pytest.mark.parametrize(
    "text",
    [
        "", "ip.addr", "ip.addr ==", "ip.addr == 10.0.0.0/8", "ip.addr != 10.0.0.1",
        "not tcp.port==5",
        "ip.addr == 10.0.0.1 || tcp.port == 3", "ip.addr == 10.0.0.1 or tcp.port == 3",
        "(ip.addr == 10.0.0.1", "ip.addr == 10.0.0.1)", "tcp.port == 80 &&", "tcp.port == 65536",
        "tcp.port == -1", "ip.addr == ::1", "ipv6.addr == 10.0.0.1", "tcp.port in {80 443}",
        "ip.addr = 10.0.0.1", "tcp.port == 80 tcp.port == 81", "()", "(" * 100_000,
        "tcp.port == 80; drop table flows",
    ],
)  # fmt: skip
def test_other_filters_are_refused_with_what_is_understood(text):
    with pytest.raises(
        UserError, match=r"--filter: .* is not understood: use ip\.addr, .*and"
    ) as e:
        parse_filter(text)
    assert len(str(e.value).splitlines()) == 1


@settings(deadline=None, max_examples=60, derandomize=True, database=None)
@given(option=st.sampled_from(["address", "time", "port", "display_filter", "network"]), text=TEXTS)
def test_any_text_finds_something_or_is_refused_in_a_line_within_two_seconds(
    searched, networks, option, text
):
    begin, reason = process_time(), "none"
    try:
        find_connections(searched, search_of(**{option: text}), networks)
    except UserError as error:
        reason = str(error)
    assert len(reason.splitlines()) == 1
    assert process_time() - begin < 2


def test_150_addresses_take_little_longer_than_one(searched, networks):
    """A lease, a pseudonym or a server can have each of them."""
    times = {}
    for terms in (1, 150):
        text = "&&".join(f"ip.addr==10.64.0.{n}" for n in range(terms))
        begin = process_time()
        assert find_connections(searched, search_of(display_filter=text), networks).total == 0
        times[terms] = process_time() - begin
    assert times[150] < 1 + 2 * times[1]


@settings(deadline=None, max_examples=25, derandomize=True, database=None)
@given(data=st.data())
def test_a_filter_finds_what_its_conditions_mean_for_each_row(plain_demo, data):
    """The expected connections are those of a loop over all rows."""
    query = 'select "user", server, user_port, server_port from flows order by flow_id'
    rows = ask(plain_demo.warehouse, query).to_arrow_table().to_pylist()
    assert not any(":" in row["server"] for row in rows)
    of_one = data.draw(st.sampled_from(rows))
    fields = st.sampled_from([*ENDS])
    conditions = [
        (field, of_one[data.draw(st.sampled_from(ENDS[field]))])
        for field in data.draw(st.lists(fields, min_size=1, max_size=6))
    ]
    text = " && ".join(f"{field} == {value}" for field, value in conditions)

    def matches(row: dict, direction: int) -> bool:
        return all(
            value in [row[end] for end in ENDS[field]]
            if field in ("ip.addr", "tcp.port")
            else row[ENDS[field][direction]] == value
            for field, value in conditions
        )

    expected = sum(matches(row, 0) or matches(row, 1) for row in rows)
    found = find_connections(plain_demo.warehouse, search_of(display_filter=text), {})
    assert found.total == expected


def test_parentheses_and_both_spellings_are_understood():
    assert parse_filter("((ipv6.src==2001:DB8::1 and (tcp.port eq 80))) && tcp.dstport==443") == [
        Condition("src", "2001:db8::1"),
        Condition("port", 80),
        Condition("dstport", 443),
    ]


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("2004-03-29", "28T22:00:00", "29T21:59:59.999999"),
        ("2004-03-29 17:45", "29T15:45:00", "29T15:45:59.999999"),
        ("2004-03-29T17:45:10", "29T15:45:10", "29T15:45:10.999999"),
        ("2004-03-29T17:45:10.5", "29T15:45:10.5", "29T15:45:10.5"),
        ("2004-03-29T17:45:10Z", "29T17:45:10", "29T17:45:10.999999"),
        ("2004-03-29T17:45:10-05:00", "29T22:45:10", "29T22:45:10.999999"),
        ("2004-03-27T17:45:10", "27T16:45:10", "27T16:45:10.999999"),  # before summer time
    ],
)
def test_a_time_lasts_as_long_as_it_is_precise(text, begin, end):
    expected = [datetime.fromisoformat(f"2004-03-{moment}+00:00") for moment in (begin, end)]
    assert [*parse_time(text).span("Europe/Budapest")] == expected


def test_a_subscriber_is_found_by_the_address_that_a_lease_gave(demo, tmp_path, network):
    """With RADIUS logs, flows have the subscriber's name. Before and after, others had it."""
    warehouse = Warehouse(tmp_path)
    publish_network(warehouse, network)
    keys = user_keys(network)
    at = datetime(2004, 3, 2, 12, tzinfo=UTC)
    hour = timedelta(hours=1)
    flows = [
        flow(
            demo,
            flow_id=number,
            user=keys.key_of_identity(name),
            start_ts=at + when,
            end_ts=at + when,
        )
        for number, (name, when) in enumerate(
            [("anna", 0 * hour), ("anna", 2 * hour), ("ben", 0 * hour)]
        )
    ]
    address = keys.key_of_address("10.64.0.9")
    anna = keys.key_of_identity("anna")
    lease = {"user_partition": 0, "address": address, "subscriber": anna, "link": anna}
    leases = [lease | {"start_ts": at - hour, "end_ts": at + hour}]
    publish(warehouse, network.name, DAY, {FLOWS: flows, LEASES: leases})
    for search in (
        search_of(address="10.64.0.9"),
        search_of(keys.key_of_identity("anna"), display_filter="ip.addr == 10.64.0.9"),
    ):
        found = find_connections(warehouse, search, {network.name: network})
        assert [row["flow_id"] for row in found.rows] == [0]


def test_pseudonyms_of_each_key_period_are_found(demo, tmp_path, network):
    """A user has another pseudonym on each day; a bare address finds the user on both."""
    network = network.model_copy(update={"key_period": "day"})
    warehouse = Warehouse(tmp_path)
    publish_network(warehouse, network)
    days = [DAY, DAY + timedelta(1)]
    for number, day in enumerate(days):
        at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        user = user_keys(network).for_day(day).key_of_address("10.64.0.9")
        rows = [
            flow(demo, flow_id=10 * number + n, user=name, start_ts=at, end_ts=at)
            for n, name in enumerate(
                (user, user_keys(network).for_day(days[0]).key_of_address("10.64.0.8"))
            )
        ]
        publish(warehouse, network.name, day, {FLOWS: rows})
    known = {network.name: network}
    found = find_connections(warehouse, search_of(address="10.64.0.9"), known)
    assert [row["flow_id"] for row in found.rows] == [0, 10]
    found = find_connections(warehouse, search_of(address="10.64.0.8"), known)
    assert [row["flow_id"] for row in found.rows] == [1]
    assert find_connections(warehouse, search_of(address="10.64.0.9"), {}).rows == []
