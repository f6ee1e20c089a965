"""QUIC's connections from scripted packets: which belong together, their set-up, their spin bit."""

from typing import NamedTuple

import numpy as np
import pytest

from schemas.packets import QUIC_COALESCED, QUIC_FORMS
from schemas.quic_flows import QUIC_SETUP_CLASSES, SPINS
from spark_jobs.estimators.quic import packets as records
from spark_jobs.estimators.quic import spin
from spark_jobs.estimators.quic.packets import FORMS, NO_SPIN, QuicPackets
from spark_jobs.estimators.quic.summary import SETUP_CLASSES
from spark_jobs.tables.quic_connections import QuicConnections
from spark_jobs.tables.quic_flows import SPIN_KINDS

UP, DOWN = False, True
CLIENT, SERVER, CHOSEN, OTHER = 11, 22, 33, 44
"""Connection IDs: the client's, the server's, the client's choice for its first packet."""


class Packet(NamedTuple):
    """A datagram at Gi; t: in seconds."""

    t: float
    downlink: bool
    form: str
    dcid: int | None = None
    scid: int = 0
    spin: int | None = None
    coalesced: tuple[str, ...] = ()
    port: int = 5000
    server: int = 0
    version: int = 1
    ip_len: int = 1250
    length: int = 0


def connections(script: list[Packet]) -> QuicConnections:
    """Return the connections of one user's packets."""
    script = sorted(script, key=lambda packet: packet.t)
    n = len(script)

    def column(values, dtype) -> np.ndarray:
        return np.array(list(values), dtype)

    long = [packet.form not in ("one_rtt", "unreachable") for packet in script]
    return QuicConnections(
        QuicPackets(
            first=np.array([0, n]),
            user=np.zeros(n, np.int32),
            server=column((p.server for p in script), np.int32),
            ts=column((round(1e6 * p.t) for p in script), np.int64),
            user_port=column((p.port for p in script), np.uint16),
            server_port=np.full(n, 443, np.uint16),
            downlink=column((p.downlink for p in script), np.bool_),
            ip_len=column((p.ip_len for p in script), np.uint32),
            clock_steps=np.zeros(n, np.uint8),
            form=column((FORMS.index(p.form) for p in script), np.uint8),
            coalesced=column(
                (sum(QUIC_COALESCED[form] for form in p.coalesced) for p in script), np.uint16
            ),
            has_version=np.array(long),
            version=column((p.version for p in script), np.uint32),
            spin=column((NO_SPIN if p.spin is None else p.spin for p in script), np.int8),
            has_dcid=column((p.dcid is not None for p in script), np.bool_),
            dcid=column((p.dcid or 0 for p in script), np.uint32),
            scid=column((p.scid for p in script), np.uint32),
            length=column((p.length for p in script), np.uint32),
        )
    )


def handshake(t: float = 0.0, port: int = 5000, **chosen: int) -> list[Packet]:
    """Return a handshake: 100 ms to the server and back, 60 ms to the mobile and back."""
    ids = {"chosen": CHOSEN, "client": CLIENT, "server": SERVER} | chosen
    first, client, server = ids["chosen"], ids["client"], ids["server"]
    return [
        Packet(t, UP, "initial", first, client, port=port),
        Packet(t + 0.10, DOWN, "initial", client, server, coalesced=("handshake",), port=port),
        Packet(t + 0.16, UP, "initial", server, client, coalesced=("handshake",), port=port),
        Packet(t + 0.17, UP, "one_rtt", server, port=port),
    ]


def only(script: list[Packet]) -> np.void:
    (found,) = connections(script).summaries
    return found


def test_names_are_those_of_the_schemas():
    assert tuple(QUIC_FORMS) == FORMS
    assert QUIC_COALESCED["not captured"] == records.COALESCED_CUT
    assert set(SETUP_CLASSES[1:]) == set(QUIC_SETUP_CLASSES)
    assert ("", *SPINS) == SPIN_KINDS
    assert SPIN_KINDS[spin.NO_SIGNAL] == "no_signal"


def test_handshake_gives_delay_and_round_trips():
    found = only(handshake())
    assert SETUP_CLASSES[found["setup_class"]] == "optimal"
    assert found["setup_delay"] == pytest.approx(0.16)
    assert found["rtt_internet"] == pytest.approx(0.10)
    assert found["rtt_access"] == pytest.approx(0.06)
    assert (found["packets_up"], found["packets_down"], found["ip_bytes_up"]) == (3, 1, 3750)
    assert found["initials"] == 1
    assert not found["zero_rtt"]


