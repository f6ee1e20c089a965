"""Mechanisms of TCP that most connections never use, one exchange each, by the RFC's rules.

Segments and times are those of `segments` and `replies`: Gi lies 600 ms from the mobile and back,
100 ms from the server and back. T is when the response begins. dN' is dN retransmitted, [..] what
SACK blocks report. All traffic here is legal: no packet may count as one that no end could have
sent.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP

from spark_jobs.ingest.job import ingest_capture
from spark_jobs.jobs.flows import publish_flows
from tests.helpers.capture_files import NOON as CAPTURED
from tests.helpers.capture_files import Frame, pcap
from tests.helpers.layers import SERVER, USER
from tests.helpers.packet_script import NOON, Packet, read, tables
from tests.helpers.replies import (
    BEGIN,
    FIN,
    MS,
    SECOND,
    TIMEOUT_US,
    duplicates,
    flight,
    server_packet,
    transfer,
)
from tests.helpers.segments import DATA, RTT_US, acked, opened, sent

T = BEGIN
Rows = dict[str, list[dict]]


def after(ms: int) -> int:
    """A time so many ms after T."""
    return T + ms * MS


def spaced(first: int, last: int, at_us: int) -> list[Packet]:
    """dfirst ... dlast, 10 ms apart, as the link delivers them."""
    return [sent(at_us + (n - first) * 10 * MS, n) for n in range(first, last + 1)]


def run(exchange: str | Iterable[Packet]) -> Rows:
    """Rows of each table, of legal traffic that the monitor saw whole."""
    lines = read(exchange) if isinstance(exchange, str) else exchange
    rows = tables(sorted(lines, key=lambda p: p.us))
    for flow in rows["flows"]:
        assert (flow["out_of_window_up"], flow["out_of_window_down"]) == (0, 0)
        assert flow["acked_unseen_bytes"] == 0
    return rows


def seconds(row: dict, name: str = "ts") -> float:
    """A row's time, in seconds after the exchange's beginning."""
    return row[name].timestamp() - NOON / 1e6


def of(rows: Rows, *names: str) -> list:
    """Columns of the only connection."""
    (flow,) = rows["flows"]
    return [flow[name] for name in names]


def retransmitted(rows: Rows) -> list[tuple[float, str | None, bool | None]]:
    """(when, cause, needed) of each retransmission, but for a probe's new data."""
    return [
        (pytest.approx(seconds(row), abs=1e-6), row["cause"], row["needed"])
        for row in rows["retransmissions"]
        if not row["new_data"]
    ]


def at(us: int) -> float:
    return us / 1e6


def lost(rows: Rows) -> list[tuple[str, float]]:
    """(side, when) of each loss."""
    return [(row["side"], round(seconds(row), 6)) for row in rows["losses"]]


def without_events(rows: Rows) -> bool:
    """Nothing was lost, retransmitted or timed out."""
    for flow in rows["flows"]:
        assert [flow[name] for name in ("lost_access", "lost_internet")] == [0, 0]
        assert [flow[name] for name in ("retransmissions", "rto_expiries")] == [0, 0]
    assert rows["losses"] == rows["retransmissions"] == []
    assert not any(row["backed_off"] for row in rows["rto_values"])
    return True


# ---- recovery ----------------------------------------------------------------------------------


def prr() -> list[Packet]:
    """
    Gi     | d1 ... d10          d11 d12 d1' d13 d14        d15 d16 d17
    mobile |           [2] [2-3] [2-4] ... [2-10]  [2-11] [2-12] a12 a13 ... a17

    Two segments by limited transmit (RFC 3042), then PRR with ssthresh 5 and RecoverFS 12: the fast
    retransmission at the third block; ceil(prr_delivered 5 / 12) - prr_out allows one more at the
    fifth and the seventh; at the ninth the pipe is 5. What arrives then is replaced one for one.
    """
    lines = [*opened(sack=True), *spaced(1, 10, T)]
    lines += [acked(after(600 + 10 * (n - 1)), 0, (2, n)) for n in range(2, 11)]
    lines += [sent(after(710), 11), sent(after(720), 12), sent(after(730), 1)]
    lines += [sent(after(750), 13), sent(after(770), 14)]
    lines += [acked(after(1310), 0, (2, 11)), acked(after(1320), 0, (2, 12))]
    lines += [acked(after(1330), 12), sent(after(1410), 15), sent(after(1420), 16)]
    lines += [sent(after(1430), 17), acked(after(1350), 13), acked(after(1370), 14)]
    lines += [acked(after(2010), 15), acked(after(2020), 16), acked(after(2030), 17)]
    return lines


def test_prr_sends_new_data_while_a_loss_is_repaired():
    """RFC 6937, 3."""
    rows = run(prr())
    assert lost(rows) == [("access", at(T))]
    assert retransmitted(rows) == [(at(after(730)), "fast", True)]
    assert of(rows, "retransmissions", "rto_expiries", "payload_bytes_down") == [1, 0, 17 * DATA]
    assert of(rows, "data_packets_down", "lost_internet") == [18, 0]
    assert not any(row["backed_off"] for row in rows["rto_values"])


@pytest.mark.parametrize("down", [2**32 - 500, 2**32 - 1000, 2**32 - 4700, 2**32 - 12_500])
def test_recovery_across_the_wrap_of_sequence_numbers(down):
    """RFC 9293, 3.4: the exchange of PRR, where the numbers wrap between the handshake and d1, in
    d1 that is lost, within d5, or just after d12; SACK blocks lie across it."""
    rows = run([line.numbered(up=2**32 - 150, down=down) for line in prr()])
    assert lost(rows) == [("access", at(T))]
    assert [row["seq"] for row in rows["losses"]] == [(500 + down) % 2**32]
    assert retransmitted(rows) == [(at(after(730)), "fast", True)]
    assert of(rows, "retransmissions", "rto_expiries") == [1, 0]
    assert of(rows, "payload_bytes_up", "payload_bytes_down") == [200, 17 * DATA]


