"""The server's TCP, told at Gi: its timer, its state, why it retransmitted, what held it back.

What a server does follows from what it hears (RFC 5681, 6298, 6582, 6675, 8985; where these leave
a choice, Linux, which most servers run). So its course is replayed from the packets, and what it
sent is held against what it had to do.

replay       packet by packet, in the server's order
  server     the clock: when the server heard and sent what Gi saw
  handshake  SYN ACKs and their timer
  hearing    an ACK: what it tells, the state that it leads to
  sending    a segment: new, overtaken, or retransmitted, and then why
    flight   what is in flight
    timer    round trips, the retransmission timeout
    window   the congestion window, the receiver's, and which of them held the sender back
"""
