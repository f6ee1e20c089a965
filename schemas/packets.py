"""packets: one row for each IP packet of a subscriber that the monitor at Gi saw."""

from schemas.table import DELTA, PLAIN, TIMESTAMP, UNCOMPRESSED, Column, Table

TCP = "RFC 9293"

TUNNELS = (4, 41, 47, 50, 115)
"""Protocol numbers of tunnels that the reader does not open: IP in IP, 6in4, GRE, ESP, L2TP.

Their contents count as bytes of the outer addresses. The reader opens GTP-U, MPLS, PPPoE and
pseudowires.
"""

QUIC_FORMS = {
    "initial": "begins a connection",
    "zero_rtt": "a client's data before the server's answer",
    "handshake": "completes the handshake",
    "retry": "the server's demand to prove the address",
    "version_negotiation": "the server's list of its versions",
    "one_rtt": "data, with a short header",
    "unreachable": "a message of ICMP: a datagram of the flow could not be delivered",
}
"""Forms of QUIC's packets, and the meaning of each (RFC 9000, 17; RFC 792; RFC 4443)."""
QUIC = (
    *("quic_form", "quic_coalesced", "quic_version", "quic_spin", "quic_dcid", "quic_scid"),
    "quic_length",
)
"""Columns that only packets of QUIC's have."""
QUIC_COALESCED = {form: 1 << code for code, form in enumerate(QUIC_FORMS)} | {
    "not captured": 1 << len(QUIC_FORMS)
}
"""Bits of packets that follow the first one in a datagram (RFC 9000, 12.2)."""

