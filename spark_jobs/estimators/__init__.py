"""The paper's estimators: pure functions on sorted arrays, one module an idea.

INFOCOM stands for Benkő, Malicskó, Veres: A Large-scale, Passive Analysis of End-to-End TCP
Performance over GPRS, INFOCOM 2004.

Two orders of the same packets: in *user order* packets are sorted by (user, time), and
`user_first[u]:user_first[u + 1]` are a user's; in *connection order* the TCP packets are sorted by
(connection, time), and `first[c]:first[c + 1]` are a connection's. Times are int64 µs since 1970.
"""
