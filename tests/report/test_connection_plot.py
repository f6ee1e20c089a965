"""What a connection's page draws, for exchanges that a reader can work out.

d1 is bytes 1 to 1000 of the stream, for its SYN is seen; d2 1001 to 2000; see `segments`.
"""

import base64
import datetime
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from conftest import ask, read_user

from spark_jobs.estimators.sender.state import LIMITS
from spark_jobs.figures.tables import TABLES
from spark_jobs.report.connection import DETAIL_TABLES, Connection, read_connection
from spark_jobs.report.connection_packets import KINDS, ConnectionPackets, packets_of
from spark_jobs.report.plot import MAX_DRAWN, figure, thinning_notes
from spark_jobs.report.plot_page import page
from spark_jobs.tables.registry import ROWS
from tests.helpers.packet_script import Packet, partition
from tests.helpers.segments import RTT_US, SLOT_US, acked, opened, sent, started

SECOND = 1_000_000


def drawn(lines: list[Packet]) -> tuple[ConnectionPackets, Connection]:
    """Return the one connection of an exchange, as its page draws it."""
    made = partition(sorted(lines, key=lambda p: p.us))
    tables = {table.name: rows(made) for table, rows in ROWS.items()}
    (flow,) = tables["flows"].to_pylist()
    flow |= {"network": "net", "date": datetime.date(2023, 11, 14)}
    of_flow = [pa.Table.from_pylist(tables[t.name].to_pylist(), t.arrow) for t in DETAIL_TABLES]
    connection = Connection(flow, *of_flow)
    exchange = packets_of(made, connection)
    assert exchange is not None
    return exchange, connection


def traces(lines: list[Packet], direction: str = "down") -> dict[str, dict]:
    """Return what is drawn of a direction, by its name, arrays unpacked."""
    found = figure(*drawn(lines))["data"]
    own = [trace for trace in found if trace.get("meta", [direction])[0] == direction]
    return {trace["name"]: unpacked(trace) for trace in own}


def unpacked(value):
    if isinstance(value, dict) and "bdata" in value:
        array = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
        shape = [int(n) for n in value.get("shape", str(len(array))).split(",")]
        return array.reshape(shape)
    return {k: unpacked(v) for k, v in value.items()} if isinstance(value, dict) else value


def strokes(trace: dict) -> list[tuple[float, float, float]]:
    """Return (time, lowest number, highest number) of each vertical stroke."""
    half = trace["error_y"]["array"]
    rows = zip(trace["x"], trace["y"] - half, trace["y"] + half, strict=True)
    return [(round(float(x), 6), float(low), float(high)) for x, low, high in rows]


def points(trace: dict) -> list[tuple[float, float]]:
    return [(round(float(x), 6), float(y)) for x, y in zip(trace["x"], trace["y"], strict=True)]


def with_rto_expiry() -> list[Packet]:
    """d1, d2 and d3 at once, all lost; d1' after the RTO of 3 s, and d2', d3' in slow start."""
    at = 900_000
    lines = [*opened(), sent(at, 1), sent(at + 1000, 2), sent(at + 2000, 3)]
    expiry = at + 3 * SECOND
    lines += [sent(expiry, 1), acked(expiry + RTT_US, 1)]
    lines += [sent(expiry + RTT_US + 100_000, 2), sent(expiry + RTT_US + 101_000, 3)]
    return [*lines, acked(expiry + 2 * RTT_US + 100_000 + SLOT_US, 3)]


