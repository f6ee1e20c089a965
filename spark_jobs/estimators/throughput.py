"""TCP data transfer performance (INFOCOM 2004, Section VI): throughput of connections and of users.

User throughput is that of a user whose connections run in parallel.

    Gi to mobile   d1 d2 x1 d3 ... d9         T1 = d1, T2 = d9; bytes: d1 + d2 + x1 + ... + d9
    mobile to Gi         a1    a2 ...   a9    time: T1ack = a1 to T2ack = a9

The packets wait in the buffer on the access side. So time is taken between the ACKs of the first
and the last data packet: the delays on the way down and up cancel out.

Bytes that are counted over that time

- throughput, user_throughput: as in the paper, IP bytes that passed Gi from T1 to T2. They include
  lost packets, and the first packet, whose transmission is not in the time. So these rates may
  exceed the channel's rate, and they rise with loss.
- throughput_received, user_throughput_received: IP bytes that arrived; this is the paper's Bm =
  (Btcp + Bother) (1 - Ploss) without its last step. The buffer keeps order. So they are the bytes
  sent after the packet that T1ack answers, up to T2, each with the probability that it was not lost
  on the access side.
- goodput: distinct payload beyond that which T1ack acknowledges; the data that had arrived by then
  is not in the time. The paper names goodput and does not define it.

Requests and responses

- The two directions take turns. A turn begins when the mobile sends new data under two conditions:
  all data that Gi has seen for it is acknowledged by then, and some data came since its last turn.
  So pipelined requests, and HTTP/2 window updates during a response, begin no turn.
- Plain HTTP with one request has one turn with an answer. TLS has the turns of its handshake before
  it: up to two, answered with at most `handshake_bytes` in total. On the ports of plain HTTP there
  is no TLS handshake (`handshake_turns`). Turns without an answer (close_notify) do not matter.
- The response is the answer to the last turn that has one; T1 is its first data packet.
- A response is successful if all its data is acknowledged, and the server did not reset the
  connection before that without a FIN.
- Both SYNs must have been seen: a connection whose start is not captured may have had other
  requests. If a server sends first, there is no request and response.
- If a log of HTTP requests describes the connection (`by_log`), the log's count of requests and
  responses replaces the turns, and the response is all the data.

Departures from the paper

- The paper read HTTP headers to distinguish request and response. Here TLS is inferred only from
  port, turns and sizes. So on ports other than HTTP's, one or two short answers before a long one
  are taken for a handshake. They are not in the time.
- If the first data packet was lost or overtaken, the first ACK of any data, a duplicate ACK, stands
  for its ACK: the mobile's time runs from the first data that arrives.
- T2 is the last data packet before T2ack; retransmissions that come after it were not needed.
- A duplicate ACK that stands for the first ACK shows that one packet has arrived, but not which.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.probes import ignored_packets_before
from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import FIN, RST, SYN

UNKNOWN = -1
"""Value if the ACKs do not show a transfer's bytes and time."""
PLAIN_HTTP_PORTS = (80, 8080)
"""http and http-alt in IANA's registry of service names and ports."""
FRACTIONS = 1 << 16
"""Fractions of a byte: the unit in which expected bytes are counted is B / FRACTIONS."""
TLS_TURNS = 2
"""Turns of a full handshake with TLS 1.2 (RFC 5246, 7.3)."""

TRANSFER = np.dtype(
    [
        ("request_response", "?"),
        ("single", "?"),
        ("b_tcp", "i8"),
        ("b_other", "i8"),
        ("throughput", "f8"),
        ("throughput_received", "f8"),
        ("goodput", "f8"),
        ("user_throughput", "f8"),
        ("user_throughput_received", "f8"),
    ]
)
"""A connection's transfer; rates are in bit/s, NaN if not known.

request_response: one request and one successful response
single: no background traffic of the user during the connection's life
b_tcp, b_other: IP bytes from the first to the last data packet, of the connection and of anything
    else (UNKNOWN: the ACKs do not show it)
throughput: at the IP layer; only of single request-response connections of more than
    min_transfer_bytes of payload (VI.A)
goodput: of any connection
user_throughput: 8 (b_tcp + b_other) / (T2ack - T1ack), of connections of more than
    min_transfer_bytes (VI.B)
throughput_received, user_throughput_received: the same of the bytes that arrived
"""


