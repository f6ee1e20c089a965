"""Request and response, single transfers, throughput."""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, flow, flows

OPEN = [
    Packet(0, "up", frozenset({"SYN"}), seq=99),
    Packet(100_000, "down", frozenset({"SYN", "ACK"}), seq=499, ack=100),
    Packet(700_000, "up", frozenset({"ACK"}), seq=100, ack=500),
]
DATA, HEADER = 1000, 40


def get(at_us: int, seq: int, ack: int, size: int = 200) -> Packet:
    return Packet(at_us, "up", frozenset({"ACK", "PSH"}), seq=seq, ack=ack, data=size)


def answer(
    start_us: int, segments: int, up: int = 300, down: int = 500, gap_us: int = 100_000
) -> list[Packet]:
    """Segments `gap_us` apart, each acknowledged 500 ms after it passed Gi."""
    lines = []
    for i in range(segments):
        at = start_us + i * gap_us
        seq = down + i * DATA
        lines.append(Packet(at, "down", frozenset({"ACK"}), seq=seq, ack=up, data=DATA))
        lines.append(Packet(at + 500_000, "up", frozenset({"ACK"}), seq=up, ack=seq + DATA))
    return lines


def page(segments: int = 201) -> list[Packet]:
    return [*OPEN, get(700_001, 100, 500), *answer(1_000_000, segments)]


def test_throughput_is_ip_bytes_over_the_time_from_the_first_to_the_last_ack():
    """201 packets of 1040 bytes; the first and the last ACK are 200 x 0.1 s apart."""
    row = flow(page())
    assert row["request_response"] is True
    assert row["single"] is True
    assert row["b_tcp"] == 201 * 1040
    assert row["b_other"] == 0
    assert row["throughput"] == pytest.approx(8 * 201 * 1040 / 20)
    assert row["user_throughput"] == pytest.approx(row["throughput"])


def test_goodput_counts_payload_that_arrives_between_the_first_and_the_last_ack():
    """The first of the 201 packets has arrived when the time begins."""
    row = flow(page())
    assert row["goodput"] == pytest.approx(8 * 200 * 1000 / 20)
    assert row["throughput_received"] == pytest.approx(8 * 200 * 1040 / 20)
    assert row["user_throughput_received"] == pytest.approx(row["throughput_received"])


def test_first_ack_of_two_packets_shows_that_both_have_arrived():
    """Without the first's ACK the time begins 0.1 s later, with 2 of 201 packets there."""
    row = flow([p for p in page() if (p.way, p.us) != ("up", 1_500_000)])
    assert row["goodput"] == pytest.approx(8 * 199 * 1000 / 19.9)
    assert row["throughput_received"] == pytest.approx(8 * 199 * 1040 / 19.9)
    assert row["throughput"] == pytest.approx(8 * 201 * 1040 / 19.9)


def lossy() -> list[Packet]:
    """Of 201 segments the 100th is lost on the access side: duplicate ACKs answer those after it
    until its retransmission, sent after the 120th, has filled the hole."""
    hole, retransmitted_at = 500 + 99 * DATA, 1_000_000 + 119 * 100_000 + 50_000
    lines = [*OPEN, get(700_001, 100, 500)]
    for packet in answer(1_000_000, 201):
        reached = packet.ack if packet.way == "up" else 0
        if reached == hole + DATA:
            continue
        lost = reached > hole and packet.us < retransmitted_at + 500_000
        lines.append(replace(packet, ack=hole) if lost else packet)
    lines.append(Packet(retransmitted_at, "down", frozenset({"ACK"}), seq=hole, ack=300, data=DATA))
    filled = hole + 21 * DATA
    lines.append(Packet(retransmitted_at + 500_000, "up", frozenset({"ACK"}), seq=300, ack=filled))
    return sorted(lines, key=lambda packet: packet.us)


def test_lost_packet_counts_in_throughput_at_gi_and_not_in_what_was_received():
    """202 packets passed Gi, one of them in vain; the first had arrived before the time."""
    row = flow(lossy())
    assert row["lost_access"] == 1
    assert row["throughput"] == pytest.approx(8 * 202 * 1040 / 20)
    assert row["throughput_received"] == pytest.approx(8 * 200 * 1040 / 20)
    assert row["user_throughput"] == pytest.approx(row["throughput"])
    assert row["user_throughput_received"] == pytest.approx(row["throughput_received"])
    assert row["goodput"] == pytest.approx(8 * 200 * 1000 / 20)


def test_duplicate_ack_after_a_lost_first_packet_begins_the_goodputs_time():
    """The first of 50 is lost. The time begins when the second has arrived, 1.6 s, and ends with
    the ACK of the last, 6.4 s; 50 distinct packets arrive, the second of them before."""
    lines = []
    for packet in page(50):
        if packet.way == "up" and packet.us == 1_500_000:
            continue
        early = packet.way == "up" and 1_500_000 < packet.us < 4_000_000
        lines.append(replace(packet, ack=500) if early else packet)
    retransmission = Packet(3_450_000, "down", frozenset({"ACK"}), seq=500, ack=300, data=DATA)
    filled = Packet(3_950_000, "up", frozenset({"ACK"}), seq=300, ack=500 + 25 * DATA)
    row = flow(sorted([*lines, retransmission, filled], key=lambda packet: packet.us))
    assert row["goodput"] == pytest.approx(8 * 49 * 1000 / 4.8)


