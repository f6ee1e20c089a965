"""TCP data transfer performance (INFOCOM 2004, Section VI): throughput of single connections, and
of a user whose connections run in parallel.

    Gi to mobile   d1 d2 x1 d3 ... d9         T1 = d1, T2 = d9; bytes: d1 + d2 + x1 + ... + d9
    mobile to Gi         a1    a2 ...   a9    time: T1ack = a1 to T2ack = a9

The packets wait in the buffer behind Gi, so time is taken between the ACKs of the first and the
last data packet: what they took on the way down and up cancels out.

What counts as one request and its response
  Directions take turns. A turn begins where the mobile sends new data and all data that Gi has
  seen for it is acknowledged by then, if something came since its last turn; so pipelined requests
  and HTTP/2 window updates amid a response begin none. Plain HTTP with one request has one turn
  with an answer. TLS has the turns of its handshake before: up to `handshake_turns`, answered with
  no more than `handshake_bytes` altogether. Turns without an answer (close_notify) do not matter.
  The response is the answer to the last turn that has one; T1 is its first data packet. It is
  successful if all its data is acknowledged. Both SYNs must have been seen: a connection caught
  midway may have had other requests. A server that speaks first is no request and response.
  Where a log of HTTP requests tells of the connection (`told`), its count of requests and responses
  stands for the turns, and the response is all the data.

Departures from the paper
- It read HTTP headers to tell request from response; here TLS is told from turns and sizes alone,
  so one or two short answers before a long one pass for a handshake. They are not in the time.
- If the first data packet was lost or overtaken, the first ACK of any data, a duplicate, stands
  for its ACK: the mobile's time runs from the first data that arrives, whichever it is.
- T2 is the last data packet before T2ack; resends that come after it were not needed.
- As in the paper the first packet's bytes count though its own transmission is not in the time:
  on an idle path the throughput may exceed the channel rate by a packet over all bytes.
- Goodput is unique payload from the first data packet to the last (as sequence numbers tell)
  over the same time; the paper does not define it.
"""

import numpy as np
from numba import njit

from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import SYN

NOT_TOLD = -1

TRANSFER = np.dtype(
    [
        ("request_response", "?"),
        ("single", "?"),
        ("b_tcp", "i8"),
        ("b_other", "i8"),
        ("throughput", "f8"),
        ("goodput", "f8"),
        ("user_throughput", "f8"),
    ]
)
"""A connection's transfer. request_response: one request, one successful response; single: no
other traffic of the user during its life; b_tcp, b_other: IP bytes from the first to the last data
packet, of the connection and of anything else (NOT_TOLD: the ACKs do not tell); in bit/s, NaN where
not known: throughput (IP layer; only of single request-response connections of more than
min_transfer_bytes of payload, VI.A), goodput (unique payload over the same time, any connection),
user_throughput (8 (b_tcp + b_other) / (T2ack - T1ack), of connections of more than
min_transfer_bytes, VI.B)."""


@njit(cache=True, nogil=True)
def alone(first, to_user):
    """bool[C]: the user has no packet of anything else from the connection's first packet to its
    last: its packets are neighbours in user order."""
    single = np.empty(len(first) - 1, np.bool_)
    for c in range(len(first) - 1):
        single[c] = to_user[first[c + 1] - 1] - to_user[first[c]] == first[c + 1] - 1 - first[c]
    return single


@njit(cache=True, nogil=True)
def responses(
    first,
    downlink,
    tcp_flags,
    payload_len,
    number,
    up_number,
    told,
    handshake_turns=2,
    handshake_bytes=16 * 1024,
):
    """Where each connection's response lies, and whether it is its only one.

    number, up_number int64[N]: what `stream_numbers` returns. told int8[C]: 1 where a log tells of
    one request and one response, 0 where it tells of others, else -1.
    Returns request_response bool[C], and data_start and data_end int64[C]: the downlink stream's
    numbers of the response's first data byte and of the byte after its last; if request_response
    is false, of all data that Gi saw. NONE if it saw none.
    """
    connections = len(first) - 1
    request_response = np.zeros(connections, np.bool_)
    data_start = np.full(connections, NONE)
    data_end = np.full(connections, NONE)
    for c in range(connections):
        asked = accepted = unasked = False
        top = up_top = acked = origin = answer = NONE
        turns = answered = 0
        for i in range(first[c], first[c + 1]):
            length = np.int64(payload_len[i])
            if downlink[i] and number[i] != NONE:
                if tcp_flags[i] & SYN:
                    accepted = True
                    top = max(top, number[i] + 1)
                elif length:
                    if origin == NONE:
                        origin = top = top if accepted else number[i]
                    if number[i] + length > top:
                        if answered < turns:
                            answered = turns
                            answer = top
                        unasked |= turns == 0
                        top = number[i] + length
            elif not downlink[i]:
                acked = max(acked, number[i])
                if tcp_flags[i] & SYN:
                    asked = True
                elif length and up_number[i] != NONE and up_number[i] + length > up_top:
                    up_top = up_number[i] + length
                    if turns == 0 or (answered == turns and acked >= top):
                        turns += 1
        if origin == NONE:
            continue
        data_start[c], data_end[c] = origin, top
        whole = asked and accepted and acked >= top
        if told[c] >= 0:
            request_response[c] = whole and told[c] == 1
        elif (
            whole
            and not unasked
            and 0 < answered <= handshake_turns + 1
            and answer - origin <= handshake_bytes
        ):
            request_response[c] = True
            data_start[c] = answer
    return request_response, data_start, data_end