class Requests(NamedTuple):
    """Data that decides whether a connection is one request and its response."""

    by_log: np.ndarray
    """int8[C]: 1 if a log has exactly one request and response, 0 if others, -1 without a log."""
    handshake_turns: np.ndarray
    """int8[C]: number of turns that may belong to TLS's handshake (see `handshake_turns`)."""


class Responses(NamedTuple):
    """Position of each connection's response in its stream, and whether it is the only response."""

    request_response: np.ndarray
    """bool[C]."""
    data_start: np.ndarray
    """int64[C]: the downlink stream's number of the response's first data byte.

    See data_end for connections without one.
    """
    data_end: np.ndarray
    """int64[C]: the number of the byte after the response's last byte.

    If request_response is false, data_start and data_end enclose all data that Gi saw. Both are
    NONE if Gi saw none.
    """


class Transfers(NamedTuple):
    """Bytes and time of each connection's data; UNKNOWN or NaN if the ACKs do not show them.

    They do not if none was seen, if the last data was never acknowledged, if all data was
    acknowledged at once, or if some data is missing at Gi.
    """

    b_tcp: np.ndarray
    """int64[C]: IP bytes of the connection to the mobile from T1 to T2."""
    b_other: np.ndarray
    """int64[C]: IP bytes of anything else to the mobile from T1 to T2."""
    time: np.ndarray
    """int64[C]: T2ack - T1ack (µs)."""
    payload: np.ndarray
    """int64[C]: distinct payload that arrived in this time."""
    received: np.ndarray
    """float64[C]: IP bytes of the connection that arrived in this time."""
    user_received: np.ndarray
    """float64[C]: all IP bytes of the user that arrived in this time."""


@making
def single_transfers(segments, connections, ignored_packets_before):
    """Return bool[C]: the user has no packet of anything else during the connection's life.

    Probes do not count. A connection without such packets is contiguous in user order.
    ignored_packets_before: see `probes.ignored_packets_before`.
    """
    first, place = connections.first, segments.place
    single = np.empty(len(first) - 1, np.bool_)
    for c in range(len(first) - 1):
        begin, end = first[c], first[c + 1]
        others = place[end - 1] + 1 - place[begin] - (end - begin)
        ignored = ignored_packets_before[place[end - 1] + 1] - ignored_packets_before[place[begin]]
        single[c] = others == 0 or others == ignored - np.count_nonzero(segments.probe[begin:end])
    return single


def handshake_turns(server_port: np.ndarray) -> np.ndarray:
    """Return int8[C]: number of turns that may belong to TLS's handshake.

    server_port: uint16[C].
    """
    return np.where(np.isin(server_port, PLAIN_HTTP_PORTS), 0, TLS_TURNS).astype(np.int8)


@compiled
def arrived_bytes_before(segments, packets, lost):
    """Return int64[M + 1], B / FRACTIONS: IP bytes before each packet that are expected to arrive.

    Only bytes sent to mobiles count. lost: float32[N], each segment's probability of being lost on
    the access side; NaN if it is not known, which counts as arrived. The numbers are integers, so
    that a difference does not depend on the other users' packets before.
    """
    out = packets.downlink_bytes_before * FRACTIONS
    lost_bytes = np.zeros(len(out), np.int64)
    for i in range(len(lost)):
        if lost[i] > 0:
            lost_bytes[segments.place[i] + 1] = np.int64(FRACTIONS * lost[i] * segments.ip_len[i])
    total = np.int64(0)
    for m in range(len(out)):
        total += lost_bytes[m]
        out[m] -= total
    return out


