"""quic_flows: one row for each QUIC connection, with what can be known of it without keys."""

from schemas.labels import LABELS
from schemas.table import DELTA, PLAIN, TIMESTAMP, Column, Table

QUIC_SETUP_CLASSES = {
    "optimal": "one Initial of the client, then the handshake",
    "initial_repeated": "the client repeated its first Initial before the server's first packet",
    "retry": "the server had the client prove its address",
    "version_negotiation": "the server did not know the client's version",
    "no_response": "the server sent nothing",
    "refused": "ICMP said that the server could not be reached",
    "serious_problem": "the server answered, but the client did not complete the handshake",
}
"""Set-up categories, and the condition for each: the first that applies, from the last one on."""
SPINS = {
    "spins": "its edges follow each other as RFC 9000 says",
    "constant": "it never changes",
    "no_signal": "it changes otherwise, as random values do",
}
"""Kinds of spin bits, and what each does."""

QUIC_FLOWS = Table(
    name="quic_flows",
    row="one QUIC connection. Its date is the date on which it starts. QUIC encrypts its packet "
    "numbers and acknowledgments: losses, retransmissions and windows are not known",
    columns=(
        Column(
            "flow_id",
            "int64",
            "stable key of the connection: a hash of user, server, ports and start",
            required=True,
            encoding=PLAIN,
        ),
        Column("user", "string", "the user's key (see flows)", required=True),
        Column("link", "string", "the key of the access link (see flows)", required=True),
        Column("user_port", "uint16", "the mobile's port in the first packet", required=True),
        Column("server", "string", "the server's address", required=True),
        Column("server_port", "uint16", "the server's port", required=True),
        Column(
            "start_ts", TIMESTAMP, "time of the first packet at Gi", required=True, encoding=DELTA
        ),
        Column("end_ts", TIMESTAMP, "time of the last packet at Gi", required=True, encoding=DELTA),
        Column(
            "begin_seen",
            "bool",
            "whether it begins with the client's Initial. If not, it was seen from its middle: it "
            "is QUIC's by its port only, unless a long header followed",
            required=True,
        ),
        Column(
            "version",
            "uint32",
            "version of its last long header. Null if there was none",
            source="RFC 8999, 5.1",
        ),
        *(
            Column(
                f"{what}_{way}", "int64", f"{meaning} {direction} the mobile", unit, required=True
            )
            for what, meaning, unit in (
                ("packets", "datagrams", "packets"),
                ("ip_bytes", "IP bytes", "B"),
            )
            for way, direction in (("up", "from"), ("down", "to"))
        ),
        Column(
            "directions_seen",
            "string",
            "both, up or down: the directions whose packets passed the monitor",
            required=True,
        ),
        Column(
            "setup_class",
            "string",
            "set-up category: "
            + "; ".join(f"{name} ({meaning})" for name, meaning in QUIC_SETUP_CLASSES.items())
            + ". If several apply, the last one in this list. Null if the beginning was not seen, "
            "or if the capture cut off what decides",
            source="INFOCOM III.C, Fig. 5; RFC 9000, 6, 8.1, 17.2",
        ),
        Column(
            "initials",
            "int64",
            "datagrams with an Initial that the client sent before the server's first packet",
            "packets",
            "RFC 9002, 6.2",
        ),
        Column(
            "zero_rtt",
            "bool",
            "whether the client sent 0-RTT packets: data before the handshake completed. Null if "
            "the beginning was not seen, or if the capture cut off what follows an Initial of the "
            "first flight",
            source="RFC 9000, 17.2.3",
        ),
        Column(
            "setup_delay",
            "double",
            "time from the client's first Initial to its first packet that needs the server's "
            "handshake: a Handshake packet, or one with a short header. Null if the capture cut "
            "off what may be this packet, more than 2 % before the first one that surely is",
            "s",
            "INFOCOM III, Fig. 3",
        ),
        Column(
            "rtt_internet",
            "double",
            "RTT from Gi to the server and back: from an Initial to the packet that answers it. "
            "Null if the client had repeated it, or may have",
            "s",
            "INFOCOM III, Fig. 4; RFC 9312, 2.4",
        ),
        Column(
            "rtt_access",
            "double",
            "RTT from Gi to the mobile and back: from the server's first packet that needs an "
            "answer to the client's first one that shows that it had it. Null if the server "
            "repeated its packet before",
            "s",
            "INFOCOM III, Fig. 4; RFC 9312, 2.4",
        ),
        Column(
            "spin",
            "string",
            "what the spin bit does: "
            + "; ".join(f"{name} ({meaning})" for name, meaning in SPINS.items())
            + ". Null if there are too few packets",
            source="RFC 9000, 17.4; RFC 9312, 3.8.2",
        ),
        Column(
            "spin_samples",
            "int64",
            "round trips that the spin bit shows, see spin_rtt_min",
            "RTT samples",
        ),
        *(
            Column(
                f"spin_rtt_{name}",
                "double",
                f"{meaning} RTT from mobile to server and back by the spin bit, of round trips "
                "with short waits. Null if these are fewer than five, or too different to "
                "determine their median",
                "s",
                "RFC 9000, 17.4",
            )
            for name, meaning in (
                ("min", "smallest"),
                ("median", "median"),
                ("p95", "95th percentile"),
            )
        ),
        *(
            Column(
                f"spin_rtt_{side}_median",
                "double",
                f"median of the {side} side's part of it: {path}",
                "s",
                "RFC 9312, 3.8.2",
            )
            for side, path in (
                ("access", "from a downlink packet to the uplink packet that reflects it"),
                ("internet", "from an uplink packet to the downlink packet that reflects it"),
            )
        ),
        Column(
            "bursts",
            "int64",
            "number of its bursts: between two, nothing passes for more than a second and two of "
            "the user's RTTs on the access side: the base RTT, or without TCP the shortest of a "
            "QUIC handshake",
            "bursts",
            required=True,
        ),
        Column("active", "double", "time within bursts", "s", required=True),
        Column(
            "downlink_rate",
            "double",
            "IP bytes to the mobile within bursts, divided by the time from the first of these "
            "packets in a burst to the last; the first one does not count. Null below 16 KiB",
            "bit/s",
        ),
        Column(
            "migrations",
            "int64",
            "changes of the mobile's port that a connection ID shows. A change with a new "
            "connection ID is another connection here",
            "changes",
            "RFC 9000, 9; RFC 9312, 2.3",
            required=True,
        ),
        Column(
            "end",
            "string",
            "silent: nothing more passed for ten minutes. The end itself is encrypted, and a "
            "stateless reset looks like data. Null: the packets end before that",
            source="RFC 9000, 10",
        ),
        *LABELS,
    ),
    sorted_by=("start_ts",),
    statistics_columns=("start_ts",),
)
