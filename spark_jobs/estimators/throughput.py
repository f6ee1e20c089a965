"""TCP data transfer performance (INFOCOM 2004, Section VI): throughput of single connections, and
of a user whose connections run in parallel.

    Gi to mobile   d1 d2 x1 d3 ... d9         T1 = d1, T2 = d9; bytes: d1 + d2 + x1 + ... + d9
    mobile to Gi         a1    a2 ...   a9    time: T1ack = a1 to T2ack = a9

The packets wait in the buffer on the access side, so time is taken between the ACKs of the first and the
last data packet: what they took on the way down and up cancels out.

What is counted over that time
- throughput, user_throughput: as in the paper, IP bytes that passed Gi from T1 to T2. Lost ones
  count, and the first packet's, whose transmission is not in the time: they may exceed the
  channel's rate and rise with loss.
- throughput_received, user_throughput_received: IP bytes that arrived, the paper's
  Bm = (Btcp + Bother) (1 - Ploss) without its last step. The buffer keeps order, so they are those
  sent behind the packet that T1ack answers, up to T2, each with the probability that it was not
  lost on the access side.
- goodput: distinct payload beyond what T1ack acknowledges; what had arrived by then is not in the
  time. The paper names it and does not define it.

What counts as one request and its response
  Directions take turns. A turn begins where the mobile sends new data and all data that Gi has
  seen for it is acknowledged by then, if something came since its last turn; so pipelined requests
  and HTTP/2 window updates amid a response begin none. Plain HTTP with one request has one turn
  with an answer. TLS has the turns of its handshake before: up to two, answered with no more than
  `handshake_bytes` altogether; none on the ports of plain HTTP (`handshake_turns`). Turns
  without an answer (close_notify) do not matter.
  The response is the answer to the last turn that has one; T1 is its first data packet. It is
  successful if all its data is acknowledged, and the server did not reset the connection before
  that, without a FIN. Both SYNs must have been seen: a connection caught
  midway may have had other requests. A server that speaks first is no request and response.
  Where a log of HTTP requests tells of the connection (`told`), its count of requests and responses
  stands for the turns, and the response is all the data.

Departures from the paper
- It read HTTP headers to tell request from response; here TLS is told from port, turns and sizes
  alone, so elsewhere than on HTTP's ports one or two short answers before a long one pass for a
  handshake. They are not in the time.
- If the first data packet was lost or overtaken, the first ACK of any data, a duplicate, stands
  for its ACK: the mobile's time runs from the first data that arrives, whichever it is.
- T2 is the last data packet before T2ack; retransmissions that come after it were not needed.
- A duplicate that stands for the first ACK tells of one packet that has arrived, not of which.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.probes import ignored_packets_before
from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import FIN, RST, SYN

UNKNOWN = -1
PLAIN_HTTP_PORTS = (80, 8080)
"""http and http-alt in IANA's registry of service names and ports."""
FRACTIONS = 1 << 16
"""Of a byte, in which expected bytes are counted."""
TLS_TURNS = 2
"""Of a full handshake with TLS 1.2 (RFC 5246, 7.3)."""

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
"""A connection's transfer. request_response: one request, one successful response; single: no
other traffic of the user during its life; b_tcp, b_other: IP bytes from the first to the last data
packet, of the connection and of anything else (NOT_TOLD: the ACKs do not tell); in bit/s, NaN where
not known: throughput (IP layer; only of single request-response connections of more than
min_transfer_bytes of payload, VI.A), goodput (of any connection), user_throughput (8 (b_tcp +
b_other) / (T2ack - T1ack), of connections of more than min_transfer_bytes, VI.B); _received: the
same of what arrived."""


class Requests(NamedTuple):
    """What tells whether a connection is one request and its response."""

    by_log: np.ndarray
    """int8[C]: 1 where a log tells of one request and one response, 0 where it tells of others,
    else -1."""
    handshake_turns: np.ndarray
    """int8[C]: how many turns may belong to TLS's handshake (`handshake_turns`)."""


class Responses(NamedTuple):
    """Where each connection's response lies, and whether it is its only one."""

    request_response: np.ndarray
    """bool[C]"""
    data_start: np.ndarray
    """int64[C]: the downlink stream's number of the response's first data byte, and"""
    data_end: np.ndarray
    """int64[C]: of the byte after its last; if request_response is false, of all data that Gi saw.
    NONE if it saw none."""


class Transfers(NamedTuple):
    """The bytes and the time of each connection's data, NOT_TOLD if the ACKs do not tell: none
    seen, the last data never acknowledged, all data acknowledged at once, or some of it missing at
    Gi."""

    b_tcp: np.ndarray
    """int64[C]: IP bytes to the mobile from T1 to T2 of the connection,"""
    b_other: np.ndarray
    """int64[C]: and of anything else."""
    time: np.ndarray
    """int64[C]: T2ack - T1ack (µs)."""
    payload: np.ndarray
    """int64[C]: distinct payload that arrived in this time."""
    received: np.ndarray
    """float64[C]: IP bytes of the connection that did,"""
    user_received: np.ndarray
    """float64[C]: and of all that its user receives."""


@making
def single_transfers(segments, connections, ignored_packets_before):
    """bool[C]: the user has no packet of anything else from the connection's first packet to its
    last, but for probes: those that are none are neighbours in user order. quiet_before: see
    `probes.quiet_before`."""
    first, place = connections.first, segments.place
    single = np.empty(len(first) - 1, np.bool_)
    for c in range(len(first) - 1):
        begin, end = first[c], first[c + 1]
        others = place[end - 1] + 1 - place[begin] - (end - begin)
        ignored = ignored_packets_before[place[end - 1] + 1] - ignored_packets_before[place[begin]]
        single[c] = others == 0 or others == ignored - np.count_nonzero(segments.probe[begin:end])
    return single


def handshake_turns(server_port: np.ndarray) -> np.ndarray:
    """int8[C]: how many turns may belong to TLS's handshake, by the server's port uint16[C]."""
    return np.where(np.isin(server_port, PLAIN_HTTP_PORTS), 0, TLS_TURNS).astype(np.int8)


@compiled
def arrived_bytes_before(segments, packets, lost):
    """int64[M + 1], B / PARTS: of the IP bytes sent to mobiles before each of the Packets, those
    expected to arrive; lost float32[N]: each of the Segments' probability of being lost on the access side,
    NaN where it is not known, which counts as arrived. Whole numbers, so that a difference does not
    depend on what other users' packets stand before."""
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
    """Responses of Segments, their Connections and Requests."""
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
    """The segment that the first ACK, `t1_ack`, answers: the last data from `t1` on that it
    acknowledges; of a duplicate none is known, and `t1` stands for it."""
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
    """Transfers of Segments, their Connections, all Packets, `arrived_before` and the connections'
    Responses."""
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
        was_disturbed = False  # the first data was retransmitted, or is the filling of a hole
        max_payload = np.int64(0)
        ip_bytes = payload = np.int64(0)  # of the connection, since T1
        ip_bytes_to_t2 = np.int64(0)  # up to T2
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
                    first_data_ack = i  # an ACK of any data, perhaps a duplicate
                if t1_ack < 0 and number[i] >= first_end:
                    # a receiver owes an ACK every second segment: more at once filled a hole
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
    """Throughput of each connection and of its user meanwhile: TRANSFER[C] of Segments, their
    Connections and Requests, all Packets and their `arrived_before`."""
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