def cut(script: list[Packet]) -> list[Packet]:
    """Return packets of which the capture cut off all but the first packet of each datagram."""
    return [p._replace(coalesced=("not captured",)) if p.coalesced else p for p in script]


def test_packet_that_was_cut_off_may_complete_the_handshake():
    """The next packet surely does: it comes 6 % of the set-up delay later, or 1 %."""
    *begun, data = cut(handshake())
    assert np.isnan(only([*begun, data])["setup_delay"])
    assert only([*begun, data._replace(t=0.1615)])["setup_delay"] == pytest.approx(0.16)


def test_what_follows_a_padded_initial_is_no_padding():
    first, answer, last, data = cut(handshake())
    found = only([first, answer, last._replace(length=1222), data])
    assert found["setup_delay"] == pytest.approx(0.16)


def test_nothing_is_known_if_only_what_was_cut_off_may_complete_the_handshake():
    found = only(cut(handshake())[:3])
    assert (SETUP_CLASSES[found["setup_class"]], np.isnan(found["setup_delay"])) == ("", True)


def test_second_hello_completes_no_handshake():
    """The server asked for another key; the second hello needs its connection ID already."""
    script = [
        *handshake()[:2],
        Packet(0.16, UP, "initial", SERVER, CLIENT, length=439, coalesced=("not captured",)),
        Packet(0.26, DOWN, "initial", CLIENT, SERVER, coalesced=("handshake",)),
        Packet(0.32, UP, "handshake", SERVER, CLIENT),
    ]
    found = only(script)
    assert SETUP_CLASSES[found["setup_class"]] == "optimal"
    assert np.isnan(found["setup_delay"])
    assert found["rtt_access"] == pytest.approx(0.06)
    script[2] = script[2]._replace(coalesced=())
    assert only(script)["setup_delay"] == pytest.approx(0.32)


def test_server_goes_on_with_the_connection_id_of_its_retry_packet():
    """Then only a short Initial, an acknowledgment, shows that the client had the answer."""
    script = [
        Packet(-0.2, UP, "initial", OTHER, CLIENT),
        Packet(-0.08, DOWN, "retry", CLIENT, SERVER),
        *(p._replace(dcid=SERVER) if p.dcid == CHOSEN else p for p in handshake()),
        Packet(0.15, UP, "initial", SERVER, CLIENT, length=25, coalesced=("not captured",)),
    ]
    found = only(script)
    assert found["rtt_access"] == pytest.approx(0.05)
    assert np.isnan(found["setup_delay"])
    script[-1] = script[-1]._replace(length=0)  # it was cut off, too
    assert np.isnan(only(script)["rtt_access"])


def test_repeated_initial_gives_no_internet_rtt():
    """The client repeats its first packet after a second, when the answer is in flight."""
    script = [Packet(-1.0, UP, "initial", CHOSEN, CLIENT), *handshake()]
    found = only(script)
    assert SETUP_CLASSES[found["setup_class"]] == "initial_repeated"
    assert found["initials"] == 2
    assert np.isnan(found["rtt_internet"])
    assert found["rtt_access"] == pytest.approx(0.06)
    assert found["setup_delay"] == pytest.approx(1.16)


def test_first_message_in_two_datagrams_is_not_repeated():
    found = only([*handshake(), Packet(0.01, UP, "initial", CHOSEN, CLIENT)])
    assert SETUP_CLASSES[found["setup_class"]] == "optimal"
    assert found["initials"] == 2
    assert found["rtt_internet"] == pytest.approx(0.09)


@pytest.mark.parametrize(
    ("gap", "length", "expected"),
    [(0.58, 1107, "optimal"), (0.58, 1248, ""), (0.58, 0, ""), (0.95, 1248, "initial_repeated")],
)
def test_second_initial_on_a_slow_uplink(gap, length, expected):
    """The server is 700 ms away. Parts of one message differ in length, or may."""
    first, answer, *others = handshake()
    shift = max(gap, 0.7) - 0.1
    script = [
        first._replace(length=1248),
        first._replace(t=gap, length=length),
        *(p._replace(t=p.t + gap + shift) for p in (answer, *others)),
    ]
    found = only(script)
    assert SETUP_CLASSES[found["setup_class"]] == expected
    if expected == "optimal":
        assert found["rtt_internet"] == pytest.approx(shift + 0.1)
    else:
        assert np.isnan(found["rtt_internet"])