def test_rack_waits_for_a_segment_overtaken_on_the_access_side():
    """RFC 8985, 6.2, step 4: fewer than three segments reported, and d1 arrives 40 ms late, within
    a quarter of the least round trip.

    Gi     | d1 d2 d3                 d4
    mobile |           [2] [2-3]  a3      a4
    """
    lines = [*opened(sack=True), *spaced(1, 3, T)]
    lines += [acked(after(610), 0, (2, 2)), acked(after(620), 0, (2, 3)), acked(after(640), 3)]
    lines += [sent(after(740), 4), acked(after(1340), 4)]
    assert without_events(run(lines))


def test_racks_reordering_timer_detects_a_loss_after_two_sack_blocks():
    """RFC 8985, 6.2, step 5: d1 counts as lost a round trip (700 ms) and a quarter of it after it
    was sent.

    Gi     | d1 d2 d3              d1'
    mobile |           [2] [2-3]       a3
    """
    lines = [*opened(sack=True), *spaced(1, 3, T)]
    lines += [acked(after(610), 0, (2, 2)), acked(after(620), 0, (2, 3))]
    lines += [sent(after(875), 1), acked(after(1475), 3)]
    rows = run(lines)
    assert lost(rows) == [("access", at(T))]
    assert retransmitted(rows) == [(at(after(875)), "fast", True)]
    assert of(rows, "retransmissions", "rto_expiries") == [1, 0]


def test_rack_detects_a_lost_retransmission():
    """RFC 8985, 3.2: d9 was sent after d1' and arrives; so d1' is lost, too.

    Gi     | d1 ... d6        d7 d8 d1'             d9 d10            d1''
    mobile |         [2] ... [2-6]       [2-7] [2-8]        [2-9] [2-10]   a10
    """
    lines = [*opened(sack=True), *spaced(1, 6, T)]
    lines += [acked(after(600 + 10 * (n - 1)), 0, (2, n)) for n in range(2, 7)]
    lines += [sent(after(710), 7), sent(after(720), 8), sent(after(730), 1)]
    lines += [acked(after(1310), 0, (2, 7)), acked(after(1320), 0, (2, 8))]
    lines += [sent(after(1410), 9), sent(after(1420), 10)]
    lines += [acked(after(2010), 0, (2, 9)), acked(after(2020), 0, (2, 10))]
    lines += [sent(after(2110), 1), acked(after(2710), 10)]
    rows = run(lines)
    assert lost(rows) == [("access", at(T)), ("access", at(after(730)))]
    assert retransmitted(rows) == [
        (at(after(730)), "fast", True),
        (at(after(2110)), "fast", True),
    ]
    assert of(rows, "retransmissions", "rto_expiries") == [2, 0]


def test_loss_probe_repairs_the_tail():
    """RFC 8985, 7.2: two round trips and 200 ms (one segment in flight: its ACK may be delayed)
    after a1 was heard.

    Gi     | d1 d2             d2'
    mobile |        a1             a2
    """
    lines = [*opened(sack=True), *spaced(1, 2, T), acked(after(600), 1)]
    lines += [sent(after(2300), 2), acked(after(2900), 2)]
    rows = run(lines)
    assert lost(rows) == [("access", at(after(10)))]
    assert retransmitted(rows) == [(at(after(2300)), "tlp", True)]
    assert of(rows, "retransmissions", "rto_expiries") == [1, 0]
    (stall,) = rows["stalls"]
    assert (stall["class"], stall["segments"], stall["lost"]) == ("small_window", 1, 1)
    assert (stall["ended_by"], stall["slow_start"]) == ("server", False)
    assert seconds(stall, "end_ts") - seconds(stall, "start_ts") == pytest.approx(1.6, abs=0.01)


def test_loss_probe_of_new_data_detects_losses():
    """RFC 8985, 7.3: the window of two segments is full; two round trips after d2 the probe is d3.
    Its block shows both at once, as it was sent more than a reordering window after them (6.2).

    Gi     | d1 d2             d3        d1' d2'
    mobile |                       [3]          a1 a3
    """
    lines = [*opened(sack=True), *spaced(1, 2, T), sent(after(1410), 3)]
    lines += [acked(after(2010), 0, (3, 3)), *spaced(1, 2, after(2110))]
    lines += [acked(after(2710), 1, (3, 3)), acked(after(2720), 3)]
    rows = run(lines)
    assert lost(rows) == [("access", at(T)), ("access", at(after(10)))]
    (probe,) = (row for row in rows["retransmissions"] if row["new_data"])
    assert (probe["cause"], round(seconds(probe), 6)) == ("tlp", at(after(1410)))
    assert retransmitted(rows) == [(at(after(2110)), "fast", True), (at(after(2120)), "fast", True)]
    assert of(rows, "retransmissions", "rto_expiries") == [2, 0]


def test_partial_ack_without_sack_continues_recovery():
    """RFC 6582, 3.2: a3 is below the recovery point, so d4 is lost, too, and sent at once. a8 ends
    the recovery: d9 is new.

    Gi     | d1 ... d8                      d2'    d4'     d9
    mobile |           a1 a1 a1 a1 a1 a1        a3      a8    a9
    """
    lines = [*opened(), *spaced(1, 8, T), acked(after(600), 1)]
    lines += [acked(after(600 + 10 * (n - 1)), 1) for n in (3, 5, 6, 7, 8)]
    third = after(600 + 10 * 5 + 100)
    lines += [sent(third, 2), acked(third + RTT_US, 3), sent(third + RTT_US + 100 * MS, 4)]
    end = third + 2 * RTT_US + 100 * MS
    lines += [acked(end, 8), sent(end + 100 * MS, 9), acked(end + 100 * MS + RTT_US, 9)]
    rows = run(lines)
    assert lost(rows) == [("access", at(after(10))), ("access", at(after(30)))]
    assert retransmitted(rows) == [
        (at(third), "fast", True),
        (at(third + RTT_US + 100 * MS), "fast", True),
    ]
    assert of(rows, "retransmissions", "rto_expiries", "sack") == [2, 0, False]


