"""Explicit Congestion Notification: what the ends agree on, and which side marked packets."""

import pytest

from tests.helpers.packet_script import flows, read

HANDSHAKES = {
    # flags of the SYN, flags of the SYN ACK (RFC 9768, 3.1.1, Table 2)
    ("", "ACK"): "none",
    ("", "ECE ACK"): "none",
    ("CWR ECE", "ACK"): "none",
    ("CWR ECE", "ECE ACK"): "classic",
    ("CWR ECE", "CWR ECE ACK"): "none",
    ("CWR ECE", "AE ECE ACK"): "classic",
    ("AE CWR ECE", "ECE ACK"): "classic",
    ("AE CWR ECE", "ACK"): "none",
    ("AE CWR ECE", "AE CWR ECE ACK"): "none",
    ("AE CWR ECE", "CWR ACK"): "accurate",
    ("AE CWR ECE", "CWR ECE ACK"): "accurate",
    ("AE CWR ECE", "AE ACK"): "accurate",
    ("AE CWR ECE", "AE CWR ACK"): "accurate",
}


@pytest.mark.parametrize(("flags", "kind"), HANDSHAKES.items())
def test_syn_and_syn_ack_agree_on_a_kind_of_ecn(flags, kind):
    syn, syn_ack = flags
    [flow] = flows(f"""
        0.00 up   SYN {syn} seq=100
        0.04 down SYN {syn_ack} seq=300 ack=101
        0.10 up   ACK seq=101 ack=301
    """)
    assert flow["ecn"] == kind


def test_without_a_syn_it_is_not_known_what_the_ends_agreed_on():
    [flow] = flows("""
        0.0 up   ACK ECE seq=101 ack=301 data=10 ecn=2
        0.1 down ACK seq=301 ack=111 data=10 ecn=3
    """)
    assert (flow["ecn"], flow["ect_up"], flow["ect_down"], flow["ce_down"]) == (None, 1, 1, 1)
    assert (flow["marks_access"], flow["ecn_episodes_access"]) == (None, None)


def exchange(kind: str, marks: dict[int, str], echoes: dict[int, str], count: int = 30) -> list:
    """Make a download of segments 10 ms apart, each acknowledged after 60 ms.

    marks: by segment, more values of it, such as `ecn=3` or CWR; echoes: flags of its ACK. The
    flags of accurate ECN without a mark are those of the count 5.
    """
    syn, syn_ack, usual = {
        "classic": ("CWR ECE", "ECE", ""),
        "accurate": ("AE CWR ECE", "CWR", "AE ECE"),
    }[kind]
    lines = [
        f"0.000 up   SYN {syn} seq=100 mss=1460 sackok",
        f"0.030 down SYN ACK {syn_ack} seq=300 ack=101 mss=1460 sackok",
        "0.090 up   ACK CWR seq=101 ack=301"
        if kind == "accurate"
        else "0.09 up ACK seq=101 ack=301",
        f"0.095 up   ACK {usual} seq=101 ack=301 data=50",
    ]
    for k in range(count):
        low = 301 + 1460 * k
        more = marks.get(k, "ecn=2")
        lines.append(f"{0.2 + k / 100:.3f} down ACK seq={low} ack=151 data=1460 {more}")
        flags = echoes.get(k, usual)
        lines.append(f"{0.26 + k / 100:.3f} up ACK {flags} seq=151 ack={low + 1460}")
    return read("\n".join(lines))


def test_an_episode_lasts_from_ece_to_the_servers_cwr():
    """ACKs that were in flight when the server's CWR passed belong to the episode."""
    echoes = dict.fromkeys(range(5, 12), "ECE")
    [flow] = flows(exchange("classic", {12: "CWR ecn=2"}, echoes))
    assert (flow["ecn_episodes_access"], flow["ecn_episodes_internet"]) == (1, 0)
    assert (flow["ect_down"], flow["ce_down"], flow["marks_access"]) == (30, 0, None)


def test_ece_after_the_servers_cwr_arrived_is_another_episode():
    echoes = dict.fromkeys(range(5, 20), "ECE")
    [flow] = flows(exchange("classic", {12: "CWR ecn=2"}, echoes))
    assert flow["ecn_episodes_access"] == 2


def test_an_episode_is_the_internet_sides_if_gi_saw_the_mark():
    """The second one is the access side's: nothing with CE passed Gi before it."""
    echoes = dict.fromkeys((*range(5, 9), *range(20, 24)), "ECE")
    marks = {5: "ecn=3", 8: "CWR ecn=2", 23: "CWR ecn=2"}
    [flow] = flows(exchange("classic", marks, echoes))
    assert (flow["ecn_episodes_internet"], flow["ecn_episodes_access"]) == (1, 1)
    assert flow["ce_down"] == 1


COUNTS = ("", "ECE", "CWR", "CWR ECE", "AE", "AE ECE", "AE CWR", "AE CWR ECE")
"""Flags of accurate ECN, by the count modulo 8."""


def counting(counts: list[int]) -> dict[int, str]:
    """Return the flags of the ACKs, whose mobile has received so many marked packets."""
    return {k: COUNTS[(5 + count) % 8] for k, count in enumerate(counts)}


@pytest.mark.parametrize(("at_gi", "on_access"), [(0, 12), (3, 9), (12, 0)])
def test_accurate_ecn_counts_the_marks_of_the_access_side(at_gi, on_access):
    """Twelve packets arrive marked: more than the counter holds."""
    counts = [min(k, 12) for k in range(30)]
    marks = dict.fromkeys(range(1, 1 + at_gi), "ecn=3")
    [flow] = flows(exchange("accurate", marks, counting(counts)))
    assert flow["ecn"] == "accurate"
    assert (flow["ce_down"], flow["marks_access"]) == (at_gi, on_access)
    assert flow["ecn_episodes_access"] is None


def test_a_lost_ack_does_not_change_the_count_of_accurate_ecn():
    counts = [k // 2 for k in range(30)]
    script = exchange("accurate", {}, counting(counts))
    [flow] = flows([p for i, p in enumerate(script) if i not in (15, 23, 31)])
    assert flow["marks_access"] == 14


def test_reordered_acks_do_not_change_the_count_of_accurate_ecn():
    script = exchange("accurate", {}, counting([k // 3 for k in range(30)]))
    late = [i for i, p in enumerate(script) if p.way == "up" and i > 20][::5]
    moved = [p.later(25_000) if i in late else p for i, p in enumerate(script)]
    [flow] = flows(sorted(moved, key=lambda p: p.us))
    assert flow["marks_access"] == 9


def test_marks_without_losses_reduce_no_count_of_retransmissions():
    echoes = dict.fromkeys(range(5, 9), "ECE")
    [flow] = flows(exchange("classic", {8: "CWR ecn=2"}, echoes))
    assert (flow["retransmissions"], flow["lost_access"], flow["lost_internet"]) == (0, 0, 0)
    assert 0 < flow["limited_marks"] <= flow["limited_recovery"]