@njit(cache=True, nogil=True)
def transfers(
    first,
    ts,
    downlink,
    ip_len,
    payload_len,
    number,
    to_user,
    sent_before,
    data_start,
    data_end,
):
    """The bytes and the time of each connection's data (arrays: see `throughputs`).

    Returns b_tcp, b_other int64[C] (IP bytes to the mobile from T1 to T2, of the connection and
    of anything else) and time int64[C] (us, T2ack - T1ack). All are NOT_TOLD if the ACKs do not
    tell: none seen, the last data never acknowledged, all data acknowledged at once, or some of the
    data missing at Gi.
    """
    connections = len(first) - 1
    b_tcp = np.full(connections, np.int64(NOT_TOLD))
    b_other = np.full(connections, np.int64(NOT_TOLD))
    time = np.full(connections, np.int64(NOT_TOLD))
    for c in range(connections):
        t1 = t2 = t1_ack = t2_ack = early = -1
        first_end = NONE
        again = False  # the first data was sent again, or is the filling of a hole
        largest = np.int64(0)
        seen = payload = np.int64(0)  # of the connection, since T1
        own = np.int64(0)  # up to T2
        for i in range(first[c], first[c + 1]):
            if number[i] == NONE or data_start[c] == NONE:
                continue
            if downlink[i]:
                end = number[i] + np.int64(payload_len[i])
                data = payload_len[i] > 0 and end > data_start[c]
                if data and t1 < 0:
                    t1 = i
                    first_end = end
                    again = number[i] > data_start[c]
                elif data and number[i] < first_end:
                    again = True
                if t1 >= 0:
                    seen += ip_len[i]
                    payload += payload_len[i]
                    largest = max(largest, np.int64(payload_len[i]))
                    if data:
                        t2 = i
                        own = seen
            elif t1 >= 0:
                if early < 0 and payload_len[i] == 0 and number[i] >= data_start[c]:
                    early = i  # an ACK of any data, perhaps a duplicate
                if t1_ack < 0 and number[i] >= first_end:
                    # a receiver owes an ACK every second segment: more at once filled a hole
                    filled = again and number[i] > first_end + 2 * largest
                    t1_ack = early if filled and early >= 0 else i
                if number[i] >= data_end[c]:
                    t2_ack = i
                    break
        missed = payload < data_end[c] - data_start[c]
        if t2_ack > t1_ack >= 0 and ts[t2_ack] > ts[t1_ack] and not missed:
            b_tcp[c] = own
            b_other[c] = sent_before[to_user[t2] + 1] - sent_before[to_user[t1]] - own
            time[c] = ts[t2_ack] - ts[t1_ack]
    return b_tcp, b_other, time


@njit(cache=True, nogil=True)
def throughputs(
    first,
    ts,
    downlink,
    ip_len,
    tcp_flags,
    payload_len,
    number,
    up_number,
    told,
    to_user,
    sent_before,
    min_transfer_bytes=100 * 1024,
    handshake_turns=2,
    handshake_bytes=16 * 1024,
):
    """Throughput of each connection and of its user meanwhile.

    Connection order (N packets, C connections): first int64[C + 1], ts int64 (us), downlink bool,
    ip_len, payload_len uint32, tcp_flags, number and up_number int64 (see `stream_numbers`),
    told int8[C] (see `responses`), to_user int64 (each packet's place in user order);
    sent_before: see `downlink_bytes_before`.

    Returns TRANSFER[C].
    """
    single = alone(first, to_user)
    request_response, data_start, data_end = responses(
        first,
        downlink,
        tcp_flags,
        payload_len,
        number,
        up_number,
        told,
        handshake_turns,
        handshake_bytes,
    )
    b_tcp, b_other, time = transfers(
        first,
        ts,
        downlink,
        ip_len,
        payload_len,
        number,
        to_user,
        sent_before,
        data_start,
        data_end,
    )
    out = np.zeros(len(single), TRANSFER)
    for c in range(len(single)):
        transfer = out[c]
        transfer.single = single[c]
        transfer.request_response = request_response[c]
        transfer.b_tcp, transfer.b_other = b_tcp[c], b_other[c]
        transfer.throughput = transfer.goodput = transfer.user_throughput = np.nan
        if time[c] > 0:
            payload = data_end[c] - data_start[c]
            transfer.goodput = 8e6 * payload / time[c]
            if payload > min_transfer_bytes:
                transfer.user_throughput = 8e6 * (b_tcp[c] + b_other[c]) / time[c]
                if single[c] and request_response[c]:
                    transfer.throughput = 8e6 * b_tcp[c] / time[c]
    return out