@pytest.mark.parametrize("reports", [True, False])
def test_fast_retransmission_of_an_overtaken_segment_is_spurious(reports):
    """RFC 2883, 4.1: d1 is overtaken by d2, d3 and d4 on the access side. a4 comes before d1' was
    sent, so no D-SACK is needed to detect that.

    Gi     | d1 ... d5                        d1'          d6
    mobile |         [2] [2-3] [2-4] a4 a5         a5 [1]     a6
    """
    lines = [*opened(sack=True), *spaced(1, 5, T)]
    lines += [acked(after(600 + 10 * (n - 1)), 0, (2, n)) for n in (2, 3, 4)]
    lines += [acked(after(635), 4), acked(after(640), 5)]
    lines += [sent(after(730), 1)]
    lines += [acked(after(1330), 5, *([(1, 1)] if reports else []))]
    lines += [sent(after(1430), 6), acked(after(2030), 6)]
    rows = run(lines)
    assert lost(rows) == []
    assert retransmitted(rows) == [(at(after(730)), "fast", False)]
    assert of(rows, "retransmissions", "rto_expiries", "lost_access") == [1, 0, 0]
    assert [row["spurious_rto"] for row in rows["retransmissions"]] == [None]


def test_all_data_is_retransmitted_to_a_mobile_that_reneges():
    """RFC 2018, 8: d1 is lost. The mobile reneges on d2 ... d4, so after an RTO expiry no block
    counts; the ACK of d1' stands at a1.

    Gi     | d1 d2 d3 d4               d1'      d2' d3'      d4'
    mobile |             [2] [2-3]         a1       a2 a3        a4

    d4's ACK was lost; the sender is an old one, without RACK and loss probes.
    """
    due = T + TIMEOUT_US
    lines = [*opened(sack=True), *spaced(1, 4, T)]
    lines += [acked(after(610), 0, (2, 2)), acked(after(620), 0, (2, 3))]
    lines += [sent(due, 1), acked(due + RTT_US, 1)]
    answer = due + RTT_US + 100 * MS
    lines += [*spaced(2, 3, answer), acked(answer + RTT_US, 2), acked(answer + RTT_US + 10 * MS, 3)]
    lines += [sent(answer + RTT_US + 100 * MS, 4), acked(answer + 2 * RTT_US + 100 * MS, 4)]
    rows = run(lines)
    assert [(when, cause) for when, cause, _ in retransmitted(rows)] == [
        (at(due), "rto"),
        (at(answer), "slow_start"),
        (at(answer + 10 * MS), "slow_start"),
        (at(answer + RTT_US + 100 * MS), "slow_start"),
    ]
    assert [needed for _, _, needed in retransmitted(rows)] == [True] * 4
    assert ("access", at(T)) in lost(rows)
    assert of(rows, "retransmissions", "rto_expiries") == [4, 1]


# ---- spurious RTO expiries ---------------------------------------------------------------------


def test_f_rto_continues_with_new_data():
    """RFC 5682, 2.1: the link stood still for 1.5 s; a1 after the RTO expiry lets two new segments
    go, a2 proves that the original d2 arrived. d1' is answered by a duplicate.

    Gi     | d1 d2 d3              d1'           d4 d5
    mobile |                           a1 a2 a3         a3 a4 a5
    """
    lines = [*opened(), *spaced(1, 3, T), sent(T + TIMEOUT_US, 1)]
    lines += [acked(after(2130 + 10 * n), n + 1) for n in range(3)]
    lines += [*spaced(4, 5, after(2230)), acked(after(2700), 3)]
    lines += [acked(after(2830), 4), acked(after(2840), 5)]
    rows = run(lines)
    assert lost(rows) == []
    assert retransmitted(rows) == [(at(T + TIMEOUT_US), "rto", False)]
    (row,) = rows["retransmissions"]
    assert (row["spurious_rto"], row["spurious_by"]) == (True, "frto")
    assert of(rows, "retransmissions", "rto_expiries", "payload_bytes_down") == [1, 1, 5 * DATA]
    (stall,) = rows["stalls"]
    assert (stall["class"], stall["lost"], stall["segments"]) == ("ack_delay", 0, 3)
    (expiry,) = (row for row in rows["rto_values"] if row["backed_off"])
    assert seconds(expiry) == pytest.approx(at(T + TIMEOUT_US), abs=0.1)
    assert expiry["rto"] == pytest.approx(4.2)


def test_eifel_detects_by_the_timestamp_that_the_ack_answers_the_original():
    """RFC 3522, 3.2: one ACK of all that waited (RFC 7323, 4.3: it echoes the earliest), older than
    d1'. F-RTO cannot detect it: d1' may have filled the only hole.

    Gi     | d1 d2 d3              d1'          d4
    mobile |                           a3 (d1)     a3 (d1') a4
    """
    rows = run("""
        0.000 up   SYN     seq=99                      tsval=5000 tsecr=0
        0.100 down SYN ACK seq=499  ack=100            tsval=90050 tsecr=5000
        0.700 up   ACK     seq=100  ack=500            tsval=5400 tsecr=90050
        0.701 up   ACK     seq=100  ack=500  data=200  tsval=5401 tsecr=90050
        0.900 down ACK     seq=500  ack=300  data=1000 tsval=90850 tsecr=5401
        0.910 down ACK     seq=1500 ack=300  data=1000 tsval=90860 tsecr=5401
        0.920 down ACK     seq=2500 ack=300  data=1000 tsval=90870 tsecr=5401
        3.000 down ACK     seq=500  ack=300  data=1000 tsval=92950 tsecr=5401
        3.030 up   ACK     seq=300  ack=3500           tsval=7730 tsecr=90850
        3.130 down ACK     seq=3500 ack=300  data=1000 tsval=93080 tsecr=7730
        3.600 up   ACK     seq=300  ack=3500           tsval=8300 tsecr=92950
        3.730 up   ACK     seq=300  ack=4500           tsval=8430 tsecr=93080
    """)
    assert lost(rows) == []
    assert retransmitted(rows) == [(3.0, "rto", False)]
    (row,) = rows["retransmissions"]
    assert (row["spurious_rto"], row["spurious_by"]) == (False, "eifel")
    # the server measured 2.23 s then: 0.89125 + 4 x 0.645 (RFC 6298, 2.3)
    (rto,) = (row["rto"] for row in rows["rto_values"] if 3.03 <= seconds(row) <= 3.13)
    assert rto == pytest.approx(3.47125, rel=1 / 32)
    assert all(row["rtt"] >= 0.6 for row in rows["rtt_samples"] if row["side"] == "access")


# ---- congestion notification -------------------------------------------------------------------


