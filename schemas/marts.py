"""The marts: small aggregates behind each table and figure.

Counts, sums and histograms only, so that hours, days and networks add up without a rescan.
"""

import pyarrow as pa

from schemas.table import Column, Table

_WHEN = (
    Column("country", pa.string(), "ISO 3166 alpha-2 code of the network's country", required=True),
    Column("access", pa.string(), "gprs, edge, umts, lte, nr, dialup, ...", required=True),
    Column("hour", pa.int32(), "local hour in which the connection starts", "h", required=True),
    Column(
        "period",
        pa.string(),
        "peak, off_peak or other, by the network's local hours",
        source="INFOCOM III.B",
        required=True,
    ),
)
_FLOWS = Column("flows", pa.int64(), "connections", "connections", required=True)
_BIN = Column("bin", pa.float64(), "lower edge of the histogram bin", "s", required=True)


def _count(name: str, meaning: str) -> Column:
    return Column(name, pa.int64(), meaning, "connections", required=True)


MARTS = (
    Table(
        "table1_summary",
        "the connections that the mobile opened in one local hour (Table I)",
        (
            *_WHEN,
            _FLOWS,
            _count("sack", "SACK permitted in both SYNs"),
            _count("timestamps", "timestamps seen in both directions"),
            _count("mss_low", "largest IP packet 400-600 B"),
            _count("mss_high", "largest IP packet 1400-1600 B"),
            _count("window_low", "mobile's largest window < 10 000 B"),
            _count("window_med", "mobile's largest window 10 000-20 000 B"),
            _count("window_high", "mobile's largest window > 20 000 B"),
            Column("ip_bytes_up", pa.int64(), "IP bytes from the mobile", "B", required=True),
            Column("ip_bytes_down", pa.int64(), "IP bytes to the mobile", "B", required=True),
        ),
    ),
    Table(
        "fig03_setup_delay",
        "the connections of one set-up category and one bin of set-up delay (Fig. 3)",
        (
            *_WHEN,
            Column(
                "single",
                pa.bool_(),
                "one SYN and one SYN ACK",
                source="INFOCOM III.A",
                required=True,
            ),
            Column(
                "background",
                pa.bool_(),
                "background traffic of the same user",
                source="INFOCOM III.A",
                required=True,
            ),
            _BIN,
            _FLOWS,
            Column("delay_sum", pa.float64(), "sum of their set-up delays", "s", required=True),
        ),
    ),
    Table(
        "fig04_round_trip_time",
        "the connections of one bin of handshake round-trip time (Fig. 4)",
        (
            *_WHEN,
            Column("side", pa.string(), "access or internet", required=True),
            _BIN,
            _FLOWS,
            Column("rtt_sum", pa.float64(), "sum of their round-trip times", "s", required=True),
        ),
    ),
    Table(
        "fig05_setup_tree",
        "the connections of one leaf of the set-up tree (Fig. 5)",
        (
            *_WHEN,
            Column("setup_class", pa.string(), "area of the tree, as in flows", required=True),
            Column("setup_reset", pa.bool_(), "of serious_problem: ended by an RST"),
            Column("background", pa.bool_(), "background traffic of the same user", required=True),
            _FLOWS,
            _count("delay_flows", "of these, with a set-up delay"),
            Column("delay_sum", pa.float64(), "sum of their set-up delays", "s", required=True),
        ),
    ),
)