def test_third_initial_of_one_length_is_a_repetition():
    first, answer, *others = handshake()
    script = [first, first._replace(t=0.3), first._replace(t=0.6)]
    script += [p._replace(t=p.t + 1) for p in (answer, *others)]
    assert SETUP_CLASSES[only(script)["setup_class"]] == "initial_repeated"


@pytest.mark.parametrize("size", [{"ip_len": 69}, {"length": 22}])
def test_acknowledgment_of_the_server_is_no_answer(size):
    """It acknowledges the first part of the hello; the answer is to both parts."""
    first, answer, *others = handshake()
    script = [
        first,
        Packet(0.05, DOWN, "initial", CLIENT, SERVER, **size),
        first._replace(t=0.04),
        answer._replace(t=0.14),
        *(p._replace(t=p.t + 0.04) for p in others),
    ]
    found = only(script)
    assert found["rtt_internet"] == pytest.approx(0.05)
    assert found["rtt_access"] == pytest.approx(0.06)


def test_initial_that_crosses_the_answer_is_no_round_trip():
    """It still has the connection ID of the client's choice, so it is no answer."""
    found = only([*handshake(), Packet(0.13, UP, "initial", CHOSEN, CLIENT)])
    assert found["rtt_access"] == pytest.approx(0.06)
    assert found["setup_delay"] == pytest.approx(0.16)


def test_server_that_repeats_its_initial_gives_no_access_rtt():
    script = [
        *handshake()[:2],
        Packet(0.9, DOWN, "initial", CLIENT, SERVER),
        *(p._replace(t=p.t + 0.9) for p in handshake()[2:]),
    ]
    found = only(script)
    assert np.isnan(found["rtt_access"])
    assert found["rtt_internet"] == pytest.approx(0.10)
    assert found["setup_delay"] == pytest.approx(1.06)


def test_retry_starts_the_round_trip_anew():
    script = [
        Packet(-0.2, UP, "initial", OTHER, CLIENT),
        Packet(-0.08, DOWN, "retry", CLIENT, CHOSEN),
        *handshake(),
    ]
    found = only(script)
    assert SETUP_CLASSES[found["setup_class"]] == "retry"
    assert found["rtt_internet"] == pytest.approx(0.12)
    assert found["rtt_access"] == pytest.approx(0.06)
    assert found["setup_delay"] == pytest.approx(0.36)


def test_initials_before_the_retry_packet_came_are_no_new_flight():
    """The server answers each, the client heeds the first answer only."""
    script = [
        *(Packet(t, UP, "initial", OTHER, CLIENT) for t in (-1.2, -0.2, -0.05)),
        *(Packet(t, DOWN, "retry", CLIENT, CHOSEN) for t in (-1.1, -0.1, 0.05)),
        *handshake(),
    ]
    found = only(script)
    assert SETUP_CLASSES[found["setup_class"]] == "retry"
    assert found["rtt_access"] == pytest.approx(0.06)


def test_version_negotiation_and_its_second_try_are_one_connection():
    script = [
        Packet(-0.2, UP, "initial", OTHER, CLIENT, version=0x1A2A3A4A),
        Packet(-0.1, DOWN, "version_negotiation", CLIENT, OTHER, version=0),
        *handshake(),
    ]
    found = only(script)
    assert SETUP_CLASSES[found["setup_class"]] == "version_negotiation"
    assert found["version"] == 1
    assert found["setup_delay"] == pytest.approx(0.36)


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ([], "no_response"),
        ([Packet(0.05, DOWN, "unreachable", server=7)], "refused"),
        ([Packet(0.1, DOWN, "initial", CLIENT, SERVER)], "serious_problem"),
    ],
)
def test_set_ups_that_fail(last, expected):
    found = only([Packet(0, UP, "initial", CHOSEN, CLIENT), *last])
    assert SETUP_CLASSES[found["setup_class"]] == expected
    assert np.isnan(found["setup_delay"])