def test_strokes_are_the_segments_and_lines_the_acks():
    graph = traces(started(first=2))
    first, second = (900_000 + i * SECOND for i in range(2))
    answered = (RTT_US + SLOT_US) / SECOND
    assert strokes(graph["data"]) == [(first / 1e6, 1, 1001), (second / 1e6, 1001, 2001)]
    assert points(graph["ACKs"])[-2:] == [
        (pytest.approx(first / 1e6 + answered), 1001),
        (pytest.approx(second / 1e6 + answered), 2001),
    ]
    assert points(graph["window edge"])[-1][1] == 2001 + 8192
    frame, low, size, seq, high = graph["data"]["customdata"][1]
    assert (low, high, size, seq) == (1001, 2001, 1000, 1500)
    assert frame == 6  # the seventh packet: SYN, SYN ACK, ACK, request, d1, its ACK, d2


def test_in_flight_is_what_is_sent_less_what_is_acknowledged():
    lines = [*opened(), sent(900_000, 1), sent(901_000, 2), acked(1_600_000, 1)]
    graph = traces([*lines, acked(1_700_000, 2)])
    assert points(graph["in flight"])[-4:] == [(0.9, 1000), (0.901, 2000), (1.6, 1000), (1.7, 0)]
    assert graph["advertised window"]["y"][-1] == 8192


def test_retransmissions_are_drawn_by_cause_and_losses_are_marked():
    graph = traces(with_rto_expiry())
    assert strokes(graph["retransmission: RTO expiry"]) == [(3.9, 1, 1001)]
    assert strokes(graph["retransmission: slow start"]) == [(4.6, 1001, 2001), (4.601, 2001, 3001)]
    assert points(graph["lost on the access side"]) == [(0.9, 501), (0.901, 1501), (0.902, 2501)]
    assert [at for at, _ in points(graph["RTO expiry"])] == [3.9]
    assert "spurious: data had arrived" not in graph


def test_spurious_retransmission_is_marked():
    """d1 arrives, its ACK is late; the RTO expires and d1 is retransmitted."""
    at, expiry = 900_000, 900_000 + 3 * SECOND
    lines = [*opened(), sent(at, 1), sent(expiry, 1), acked(expiry + 100_000, 1)]
    lines += [acked(expiry + RTT_US + SLOT_US, 1), sent(expiry + 2 * SECOND, 2)]
    graph = traces([*lines, acked(expiry + 2 * SECOND + RTT_US, 2)])
    assert points(graph["spurious: data had arrived"]) == [(3.9, 501)]


def test_sack_blocks_are_strokes_and_data_that_arrived_twice_is_marked():
    lines = [*opened(sack=True), *(sent(900_000 + 1000 * n, n) for n in (1, 2, 3))]
    lines += [acked(1_600_000, 1), acked(1_700_000, 1, (3, 3)), sent(1_900_000, 2)]
    lines += [acked(2_600_000, 3), acked(2_700_000, 3, (2, 2))]
    graph = traces(lines)
    assert strokes(graph["SACK blocks"]) == [(1.7, 2001, 3001)]
    assert strokes(graph["D-SACK: data arrived twice"]) == [(2.7, 1001, 2001)]


def test_numbers_do_not_wrap():
    lines = [packet.numbered(down=2**32 - 1000) for packet in started(first=3)]
    assert strokes(traces(lines)["data"]) == strokes(traces(started(first=3))["data"])


def test_window_of_unknown_scale_is_not_drawn():
    """The SYN was not seen; SYN ACK and what follows was."""
    lines = [replace(p, ws=2) if "SYN" in p.flags else p for p in started()]
    assert "window edge" in traces(lines)
    exchange, connection = drawn(lines[1:])
    assert np.isnan(exchange.down.acks["window"]).all()
    text = page(connection, exchange)
    assert "The window scale is unknown" in text
    assert "Gi did not see both SYNs" in text


def test_window_is_drawn_scaled():
    lines = [replace(p, ws=2) if "SYN" in p.flags else p for p in started(first=1)]
    assert points(traces(lines)["advertised window"])[-1][1] == 4 * 8192


def test_band_shows_what_limited_the_transfer():
    exchange, connection = drawn(with_rto_expiry())
    assert_sums_are_the_flows(exchange, connection)
    recovery = exchange.intervals[exchange.intervals["limit"] == LIMITS.index("recovery")]
    assert recovery["end"].max() == pytest.approx(5.3, abs=0.2)


