"""The input of QUIC's estimators: the packets of QUIC's flows."""

from typing import NamedTuple

import numpy as np

FORMS = (
    *("initial", "zero_rtt", "handshake", "retry", "version_negotiation"),
    *("one_rtt", "unreachable"),
)
"""The forms of packets, as schemas.packets names them; a form's code is its index."""
INITIAL, ZERO_RTT, HANDSHAKE, RETRY, VERSION_NEGOTIATION, ONE_RTT, UNREACHABLE = range(len(FORMS))
COALESCED_CUT = 1 << len(FORMS)
"""The bit of `coalesced` for packets that the capture cut off."""
NO_SPIN = np.int8(-1)


class QuicPackets(NamedTuple):
    """Q datagrams of QUIC's flows, and ICMP's messages about them, of U users, in user order.

    Fields without a description are as in records.Packets.
    """

    first: np.ndarray
    user: np.ndarray
    server: np.ndarray
    ts: np.ndarray
    user_port: np.ndarray
    server_port: np.ndarray
    downlink: np.ndarray
    ip_len: np.ndarray
    clock_steps: np.ndarray
    form: np.ndarray
    """uint8[Q]: code of the form of the first packet."""
    coalesced: np.ndarray
    """uint16[Q]: bits of the forms of the packets that follow it; 0: none."""
    has_version: np.ndarray
    """bool[Q]: the header is long."""
    version: np.ndarray
    """uint32[Q]."""
    spin: np.ndarray
    """int8[Q]: the spin bit, or NO_SPIN."""
    has_dcid: np.ndarray
    """bool[Q]."""
    dcid: np.ndarray
    """uint32[Q]: hash of the destination connection ID; 0: it is empty."""
    scid: np.ndarray
    """uint32[Q]: hash of the source connection ID of a long header; 0: it is empty."""
    length: np.ndarray
    """uint32[Q]: bytes of the first packet after its long header (B); 0: not known."""


def no_quic(users: int) -> QuicPackets:
    """Return QuicPackets of a number of users without any packet."""
    types = {
        "first": np.int64, "user": np.int32, "server": np.int32, "ts": np.int64,
        "user_port": np.uint16, "server_port": np.uint16, "downlink": np.bool_,
        "ip_len": np.uint32, "clock_steps": np.uint8, "form": np.uint8, "coalesced": np.uint16,
        "has_version": np.bool_, "version": np.uint32, "spin": np.int8, "has_dcid": np.bool_,
        "dcid": np.uint32, "scid": np.uint32, "length": np.uint32,
    }  # fmt: skip
    counts = {"first": users + 1}
    return QuicPackets(
        **{name: np.zeros(counts.get(name, 0), dtype) for name, dtype in types.items()}
    )