def test_small_transfer_has_goodput_but_no_throughput():
    row = flow(page(50))
    assert row["throughput"] is None
    assert row["user_throughput"] is None
    assert row["goodput"] == pytest.approx(8 * 49 * 1000 / 4.9)


def test_several_requests_are_no_single_request_response_pair():
    second = [get(9_000_000, 300, 50_500, 40_000)]
    lines = [*page(50), *second, *answer(9_500_000, 50, up=500, down=50_500)]
    lines += [get(20_000_000, 500, 100_500), *answer(21_000_000, 50, up=700, down=100_500)]
    lines += [get(40_000_000, 700, 150_500), *answer(41_000_000, 50, up=900, down=150_500)]
    assert flow(lines)["request_response"] is False


def test_tls_handshake_does_not_count_as_a_request():
    """Hello (300 bytes) answered with 3 KB, key exchange with 100 bytes, then one request."""
    lines = [*OPEN, get(700_001, 100, 500), *answer(1_000_000, 3)]
    lines += [get(2_000_000, 300, 3_500), *answer(2_500_000, 1, up=500, down=3_500)]
    lines += [get(4_000_000, 500, 4_500), *answer(5_000_000, 201, up=700, down=4_500)]
    row = flow([replace(line, server_port=443) for line in lines])
    assert row["request_response"] is True
    assert row["b_tcp"] == 201 * 1040


@pytest.mark.parametrize(("port", "one"), [(80, False), (8080, False), (443, True), (8443, True)])
def test_short_first_answer_is_no_tls_handshake_on_the_ports_of_http(port, one):
    lines = [*page(1), get(2_000_000, 300, 1_500), *answer(3_000_000, 150, up=500, down=1_500)]
    row = flow([replace(line, server_port=port) for line in lines])
    assert row["request_response"] is one


def test_data_of_a_server_that_sends_first_is_no_response():
    lines = [*OPEN, *answer(800_000, 150, up=100)]
    assert flow(lines)["request_response"] is False


def test_unacknowledged_response_is_no_request_response_pair():
    lines = page()
    last = max(p.us for p in lines)
    row = flow([p for p in lines if p.us < last])
    assert row["request_response"] is False
    assert row["throughput"] is None


@pytest.mark.parametrize(
    ("at_us", "flags", "succeeded"),
    [(6_010_000, "RST", False), (6_700_000, "RST", True), (6_010_000, "FIN RST", True)],
    ids=["data in flight", "all data acknowledged", "after its FIN"],
)
def test_response_that_the_server_resets_before_the_last_ack_is_no_pair(at_us, flags, succeeded):
    """The last of 50 segments passes Gi at 5.9 s and is acknowledged at 6.4 s."""
    resets = [
        Packet(at_us + i, "down", frozenset({flag, "ACK"}), seq=50_500, ack=300)
        for i, flag in enumerate(flags.split())
    ]
    assert flow([*page(50), *resets])["request_response"] is succeeded


def test_no_syn_leaves_request_response_null():
    row = flow([p for p in page() if "SYN" not in p.flags])
    assert row["request_response"] is None
    assert row["throughput"] is None


def test_transfer_with_background_traffic_is_not_single():
    """Ten packets of 540 bytes between the first and the last data packet."""
    other = [
        Packet(2_000_000 + i, "down", frozenset({"UDP"}), data=500, port=53) for i in range(10)
    ]
    row = next(r for r in flows([*page(), *other]))
    assert row["single"] is False
    assert row["b_other"] == 5400
    assert row["throughput"] is None
    assert row["user_throughput"] == pytest.approx(8 * (201 * 1040 + 5400) / 20)
    assert row["user_throughput_received"] == pytest.approx(8 * (200 * 1040 + 5400) / 20)


def test_other_users_traffic_changes_nothing():
    other = [replace(p, user="bob", us=p.us + 17) for p in page(150)]
    row = next(r for r in flows([*page(), *other]) if r["user"] == "anna")
    assert row == next(r for r in flows(page()) if r["user"] == "anna")


@pytest.mark.parametrize("way", ["up", "down"])
def test_one_direction_gives_no_throughput(way):
    row = flow([p for p in page() if p.way == way])
    assert row["throughput"] is row["goodput"] is row["b_tcp"] is None
    assert not row["request_response"]


def test_missed_data_leaves_no_goodput():
    lines = [p for p in page() if not (p.way == "down" and p.us == 3_000_000)]
    row = flow(lines)
    assert row["b_tcp"] is None
    assert row["goodput"] is None


def test_sequence_wrap_changes_nothing():
    wrapped = flow([p.numbered(up=2**32 - 150, down=2**32 - 60_000) for p in page()])
    plain = flow(page())
    different = {"flow_id"}
    assert {k: v for k, v in wrapped.items() if k not in different} == {
        k: v for k, v in plain.items() if k not in different
    }


def test_reset_transfer_has_no_throughput():
    lines = page()
    cut = [p for p in lines if p.us < 10_000_000]
    row = flow([*cut, Packet(10_000_001, "up", frozenset({"RST"}), seq=300)])
    assert row["throughput"] is None