def test_unreachable_after_an_answer_is_no_refusal():
    """A client that has closed its socket says so, and so may a server."""
    found = only([*handshake(), Packet(5, DOWN, "unreachable", server=7)])
    assert SETUP_CLASSES[found["setup_class"]] == "optimal"


def test_zero_rtt_also_behind_the_initial():
    script = handshake()
    script[0] = script[0]._replace(coalesced=("zero_rtt",))
    assert only(script)["zero_rtt"]
    for t in (0.001, 0.13):
        assert only([*handshake(), Packet(t, UP, "zero_rtt", CHOSEN, CLIENT)])["zero_rtt"]


def test_connections_of_one_port_differ_by_connection_ids():
    other = {"chosen": 133, "client": 111, "server": 122}
    script = [
        *handshake(),
        *handshake(0.05, **other),
        Packet(1.0, DOWN, "one_rtt", CLIENT),
        Packet(1.1, DOWN, "one_rtt", 111),
    ]
    found = connections(script)
    assert len(found.summaries) == 2
    assert found.summaries["packets_down"].tolist() == [2, 2]
    assert found.summaries["setup_delay"] == pytest.approx([0.16, 0.16])


def test_new_connection_ids_stay_with_their_port():
    """Both ends may change to connection IDs that no long header showed."""
    script = [
        *handshake(),
        Packet(1.0, UP, "one_rtt", 501),
        Packet(1.1, DOWN, "one_rtt", 502),
        Packet(1.2, UP, "initial", 503, CLIENT, coalesced=("handshake",)),
    ]
    assert only(script)["packets_up"] == 5


def test_next_connection_of_a_port_begins_with_an_initial():
    again = handshake(3.0, chosen=133, client=111, server=122)
    assert len(connections([*handshake(), *again]).summaries) == 2


def test_connection_goes_on_from_another_port():
    script = [
        *handshake(),
        Packet(1.0, UP, "one_rtt", SERVER, port=6000),
        Packet(1.1, DOWN, "one_rtt", CLIENT, port=6000),
    ]
    found = connections(script)
    assert found.migrations.tolist() == [1]
    assert found.summaries["user_port"].tolist() == [5000]


def test_connection_goes_on_at_the_address_that_the_server_prefers():
    script = [
        *handshake(),
        Packet(1.0, UP, "one_rtt", 501, server=3),
        Packet(1.1, DOWN, "one_rtt", 502, server=3),
    ]
    found = connections(script)
    assert found.summaries["packets_up"].tolist() == [4]
    assert found.migrations.tolist() == [0]
    assert len(connections(script[4:]).summaries) == 1


def test_other_servers_packet_with_the_same_connection_id_is_no_migration():
    script = [*handshake(), Packet(1.0, UP, "one_rtt", SERVER, port=6000, server=3)]
    found = connections(script)
    assert found.migrations.tolist() == [0, 0]
    assert found.summaries["begin_seen"].tolist() == [True, False]


def test_silence_of_ten_minutes_ends_a_connection():
    script = [*handshake(), Packet(700, UP, "one_rtt", SERVER)]
    assert len(connections(script).summaries) == 2
    assert len(connections([*handshake(), Packet(590, UP, "one_rtt", SERVER)]).summaries) == 1


def values(edges: list[float], t: float) -> int:
    """Return the spin bit at a time, from the times at which it changes; it begins with 0."""
    return sum(edge <= t for edge in edges) % 2


def spinning(round_trips: int, rtt: float = 0.16, internet: float = 0.10) -> list[Packet]:
    """Return packets every 5 ms in both directions whose spin bit changes once per round trip.

    The client changes at 1 s for the first time; the server reflects that after `internet`.
    """
    up = [1 + k * rtt for k in range(round_trips)]
    down = [edge + internet for edge in up]
    times = [0.5 + k / 200 for k in range(round(200 * (1 + round_trips * rtt)))]
    return [
        *(Packet(t, UP, "one_rtt", SERVER, spin=values(up, t)) for t in times),
        *(Packet(t + 0.001, DOWN, "one_rtt", CLIENT, spin=values(down, t)) for t in times),
    ]


def spin_of(script: list[Packet]) -> np.void:
    (found,) = connections([*handshake(), *script]).spins
    return found


