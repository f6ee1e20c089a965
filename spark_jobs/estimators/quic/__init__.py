"""QUIC connections without keys: set-up, round trips, bursts, migrations.

QUIC encrypts its packet numbers and acknowledgments. So losses, retransmissions and windows are not
known. Sources: RFC 8999, RFC 9000, RFC 9312.
"""