def test_ecn_echoes_are_no_losses():
    """RFC 3168, 6.1: d2 was marked; the mobile says ECE until CWR comes with new data.

    Gi     | d1 d2               d3 CWR d4
    mobile |       a1 a2 ECE               a3 a4
    """
    rows = run("""
        0.000 up   SYN ECE CWR seq=99
        0.100 down SYN ACK ECE seq=499  ack=100
        0.700 up   ACK         seq=100  ack=500
        0.701 up   ACK         seq=100  ack=500  data=200
        0.900 down ACK         seq=500  ack=300  data=1000
        0.910 down ACK         seq=1500 ack=300  data=1000
        1.500 up   ACK         seq=300  ack=1500
        1.510 up   ACK ECE     seq=300  ack=2500
        1.610 down ACK CWR     seq=2500 ack=300  data=1000
        1.620 down ACK         seq=3500 ack=300  data=1000
        2.210 up   ACK         seq=300  ack=3500
        2.220 up   ACK         seq=300  ack=4500
    """)
    assert without_events(rows)
    assert of(rows, "setup_class", "initiator", "payload_bytes_down") == ["optimal", "mobile", 4000]
    assert of(rows, "setup_delay", "rtt_access") == [pytest.approx(0.7), pytest.approx(0.6)]


@pytest.mark.parametrize("refused", [False, True], ids=["dropped", "reset"])
def test_syn_is_retransmitted_without_ecn(refused):
    """RFC 3168, 6.1.1 and 6.1.1.1: something drops SYNs with ECN, or answers them with an RST."""
    rst = "0.1 down RST ACK seq=0 ack=100" if refused else ""
    begin = 0.6 if refused else 1.0
    rows = run(f"""
        0.0           up   SYN ECE CWR seq=99
        {rst}
        {begin}       up   SYN         seq=99
        {begin + 0.1} down SYN ACK     seq=499 ack=100
        {begin + 0.7} up   ACK         seq=100 ack=500
        {begin + 0.8} up   ACK         seq=100 ack=500 data=200
        {begin + 1.0} down ACK         seq=500 ack=300 data=1000
        {begin + 1.6} up   ACK         seq=300 ack=1500
    """)
    assert without_events(rows)
    assert of(rows, "syn_count", "synack_count", "setup_class") == [2, 1, "slight_problem"]
    assert of(rows, "setup_delay") == [pytest.approx(begin + 0.7)]


def test_accecn_counter_does_not_change_the_kind_of_an_ack():
    """RFC 9768, 3.1 and 3.2.2: three flags of the SYN, then a counter of marked packets in each
    packet, from 5 on. Duplicates with another count are duplicates.

    Gi     | d1 ... d5                 d1'
    mobile |          a0 a0 a0 a0 (6, 7, 7, 7)   a5
    """
    counter = {5: "AE ECE", 6: "AE CWR", 7: "AE CWR ECE"}
    five, six, seven = (counter[n] for n in (5, 6, 7))
    rows = run(f"""
        0.000 up   SYN AE CWR ECE seq=99
        0.100 down SYN ACK CWR    seq=499  ack=100
        0.700 up   ACK CWR        seq=100  ack=500
        0.701 up   ACK {five}     seq=100  ack=500  data=200
        0.900 down ACK {five}     seq=500  ack=300  data=1000
        0.910 down ACK {five}     seq=1500 ack=300  data=1000
        0.920 down ACK {five}     seq=2500 ack=300  data=1000
        0.930 down ACK {five}     seq=3500 ack=300  data=1000
        0.940 down ACK {five}     seq=4500 ack=300  data=1000
        1.510 up   ACK {six}      seq=300  ack=500
        1.520 up   ACK {seven}    seq=300  ack=500
        1.530 up   ACK {seven}    seq=300  ack=500
        1.540 up   ACK {seven}    seq=300  ack=500
        1.630 down ACK {five}     seq=500  ack=300  data=1000
        2.230 up   ACK {seven}    seq=300  ack=5500
    """)
    assert of(rows, "setup_class", "syn_count", "synack_count") == ["optimal", 1, 1]
    assert lost(rows) == [("access", 0.9)]
    assert retransmitted(rows) == [(1.63, "fast", True)]
    assert of(rows, "retransmissions", "rto_expiries", "payload_bytes_down") == [1, 0, 5000]


# ---- options that take room --------------------------------------------------------------------


def framed(packet: Packet, options: list[tuple]) -> bytes:
    """The packet, with options before its own."""
    own = [
        *([("MSS", packet.mss)] if packet.mss else []),
        *([("WScale", packet.ws)] if packet.ws is not None else []),
        *([("SAckOK", b"")] if packet.sackok else []),
        *([("Timestamp", (packet.tsval, packet.tsecr or 0))] if packet.tsval else []),
        *([("SAck", tuple(packet.edges))] if packet.edges else []),
    ]
    up = packet.way == "up"
    ends = (USER, SERVER, 40000, 80) if up else (SERVER, USER, 80, 40000)
    header = TCP(
        sport=ends[2],
        dport=ends[3],
        flags="".join(flag[0] for flag in sorted(packet.flags)),
        seq=packet.seq,
        ack=packet.ack,
        window=packet.win,
        options=[*options, *own],
    )
    return bytes(IP(src=ends[0], dst=ends[1], ttl=60, id=0) / header / bytes(packet.data))


@pytest.fixture
def captured(warehouse, network, in_this_process, tmp_path) -> Callable[..., Rows]:
    """Tables of a capture of these packets, each with the options that a function gives it."""

    def through(lines: list[Packet], options: Callable[[Packet], list[tuple]]) -> Rows:
        lines = sorted(lines, key=lambda p: p.us)
        frames = [Frame(framed(line, options(line)), CAPTURED + line.us) for line in lines]
        path: Path = tmp_path / "options.pcap"
        path.write_bytes(pcap(frames))
        result = ingest_capture(warehouse, network, path)
        assert (result.error, result.facts.skipped) == (None, {})
        publish_flows(warehouse, [(network, day) for day in result.dates])
        warehouse.update_views()
        connection = warehouse.connect()
        return {
            name: connection.sql(f"from {name}").to_arrow_table().to_pylist()
            for name in ("flows", "losses", "retransmissions")
        }

    return through