def test_spin_bit_shows_the_round_trips_and_their_parts():
    found = spin_of(spinning(20))
    assert SPIN_KINDS[found["kind"]] == "spins"
    assert found["samples"] >= 17
    assert found["median"] == pytest.approx(0.16, abs=0.01)
    assert found["internet_median"] == pytest.approx(0.10, abs=0.01)
    assert found["access_median"] == pytest.approx(0.06, abs=0.01)


def test_reordered_packets_at_an_edge_are_no_edges():
    """Around each edge, packets come in another order: 0 0 1 0 1 1."""
    script = spinning(20)
    mixed = [
        packet._replace(t=packet.t + (0.025 if k % 7 == 0 else 0))
        for k, packet in enumerate(script)
    ]
    found = spin_of(mixed)
    assert SPIN_KINDS[found["kind"]] == "spins"
    assert found["median"] == pytest.approx(0.16, abs=0.03)
    assert found["min"] > 0.12


def test_ends_begin_with_0():
    """So the client's first packet with 1 is an edge."""
    script = [packet for packet in spinning(20) if packet.t > 1]
    assert spin_of(script)["samples"] == spin_of(spinning(20))["samples"]


def test_round_trips_that_differ_determine_no_median():
    """Six round trips while a queue fills: each takes twice as long as the one before."""
    up = list(1 + 0.16 * np.cumsum([0, 1, 2, 4, 8, 16, 32]))
    down = [t + 0.1 for t in up]
    times = np.arange(0.5, up[-1] + 1, 0.005)
    script = [Packet(t, UP, "one_rtt", SERVER, spin=values(up, t)) for t in times]
    script += [Packet(t + 0.001, DOWN, "one_rtt", CLIENT, spin=values(down, t)) for t in times]
    found = spin_of(script)
    assert (SPIN_KINDS[found["kind"]], found["samples"]) == ("spins", 6)
    assert np.isnan(found["median"])


def test_few_edges_say_nothing():
    """Two round trips are too few to distinguish a signal from chance."""
    found = spin_of(spinning(2))
    assert SPIN_KINDS[found["kind"]] == ""


def test_round_trip_with_a_pause_does_not_count():
    """After five round trips, both ends are silent for two seconds."""
    later = 1.8
    script = [p if p.t < later else p._replace(t=p.t + 2) for p in spinning(20)]
    found = spin_of(script)
    assert SPIN_KINDS[found["kind"]] == "spins"
    assert found["p95"] < 0.2


def test_constant_spin_bit():
    script = [p._replace(spin=1) for p in spinning(20)]
    found = spin_of(script)
    assert SPIN_KINDS[found["kind"]] == "constant"
    assert np.isnan(found["median"])


@pytest.mark.parametrize("seed", range(5))
def test_random_spin_bit_is_no_signal(seed):
    random = np.random.default_rng(seed)
    script = [p._replace(spin=int(random.integers(2))) for p in spinning(20)]
    found = spin_of(script)
    assert SPIN_KINDS[found["kind"]] == "no_signal"
    assert np.isnan(found["median"])


@pytest.mark.parametrize("seed", range(5))
def test_spin_bit_that_only_the_server_draws_is_no_signal(seed):
    random = np.random.default_rng(seed)
    script = [p._replace(spin=int(random.integers(2))) if p.downlink else p for p in spinning(20)]
    assert SPIN_KINDS[spin_of(script)["kind"]] == "no_signal"


def test_bursts_and_the_rate_in_them():
    """Two bursts of 40 packets of 1000 B, each 10 ms after the one before; then silence of 5 s."""
    script = handshake()[:1] + [
        Packet(begin + k / 100, DOWN, "one_rtt", CLIENT, ip_len=1000)
        for begin in (2.0, 7.4)
        for k in range(40)
    ]
    found = connections(script).with_bursts(np.array([1_000_000]))
    assert found["bursts"].tolist() == [3]
    assert found["active"].tolist() == pytest.approx([0.78])
    assert found["downlink_rate"].tolist() == pytest.approx([78 * 8000 / 0.78])


def test_messages_of_icmp_are_no_activity():
    """Otherwise a server that cannot be reached would make a page."""
    script = [Packet(0, UP, "initial", CHOSEN, CLIENT), Packet(0.05, DOWN, "unreachable")]
    (active,) = connections(script).activities(np.array([1_000_000]), 0, (-1, 2**62))
    assert (active["ip_bytes"], active["start"], active["end"]) == (0, 0, 0)