PACKETS = Table(
    name="packets",
    row="one IP packet of a subscriber, in capture order within a file. A datagram in "
    "fragments is one row, at the position of its last fragment. No payload is kept",
    columns=(
        Column(
            "capture",
            "string",
            "name of the capture file",
            required=True,
            compression=UNCOMPRESSED,
        ),
        Column(
            "frame",
            "int64",
            "number of the packet in the file, from 1; of a datagram in fragments, the number of "
            "the fragment that completed it",
            required=True,
            encoding=DELTA,
        ),
        Column(
            "ts",
            TIMESTAMP,
            "time at which the monitor saw the packet. After steps back of the monitor's clock "
            "within the file (clock_steps), their sizes are added, so that packets stay in order",
            required=True,
            encoding=DELTA,
        ),
        Column(
            "user_partition",
            "int32",
            "user partition of the packet: the hash of the user's key modulo the network's number "
            "of user partitions",
            required=True,
            encoding=PLAIN,
        ),
        Column(
            "user",
            "string",
            "the user's key: an address, a prefix of IPv6 with all addresses of one access link, "
            "or a pseudonym of either",
            required=True,
            compression=UNCOMPRESSED,
        ),
        Column("user_port", "uint16", "the mobile's TCP or UDP port", encoding=PLAIN),
        Column("server", "string", "the server's address", required=True),
        Column(
            "server_port",
            "uint16",
            "the server's TCP or UDP port",
            encoding=PLAIN,
        ),
        Column(
            "downlink",
            "bool",
            "true: the packet goes to the mobile; false: it comes from the mobile",
            required=True,
        ),
        Column(
            "ip_proto",
            "uint8",
            "number of the protocol above IP, after IPv6 extension headers",
            source="IANA protocol numbers",
            required=True,
            encoding=PLAIN,
        ),
        Column(
            "ip_len",
            "uint32",
            "total length of the IP packet, from its header; of a datagram in fragments, the "
            "length of the whole datagram",
            "B",
            "RFC 791, RFC 8200",
            required=True,
            encoding=PLAIN,
            fits_int32=True,
        ),
        Column(
            "ip_id",
            "uint16",
            "IPv4 identification. Null for IPv6",
            source="RFC 6864",
            encoding=DELTA,
        ),
        Column(
            "ttl",
            "uint8",
            "time to live or hop limit",
            "hops",
            required=True,
            encoding=PLAIN,
        ),
        Column(
            "dscp",
            "uint8",
            "Differentiated Services codepoint",
            source="RFC 2474",
            required=True,
            compression=UNCOMPRESSED,
        ),
        Column(
            "ecn",
            "uint8",
            "ECN field: 0 not ECN-capable, 1 ECT(1), 2 ECT(0), 3 CE (congestion experienced)",
            source="RFC 3168, 5; RFC 9331",
            required=True,
            compression=UNCOMPRESSED,
        ),
        Column(
            "tcp_flags",
            "uint16",
            "the 12 flag bits: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128, AE "
            "256. Null if there is no TCP header: another protocol, a later fragment that could "
            "not be joined, or a header that the capture or fragments cut",
            source=TCP,
        ),
        Column("seq", "uint32", "sequence number", source=TCP, encoding=PLAIN),
        Column(
            "ack", "uint32", "acknowledgment number, as on the wire", source=TCP, encoding=PLAIN
        ),
        Column(
            "window",
            "uint16",
            "window, as on the wire, not scaled",
            source=TCP,
        ),
        Column(
            "payload_len",
            "uint32",
            "TCP payload, by the IP and TCP headers",
            "B",
            TCP,
            encoding=PLAIN,
            fits_int32=True,
        ),
        Column("mss", "uint16", "maximum segment size option", "B", TCP, compression=UNCOMPRESSED),
        Column(
            "window_scale",
            "uint8",
            "window scale option: shift count",
            "bit",
            "RFC 7323",
            compression=UNCOMPRESSED,
        ),
        Column(
            "sack_permitted",
            "bool",
            "SACK-permitted option: true if the packet has it",
            source="RFC 2018",
            compression=UNCOMPRESSED,
        ),
        Column(
            "ts_val",
            "uint32",
            "timestamp option: the sender's clock",
            source="RFC 7323",
            encoding=PLAIN,
        ),
        Column(
            "ts_ecr",
            "uint32",
            "timestamp option: the echoed clock",
            source="RFC 7323",
            encoding=PLAIN,
        ),
        Column(
            "sack",
            "list<item: uint32>",
            "edges of the SACK blocks: left, right, left, right, ...",
            source="RFC 2018, RFC 2883",
            encoding=PLAIN,
        ),
        Column(
            "options_cut",
            "bool",
            "true if the capture cut the TCP options, so that an option may have been there "
            "though its column is null",
            compression=UNCOMPRESSED,
        ),
        Column(
            "clock_steps",
            "uint8",
            "number of steps of the monitor's clock, back or forward, before the packet within the "
            "file. 255: 255 or more",
            required=True,
            compression=UNCOMPRESSED,
        ),
        Column(
            "address",
            "string",
            "the mobile's address, or its pseudonym, if the user is a prefix. Null if the user is "
            "an address",
            compression=UNCOMPRESSED,
        ),
        Column(
            "vlan",
            "uint32",
            "identifier of the frame's VLAN; of two tags or more, 4096 times the identifier of "
            "the last but one, plus that of the last. Null without one, and in Zeek's logs",
            source="IEEE 802.1Q, 9.6",
        ),
        Column(
            "quic_form",
            "string",
            "of a QUIC datagram, the form of its first packet: "
            + ", ".join(f"{form} ({meaning})" for form, meaning in QUIC_FORMS.items())
            + ". Null if it is not QUIC's: a flow of QUIC's had a long header, or goes on from "
            "another port of the mobile, or has the port 443, 80 or 8443",
            source="RFC 8999; RFC 9000, 17; RFC 9369",
            compression=UNCOMPRESSED,
        ),
        Column(
            "quic_coalesced",
            "uint8",
            "the forms of the packets that follow the first one in the datagram: "
            + ", ".join(f"{form} {bit}" for form, bit in QUIC_COALESCED.items())
            + ". Null if there are none",
            source="RFC 9000, 12.2",
            compression=UNCOMPRESSED,
        ),
        Column(
            "quic_version",
            "uint32",
            "version of a long header; 0: version negotiation",
            source="RFC 8999, 5.1",
            compression=UNCOMPRESSED,
        ),
        Column(
            "quic_spin",
            "bool",
            "spin bit of a short header: true if it is 1",
            source="RFC 9000, 17.4",
            compression=UNCOMPRESSED,
        ),
        *(
            Column(
                f"quic_{name}",
                "uint32",
                f"32-bit hash of the {which} connection ID's first 8 bytes, or 4 if it has fewer "
                f"than 8. {missing}",
                source="RFC 8999, 5",
                encoding=PLAIN,
            )
            for name, which, missing in (
                (
                    "dcid",
                    "destination",
                    "Null for a short header if no long header showed its length",
                ),
                ("scid", "source", "Null for a short header"),
            )
        ),
        Column(
            "quic_length",
            "uint32",
            "bytes of the first packet after its long header: its packet number and what is "
            "encrypted, at most 65535. Null for a short header, Retry and version negotiation, "
            "and if the capture cut the field off",
            "B",
            "RFC 9000, 17.2",
            compression=UNCOMPRESSED,
        ),
    ),
    statistics_columns=("capture", "user_partition", "ts"),
)