def with_one_loss(sack: bool, **syn: int) -> list[Packet]:
    """
    Gi     | d1 ... d5               d1'
    mobile |          a0 a0 a0 a0        a5
    """
    lines = [replace(p, **syn) if "SYN" in p.flags else p for p in opened(sack=True)]
    lines += spaced(1, 5, T)
    lines += duplicates(4, after(610), upto=0, sack=sack)
    return [*lines, sent(after(740), 1), acked(after(1340), 5)]


@pytest.mark.parametrize(
    "signature",
    [(19, bytes(range(16))), (29, bytes([7, 9]) + bytes(range(12)))],
    ids=["MD5", "TCP-AO"],
)
def test_options_after_a_signature_are_read(captured, signature):
    """RFC 2385, 3.0, and RFC 5925, 2.2: each segment is signed; the options after the signature
    count."""
    rows = captured(with_one_loss(sack=True, mss=1000, ws=3), lambda packet: [signature])
    assert of(rows, "sack", "timestamps", "setup_class") == [True, False, "optimal"]
    assert of(rows, "max_window", "payload_bytes_down") == [8192 << 3, 5 * DATA]
    assert of(rows, "payload_bytes_up", "out_of_window_up", "out_of_window_down") == [200, 0, 0]
    assert [row["side"] for row in rows["losses"]] == ["access"]
    assert [(row["cause"], row["needed"]) for row in rows["retransmissions"]] == [("fast", True)]
    assert of(rows, "retransmissions", "rto_expiries") == [1, 0]


def test_mptcp_leaves_no_room_for_sack_blocks(captured):
    """RFC 8684, 2.1 and 3.3: MP_CAPABLE in the SYNs; 28 bytes of DSS beside timestamps fill the 40
    of all options, so that ACKs have no block though SACK was agreed on. ACKs without a block are
    no duplicates then (RFC 6675, 2): a loss probe is sent (RFC 8985, 7.2), then the RTO expires.

    Gi     | d1 ... d5                   d5'       d1'
    mobile |           a0 a0 a0 a0          a0         a5
    """

    def options(packet: Packet) -> list[tuple]:
        if "SYN" in packet.flags:
            return [(30, bytes([0x01, 0x81]) + bytes(2 if packet.way == "up" else 10))]
        return [(30, bytes([0x20, 0x0F]) + bytes(24))]

    lines = [replace(p, mss=1000) if "SYN" in p.flags else p for p in opened(sack=True)]
    lines += [*spaced(1, 5, T), *duplicates(4, after(610), upto=0), sent(after(1440), 5)]
    lines += [acked(after(2040), 0), sent(after(3540), 1), acked(after(4140), 5)]
    clocks = {"up": 5000, "down": 90000}
    echoes = {"up": 0, "down": 0}
    stamped = []
    for line in sorted(lines, key=lambda p: p.us):
        tsval = clocks[line.way] + line.us // MS
        other = "down" if line.way == "up" else "up"
        stamped.append(replace(line, tsval=tsval, tsecr=echoes[other]))
        # what is echoed came in its turn (RFC 7323, 4.3); of the data, only d1' does
        if not line.data or line.way == "up" or line.us == after(3540):
            echoes[line.way] = tsval
    rows = captured(stamped, options)
    assert of(rows, "sack", "timestamps", "setup_class") == [True, True, "optimal"]
    assert of(rows, "payload_bytes_down", "out_of_window_up", "out_of_window_down") == [5000, 0, 0]
    assert [row["side"] for row in rows["losses"]] == ["access"]
    probe, timeout = rows["retransmissions"]
    assert (probe["cause"], timeout["cause"], timeout["needed"]) == ("tlp", "rto", True)
    assert probe["needed"] is not True
    assert of(rows, "retransmissions", "rto_expiries") == [2, 1]


def test_syn_cookies_negotiate_no_option():
    """RFC 4987, 3.6: the SYN ACK of a server that keeps nothing has only an MSS; so the windows of
    the mobile are not scaled (RFC 7323, 2.2), though it offered to."""
    rows = run("""
        0.000 up   SYN     seq=99 mss=1460 ws=7 sackok tsval=5000 tsecr=0 win=64240
        0.100 down SYN ACK seq=4042322160 ack=100 mss=1460
        0.700 up   ACK     seq=100 ack=4042322161 win=64240
        0.701 up   ACK     seq=100 ack=4042322161 win=64240 data=200
        0.900 down ACK     seq=4042322161 ack=300 data=1460
        1.500 up   ACK     seq=300 ack=4042323621 win=62780
    """)
    assert without_events(rows)
    assert of(rows, "sack", "timestamps", "max_window") == [False, False, 64240]
    assert of(rows, "setup_class", "payload_bytes_down") == ["optimal", 1460]


# ---- urgent data, closing ----------------------------------------------------------------------


def test_urgent_data_counts_as_data():
    """RFC 9293, 3.8.5: an interrupt of telnet (RFC 854): an urgent byte up, a data mark down."""
    rows = run("""
        0.000 up   SYN         seq=99
        0.100 down SYN ACK     seq=499  ack=100
        0.700 up   ACK         seq=100  ack=500
        0.800 up   PSH ACK     seq=100  ack=500  data=20
        1.000 down ACK         seq=500  ack=120  data=1000
        1.600 up   ACK         seq=120  ack=1500
        5.000 up   URG PSH ACK seq=120  ack=1500 data=2
        5.100 down URG PSH ACK seq=1500 ack=122  data=1
        5.700 up   ACK         seq=122  ack=1501
    """)
    assert without_events(rows)
    assert of(rows, "payload_bytes_up", "payload_bytes_down", "data_packets_down") == [22, 1001, 2]
    assert of(rows, "window_probes_down", "keepalives_down") == [0, 0]


def test_urgent_pointer_at_a_closed_window_is_no_window_probe():
    """RFC 9293, 3.8.5 and 3.8.6: the mobile's window is closed; a segment without data from the
    server reports that urgent data waits. It has no payload; the byte comes when the window
    opens."""
    lines = transfer(2)
    lines[-1] = replace(lines[-1], win=0)
    end, last = 500 + 2 * DATA, lines[-1].us
    urgent = frozenset({"ACK", "URG"})
    lines += [
        server_packet(last + SECOND, end, flags=urgent),
        replace(acked(last + 1600 * MS, 2), win=0),
    ]
    lines += [acked(last + 3 * SECOND, 2), server_packet(last + 3100 * MS, end, 1, urgent)]
    lines += [replace(acked(last + 3700 * MS, 2), ack=end + 1)]
    rows = run(lines)
    assert without_events(rows)
    assert of(rows, "payload_bytes_down") == [2 * DATA + 1]


