"""Losses on the access side and on the Internet side (INFOCOM 2004, Section V).

access          losses on the access side, in three steps:
  observation   1. reads a user's transmissions and ACKs
  order         2. proves fates from the order of packets alone
  search        3. finds the likeliest history for the rest
    receiver, costs     a mobile's TCP, and the costs of what a history leaves unexplained
    lookahead           lower bounds of the costs still to come
    path, link, queue   the access link: RTTs, clock, and size of the queue
  verdict       writes the results
internet        losses on the Internet side
  recovery      retransmissions that a sender must have made
  sequence_holes  data that had to come and did not
"""
