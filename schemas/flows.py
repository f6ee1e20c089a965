"""flows: one row for each TCP connection, with the results of the estimators."""

from schemas.labels import LABELS
from schemas.table import DELTA, PLAIN, TIMESTAMP, Column, Table

LIMITS = {
    "channel": "the access link was busy",
    "receiver": "the mobile's window was full",
    "recovery": "a loss was being repaired, or a loss or a mark of ECN had reduced the congestion "
    "window",
    "slow_start": "the congestion window had not yet grown to the link's capacity",
    "server": "the server sent nothing though it had room or all data was acknowledged",
    "mobile": "the mobile's window was closed, or the mobile had not requested more",
}
"""Limits of a transfer, and the condition for each."""

FLOWS = Table(
    name="flows",
    row="one TCP connection. Its date is the date on which it starts",
    columns=(
        Column(
            "flow_id",
            "int64",
            "stable key of the connection: a hash of user, server, ports, start and initial "
            "sequence number",
            required=True,
            encoding=PLAIN,
        ),
        Column(
            "user",
            "string",
            "the user's key: the subscriber that had the address then according to RADIUS (see "
            "leases), or its address or IPv6 prefix if RADIUS names none",
            required=True,
        ),
        Column(
            "link",
            "string",
            "the key of the access link: that of the user, unless RADIUS shows several bearers of "
            "the subscriber in these days",
            source="TS 23.401, 5.3.1.1",
            required=True,
        ),
        Column("user_port", "uint16", "the mobile's port", required=True),
        Column("server", "string", "the server's address", required=True),
        Column("server_port", "uint16", "the server's port", required=True),
        Column(
            "start_ts", TIMESTAMP, "time of the first packet at Gi", required=True, encoding=DELTA
        ),
        Column("end_ts", TIMESTAMP, "time of the last packet at Gi", required=True, encoding=DELTA),
        Column(
            "initiator",
            "string",
            "end that sent the first SYN: mobile, server, or unknown (no SYN was seen: a partial "
            "connection)",
            required=True,
        ),
        Column("packets_up", "int64", "packets from the mobile", "packets", required=True),
        Column("packets_down", "int64", "packets to the mobile", "packets", required=True),
        Column("ip_bytes_up", "int64", "IP bytes from the mobile", "B", required=True),
        Column("ip_bytes_down", "int64", "IP bytes to the mobile", "B", required=True),
        Column(
            "payload_bytes_up",
            "int64",
            "distinct payload bytes from the mobile: the sequence space seen at Gi, each byte once",
            "B",
            required=True,
        ),
        Column(
            "payload_bytes_down",
            "int64",
            "distinct payload bytes to the mobile: the sequence space seen at Gi, each byte once",
            "B",
            required=True,
        ),
        Column(
            "data_packets_down",
            "int64",
            "packets with payload to the mobile",
            "packets",
            required=True,
        ),
        *(
            Column(
                f"{name}_{way}",
                "int64",
                meaning.format(end),
                unit,
                source,
                required=True,
            )
            for name, meaning, unit, source in (
                (
                    "retransmitted_bytes",
                    "payload bytes from the {} that Gi had seen before, without probes",
                    "B",
                    "RFC 4898, 4",
                ),
                (
                    "out_of_order",
                    "packets from the {} with data below the highest seen that Gi had not seen "
                    "before: they were overtaken, or retransmitted after a loss on the other side",
                    "packets",
                    "RFC 4898, 4",
                ),
                (
                    "zero_windows",
                    "packets from the {} that advertise a receive window of 0, without SYNs and "
                    "RSTs",
                    "packets",
                    "RFC 9293, 3.8.6",
                ),
            )
            for way, end in (("up", "mobile"), ("down", "server"))
        ),
        *(
            Column(
                f"{name}_{way}",
                "int64",
                f"{meaning} from the {end}. They carry no data and do not count as "
                "retransmissions, as losses or as another connection's traffic",
                "packets",
                f"RFC 9293, {section}",
                required=True,
            )
            for name, meaning, section in (
                ("window_probes", "window probes", "3.8.6.1"),
                ("keepalives", "keep-alives", "3.8.4"),
            )
            for way, end in (("up", "mobile"), ("down", "server"))
        ),
        Column(
            "ecn",
            "string",
            "what the SYN and the SYN ACK agree on: none, classic (RFC 3168) or accurate (RFC "
            "9768). Null if one was not seen",
            source="RFC 9768, 3.1.1",
        ),
        *(
            Column(
                f"{name}_{way}",
                "int64",
                f"packets {target} the mobile {meaning}",
                "packets",
                "RFC 3168, 5",
                required=True,
            )
            for name, meaning in (
                ("ect", "that can be marked: with ECT(0), ECT(1) or CE"),
                ("ce", "that were marked when they came to Gi: with CE"),
            )
            for way, target in (("up", "from"), ("down", "to"))
        ),
        Column(
            "marks_access",
            "int64",
            "packets to the mobile that were marked on the access side: those that the mobile "
            "reports, less ce_down. Null unless ecn is accurate",
            "packets",
            "RFC 9768, 3.2",
        ),
        *(
            Column(
                f"ecn_episodes_{side}",
                "int64",
                "times that the mobile reported marks by ECE until the server's CWR, of marks on "
                f"the {name} side. Null unless ecn is classic",
                source="RFC 3168, 6.1",
            )
            for side, name in (("access", "access"), ("internet", "Internet"))
        ),
        Column(
            "directions_seen",
            "string",
            "both; or, if the other end answered but its packets did not pass the monitor: up "
            "(only packets from the mobile passed) or down (only packets to it). Columns that "
            "need the missing direction are null then",
            required=True,
        ),
        Column(
            "merged_segments",
            "int64",
            "of packets_up and packets_down, those that the capture merged into larger ones (LRO, "
            "GRO, TSO). Each is counted and measured as it was on the wire",
            "packets",
            "RFC 9293, 3.7.1",
            required=True,
        ),
        *(
            Column(
                f"out_of_window_{way}",
                "int64",
                f"{way}link packets of its addresses and ports that are out of window: the "
                f"{end} could not have sent them (they are left over from an old connection, "
                "injected, or acknowledge data that was never sent). No other column counts them",
                "packets",
                "RFC 9293, 3.10.7.4; RFC 5961; RFC 7323, 5",
                required=True,
            )
            for way, end in (("up", "mobile"), ("down", "server"))
        ),
        Column(
            "sack",
            "bool",
            "whether both SYNs permit SACK. Null if a SYN that matters was not seen, or if the "
            "capture cut off its options",
            source="INFOCOM II",
        ),
        Column(
            "timestamps",
            "bool",
            "whether both directions have the timestamp option. Null if one was not seen, or if "
            "the capture cut off its options",
            source="INFOCOM II",
        ),
        Column(
            "max_ip_len",
            "int64",
            "length of the largest IP packet in either direction",
            "B",
            "INFOCOM II",
            required=True,
        ),
        Column(
            "mss_class",
            "string",
            "class of max_ip_len: low (400-600 B), high (1400-1600 B) or other",
            source="INFOCOM II",
            required=True,
        ),
        Column(
            "max_window",
            "int64",
            "the mobile's largest window, scaled. Null if the scale is not known",
            "B",
            "INFOCOM II",
        ),
        Column(
            "window_class",
            "string",
            "class of max_window: low (< 10 000 B), med (10 000-20 000 B) or high (> 20 000 B). "
            "Null if max_window is",
            source="INFOCOM II",
        ),
        Column(
            "syn_count",
            "int64",
            "SYN packets of the initiator",
            "packets",
            "INFOCOM III",
            required=True,
        ),
        Column(
            "synack_count",
            "int64",
            "SYN ACK packets of the responder",
            "packets",
            "INFOCOM III",
            required=True,
        ),
        Column(
            "setup_class",
            "string",
            "set-up category: optimal (one SYN, one SYN ACK, then ACK), slight_problem (a SYN or "
            "SYN ACK was retransmitted, then ACK), no_response (SYNs only), serious_problem (SYN "
            "ACK but no ACK) or refused (RST to a SYN). Null if the handshake was not seen "
            "completely",
            source="INFOCOM III.C, Fig. 5",
        ),
        Column(
            "setup_retransmission",
            "string",
            "of slight_problem: why a SYN or SYN ACK was retransmitted: premature (the first one "
            "was answered: the timer was too short for the RTT) or lost (only a later one was "
            "answered). Null for other categories, and if neither timestamps nor times decide",
            source="INFOCOM III.C; RFC 6298, 2.1; RFC 7323, 4.3",
        ),
        Column(
            "setup_reset",
            "bool",
            "of serious_problem: true if an RST ended the set-up, false if it fell silent. Null "
            "for other categories",
            source="INFOCOM III.C, Fig. 5",
        ),
        Column(
            "reset_by",
            "string",
            "sender of the first RST: mobile, server, or between (something between them, in the "
            "name of one end that continued nevertheless or whose packets come from another "
            "distance). Null without an RST, or if nothing else came from that end",
            source="Weaver, Sommer and Paxson, NDSS 2009",
        ),
        Column(
            "ended",
            "string",
            "how the connection ended: fin (FINs of both ends), fin_mobile, fin_server (of one), "
            "rst_mobile, rst_server (an RST in the name of this end, before both FINs: see "
            "reset_by), or silent (none of these, or it goes on after the capture)",
            source="RFC 9293, 3.6",
            required=True,
        ),
        Column(
            "setup_delay",
            "double",
            "time from the first SYN to the first ACK",
            "s",
            "INFOCOM III.A",
        ),
        Column(
            "setup_background",
            "bool",
            "whether the user had other traffic in the 5 s before the first SYN or during the "
            "set-up. Null if the SYN was not seen",
            source="INFOCOM III.A",
        ),
        Column(
            "rtt_access",
            "double",
            "RTT between Gi and the mobile, from the handshake. Null unless the handshake is "
            "complete, without background traffic and below 3 s, and has one SYN and one SYN ACK, "
            "or timestamps that show which one was answered",
            "s",
            "INFOCOM III.B",
        ),
        Column(
            "rtt_internet",
            "double",
            "RTT between Gi and the server, from the handshake. Null under the same conditions",
            "s",
            "INFOCOM III.B",
        ),
        Column(
            "first_byte_delay",
            "double",
            "time from the mobile's first data to the server's first data: with TLS, from the "
            "ClientHello to the ServerHello. Null if the server sends first, or if one of them "
            "sends no data or was not seen",
            "s",
        ),
        Column(
            "rtt_access_min",
            "double",
            "smallest RTT on the access side: from a downlink data packet at Gi to the ACK that "
            "answers it, of data sent once, or if a timestamp shows which transmission the ACK "
            "answers",
            "s",
            "Karn and Partridge 1987; RFC 6298, 3",
        ),
        Column(
            "split",
            "bool",
            "whether something at Gi, a performance-enhancing proxy, answers in the mobile's "
            "name: its ACKs come from another distance than the mobile's SYN, or much sooner than "
            "the mobile answers handshakes. All columns about the access side are null then, "
            "except rtt_access. False: there is no such sign",
            source="RFC 3135, 2.4",
            required=True,
        ),
        Column(
            "lost_access",
            "int64",
            "downlink data packets that were probably lost on the access side (probability above "
            "0.5). Null, like all losses and rates of the transfer, if the mobile's ACKs were not "
            "seen, or if Gi missed more than 1 % of the data that they acknowledge "
            "(acked_unseen_bytes), or more than a tenth of it in most of the user's connections",
            "packets",
            "INFOCOM V",
        ),
        Column(
            "lost_access_expected",
            "double",
            "expected losses on the access side: a sum of probabilities, unbiased in aggregates. "
            "Null if lost_access is",
            "packets",
            "INFOCOM V",
        ),
        Column(
            "lost_access_min",
            "int64",
            "losses on the access side if all packets whose fate is undecided arrived "
            "(losses.evidence). Null if lost_access is",
            "packets",
        ),
        Column(
            "lost_access_max",
            "int64",
            "losses on the access side if all packets whose fate is undecided were lost",
            "packets",
        ),
        Column(
            "lost_internet",
            "int64",
            "downlink data packets that were probably lost on the Internet side (probability "
            "above 0.5)",
            "packets",
            "INFOCOM V",
        ),
        Column(
            "lost_internet_expected",
            "double",
            "expected losses on the Internet side: a sum of probabilities, unbiased in "
            "aggregates. It includes the mean loss of retransmissions for which IP IDs do not "
            "decide",
            "packets",
            "INFOCOM V; RFC 6864",
        ),
        Column(
            "bottleneck",
            "string",
            "side with more losses: access or internet; equal; or none, without losses",
            source="INFOCOM V, Fig. 8",
        ),
        Column(
            "acked_unseen_bytes",
            "int64",
            "downlink bytes that the mobile acknowledged though Gi never saw them: the capture "
            "dropped them",
            "B",
            required=True,
        ),
        *(
            Column(
                f"rtt_{side}_{name}",
                "double",
                f"{meaning} RTT between Gi and the {end} during the transfer, of all RTT samples "
                "(within 3 %); the table rtt_samples has a part of them",
                "s",
                source,
            )
            for side, end, source, names in (
                ("access", "mobile", "Karn and Partridge 1987", ("median", "p95", "max")),
                ("internet", "server", "RFC 9293, 3.8.6", ("min", "median", "p95", "max")),
            )
            for name, meaning in (
                ("min", "smallest"),
                ("median", "median"),
                ("p95", "95th percentile of the"),
                ("max", "largest"),
            )
            if name in names
        ),
        *(
            Column(
                f"rtt_{side}_{name}",
                type_,
                f"{meaning} of the RTT between Gi and the {end} during the transfer",
                unit,
                "RFC 4898, 4",
            )
            for side, end in (("access", "mobile"), ("internet", "server"))
            for name, type_, meaning, unit in (
                ("samples", "int64", "number of the samples", "samples"),
                ("mean", "double", "mean of the samples", "s"),
                ("sd", "double", "standard deviation of the samples", "s"),
            )
        ),
        Column(
            "delay_spikes",
            "int64",
            "delay spikes that begin with this connection: an RTT on the access side, of data "
            "sent once, is suddenly at least twice the user's running mean and four deviations "
            "above it, and the data in flight does not explain it. Causes are a handover, a "
            "reselection or a preemption. retransmissions.spurious_rto shows which of them made "
            "the server's timer expire",
            "spikes",
            "Gurtov and Ludwig, INFOCOM 2003",
        ),
        Column(
            "retransmissions",
            "int64",
            "retransmissions of the server: data, SYNs and FINs, whether Gi saw them or not. "
            "Null, like the three columns below, if the RTT on the Internet side is not known, or "
            "if Gi missed more than a tenth of the data that the mobile acknowledged (and more "
            "than one segment), or more than a tenth in most of the user's connections",
            "packets",
            "RFC 4898, SegsRetrans",
        ),
        Column(
            "rto_expiries",
            "int64",
            "expiries of the server's retransmission timer, backed off or not",
            "expiries",
            "RFC 6298",
        ),
        Column(
            "busy",
            "double",
            "time in which the server had data to send or in flight",
            "s",
            "RFC 4898",
        ),
        Column(
            "rwnd_limited",
            "double",
            "part of that time in which only the mobile's window held the server back",
            "s",
            "RFC 4898, SndLimTimeRwin",
        ),
        *(
            Column(
                f"limited_{limit}",
                "double",
                f"time in which {meaning}. The six times add up to the time from the handshake "
                "to the ACK of the last data",
                "s",
                "Zhang et al., SIGCOMM 2002; Siekkinen et al., CoNEXT 2005",
            )
            for limit, meaning in LIMITS.items()
        ),
        Column(
            "limited_marks",
            "double",
            "part of limited_recovery in which the last reduction of the congestion window was by "
            "marks of ECN, not by a loss",
            "s",
            "RFC 3168, 6.1.2",
        ),
        Column(
            "limited_by",
            "string",
            "limit with the longest of the six times: channel, receiver, recovery, slow_start, "
            "server or mobile",
            source="Zhang et al., SIGCOMM 2002",
        ),
        Column(
            "request_response",
            "bool",
            "whether the connection has exactly one request and one successful response: by "
            "Zeek's logs if they report on its requests (see sessions), else by the directions' "
            "turns in sequence space. Null if a SYN was not seen",
            source="INFOCOM VI.A",
        ),
        Column(
            "single",
            "bool",
            "whether the user had no other traffic during the connection's life. Null if one "
            "direction was not seen",
            source="INFOCOM VI.A",
        ),
        Column(
            "b_tcp",
            "int64",
            "IP bytes of this connection to the mobile, from its first data packet to its last. "
            "Null if the ACKs of these packets do not show the time",
            "B",
            "INFOCOM VI.B",
        ),
        Column(
            "b_other",
            "int64",
            "IP bytes of all other traffic to the same user in that time",
            "B",
            "INFOCOM VI.B",
        ),
        Column(
            "throughput",
            "double",
            "single-flow throughput: IP bytes that passed Gi, lost ones and the first packet "
            "included, divided by the time between the ACKs of the first and the last data "
            "packet. Null unless the connection is single, has one request and one response, and "
            "is above 100 KiB",
            "bit/s",
            "INFOCOM VI.A",
        ),
        Column(
            "throughput_received",
            "double",
            "throughput of the bytes that arrived: IP bytes sent after the packet that the first "
            "ACK answers, less the expected losses on the access side. Null if throughput is, or "
            "if the capture cut TCP options",
            "bit/s",
        ),
        Column(
            "goodput",
            "double",
            "distinct payload to the mobile after the data that the first data packet's ACK "
            "acknowledges, divided by the time between the ACKs of the first and the last data "
            "packet, for connections of any size",
            "bit/s",
            "INFOCOM VI.A",
        ),
        Column(
            "user_throughput",
            "double",
            "8 (b_tcp + b_other) / (T2ack - T1ack): bytes that passed Gi. Null for connections of "
            "at most 100 KiB",
            "bit/s",
            "INFOCOM VI.B",
        ),
        Column(
            "user_throughput_received",
            "double",
            "user throughput of the bytes that arrived, counted as in throughput_received. Losses "
            "of other protocols than TCP are not known",
            "bit/s",
            "INFOCOM VI.B: Bm / Tm",
        ),
        Column(
            "parallel",
            "int64",
            "maximum number of the user's connections that were active at once with this one, "
            "itself and QUIC's included. Active: with an open request, or with "
            "data in flight. Only connections that start on the date count. Null if this one was "
            "never active",
            "connections",
        ),
        *LABELS,
        Column(
            "rat_changed",
            "bool",
            "whether the radio access technology at the end is another one. Null if one of them is "
            "unknown",
        ),
    ),
    sorted_by=("start_ts", "flow_id"),
)
