"""giscope's results for the lab's connections, against what the applications measured."""

import json

import pytest
from conftest import TRUTH, Demo

LAB = {
    "aa-gprs-peak": "aa-gprs",
    "aa-gprs-offpeak": "aa-gprs",
    "bb-gprs-peak": "bb-gprs",
    "cc-dialup-peak": "cc-dialup",
}


@pytest.fixture(scope="session")
def demo(plain_demo):
    """Without pseudonyms: the ground truth names users by address."""
    return plain_demo


def profile(lab: str) -> dict:
    """Read the description of the emulated network."""
    return json.loads((TRUTH / lab / "profile.json").read_text())


@pytest.fixture(params=LAB)
def clients(request: pytest.FixtureRequest, demo: Demo):
    """A DuckDB connection with a view `joined`: each transfer of the lab beside its flow."""
    connection = demo.warehouse.connect("flows")
    connection.execute(f"""
        create view joined as
        select clients.*, row_number() over () as transfer, flows.* exclude (user, server)
        from read_csv('{TRUTH / request.param / "clients.csv.zst"}') as clients
        left join flows on flows.network = '{LAB[request.param]}'
            and flows.user = clients.user and flows.user_port = clients.sport
            and flows.server = clients.server and flows.server_port = clients.port
            and epoch(flows.start_ts) between clients.start - 0.001 and clients."end" + 1
    """)
    return connection, profile(request.param)


def rows(connection, query: str) -> list[tuple]:
    return connection.execute(query).fetchall()


def test_every_transfer_is_one_flow(clients):
    connection, _ = clients
    ((transfers, flows, joined),) = rows(
        connection,
        """
        select count(distinct transfer), count(distinct flow_id), count(*) from joined
    """,
    )
    assert transfers == flows == joined > 1000


def test_outcomes_of_the_set_up_agree_with_the_applications(clients):
    connection, _ = clients
    outcomes = dict(
        rows(
            connection,
            """
        select
            case
                when connected > 0 then 'connected'
                when kind = 'closed' then 'refused'
                when kind = 'dead' then 'dead'
                else 'given up'
            end as outcome,
            list_sort(list(distinct setup_class || coalesce(' ' || setup_reset, '')))
        from joined group by outcome
    """,
        )
    )
    assert outcomes == {
        "connected": ["optimal", "slight_problem"],
        "refused": ["refused"],
        "dead": ["no_response"],
        "given up": ["serious_problem true"],
    }


def test_setup_delay_is_the_applications_connect_time(clients):
    """The uplink may delay the SYN more than the ACK or the other way round, without other traffic
    by no more than setting up a radio block flow and the radio link's jitter (ten times the mean).
    """
    connection, network = clients
    ((compared, worst),) = rows(
        connection,
        """
        select count(*), max(abs(setup_delay - (connected - start)))
        from joined where setup_class = 'optimal' and not setup_background
    """,
    )
    access = network["access"]
    radio = access["tbf_s"] + 10 * access["rlc_jitter_s"]
    assert compared >= 2
    assert worst < radio + 0.005


def test_payload_is_what_the_application_received(clients):
    connection, _ = clients
    different = rows(
        connection,
        """
        select transfer, bytes, payload_bytes_down
        from joined where result = 'ok' and payload_bytes_down <> bytes
    """,
    )
    assert different == []


def test_options_are_those_of_the_users_group(clients):
    """10.64 neither, 10.65 SACK, 10.66 timestamps, 10.67 both."""
    connection, _ = clients
    options = set(
        rows(
            connection,
            """
        select split_part(user, '.', 2)::int - 64, sack, timestamps
        from joined where connected > 0
    """,
        )
    )
    assert options == {(0, False, False), (1, True, False), (2, False, True), (3, True, True)}


def test_access_rtt_is_at_least_the_delay_of_the_emulated_path(clients):
    """Without a retransmission or other traffic an RTT is the path's delays and the time to
    send the packets, a SYN ACK of up to 60 bytes and an ACK of up to 52."""
    connection, network = clients
    access = network["access"]
    path = access["down_s"] + access["up_s"]
    slowest = min(rate["bps"] for rate in access["rates"])
    sending = 8 * 60 / slowest + 8 * 52 / access["up_bps"]
    ((n, shortest, median, internet),) = rows(
        connection,
        """
        select count(rtt_access), min(rtt_access), median(rtt_access), min(rtt_internet)
        from joined
    """,
    )
    assert n >= 2
    assert path <= shortest
    assert median < path + sending + access["tbf_s"] + 4 * access["rlc_jitter_s"] + 0.005
    assert 0 <= internet - 2 * network["internet"]["delay_s"] < 0.01


def test_smallest_rtt_of_a_transfer_is_the_delay_of_the_emulated_path(clients):
    """The path's delays, and for the least of a user's many the time to send a packet of hardly
    100 bytes and an ACK of up to 52, and the radio's jitter."""
    connection, network = clients
    access = network["access"]
    path = access["down_s"] + access["up_s"]
    slowest = min(rate["bps"] for rate in access["rates"])
    sending = 8 * 100 / slowest + 8 * 52 / access["up_bps"]
    ((users, shortest, median),) = rows(
        connection,
        """
        select count(*), min(least), median(least)
        from (select user, min(rtt_access_min) as least from joined group by user)
    """,
    )
    assert users > 40
    assert path <= shortest
    assert median < path + sending + 2 * access["rlc_jitter_s"]


