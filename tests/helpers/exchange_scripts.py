"""Exchanges that several tests run."""

from hypothesis import strategies as st

from tests.helpers.packet_script import Packet

PAUSES_US = (0, 1, 150_000, 3_000_000, 5_000_001, 61_000_000, 7_500_000_000)


flag_sets = st.sampled_from(
    [
        frozenset(flags.split())
        for flags in ("SYN", "SYN ACK", "ACK", "PSH ACK", "FIN ACK", "RST", "RST ACK", "UDP")
    ]
)


@st.composite
def exchanges(draw, user="anna"):
    """Packets on two ports, in no order that a TCP would keep to, with numbers near enough to each
    other to overlap."""
    us, lines = 0, []
    for _ in range(draw(st.integers(1, 14))):
        us += draw(st.sampled_from(PAUSES_US))
        lines.append(
            Packet(
                us,
                draw(st.sampled_from(["up", "down"])),
                draw(flag_sets),
                seq=draw(st.integers(0, 40)),
                ack=draw(st.integers(0, 40)),
                win=draw(st.sampled_from([0, 9_999, 65_535])),
                data=draw(st.sampled_from([0, 1, 30])),
                ws=draw(st.none() | st.integers(0, 15)),
                sackok=draw(st.booleans()),
                tsval=draw(st.none() | st.just(7)),
                port=draw(st.sampled_from([1024, 1025])),
                user=user,
            )
        )
    return lines
