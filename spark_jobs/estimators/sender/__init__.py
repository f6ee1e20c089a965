"""The server's TCP as inferred at Gi: its timer, its state, its retransmissions and its limits.

A server's behaviour follows from the ACKs that it receives (RFC 5681, 6298, 6582, 6675, 8985). If
these RFCs leave a choice, the replay follows Linux, which most servers run. The replay repeats the
server's course from the packets at Gi. It compares each segment with what the server had to do.

replay            goes through a connection's packets in the server's order
  server          the server's clock: when it received and sent the packets that Gi saw
  handshake       SYN ACKs and their timer
  acks            an ACK's effect on the server's state
  transmissions   a segment: original, reordered, or retransmitted for some cause
    scoreboard    the segments in flight
    timer         RTT, RTO and loss probe timer
    window        congestion window and receive window, and which of them limited the server
  limits          what limited the transfer, and for how long
  rtt_sampling    RTT samples on either side of Gi
  stall_classes   silences and their causes
timeouts          how long each RTO value was in force
"""