def test_connection_continues_for_minutes_after_the_mobiles_fin():
    """RFC 9293, 3.6, case 1: the mobile has asked and closes; the server sends for eight minutes.

    Gi     |        a(FIN) d1      d2      d3 ...  d5  FIN
    mobile | q FIN             a1      a2              a5  a(FIN)
    """
    lines = opened()
    lines[-1] = replace(lines[-1], flags=FIN)

    def ack(us: int, upto: int) -> Packet:
        return replace(acked(us, upto), seq=301)

    lines.append(replace(server_packet(801_001, 500), ack=301))
    for n in range(1, 6):
        begin = T + (n - 1) * 120 * SECOND
        lines += [replace(sent(begin, n), ack=301), ack(begin + RTT_US, n)]
    end = 500 + 5 * DATA
    lines.append(replace(server_packet(T + 481 * SECOND, end, flags=FIN), ack=301))
    lines.append(replace(ack(T + 481_600 * MS, 5), ack=end + 1))
    rows = run(lines)
    assert without_events(rows)
    assert of(rows, "payload_bytes_up", "payload_bytes_down") == [200, 5 * DATA]
    assert of(rows, "request_response", "reset_by", "setup_class") == [True, None, "optimal"]
    assert seconds(rows["flows"][0], "end_ts") == pytest.approx(at(T + 481_600 * MS))
    waits = [row for row in rows["stalls"] if row["class"] == "data_unavailable"]
    assert [round(seconds(row, "end_ts")) for row in waits[:4]] == [121, 241, 361, 481]


def test_both_ends_may_close_at_once():
    """RFC 9293, 3.6, case 3 (Fig. 13): the FINs cross at Gi; each is acknowledged.

    Gi     | d1      FIN     a(FIN)
    mobile |     a1      FIN        a(FIN)
    """
    rows = run("""
        0.000 up   SYN     seq=99
        0.100 down SYN ACK seq=499  ack=100
        0.700 up   ACK     seq=100  ack=500
        0.701 up   ACK     seq=100  ack=500  data=200
        0.900 down ACK     seq=500  ack=300  data=1000
        1.500 up   ACK     seq=300  ack=1500
        4.000 down FIN ACK seq=1500 ack=300
        4.010 up   FIN ACK seq=300  ack=1500
        4.110 down ACK     seq=1501 ack=301
        4.600 up   ACK     seq=301  ack=1501
    """)
    assert without_events(rows)
    assert of(rows, "payload_bytes_up", "payload_bytes_down", "reset_by") == [200, 1000, None]
    assert of(rows, "packets_up", "packets_down") == [6, 4]


def test_lost_fin_with_data_is_retransmitted():
    """RFC 9293, 3.10.8; RFC 6298, 5.4: the last segment carries the FIN and is lost.

    Gi     | d1 d2+FIN          d2'+FIN
    mobile |           a1               a(FIN) FIN
    """
    due = T + 2450 * MS
    lines = [*opened(), sent(T, 1), replace(sent(after(10), 2), flags=FIN), acked(after(600), 1)]
    lines += [replace(sent(due, 2), flags=FIN)]
    lines += [replace(acked(due + RTT_US, 2), ack=2501, flags=FIN)]
    lines += [Packet(due + RTT_US + 100 * MS, "down", frozenset({"ACK"}), seq=2501, ack=301)]
    rows = run(lines)
    assert lost(rows) == [("access", at(after(10)))]
    assert retransmitted(rows) == [(at(due), "rto", True)]
    assert of(rows, "retransmissions", "rto_expiries", "payload_bytes_down") == [1, 1, 2 * DATA]
    assert [row["spurious_by"] for row in rows["retransmissions"]] == [None]


def test_retransmitted_fin_of_the_mobile_is_no_retransmission_of_the_server():
    """RFC 9293, 3.10.7.4: the server's ACK of it was lost on the access side; it answers once
    more."""
    rows = run("""
        0.000 up   SYN     seq=99
        0.100 down SYN ACK seq=499  ack=100
        0.700 up   ACK     seq=100  ack=500
        0.701 up   ACK     seq=100  ack=500  data=200
        0.900 down ACK     seq=500  ack=300  data=1000
        1.500 up   FIN ACK seq=300  ack=1500
        1.600 down ACK     seq=1500 ack=301
        3.600 up   FIN ACK seq=300  ack=1500
        3.700 down ACK     seq=1500 ack=301
        9.000 down FIN ACK seq=1500 ack=301
        9.600 up   ACK     seq=301  ack=1501
    """)
    assert without_events(rows)
    assert of(rows, "payload_bytes_up", "keepalives_up", "keepalives_down") == [200, 0, 0]


# ---- reused ports ------------------------------------------------------------------------------

FIRST = """
    0.0 up   SYN     seq=100  {0}
    0.1 down SYN ACK seq=300  ack=101  {1}
    0.7 up   ACK     seq=101  ack=301  {2}
    0.8 up   ACK     seq=101  ack=301  data=200 {3}
    1.0 down ACK     seq=301  ack=301  data=1000 {4}
    1.0 down FIN ACK seq=1301 ack=301  {4}
    1.6 up   FIN ACK seq=301  ack=1302 {5}
    1.7 down ACK     seq=1302 ack=302  {6}
"""
NO_STAMPS = [""] * 7
STAMPS = [
    "tsval=5000 tsecr=0",
    "tsval=90050 tsecr=5000",
    "tsval=5400 tsecr=90050",
    "tsval=5500 tsecr=90050",
    "tsval=90950 tsecr=5500",
    "tsval=6300 tsecr=90950",
    "tsval=91650 tsecr=6300",
]


