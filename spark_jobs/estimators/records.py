"""What the estimators are given: a bucket's packets, its segments and its connections.

The same packets stand in two orders. In *user order* they are sorted by (user, time); the
*connection order* has the TCP packets alone, sorted by (connection, time). Times are int64 µs since
1970. Columns are those of schemas.PACKETS unless said otherwise; where one is null there, anything
may stand here.
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
    """int64[M]"""
    ts: np.ndarray
    """int64[M], µs"""
    user_port: np.ndarray
    """uint16[M]"""
    server_port: np.ndarray
    """uint16[M]"""
    downlink: np.ndarray
    """bool[M]"""
    ip_len: np.ndarray
    """uint32[M], B"""
    ip_id: np.ndarray
    """uint16[M]"""
    ttl: np.ndarray
    """uint8[M]"""
    is_tcp: np.ndarray
    """bool[M]: has a TCP header."""
    tcp_flags: np.ndarray
    """uint16[M]"""
    seq: np.ndarray
    """uint32[M]"""
    ack: np.ndarray
    """uint32[M]"""
    window: np.ndarray
    """uint16[M]: as on the wire."""
    payload_len: np.ndarray
    """uint32[M], B"""
    mss: np.ndarray
    """uint16[M], B: 0 without the option."""
    window_scale: np.ndarray
    """int16[M]: shift count, NO_SCALE without the option."""
    sack_permitted: np.ndarray
    """bool[M]"""
    has_timestamps: np.ndarray
    """bool[M]: has the timestamp option."""
    ts_val: np.ndarray
    """uint32[M]"""
    ts_ecr: np.ndarray
    """uint32[M]"""
    sack_at: np.ndarray
    """int64[M]: where the packet's SACK block edges begin in sack_edges,"""
    sack_count: np.ndarray
    """uint8[M]: and how many there are."""
    sack_edges: np.ndarray
    """uint32[..]: of all packets."""
    options_cut: np.ndarray
    """bool[M]: the capture cut the options: one that is not there may have been."""
    clock_steps: np.ndarray
    """uint8[M]"""
    downlink_bytes_before: np.ndarray
    """int64[M + 1], B: IP bytes sent to mobiles before each packet (`downlink_bytes_before`)."""
    out_of_window: np.ndarray
    """bool[M]: TCP packets that no end of their connection could have sent (see `connections`)."""


class Segments(NamedTuple):
    """The N packets with a TCP header, in connection order. Columns are as in Packets."""

    place: np.ndarray
    """int32[N]: where the packet stands in user order."""
    ts: np.ndarray
    downlink: np.ndarray
    ip_len: np.ndarray
    ip_id: np.ndarray
    ttl: np.ndarray
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
    """int64[N]: the 64-bit number in the downlink stream that the packet carries, as seq or as
    ack; NONE where it carries none (`stream_numbers`), or only probes (`probes`)."""
    up_number: np.ndarray
    """int64[N]: the same in the uplink stream."""
    probe: np.ndarray
    """uint8[N]: WINDOW_PROBE, KEEPALIVE, ANSWER to one of these, or 0."""


class Connections(NamedTuple):
    """C connections, by user, then by their first packet."""

    first: np.ndarray
    """int64[C + 1]: connection c's segments are first[c]:first[c + 1]."""
    user_offsets: np.ndarray
    """int64[U + 1]: user u's connections are of_user[u]:of_user[u + 1]."""
    user: np.ndarray
    """int32[C]: number of the user."""
    user_port: np.ndarray
    """uint16[C]"""
    server: np.ndarray
    """int32[C]: number of the server."""
    server_port: np.ndarray
    """uint16[C]"""
    start_ts: np.ndarray
    """int64[C], µs: of the first packet."""
    end_ts: np.ndarray
    """int64[C], µs: of the last packet."""
    sack: np.ndarray
    """bool[C]: SACK is permitted in both directions, or used (`uses_sack`)."""
    starts_in_window: np.ndarray
    """bool[C]: starts in the time asked for. What is known of a user comes from these alone, so
    that it does not depend on how much was read beside them."""


NO_SCALE = -1
WINDOW_PROBE, KEEPALIVE, PROBE_ANSWER = np.arange(1, 4, dtype=np.uint8)
"""What a segment is that brings no data (`probes`)."""