def assert_sums_are_the_flows(exchange: ConnectionPackets, connection: Connection) -> None:
    seconds = exchange.intervals["end"] - exchange.intervals["start"]
    for code, name in enumerate(LIMITS):
        mine = seconds[exchange.intervals["limit"] == code].sum()
        assert mine == pytest.approx(connection.flow[f"limited_{name}"], abs=2e-6), name
    assert (np.diff(exchange.intervals["start"]) > 0).all()
    overlap = exchange.intervals["end"][:-1] - exchange.intervals["start"][1:]
    assert (
        overlap.max(initial=0) < 0.01
    )  # where a server sends before its estimated receipt of the ACK


def test_bands_of_the_demos_connections_sum_up_to_their_rows(demo):
    ids = ask(
        demo.warehouse,
        """
        (select flow_id from flows where limited_by is not null order by rto_expiries desc limit 4)
        union (select flow_id from flows order by limited_receiver desc nulls last limit 3)
        union (select flow_id from flows order by limited_mobile desc nulls last limit 3)
        union (select flow_id from flows order by data_packets_down desc limit 3)
        """,
    ).fetchall()
    assert len(ids) > 9
    for (flow_id,) in ids:
        connection = read_connection(demo.warehouse, flow_id)
        flow = connection.flow
        made = read_user(demo.warehouse, flow["network"], flow["date"], flow["user"])
        exchange = packets_of(made, connection)
        assert_sums_are_the_flows(exchange, connection)
        assert (exchange.down.segments["size"] > 0).sum() == flow["data_packets_down"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([Packet(0, "up", frozenset({"SYN"}), seq=9)], "The limits of the transfer are unknown"),
        (
            [Packet(0, "up", frozenset({"ACK"}), seq=9, ack=5)],
            "The limits of the transfer are unknown",
        ),
        ([Packet(0, "down", frozenset({"RST"}), seq=9)], "The limits of the transfer are unknown"),
        (opened(), "The connection never stalled"),
        ([p for p in started() if p.way == "down"], "Gi saw only one direction: down"),
        ([p for p in started() if p.way == "up"], "Gi saw only one direction: up"),
        ([replace(p, server="2001:db8::1") for p in started()], "ipv6.addr == 2001:db8::1"),
    ],
    ids=["SYN", "ACK", "RST", "no data", "one way down", "one way up", "IPv6"],
)
def test_page_says_what_is_not_known(lines, words):
    text = page(*reversed(drawn(lines)))
    assert words in text


def test_uplink_is_shown_first_where_it_has_more_data():
    """The request has 200 bytes; without d1 it is all there is."""
    lines = [*opened(), Packet(800_000, "down", frozenset({"ACK"}), seq=500, ack=300)]
    shown = {t["name"]: t for t in figure(*drawn(lines))["data"] if t.get("visible") is True}
    assert strokes(unpacked(shown["data"])) == [(0.700001, 1, 201)]
    assert traces(started(first=1), "up")["data"]["meta"] == ["up", True]


def test_page_notes_that_a_plot_is_thinned():
    exchange, _ = drawn(started(first=1))
    assert thinning_notes(exchange) == []
    many = replace(exchange.down, segments=np.repeat(exchange.down.segments, MAX_DRAWN))
    (note,) = thinning_notes(replace(exchange, down=many))
    assert note.startswith(f"There are {len(many.segments):,} segments in one direction")


def test_every_cause_of_the_table_is_drawn():
    """The schema lists them in words."""
    meaning = next(c for c in TABLES["retransmissions"].columns if c.name == "cause").meaning
    causes = [kind for kind in KINDS if f"{kind} (" in meaning]
    assert set(KINDS) - set(causes) == {"new", "retransmission", "probe", "keepalive"}