@making
def responses(segments, connections, requests, handshake_bytes=16 * 1024):
    """Return the Responses of Segments, their Connections and Requests."""
    by_log, handshake_turns = requests.by_log, requests.handshake_turns
    first, downlink, tcp_flags = connections.first, segments.downlink, segments.tcp_flags
    number, up_number = segments.number, segments.up_number
    request_response = np.zeros(len(by_log), np.bool_)
    data_start = np.full(len(by_log), NONE)
    data_end = np.full(len(by_log), NONE)
    for c in range(len(by_log)):
        syn_seen = synack_seen = server_first = fin_seen = was_reset = False
        highest = up_highest = acked = first_data = last_response = NONE
        turns = answered_turns = 0
        for i in range(first[c], first[c + 1]):
            length = np.int64(segments.payload_len[i])
            syn = np.int64(tcp_flags[i] & SYN != 0)
            if downlink[i] and tcp_flags[i] & RST:
                if acked < highest and not fin_seen:
                    was_reset = True
            elif downlink[i] and number[i] != NONE:
                if tcp_flags[i] & FIN:
                    fin_seen = True
                low = number[i] + syn
                if syn:
                    synack_seen = True
                    highest = max(highest, low)
                if length:
                    if first_data == NONE:
                        first_data = highest = highest if synack_seen else low
                    if low + length > highest:
                        if answered_turns < turns:
                            answered_turns = turns
                            last_response = highest
                        server_first |= turns == 0
                        highest = low + length
            elif not downlink[i]:
                acked = max(acked, number[i])
                if syn:
                    syn_seen = True
                if length and up_number[i] != NONE and up_number[i] + syn + length > up_highest:
                    up_highest = up_number[i] + syn + length
                    if turns == 0 or (answered_turns == turns and acked >= highest):
                        turns += 1
        if first_data == NONE:
            continue
        data_start[c], data_end[c] = first_data, highest
        is_complete = syn_seen and synack_seen and acked >= highest and not was_reset
        if by_log[c] >= 0:
            request_response[c] = is_complete and by_log[c] == 1
        elif (
            is_complete
            and not server_first
            and 0 < answered_turns <= handshake_turns[c] + 1
            and last_response - first_data <= handshake_bytes
        ):
            request_response[c] = True
            data_start[c] = last_response
    return Responses(request_response, data_start, data_end)


@inner
def _answered_segment(segments, t1, t1_ack, duplicate):
    """Return the segment that the first ACK, `t1_ack`, answers.

    It is the last data from `t1` on that the ACK acknowledges. For a duplicate ACK it is not known,
    and `t1` stands for it.
    """
    answered = t1
    if not duplicate:
        for i in range(t1 + 1, t1_ack):
            if segments.downlink[i] and segments.payload_len[i] > 0:
                end = segments.number[i] + np.int64(segments.payload_len[i])
                if segments.number[i] != NONE and end <= segments.number[t1_ack]:
                    answered = i
    return answered