@pytest.mark.parametrize("stamped", [False, True], ids=["higher ISN", "later timestamp"])
def test_port_may_be_reused_within_time_wait(stamped):
    """RFC 9293, 3.6.1, and RFC 6191, 2: the server, in TIME-WAIT, takes a SYN whose number is
    higher, or whose timestamp is later though its number is lower; 5 s after the close."""
    stamps = (
        [
            "tsval=10000 tsecr=0",
            "tsval=95050 tsecr=10000",
            "tsval=10600 tsecr=95050",
            "tsval=95450 tsecr=10600",
            "tsval=11200 tsecr=95450",
        ]
        if stamped
        else [""] * 5
    )
    isn, other = (50, 900_000) if stamped else (2_000, 40_000)
    rows = run(
        FIRST.format(*(STAMPS if stamped else NO_STAMPS))
        + f"""
        6.7 up   SYN     seq={isn}         {stamps[0]}
        6.8 down SYN ACK seq={other}       ack={isn + 1}   {stamps[1]}
        7.4 up   ACK     seq={isn + 1}     ack={other + 1} data=100 {stamps[2]}
        7.6 down ACK     seq={other + 1}   ack={isn + 101} data=500 {stamps[3]}
        8.2 up   ACK     seq={isn + 101}   ack={other + 501} {stamps[4]}
    """
    )
    assert without_events(rows)
    first, second = rows["flows"]
    assert (first["payload_bytes_down"], second["payload_bytes_down"]) == (1000, 500)
    assert (first["payload_bytes_up"], second["payload_bytes_up"]) == (200, 100)
    assert (first["setup_class"], second["setup_class"]) == ("optimal", "optimal")
    assert seconds(first, "end_ts") == pytest.approx(1.7)
    assert seconds(second, "start_ts") == pytest.approx(6.7)


def test_syn_below_the_old_numbers_is_answered_by_an_ack_of_the_old_connection():
    """RFC 9293, 3.10.7.4: a SYN that TIME-WAIT may not take is answered by the old connection's
    ACK. The mobile resets that (3.10.7.3), and retransmits its SYN after a second."""
    rows = tables(
        FIRST.format(*NO_STAMPS)
        + """
        6.7 up   SYN     seq=3294967396
        6.8 down ACK     seq=1302 ack=302
        7.4 up   RST     seq=302
        7.7 up   SYN     seq=3294967396
        7.8 down SYN ACK seq=900000 ack=3294967397
        8.4 up   ACK     seq=3294967397 ack=900001 data=100
        8.6 down ACK     seq=900001 ack=3294967497 data=500
        9.2 up   ACK     seq=3294967497 ack=900501
    """
    )
    assert without_events(rows)
    first, second = rows["flows"]
    assert (first["payload_bytes_down"], first["reset_by"], first["syn_count"]) == (1000, None, 1)
    assert (second["payload_bytes_down"], second["syn_count"]) == (500, 2)
    assert (second["setup_class"], second["reset_by"]) == ("slight_problem", None)


def test_old_data_in_flight_does_not_count_for_a_connection_on_a_reused_port():
    """RFC 9293, 3.5.3: the mobile aborts; d2 and d3 pass Gi before the server hears of it, d3 even
    after the next SYN. d3 does not belong to the new connection: it acknowledges old numbers."""
    rows = tables("""
        0.00 up   SYN     seq=100
        0.10 down SYN ACK seq=300  ack=101
        0.70 up   ACK     seq=101  ack=301
        0.80 up   ACK     seq=101  ack=301  data=200
        1.00 down ACK     seq=301  ack=301  data=1000
        1.60 up   RST ACK seq=301  ack=1301
        1.61 down ACK     seq=1301 ack=301  data=1000
        1.62 up   SYN     seq=600000
        1.63 down ACK     seq=2301 ack=301  data=1000
        1.72 down SYN ACK seq=7000000 ack=600001
        2.32 up   ACK     seq=600001 ack=7000001 data=100
        2.52 down ACK     seq=7000001 ack=600101 data=500
        3.12 up   ACK     seq=600101 ack=7000501
    """)
    first, second = rows["flows"]
    assert (first["reset_by"], second["reset_by"]) == ("mobile", None)
    assert (first["payload_bytes_down"], second["payload_bytes_down"]) == (2000, 500)
    assert (second["setup_class"], second["retransmissions"], second["lost_access"]) == (
        "optimal",
        0,
        0,
    )
    assert (first["out_of_window_up"], first["out_of_window_down"]) == (0, 0)
    assert (second["out_of_window_up"], second["out_of_window_down"]) == (0, 1)


# ---- much data, and none -----------------------------------------------------------------------


@pytest.mark.parametrize("step", [300_000_000, 700_000_000, 1_000_000_000])
@pytest.mark.parametrize("run_of", [1, 4])
def test_positions_do_not_wrap_in_a_connection_of_more_than_4_gib(step, run_of):
    """RFC 7323, 2.3: windows up to 1 GiB. Of a download of more than 4 GiB, and an upload as large,
    the capture has some packets each way every few hundred MB; positions do not wrap as the numbers
    do.
    """
    lines = read("""
        0.000 up   SYN     seq=99  ws=14 win=65535
        0.100 down SYN ACK seq=499 ack=100 ws=14 win=65535
        0.700 up   ACK     seq=100 ack=500 win=65535
    """)
    count = 6_000_000_000 // step
    ack = frozenset({"ACK"})
    for k in range((count + 1) * run_of):
        turn, n = divmod(k, run_of)
        begin = T + turn * 60 * SECOND + n * 700 * MS
        down, up = (start + turn * step + n * DATA for start in (500, 100))
        acks = (down + DATA) % 2**32
        lines += [
            Packet(begin, "down", ack, down % 2**32, up % 2**32, 65535, DATA),
            Packet(begin + RTT_US, "up", ack, up % 2**32, acks, 65535, DATA),
        ]
    (flow,) = tables(lines)["flows"]
    assert (flow["out_of_window_up"], flow["out_of_window_down"]) == (0, 0)
    seen = run_of * DATA
    assert flow["payload_bytes_down"] == flow["payload_bytes_up"] == (count + 1) * seen
    assert flow["acked_unseen_bytes"] == count * (step - seen) > 2**32
    assert (flow["retransmissions"], flow["lost_access"]) == (None, None)  # too little was seen


