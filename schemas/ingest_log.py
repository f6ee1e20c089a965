"""ingest_log: the result of the ingest of each capture file."""

from schemas.table import TIMESTAMP, Column, Table

INGEST_LOG = Table(
    name="ingest_log",
    row="one capture file, at its last ingest. Its date is the date of its first packet, or "
    "of its folder if it gave no packets",
    columns=(
        Column(
            "capture",
            "string",
            "name of the file, preceded by its folder if the folder's name is a day",
            required=True,
        ),
        Column(
            "front_end",
            "string",
            "front end that read the file: builtin, zeek or zeek-log",
            required=True,
        ),
        Column("frames", "int64", "records read from the file", "packets", required=True),
        Column("packets", "int64", "rows published in the table packets", "packets", required=True),
        Column("ipv6_packets", "int64", "those of IPv6 among them", "packets", required=True),
        Column("rows", "int64", "rows published in all tables", "rows", required=True),
        Column(
            "skipped",
            "map<string, int64>",
            "number of frames, rows or bytes that could not be read or do not belong, by reason; "
            "`giscope schema` prints the reasons",
            required=True,
        ),
        Column("bytes", "int64", "size of the file", "B", required=True),
        Column("seconds", "double", "duration of the ingest", "s", required=True),
        Column("first_ts", TIMESTAMP, "time of the earliest packet"),
        Column("last_ts", TIMESTAMP, "time of the latest packet"),
        Column(
            "content",
            "string",
            "hash of the uncompressed capture: a keyed hash (40 digits), or XXH3 (32 digits) if "
            "no subscriber has a pseudonym",
            required=True,
        ),
        Column("error", "string", "reason why the file gave no packets. Null if it gave packets"),
        Column(
            "duplicate_of",
            "string",
            "the capture that has the same packets or that replaced this one. Null if that is not "
            "why this one gave no packets",
        ),
    ),
)

SKIP_REASONS = {
    "not_ip": "frames without an IP packet (ARP, LLDP, PPP control, ...)",
    "not_subscriber": "IP packets with neither end in the network's subscriber prefixes; packets "
    "in tunnels that are not opened count as tunnel_...",
    "tunnel_ip_in_ip": "packets with neither end a subscriber: IP in IP (4in4, 4in6, 6in4, 6in6)",
    "tunnel_gre": "packets with neither end a subscriber: GRE, except ERSPAN",
    "tunnel_erspan": "packets with neither end a subscriber: ERSPAN, which carries the packets "
    "that a switch mirrors",
    "tunnel_esp": "packets with neither end a subscriber: ESP (IPsec)",
    "tunnel_l2tp": "packets with neither end a subscriber: L2TPv3 over IP",
    "tunnel_vxlan": "packets with neither end a subscriber: VXLAN (UDP port 4789)",
    "tunnel_geneve": "packets with neither end a subscriber: Geneve (UDP port 6081)",
    "removed": "rows of users or days that were removed (`giscope forget`, `purge`)",
    "duplicate": "packets that the monitor captured twice, on both sides of a router or on two "
    "mirrored ports, and fragments that came twice; the first one is kept",
    "unknown_link_type": "frames of a link type that the reader does not know",
    "wifi": "frames of Wi-Fi, which are not read: IEEE 802.11, plain or after a radiotap, Prism or "
    "AVS header",
    "short_capture": "packets that the capture cut before the end of their IP header",
    "malformed_ip": "packets whose IP or GTP header contradicts itself",
    "fragments_joined": "fragments that were joined with others into one row: a datagram has one "
    "row, with the frame and time of the fragment that completed it",
    "fragments_overlapping": "fragments of datagrams with overlapping fragments, which no host "
    "accepts (RFC 5722); they have no row",
    "fragments_unjoined": "kept as rows, later ones without TCP columns: fragments of datagrams "
    "that were not complete within 30 s or whose fragments contradict each other",
    "short_tcp": "kept as rows without TCP columns: packets whose TCP header the capture cut, or "
    "whose first fragment has only a part of it",
    "malformed_tcp": "kept as rows without TCP columns: packets with a TCP data offset outside the "
    "packet",
    "malformed_options": "kept as rows: packets with a TCP option of invalid length; options after "
    "it are not read",
    "options_cut": "kept as rows: packets whose TCP options the capture cut; options before the "
    "cut are read",
    "clock_backwards": "steps back of the monitor's clock; all packets after a step are stamped "
    "later by its size",
    "clock_backwards_us": "sum of the sizes of these steps, in µs",
    "clock_forwards": "steps forward of the monitor's clock; times across them are not known",
    "clock_forwards_us": "sum of the sizes of these steps, each from packet to packet, in µs",
    "out_of_order": "kept as rows: packets stamped more than a second before their predecessor, as "
    "in files that were concatenated",
    "implausible_time": "packets without a time (pcapng's simple packet blocks), or with a time "
    "outside 1970-9999 or after the 400th date of one file",
    "corrupt_record": "places with an invalid record header; reading continued at the next valid "
    "one",
    "corrupt_bytes": "bytes that were skipped at such places",
    "given_up": "1 if the rest of a file was not read: more than 256 MiB, and more than 64 times "
    "the file's size on disk, held no packet",
    "truncated_file": "1 if the file ends within a record, or a log within a line",
    "malformed_line": "lines of a Zeek log with a wrong number of fields, or with a value that is "
    "missing, not a number, not an address or out of range",
    "no_request": "rows of an http log with neither method nor status: data after a response",
    "not_tcp": "rows of a conn log about other protocols",
    "other_status": "RADIUS messages that neither begin nor end a lease",
    "no_lease": "RADIUS messages without a subscriber, or without an address or a prefix of at "
    "most 256 users",
    "malformed_label": "kept as rows: attributes of RADIUS in another form than the standards'; "
    "the label is null",
    "not_closed": "1 if a Zeek log has no #close; its rows are kept",
    "dropped_by_monitor": "packets that a live Zeek did not get: the buffer of its interface was "
    "full",
    "unseen_data": "acknowledgments, as a live Zeek counts them, of data that it did not see: "
    "dropped before the interface, or sent on another path",
    "corrupt_compression": "1 if the compressed stream ends early or its check fails",
}
"""Meanings of the reasons in ingest_log.skipped."""

UNREAD_REASONS = (
    "unknown_link_type",
    "wifi",
    "short_capture",
    "malformed_ip",
    "implausible_time",
    "corrupt_record",
    "malformed_line",
    "dropped_by_monitor",
)
"""Reasons that count packets that the front end should have read and could not."""

INCOMPLETE_REASONS = ("truncated_file", "corrupt_compression", "given_up")
"""Reasons that show that a file, or its reading, ended too early."""