@making
def transfers(segments, connections, packets, arrived_bytes_before, response):
    """Return the Transfers of Segments, their Connections and all Packets.

    arrived_bytes_before: see the function of that name; response: the connections' Responses.
    """
    first, ts, number = connections.first, segments.ts, segments.number
    place, bytes_before = segments.place, packets.downlink_bytes_before
    downlink, payload_len = segments.downlink, segments.payload_len
    data_start, data_end = response.data_start, response.data_end
    b_tcp = np.full(len(data_start), np.int64(UNKNOWN))
    b_other = np.full(len(data_start), np.int64(UNKNOWN))
    time = np.full(len(data_start), np.int64(UNKNOWN))
    arrived = np.full(len(data_start), np.int64(UNKNOWN))
    received, user_received = np.full((2, len(data_start)), np.nan)
    for c in range(len(data_start)):
        t1 = t2 = t1_ack = t2_ack = first_data_ack = -1
        first_end = NONE
        was_disturbed = False  # the first data was retransmitted, or fills a hole
        max_payload = np.int64(0)
        ip_bytes = payload = np.int64(0)  # of the connection since T1
        ip_bytes_to_t2 = np.int64(0)
        for i in range(first[c], first[c + 1]):
            if data_start[c] == NONE:
                break
            if number[i] == NONE:
                if t1 >= 0 and downlink[i]:
                    ip_bytes += segments.ip_len[i]
                continue
            if downlink[i]:
                low = number[i] + np.int64(segments.tcp_flags[i] & SYN != 0)
                end = low + np.int64(payload_len[i])
                data = payload_len[i] > 0 and end > data_start[c]
                if data and t1 < 0:
                    t1 = i
                    first_end = end
                    was_disturbed = low > data_start[c]
                elif data and low < first_end:
                    was_disturbed = True
                if t1 >= 0:
                    ip_bytes += segments.ip_len[i]
                    payload += payload_len[i]
                    max_payload = max(max_payload, np.int64(payload_len[i]))
                    if data:
                        t2 = i
                        ip_bytes_to_t2 = ip_bytes
            elif t1 >= 0:
                if first_data_ack < 0 and payload_len[i] == 0 and number[i] >= data_start[c]:
                    first_data_ack = i  # an ACK of any data, perhaps a duplicate ACK
                if t1_ack < 0 and number[i] >= first_end:
                    # A receiver acknowledges every second segment: an ACK of more fills a hole.
                    fills_hole = was_disturbed and number[i] > first_end + 2 * max_payload
                    t1_ack = first_data_ack if fills_hole and first_data_ack >= 0 else i
                if number[i] >= data_end[c]:
                    t2_ack = i
                    break
        has_gap = payload < data_end[c] - data_start[c]
        if t2_ack > t1_ack >= 0 and ts[t2_ack] > ts[t1_ack] and not has_gap:
            b_tcp[c] = ip_bytes_to_t2
            b_other[c] = bytes_before[place[t2] + 1] - bytes_before[place[t1]] - ip_bytes_to_t2
            time[c] = ts[t2_ack] - ts[t1_ack]
            duplicate = t1_ack == first_data_ack and number[t1_ack] < first_end
            acked_by_t1_ack = data_start[c] + payload_len[t1] if duplicate else number[t1_ack]
            arrived[c] = data_end[c] - acked_by_t1_ack
            answered = _answered_segment(segments, t1, t1_ack, duplicate)
            own_received = np.int64(0)
            for i in range(answered + 1, t2 + 1):
                if downlink[i]:
                    own_received += (
                        arrived_bytes_before[place[i] + 1] - arrived_bytes_before[place[i]]
                    )
            received[c] = own_received / FRACTIONS
            user_received[c] = (
                arrived_bytes_before[place[t2] + 1] - arrived_bytes_before[place[answered] + 1]
            ) / FRACTIONS
    return Transfers(b_tcp, b_other, time, arrived, received, user_received)


@compiled
def throughputs(
    segments, connections, packets, arrived_bytes_before, requests, min_transfer_bytes=100 * 1024
):
    """Return TRANSFER[C]: throughput of each connection, and of its user in the same time.

    arrived_bytes_before: see the function of that name.
    """
    single = single_transfers(segments, connections, ignored_packets_before(segments, packets))
    response = responses(segments, connections, requests)
    transferred = transfers(segments, connections, packets, arrived_bytes_before, response)
    out = np.zeros(len(single), TRANSFER)
    for c in range(len(single)):
        transfer = out[c]
        transfer.single = single[c]
        transfer.request_response = response.request_response[c]
        transfer.b_tcp, transfer.b_other = transferred.b_tcp[c], transferred.b_other[c]
        transfer.throughput = transfer.throughput_received = transfer.goodput = np.nan
        transfer.user_throughput = transfer.user_throughput_received = np.nan
        time = transferred.time[c]
        if time > 0:
            if transferred.payload[c] > 0:
                transfer.goodput = 8e6 * transferred.payload[c] / time
            if response.data_end[c] - response.data_start[c] > min_transfer_bytes:
                transfer.user_throughput = 8e6 * (transfer.b_tcp + transfer.b_other) / time
                transfer.user_throughput_received = 8e6 * transferred.user_received[c] / time
                if single[c] and transfer.request_response:
                    transfer.throughput = 8e6 * transfer.b_tcp / time
                    transfer.throughput_received = 8e6 * transferred.received[c] / time
    return out
