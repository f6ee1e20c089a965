"""flows: one row a TCP connection, with what the estimators found."""

import pyarrow as pa

from schemas.table import DELTA, PLAIN, TIMESTAMP, Column, Table

LIMITS = {
    "channel": "the access link was busy",
    "receiver": "the mobile's window was full",
    "recovery": "a loss was repaired, or had cut the congestion window",
    "slow_start": "the congestion window had not yet grown to what the link carries",
    "server": "the server had room, or all was acknowledged, and sent nothing more",
    "mobile": "the mobile's window was closed, or it had not asked for more",
}
"""What holds a transfer up, and when it does."""

FLOWS = Table(
    name="flows",
    row="one TCP connection, on the date on which it starts",
    columns=(
        Column(
            "flow_id",
            pa.int64(),
            "stable key: hash of user, server, ports, start and initial sequence number",
            required=True,
            encoding=PLAIN,
        ),
        Column(
            "user",
            pa.string(),
            "the subscriber's key: whom RADIUS says had the address then (see leases), else the "
            "address",
            required=True,
        ),
        Column("user_port", pa.uint16(), "the mobile side's port", required=True),
        Column("server", pa.string(), "the Internet side's address", required=True),
        Column("server_port", pa.uint16(), "the Internet side's port", required=True),
        Column("start_ts", TIMESTAMP, "first packet at Gi", required=True, encoding=DELTA),
        Column("end_ts", TIMESTAMP, "last packet at Gi", required=True, encoding=DELTA),
        Column(
            "initiator",
            pa.string(),
            "who sent the first SYN: mobile, server, or unknown (SYN not seen: a partial flow)",
            required=True,
        ),
        Column("packets_up", pa.int64(), "packets from the mobile", "packets", required=True),
        Column("packets_down", pa.int64(), "packets to the mobile", "packets", required=True),
        Column("ip_bytes_up", pa.int64(), "IP bytes from the mobile", "B", required=True),
        Column("ip_bytes_down", pa.int64(), "IP bytes to the mobile", "B", required=True),
        Column(
            "payload_bytes_up",
            pa.int64(),
            "distinct payload bytes from the mobile (unique sequence space seen at Gi)",
            "B",
            required=True,
        ),
        Column(
            "payload_bytes_down",
            pa.int64(),
            "distinct payload bytes to the mobile (unique sequence space seen at Gi)",
            "B",
            required=True,
        ),
        Column(
            "data_packets_down",
            pa.int64(),
            "packets with payload to the mobile",
            "packets",
            required=True,
        ),
        *(
            Column(
                f"{name}_{way}",
                pa.int64(),
                f"{meaning} from the {end}; they bring no data and count among no retransmissions, losses, "
                "nor another connection's traffic",
                "packets",
                f"RFC 9293, {section}",
                required=True,
            )
            for name, meaning, section in (
                ("window_probes", "probes of a closed window", "3.8.6.1"),
                ("keepalives", "keep-alives", "3.8.4"),
            )
            for way, end in (("up", "mobile"), ("down", "server"))
        ),
        Column(
            "directions_seen",
            pa.string(),
            "both, unless just one direction of the connection passed the monitor though the other "
            "end answered: up (packets from the mobile) or down; what the other one would tell is "
            "null then",
            required=True,
        ),
        Column(
            "merged_segments",
            pa.int64(),
            "of packets_up and packets_down, those that the capture has merged into larger ones "
            "(LRO, GRO, TSO): each is counted and measured as it was on the wire",
            "packets",
            "RFC 9293, 3.7.1",
            required=True,
        ),
        *(
            Column(
                f"out_of_window_{way}",
                pa.int64(),
                f"{way}link packets of its addresses and ports that its {end} could not have sent "
                "(left over from an old connection, injected, or acknowledging data that was never "
                "sent); no other column counts them",
                "packets",
                "RFC 9293, 3.10.7.4; RFC 5961; RFC 7323, 5",
                required=True,
            )
            for way, end in (("up", "mobile"), ("down", "server"))
        ),
        Column(
            "sack",
            pa.bool_(),
            "SACK permitted in both SYNs; null where a SYN that matters was not seen, or the "
            "capture cut off its options",
            source="INFOCOM II",
        ),
        Column(
            "timestamps",
            pa.bool_(),
            "timestamp option seen in both directions; null where one was not seen, or the capture "
            "cut off its options",
            source="INFOCOM II",
        ),
        Column(
            "max_ip_len",
            pa.int64(),
            "largest IP packet, either direction",
            "B",
            "INFOCOM II",
            required=True,
        ),
        Column(
            "mss_class",
            pa.string(),
            "by max_ip_len: low 400-600 B, high 1400-1600 B, else other",
            source="INFOCOM II",
            required=True,
        ),
        Column(
            "max_window",
            pa.int64(),
            "largest window the mobile advertised, scaled; null where the scale is not known",
            "B",
            "INFOCOM II",
        ),
        Column(
            "window_class",
            pa.string(),
            "by max_window: low < 10 000 B, med 10 000-20 000 B, high > 20 000 B",
            source="INFOCOM II",
        ),
        Column(
            "syn_count",
            pa.int64(),
            "SYN packets of the initiator",
            "packets",
            "INFOCOM III",
            required=True,
        ),
        Column(
            "synack_count",
            pa.int64(),
            "SYN ACK packets of the responder",
            "packets",
            "INFOCOM III",
            required=True,
        ),
        Column(
            "setup_class",
            pa.string(),
            "area of the set-up tree: optimal (one SYN, one SYN "
            "ACK, then ACK), slight_problem (a SYN or SYN ACK again, then ACK), no_response "
            "(SYNs only), serious_problem (SYN ACK but no ACK), refused (RST to a SYN); null "
            "where the handshake was not seen whole",
            source="INFOCOM III.C, Fig. 5",
        ),
        Column(
            "setup_retransmission",
            pa.string(),
            "of slight_problem: why a SYN or SYN ACK came again: premature (the first ones were "
            "answered: the timer was too short for the round trip), lost (later ones were); null "
            "where neither timestamps nor times tell",
            source="INFOCOM III.C; RFC 6298, 2.1; RFC 7323, 4.3",
        ),
        Column(
            "setup_reset",
            pa.bool_(),
            "of serious_problem: true where an RST ended the set-up, "
            "false where it fell silent; else null",
            source="INFOCOM III.C, Fig. 5",
        ),
        Column(
            "reset_by",
            pa.string(),
            "who sent its first RST: mobile, server, or something between them in the name of one, "
            "which went on all the same, or whose packets come from another distance; null without "
            "an RST, and where nothing else came from that end",
            source="Weaver, Sommer and Paxson, NDSS 2009",
        ),
        Column("setup_delay", pa.float64(), "first SYN to first ACK", "s", "INFOCOM III.A"),
        Column(
            "setup_background",
            pa.bool_(),
            "other traffic of the user in the 5 s before the "
            "first SYN or during the set-up; null where the SYN was not seen",
            source="INFOCOM III.A",
        ),
        Column(
            "rtt_access",
            pa.float64(),
            "round trip between Gi and the mobile, from the "
            "handshake; only of a complete one with one SYN and one SYN ACK, or where timestamps "
            "tell which was answered, without background, below 3 s",
            "s",
            "INFOCOM III.B",
        ),
        Column(
            "rtt_internet",
            pa.float64(),
            "round trip between Gi and the server, from the handshake; the same conditions",
            "s",
            "INFOCOM III.B",
        ),
        Column(
            "rtt_access_min",
            pa.float64(),
            "least time from a downlink data packet at Gi to the ACK that answers it, of data sent "
            "once, or where a timestamp tells which copy is answered",
            "s",
            "Karn and Partridge 1987; RFC 6298, 3",
        ),
        Column(
            "split",
            pa.bool_(),
            "something at Gi answers in the mobile's name, a performance-enhancing proxy: its ACKs "
            "have come from elsewhere than the mobile's SYN, or far sooner than the mobile answers "
            "handshakes. What would be told of the access side is null then, but for rtt_access. "
            "false: there is no such sign",
            source="RFC 3135, 2.4",
            required=True,
        ),
        Column(
            "lost_access",
            pa.int64(),
            "downlink data packets lost on the access side (more likely than not); null, as all losses "
            "and rates of the transfer, where the mobile's ACKs were not seen, or more than 1 % of "
            "what they acknowledge was not (acked_unseen_bytes), or more than a tenth of most "
            "of the user's connections",
            "packets",
            "INFOCOM V",
        ),
        Column(
            "lost_access_expected",
            pa.float64(),
            "the same as a sum of probabilities: unbiased in aggregates",
            "packets",
            "INFOCOM V",
        ),
        Column(
            "lost_internet",
            pa.int64(),
            "downlink data packets lost on the Internet side (more likely than not)",
            "packets",
            "INFOCOM V",
        ),
        Column(
            "lost_internet_expected",
            pa.float64(),
            "the same as a sum of probabilities, with what is lost on average of packets sent "
            "again where IP IDs do not tell: unbiased in aggregates",
            "packets",
            "INFOCOM V; RFC 6864",
        ),
        Column(
            "bottleneck",
            pa.string(),
            "side of more losses: none, access, internet or equal",
            source="INFOCOM V, Fig. 8",
        ),
        Column(
            "acked_unseen_bytes",
            pa.int64(),
            "downlink bytes that the mobile acknowledged though Gi never saw them: the capture "
            "dropped them",
            "B",
            required=True,
        ),
        *(
            Column(
                f"rtt_{side}_{name}",
                pa.float64(),
                f"{meaning} of the round trips between Gi and the {end} during the transfer, of "
                "all that `rtt_samples` takes its rows from (quantiles to 3 %)",
                "s",
                source,
            )
            for side, end, source, names in (
                ("access", "mobile", "Karn and Partridge 1987", ("median", "p95", "max")),
                ("internet", "server", "RFC 9293, 3.8.6", ("min", "median", "p95", "max")),
            )
            for name, meaning in (
                ("min", "the least"),
                ("median", "the median"),
                ("p95", "the 95th percentile"),
                ("max", "the longest"),
            )
            if name in names
        ),
        Column(
            "delay_spikes",
            pa.int64(),
            "spikes that began with it: an RTT on the access side, of data sent once, is of a sudden "
            "twice the user's running mean or more, and four deviations above it, and no data in "
            "flight explains it: a handover, a reselection, a preemption; of those that set off "
            "the server's timer, retransmissions.spurious_rto tells",
            "spikes",
            "Gurtov and Ludwig, INFOCOM 2003",
        ),
        Column(
            "retransmissions",
            pa.int64(),
            "packets that the server retransmitted, data, SYNs and FINs, whether Gi saw them or "
            "not; null, as the three below, where the RTT on the Internet side is not known, or more "
            "than a tenth of what the mobile acknowledged was not seen (but for one segment), or "
            "of most of the user's connections",
            "packets",
            "RFC 4898, SegsRetrans",
        ),
        Column(
            "rto_expiries",
            pa.int64(),
            "how often the server's retransmission timer went off, backed off or not",
            "rto_expiries",
            "RFC 6298",
        ),
        Column(
            "busy",
            pa.float64(),
            "how long the server had data to send, or sent and not acknowledged",
            "s",
            "RFC 4898",
        ),
        Column(
            "rwnd_limited",
            pa.float64(),
            "for how long of that the mobile's window alone held it back",
            "s",
            "RFC 4898, SndLimTimeRwin",
        ),
        *(
            Column(
                f"limited_{limit}",
                pa.float64(),
                f"how long the transfer was held up: {meaning}; the six add up to the time from "
                "the handshake to the ACK of the last data",
                "s",
                "Zhang et al., SIGCOMM 2002; Siekkinen et al., CoNEXT 2005",
            )
            for limit, meaning in LIMITS.items()
        ),
        Column(
            "limited_by",
            pa.string(),
            "what did so the longest: channel, receiver, recovery, slow_start, server or mobile",
            source="Zhang et al., SIGCOMM 2002",
        ),
        Column(
            "request_response",
            pa.bool_(),
            "one request and one successful response, told by Zeek's logs where they know of the "
            "connection's requests (see sessions), else by the directions' turns in sequence "
            "space; null where a SYN was not seen",
            source="INFOCOM VI.A",
        ),
        Column(
            "single",
            pa.bool_(),
            "the user had no other traffic during the connection's life; null where one direction "
            "was not seen",
            source="INFOCOM VI.A",
        ),
        Column(
            "b_tcp",
            pa.int64(),
            "IP bytes of this connection to the mobile from its first data packet to its last; "
            "null where the ACKs of these do not tell the time",
            "B",
            "INFOCOM VI.B",
        ),
        Column(
            "b_other",
            pa.int64(),
            "IP bytes of anything else to the same user in that time",
            "B",
            "INFOCOM VI.B",
        ),
        Column(
            "throughput",
            pa.float64(),
            "single-flow throughput: IP bytes that passed Gi, lost ones and the first packet's "
            "included, over the time between the ACKs of the first and the last data packet; only "
            "of single request-response connections above 100 KB",
            "bit/s",
            "INFOCOM VI.A",
        ),
        Column(
            "throughput_received",
            pa.float64(),
            "the same of what arrived: IP bytes sent behind the packet that the first ACK answers, "
            "less what is expected to be lost on the access side",
            "bit/s",
        ),
        Column(
            "goodput",
            pa.float64(),
            "distinct payload to the mobile beyond what the first data packet's ACK acknowledges, "
            "over the same time; of any connection",
            "bit/s",
            "INFOCOM VI.A",
        ),
        Column(
            "user_throughput",
            pa.float64(),
            "8 (b_tcp + b_other) / (T2ack - T1ack), of connections above 100 KB: what passed Gi",
            "bit/s",
            "INFOCOM VI.B",
        ),
        Column(
            "user_throughput_received",
            pa.float64(),
            "the same of what arrived, counted as in throughput_received; the losses of what is "
            "not TCP are not known",
            "bit/s",
            "INFOCOM VI.B: Bm / Tm",
        ),
        Column(
            "parallel",
            pa.int64(),
            "the most connections of the user, itself and QUIC's (UDP port 443) included, that "
            "were active at once with it: with an open request, or data sent and not "
            "acknowledged; of those that start on the date; null where it was not active",
            "connections",
        ),
    ),
    sorted_by=("start_ts", "flow_id"),
)