@pytest.fixture(params=LAB)
def users(request: pytest.FixtureRequest, demo: Demo):
    """A DuckDB connection with a view `measured`: each period beside the user's true rate."""
    connection = demo.warehouse.connect()
    connection.execute(f"""
        create view measured as
        select channel_rates.user, rate, users.rate_bps as true_rate
        from channel_rates
        join flows using (network, date, flow_id)
        join read_csv('{TRUTH / request.param / "users.csv.zst"}') as users
            on users.user = channel_rates.user
        where channel_rates.network = '{LAB[request.param]}'
            and (flows.start_ts < '2004-03-02 08:00:00+00') = ('{request.param}' like '%offpeak')
    """)
    return connection


def test_channel_rate_is_the_rate_of_the_users_emulated_link(users):
    """Per-user median within 2 %, 95 % of the periods within 5 %."""
    ((measured, worst, near),) = rows(
        users,
        """
        with periods as (select user, rate / true_rate - 1 as error from measured),
        medians as (select user, abs(median(error)) as error from periods group by user)
        select (select count(*) from medians), (select max(error) from medians),
            (select avg((abs(error) < 0.05)::int) from periods)
    """,
    )
    assert measured >= 20
    assert worst < 0.02
    assert near >= 0.95


@pytest.fixture(params=LAB)
def access_links(request: pytest.FixtureRequest, demo: Demo):
    """A DuckDB connection with a view `hours`: each user's hours of `links`, beside the emulated
    link."""
    connection = demo.warehouse.connect()
    connection.execute(f"""
        create view hours as
        select links.*, users.rate_bps as true_rate
        from links
        join read_csv('{TRUTH / request.param / "users.csv.zst"}') as users
            on users.user = links.user
        where network = '{LAB[request.param]}'
            and (hour < '2004-03-02 08:00:00+00') = ('{request.param}' like '%offpeak')
    """)
    return connection, profile(request.param)


def test_access_links_have_the_users_rate_and_queue(access_links):
    connection, network = access_links
    ((rates, middle, far, queues, queue_middle, queue_far),) = rows(
        connection,
        f"""
        with errors as (
            select abs(rate / true_rate - 1) as rate,
                abs(queue_bytes / {network["access"]["queue_bytes"]} - 1) as queue
            from hours
        )
        select count(rate), median(rate), quantile_cont(rate, 0.95),
            count(queue), median(queue), quantile_cont(queue, 0.9)
        from errors
    """,
    )
    assert rates >= 40
    assert middle < 0.005
    assert far < 0.025
    assert queues >= 10
    assert queue_middle < 0.03
    assert queue_far < 0.07


def test_received_throughput_never_exceeds_the_channel_rate(demo):
    """The throughput at Gi, lost bytes included, does in one of ten transfers."""
    for lab, network in LAB.items():
        ((transfers, above, passed, user_above),) = rows(
            demo.warehouse.connect(),
            f"""
            select count(throughput), count_if(throughput_received > 1.01 * rate_bps),
                count_if(throughput > 1.01 * rate_bps),
                avg((user_throughput_received > 1.01 * rate_bps)::int)
            from flows
            join read_csv('{TRUTH / lab / "users.csv.zst"}') as users on users.user = flows.user
            where network = '{network}'
                and (start_ts < '2004-03-02 08:00:00+00') = ('{lab}' like '%offpeak')
            """,
        )
        assert transfers >= 20
        assert above == 0 < passed
        assert user_above < 0.01


def test_goodput_of_single_transfers_is_that_of_the_applications(clients):
    """From its request the application waits for the first byte about as long as the set-up
    took; from then on the rest takes the time that the ACKs show."""
    connection, _ = clients
    ((n, middle, near),) = rows(
        connection,
        """
        with errors as (
            select goodput * ("end" - connected - setup_delay) / (8 * bytes) - 1 as error
            from joined
            where throughput is not null and result = 'ok' and setup_class = 'optimal'
        )
        select count(*), median(abs(error)), avg((abs(error) < 0.05)::int) from errors
    """,
    )
    assert n >= 20
    assert middle < 0.02
    assert near > 0.95


def test_flushes_are_reselections_in_which_the_radio_lost_the_data(demo: Demo):
    """In a reselection the lab's radio loses all for one or two seconds."""
    db = demo.warehouse.connect()
    db.execute(f"""
        create view fates as
        select frame, fate, split_part(filename, '/', -2) as recording
        from read_csv('{TRUTH}/*/frames_lost.csv.zst', filename = true)
    """)
    (found,) = rows(
        db,
        """
        with flushes as (select * from stalls where interruption = 'flush'),
        losses_of_flushes as (
            select flushes.flow_id, flushes.start_ts,
                count(*) filter (where fate = 'radio') as by_radio,
                max(epoch(flushes.end_ts - flushes.start_ts)) as seconds
            from flushes
            join losses on losses.flow_id = flushes.flow_id and losses.side = 'access'
                and losses.ts between flushes.start_ts - interval 10 seconds and flushes.end_ts
            left join fates on fates.frame = losses.frame
                and fates.recording = losses.network
                    || if(losses.capture like 'off%', '-offpeak', '-peak')
            group by all
        )
        select count(*), count(*) filter (where by_radio >= 4), median(seconds)
        from losses_of_flushes
        """,
    )
    flushes, by_radio, seconds = found
    assert flushes >= 30
    assert by_radio >= 0.9 * flushes
    assert 1 < seconds < 2.5
