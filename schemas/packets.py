"""packets: what the monitor at Gi saw, one row an IP packet of a subscriber."""

import pyarrow as pa

from schemas.table import DELTA, PLAIN, TIMESTAMP, UNCOMPRESSED, Column, Table

TCP = "RFC 9293"

TUNNELS = (4, 41, 47, 50, 115)
"""Protocol numbers of tunnels that the reader does not open: IP in IP, 6in4, GRE, ESP, L2TP. What
is inside counts as bytes of the outer addresses. It opens GTP-U, MPLS, PPPoE and pseudowires."""

PACKETS = Table(
    name="packets",
    row="one IP packet of a subscriber, in capture order within a file; a datagram that came in "
    "fragments is one, when the last of them has come; no payload is ever kept",
    columns=(
        Column(
            "capture",
            pa.string(),
            "name of the capture file",
            required=True,
            compression=UNCOMPRESSED,
        ),
        Column(
            "frame",
            pa.int64(),
            "number of the packet in the file, from 1; of a datagram in fragments, that of the one "
            "that completed it",
            required=True,
            encoding=DELTA,
        ),
        Column(
            "ts",
            TIMESTAMP,
            "when the monitor saw it; where its clock had stepped back within the file "
            "(clock_steps), later by the sizes of the steps, so that packets stay in order",
            required=True,
            encoding=DELTA,
        ),
        Column(
            "user_partition",
            pa.int32(),
            "share of the users it belongs to: user key's hash modulo the network's bucket count",
            required=True,
            encoding=PLAIN,
        ),
        Column(
            "user",
            pa.string(),
            "the subscriber's key: its address, or its pseudonym",
            required=True,
            compression=UNCOMPRESSED,
        ),
        Column("user_port", pa.uint16(), "the mobile side's TCP or UDP port", encoding=PLAIN),
        Column("server", pa.string(), "the Internet side's address", required=True),
        Column(
            "server_port",
            pa.uint16(),
            "the Internet side's TCP or UDP port",
            encoding=PLAIN,
        ),
        Column("downlink", pa.bool_(), "towards the mobile", required=True),
        Column(
            "ip_proto",
            pa.uint8(),
            "protocol above IP, after IPv6 extension headers",
            source="IANA protocol numbers",
            required=True,
            encoding=PLAIN,
        ),
        Column(
            "ip_len",
            pa.uint32(),
            "IP total length, from the header; of a datagram in fragments, that of the whole",
            "B",
            "RFC 791, RFC 8200",
            required=True,
            encoding=PLAIN,
            fits_int32=True,
        ),
        Column(
            "ip_id",
            pa.uint16(),
            "IPv4 identification; null for IPv6",
            source="RFC 6864",
            encoding=DELTA,
        ),
        Column(
            "ttl",
            pa.uint8(),
            "time to live or hop limit",
            "hops",
            required=True,
            encoding=PLAIN,
        ),
        Column(
            "tcp_flags",
            pa.uint16(),
            "the 12 flag bits: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, "
            "URG 32, ECE 64, CWR 128, AE 256; null where there is no TCP header (another "
            "protocol, a later fragment that could not be joined, a header that the capture or "
            "fragments cut)",
            source=TCP,
        ),
        Column("seq", pa.uint32(), "sequence number", source=TCP, encoding=PLAIN),
        Column(
            "ack", pa.uint32(), "acknowledgement number, as on the wire", source=TCP, encoding=PLAIN
        ),
        Column(
            "window",
            pa.uint16(),
            "window as on the wire, not scaled",
            source=TCP,
        ),
        Column(
            "payload_len",
            pa.uint32(),
            "TCP payload, by the IP and TCP headers",
            "B",
            TCP,
            encoding=PLAIN,
            fits_int32=True,
        ),
        Column(
            "mss", pa.uint16(), "maximum segment size option", "B", TCP, compression=UNCOMPRESSED
        ),
        Column(
            "window_scale",
            pa.uint8(),
            "window scale option: shift count",
            "bit",
            "RFC 7323",
            compression=UNCOMPRESSED,
        ),
        Column(
            "sack_permitted",
            pa.bool_(),
            "true where the option is there",
            source="RFC 2018",
            compression=UNCOMPRESSED,
        ),
        Column(
            "ts_val",
            pa.uint32(),
            "timestamp option: sender's clock",
            source="RFC 7323",
            encoding=PLAIN,
        ),
        Column(
            "ts_ecr",
            pa.uint32(),
            "timestamp option: echoed clock",
            source="RFC 7323",
            encoding=PLAIN,
        ),
        Column(
            "sack",
            pa.list_(pa.uint32()),
            "SACK block edges: left, right, left, right, ...",
            source="RFC 2018, RFC 2883",
            encoding=PLAIN,
        ),
        Column(
            "options_cut",
            pa.bool_(),
            "true where the capture cut the TCP options, so that an option that is null may have "
            "been there",
            compression=UNCOMPRESSED,
        ),
        Column(
            "clock_steps",
            pa.uint8(),
            "how many times the monitor's clock had stepped back before it within the file; 255: "
            "as many or more",
            required=True,
            compression=UNCOMPRESSED,
        ),
    ),
    statistics_columns=("capture", "user_partition", "ts"),
)
