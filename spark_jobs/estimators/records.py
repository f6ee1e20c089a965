"""The input of the estimators: a user partition's packets, segments and connections.

The same packets are stored in two orders. In *user order* all packets are sorted by (user, time).
In *connection order* only the TCP packets are kept, sorted by (connection, time). Times are int64
µs since 1970. Columns are those of schemas.PACKETS unless stated otherwise. If a column is null in
that table, the array may have any value there.
"""

from typing import NamedTuple

import numpy as np


class Packets(NamedTuple):
    """M packets of any protocol, of U users, in user order."""

    first: np.ndarray
    """int64[U + 1]: user u's packets are first[u]:first[u + 1]."""
    user: np.ndarray
    """int32[M]: number of the user."""
    server: np.ndarray
    """int32[M]: number of the server."""
    capture: np.ndarray
    """int32[M]: number of the capture."""
    frame: np.ndarray
    """int64[M]."""
    ts: np.ndarray
    """int64[M], µs."""
    user_port: np.ndarray
    """uint16[M]."""
    server_port: np.ndarray
    """uint16[M]."""
    downlink: np.ndarray
    """bool[M]."""
    ip_len: np.ndarray
    """uint32[M], B."""
    ip_id: np.ndarray
    """uint16[M]."""
    ttl: np.ndarray
    """uint8[M]."""
    ecn: np.ndarray
    """uint8[M]: the ECN field."""
    is_tcp: np.ndarray
    """bool[M]: the packet has a TCP header."""
    tcp_flags: np.ndarray
    """uint16[M]."""
    seq: np.ndarray
    """uint32[M]."""
    ack: np.ndarray
    """uint32[M]."""
    window: np.ndarray
    """uint16[M]: the window field as on the wire, not scaled."""
    payload_len: np.ndarray
    """uint32[M], B."""
    mss: np.ndarray
    """uint16[M], B: 0 without the option."""
    window_scale: np.ndarray
    """int16[M]: shift count; NO_SCALE without the option."""
    sack_permitted: np.ndarray
    """bool[M]."""
    has_timestamps: np.ndarray
    """bool[M]: the packet has the timestamp option."""
    ts_val: np.ndarray
    """uint32[M]."""
    ts_ecr: np.ndarray
    """uint32[M]."""
    sack_at: np.ndarray
    """int64[M]: index in sack_edges of the packet's first SACK block edge."""
    sack_count: np.ndarray
    """uint8[M]: number of the packet's SACK block edges."""
    sack_edges: np.ndarray
    """uint32[..]: the SACK block edges of all packets."""
    options_cut: np.ndarray
    """bool[M]: the capture cut off TCP options, so a missing option may have been sent."""
    clock_steps: np.ndarray
    """uint8[M]."""
    downlink_bytes_before: np.ndarray
    """int64[M + 1], B: IP bytes sent to mobiles before each packet.

    See `sequence.downlink_bytes_before`.
    """
    out_of_window: np.ndarray
    """bool[M]: TCP packets that no end of their connection could have sent (see `connections`)."""


class Segments(NamedTuple):
    """The N packets with a TCP header, in connection order.

    Fields without a description are as in Packets.
    """

    place: np.ndarray
    """int32[N]: index of the packet in user order."""
    ts: np.ndarray
    downlink: np.ndarray
    ip_len: np.ndarray
    ip_id: np.ndarray
    ttl: np.ndarray
    ecn: np.ndarray
    tcp_flags: np.ndarray
    seq: np.ndarray
    ack: np.ndarray
    window: np.ndarray
    payload_len: np.ndarray
    window_scale: np.ndarray
    sack_permitted: np.ndarray
    has_timestamps: np.ndarray
    ts_val: np.ndarray
    ts_ecr: np.ndarray
    sack_at: np.ndarray
    sack_count: np.ndarray
    sack_edges: np.ndarray
    number: np.ndarray
    """int64[N]: the 64-bit number in the downlink stream that the segment carries (as seq or ack).

    NONE if it carries none (see `stream_numbers`), or if it only probes (see `probes`).
    """
    up_number: np.ndarray
    """int64[N]: the same in the uplink stream."""
    probe: np.ndarray
    """uint8[N]: WINDOW_PROBE, KEEPALIVE, PROBE_ANSWER (an answer to one of these), or 0."""
    reports_marks: np.ndarray
    """bool[N]: the mobile reports new marks (see `ecn`)."""


class Connections(NamedTuple):
    """C connections, sorted by user, then by their first packet."""

    first: np.ndarray
    """int64[C + 1]: connection c's segments are first[c]:first[c + 1]."""
    user_offsets: np.ndarray
    """int64[U + 1]: user u's connections are user_offsets[u]:user_offsets[u + 1]."""
    user: np.ndarray
    """int32[C]: number of the user."""
    user_port: np.ndarray
    """uint16[C]."""
    server: np.ndarray
    """int32[C]: number of the server."""
    server_port: np.ndarray
    """uint16[C]."""
    start_ts: np.ndarray
    """int64[C], µs: time of the first packet."""
    end_ts: np.ndarray
    """int64[C], µs: time of the last packet."""
    sack: np.ndarray
    """bool[C]: SACK is permitted in both directions, or used (see `uses_sack`)."""
    starts_in_window: np.ndarray
    """bool[C]: the connection starts in the time window that was asked for.

    Only these connections contribute to what is known of a user. So a user's values do not depend
    on how much was read before and after that time.
    """


NO_SCALE = -1
"""Value of window_scale without the window scale option."""
WINDOW_PROBE, KEEPALIVE, PROBE_ANSWER = np.arange(1, 4, dtype=np.uint8)
"""Kinds of segments that bring no data (see `probes`)."""
