"""Losses on the access side and before it (INFOCOM 2004, Section V).

access     which packets were lost on the access side, in three steps:
  exchange   reading: a user's copies and ACKs
  order      what order alone proves
  search     the likeliest history of what is left
    receiver, costs   a mobile's TCP, and what speaks against a history
    lookahead         the least that is still to come
    path, link, queue the access link: round trips, its clock, what its queue holds
  verdict    writing down
internet   what Gi never saw
  recovery   which retransmissions a sender must have made
  sequence_holes what had to come and did not
"""