@pytest.mark.parametrize(
    "passes", [False, True], ids=["on the access side", "on the Internet side"]
)
def test_lost_window_update_is_repaired_by_window_probes(passes):
    """RFC 9293, 3.8.6.1: the mobile opens its window and the server does not hear it, until its
    next window probe, each after twice as long. The update is lost on the access or on the Internet
    side.

    Gi     | d1 d2       p            p                       p           d3
    mobile |    a2 win=0   a2 win=0     a2 win=0  (a2 win=8192)  a2 win=8192  a3
    """
    lines = transfer(2)
    lines[-1] = replace(lines[-1], win=0)
    end, us = 500 + 2 * DATA, lines[-1].us
    for wait in (2, 4):
        us += wait * SECOND
        lines += [server_packet(us, end - 1), replace(acked(us + RTT_US, 2), win=0)]
    if passes:
        lines.append(acked(us + 3 * SECOND, 2))
    us += 8 * SECOND
    lines += [server_packet(us, end - 1), acked(us + RTT_US, 2)]
    lines += [sent(us + 700 * MS, 3), acked(us + 700 * MS + RTT_US, 3)]
    rows = run(lines)
    assert without_events(rows)
    probes, keepalives = of(rows, "window_probes_down", "keepalives_down")
    assert (probes, keepalives) == (3, 0)
    assert of(rows, "payload_bytes_down") == [3 * DATA]
    assert "zero_window" in {row["class"] for row in rows["stalls"]}


def test_keepalives_keep_a_connection_open_for_half_a_day():
    """RFC 9293, 3.8.4, every two hours; then the mobile asks once more."""
    lines = transfer(2)
    end = 500 + 2 * DATA
    for k in range(1, 7):
        us = k * 7200 * SECOND
        lines += [server_packet(us, end - 1), acked(us + RTT_US, 2)]
    us = 6 * 7200 * SECOND + 1000 * SECOND
    lines += [replace(acked(us, 2), data=50), replace(sent(us + 100 * MS, 3), ack=350)]
    lines.append(replace(acked(us + 700 * MS, 3), seq=350))
    rows = run(lines)
    assert without_events(rows)
    assert of(rows, "keepalives_down", "keepalives_up", "window_probes_down") == [6, 0, 0]
    assert of(rows, "payload_bytes_up", "payload_bytes_down") == [250, 3 * DATA]
    assert seconds(rows["flows"][0], "end_ts") == pytest.approx(at(us + 700 * MS))
    assert of(rows, "rtt_access_max") == [pytest.approx(0.6, rel=0.03)]  # none of a keep-alive


def test_delayed_acks_with_nagle_are_marked_as_delayed():
    """RFC 9293, 3.7.4 and 3.8.6.3: a small segment waits until all is acknowledged, an ACK 200 ms
    for a second segment. Nothing is lost; the round trips are marked as delayed.

    Gi     | 500      500        500
    mobile |      a          a          a      800 ms after each
    """
    lines = opened()
    for k in range(3):
        us = T + k * 900 * MS
        lines += [server_packet(us, 500 + 500 * k, 500)]
        lines += [replace(acked(us + RTT_US + 200 * MS, 0), ack=1000 + 500 * k)]
    rows = run(lines)
    assert without_events(rows)
    assert of(rows, "payload_bytes_down", "rtt_access") == [1500, pytest.approx(0.6)]
    trips = [row for row in rows["rtt_samples"] if row["side"] == "access"]
    assert [round(seconds(row), 6) for row in trips] == [at(after(ms)) for ms in (800, 1700, 2600)]
    assert all(row["delayed"] for row in trips)
    assert [row["rtt"] for row in trips] == pytest.approx([0.8] * 3)
    assert rows["stalls"] == []


def test_stretch_acks_give_the_rtt_of_the_last_segment():
    """RFC 5681, 4.2, and RFC 2525, 2.13: a mobile that merges what it receives acknowledges a
    flight at once. A round trip is of the last segment, not of those that waited."""
    lines, us, sent_before = opened(), T, 0
    for size in (10, 8, 6):
        lines += spaced(sent_before + 1, sent_before + size, us)
        sent_before += size
        lines.append(acked(us + (size - 1) * 10 * MS + RTT_US, sent_before))
        us += (size - 1) * 10 * MS + RTT_US + 100 * MS
    lines = [replace(p, win=65535) for p in lines]
    rows = run(lines)
    assert without_events(rows)
    assert of(rows, "rtt_access_min", "payload_bytes_down") == [pytest.approx(0.6), 24 * DATA]
    assert rows["stalls"] == []


def test_compressed_acks_are_no_duplicate_acks():
    """Zhang, Shenker and Clark, SIGCOMM 1991: ACKs that waited in a queue come all at once, 250 ms
    after the first. What they let go comes at once, too; no ACK is a duplicate.

    Gi     | d1 ... d6              d7 ... d12
    mobile |             a1 ... a6              a7 ... a12     1 ms apart
    """
    lines = [*opened(), *flight(1, 6), *flight(7, 12, after(955))]
    lines += [acked(after(850) + n * MS, n) for n in range(1, 7)]
    lines += [acked(after(955) + (n - 7) * MS + RTT_US, n) for n in range(7, 13)]
    rows = run([replace(p, win=65535) for p in lines])
    assert without_events(rows)
    assert of(rows, "payload_bytes_down", "rtt_access_min") == [12 * DATA, pytest.approx(0.6)]


def test_data_beyond_a_shrunk_window_is_not_out_of_window():
    """RFC 9293, 3.8.6: a mobile should not, but may, take back room. d2 and d3 were in flight
    when a1 took it; the mobile drops them. The server retransmits them after an RTO expiry: two
    round trips measured, 0.7 + 4 x 0.2625 s after it heard a1 (RFC 6298, 2.3).

    Gi     | d1 d2 d3                                        d2'    d3'
    mobile |          a1 win=0 a1 win=0 a1 win=0  a1 win=8192    a2     a3
    """
    lines = [*opened(), *spaced(1, 3, T)]
    lines += [replace(acked(after(600 + 10 * n), 1), win=0) for n in range(3)]
    lines += [acked(after(1600), 1), sent(after(2450), 2), acked(after(3050), 2)]
    lines += [sent(after(3150), 3), acked(after(3750), 3)]
    rows = run(lines)
    assert [row[:2] for row in retransmitted(rows)] == [
        (at(after(2450)), "rto"),
        (at(after(3150)), "slow_start"),
    ]
    assert of(rows, "payload_bytes_down", "data_packets_down", "retransmissions") == [
        3 * DATA,
        5,
        2,
    ]
    assert of(rows, "rto_expiries", "lost_internet") == [1, 0]
