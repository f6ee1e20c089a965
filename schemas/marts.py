"""The marts: small aggregates behind each table and figure.

They hold counts, sums and histograms only, so that hours, days and networks add up without a
rescan. User groups show how many users a sum has at least, and how much users differ. They add up,
too, and name nobody. A row is of one user group (`user_group`), or it lists the user groups that it
holds (`user_groups`). The mart `examples` names single connections, which illustrate the others.

A group of a mart (the rows that share its `group_columns`) may have only one user. The networks
file's `min_users` leaves out small groups, and `suppressed_groups` counts them.
"""

import pyarrow as pa

from schemas.flows import LIMITS
from schemas.rtt_samples import DELAYED
from schemas.table import Column, Table


def _place_and_time(event: str = "the connection starts") -> tuple[Column, ...]:
    """Return the columns of place and time; event: what happens in the local hour."""
    return (
        Column(
            "country", pa.string(), "country code of the network, ISO 3166 alpha-2", required=True
        ),
        Column(
            "access",
            pa.string(),
            "access technology: gprs, edge, umts, lte, nr, dialup, ...",
            required=True,
        ),
        Column("hour", pa.int32(), f"local hour in which {event}", "h", required=True),
        Column(
            "period",
            pa.string(),
            "peak, off_peak or other, by the network's local hours",
            source="INFOCOM III.B",
            required=True,
        ),
    )


_PLACE_AND_TIME = _place_and_time()
_FLOW_COUNT = Column("flows", pa.int64(), "number of connections", "connections", required=True)
_SECONDS_BIN = Column("bin", pa.float64(), "lower edge of the histogram bin", "s", required=True)
_RATE_BIN = Column(
    "bin",
    pa.int32(),
    "hundred times the natural logarithm of the rate in bit/s, rounded down: bins of 1 %",
    required=True,
)


_USER_GROUP = Column(
    "user_group",
    pa.int32(),
    "one of 64 user groups, by a hash of the user. What happens to one user is alike, "
    "so the spread of the groups shows how certain a mean or a share is; "
    "count(distinct user_group) is at most the number of users",
    required=True,
)
_USER_GROUPS = Column(
    "user_groups",
    pa.int64(),
    "user groups that have a user in the row, one bit each (user_group of other "
    "marts); bit_count(bit_or(user_groups)) is at most the number of users",
    required=True,
)
_COUNTED_BYTES = Column(
    "counted",
    pa.string(),
    "bytes that the rate counts: passed (IP bytes that passed Gi, as in the paper, "
    "lost ones and the first packet included) or arrived (IP bytes that reached the "
    "mobile, flows.…_received). Every transfer has a row of each, so choose one",
    required=True,
)


def _count(name: str, meaning: str) -> Column:
    return Column(name, pa.int64(), meaning, "connections", required=True)


def _sum(name: str, meaning: str, unit: str) -> Column:
    return Column(f"{name}_sum", pa.float64(), f"sum of the {meaning}", unit, required=True)


CAUSES = {
    "fast": "on duplicate ACKs or SACK blocks, and in the rest of that recovery",
    "rto": "after an RTO expiry",
    "slow_start": "in the slow start after an RTO expiry, on ACKs",
    "tlp": "as a loss probe",
    "unknown": "for an unknown cause",
}
"""Causes of retransmissions, as in the table retransmissions (unknown: null there).

fast is driven by data; rto, slow_start and tlp are driven by a timer.
"""

_OPTIONS = (
    Column("sack", pa.bool_(), "whether both SYNs permit SACK. Null if a SYN was not seen"),
    Column(
        "timestamps",
        pa.bool_(),
        "whether both directions have timestamps. Null if one was not seen",
    ),
)


def _log_bin(name: str, value: str, null: str = "") -> Column:
    """Return a column of histogram bins for times of any length.

    value: what is counted; null: the condition under which there is no value.
    """
    meaning = (
        f"ten times the natural logarithm of {value}, rounded down: bins of 10 %. A median "
        "interpolated within its bin has an error of a few per cent"
    )
    if null:
        meaning += f". Null if {null}"
    return Column(name, pa.int32(), meaning, required=not null)


METRICS = {
    "setup_delay": "set-up delay, mean",
    "setup_failed": "share of set-ups that fail",
    "rtt_access": "RTT of the handshake on the access side, mean",
    "rtt_internet": "RTT of the handshake on the Internet side, mean",
    "channel_rate": "channel rate, mean over the time in which it was measured",
    "loss_access": "share of the data packets at Gi that were lost on the access side",
    "loss_internet": "share of the data packets sent that were lost on the Internet side",
    "throughput": "throughput of single transfers above 100 KB, bytes that arrived, mean",
    "goodput": "goodput of transfers above 32 KB, mean",
    "parallel": "share of connections with others of their user at once",
}
"""Meanings of the metrics by which networks, days and hours are compared."""

MARTS = (
    Table(
        "metrics",
        "one metric of the connections, or of the channel-rate periods, of one local hour "
        "and one user group",
        (
            *_place_and_time("the connection or period starts"),
            Column(
                "metric",
                pa.string(),
                "; ".join(f"{name}: {meaning}" for name, meaning in METRICS.items()),
                required=True,
            ),
            Column(
                "user_group",
                pa.int32(),
                "one of 64 user groups, by a hash of the user. What happens to one user is alike",
                required=True,
            ),
            Column(
                "measured",
                pa.int64(),
                "number of connections, or of periods of a channel rate",
                required=True,
            ),
            Column(
                "numerator",
                pa.float64(),
                "the metric is the sum of this column divided by the sum of denominator: seconds, "
                "connections, packets, bits or bit/s",
                required=True,
            ),
            Column(
                "denominator",
                pa.float64(),
                "number of connections; of channel_rate: seconds; of losses: packets",
                required=True,
            ),
        ),
        group_columns=("hour", "metric"),
    ),
    Table(
        "table1_summary",
        "the connections of one local hour and one user group that the mobile opened (Table I)",
        (
            *_PLACE_AND_TIME,
            _USER_GROUP,
            _FLOW_COUNT,
            _count("sack", "connections with SACK permitted in both SYNs"),
            _count("timestamps", "connections with timestamps in both directions"),
            _count("mss_low", "connections with a largest IP packet of 400-600 B"),
            _count("mss_high", "connections with a largest IP packet of 1400-1600 B"),
            _count("window_low", "connections with a largest window of the mobile < 10 000 B"),
            _count(
                "window_med", "connections with a largest window of the mobile of 10 000-20 000 B"
            ),
            _count("window_high", "connections with a largest window of the mobile > 20 000 B"),
            Column("ip_bytes_up", pa.int64(), "IP bytes from the mobile", "B", required=True),
            Column("ip_bytes_down", pa.int64(), "IP bytes to the mobile", "B", required=True),
        ),
        group_columns=("hour",),
    ),
    Table(
        "fig03_setup_delay",
        "the connections of one set-up category and one bin of set-up delay (Fig. 3)",
        (
            *_PLACE_AND_TIME,
            Column(
                "single",
                pa.bool_(),
                "whether the set-up had one SYN and one SYN ACK",
                source="INFOCOM III.A",
                required=True,
            ),
            Column(
                "background",
                pa.bool_(),
                "whether the user had background traffic before or during the set-up "
                "(flows.setup_background)",
                source="INFOCOM III.A",
                required=True,
            ),
            _SECONDS_BIN,
            _FLOW_COUNT,
            _USER_GROUPS,
            Column("delay_sum", pa.float64(), "sum of their set-up delays", "s", required=True),
        ),
        group_columns=("hour", "single", "background"),
    ),
    Table(
        "fig04_round_trip_time",
        "the connections of one bin of handshake RTT on one side (Fig. 4)",
        (
            *_PLACE_AND_TIME,
            Column("side", pa.string(), "access or internet", required=True),
            _SECONDS_BIN,
            _FLOW_COUNT,
            _USER_GROUPS,
            Column("rtt_sum", pa.float64(), "sum of their RTTs", "s", required=True),
        ),
        group_columns=("hour", "side"),
    ),
    Table(
        "fig05_setup_tree",
        "the connections of one leaf of the set-up tree (Fig. 5)",
        (
            *_PLACE_AND_TIME,
            Column("setup_class", pa.string(), "set-up category, as in flows", required=True),
            Column(
                "setup_retransmission",
                pa.string(),
                "of slight_problem: as in flows. Null for other categories",
            ),
            Column(
                "setup_reset",
                pa.bool_(),
                "of serious_problem: whether an RST ended the set-up. Null for other categories",
            ),
            Column(
                "reset_by",
                pa.string(),
                "of a set-up that an RST ended (refused, or serious_problem with setup_reset): "
                "sender of the RST, as in flows. Null for other set-ups, or if nothing else came "
                "from that end",
                source="Weaver, Sommer and Paxson, NDSS 2009",
            ),
            Column(
                "background",
                pa.bool_(),
                "whether the user had background traffic before or during the set-up "
                "(flows.setup_background)",
                required=True,
            ),
            _USER_GROUP,
            _FLOW_COUNT,
            _count("delay_flows", "of these, connections with a set-up delay"),
            Column("delay_sum", pa.float64(), "sum of their set-up delays", "s", required=True),
        ),
        group_columns=(
            "hour",
            "setup_class",
            "setup_retransmission",
            "setup_reset",
            "reset_by",
            "background",
        ),
    ),
    Table(
        "fig07_channel_rate",
        "the measurement periods of one local hour and one bin of channel rate (Fig. 7)",
        (
            *_place_and_time("the period starts"),
            _RATE_BIN,
            Column(
                "periods", pa.int64(), "number of measurement periods", "periods", required=True
            ),
            _USER_GROUPS,
            Column("seconds", pa.float64(), "sum of their durations", "s", required=True),
            Column("ip_bytes", pa.int64(), "IP bytes sent in them", "B", required=True),
        ),
        group_columns=("hour",),
    ),
    Table(
        "fig09_throughput",
        "the large single transfers of one local hour and one bin of throughput (Fig. 9)",
        (
            *_PLACE_AND_TIME,
            _COUNTED_BYTES,
            _RATE_BIN,
            _FLOW_COUNT,
            _USER_GROUPS,
            _sum("throughput", "single-flow throughputs", "bit/s"),
        ),
        group_columns=("hour", "counted"),
    ),
    Table(
        "fig11_tcp_share",
        "the large transfers of one bin of their share in their user's bytes (Fig. 11)",
        (
            *_PLACE_AND_TIME,
            Column(
                "bin",
                pa.float64(),
                "lower edge of the bin of b_tcp / (b_tcp + b_other), in twentieths. Without "
                "background traffic it is 1",
                source="INFOCOM VI.B",
                required=True,
            ),
            _USER_GROUP,
            _FLOW_COUNT,
        ),
        group_columns=("hour",),
    ),
    Table(
        "fig13_user_throughput",
        "the large transfers of one level of background traffic and one bin of user "
        "throughput (Fig. 13)",
        (
            *_PLACE_AND_TIME,
            Column(
                "background_thirds",
                pa.int32(),
                "level of background traffic, b_other / (b_tcp + b_other): 0 (below 1/3), 1 (from "
                "1/3 to 2/3) or 2 (2/3 and more)",
                source="INFOCOM VI.B",
                required=True,
            ),
            _COUNTED_BYTES,
            _RATE_BIN,
            _FLOW_COUNT,
            _USER_GROUPS,
            _sum("user_throughput", "user throughputs", "bit/s"),
        ),
        group_columns=("hour", "background_thirds", "counted"),
    ),
    Table(
        "table2_loss",
        "the downlink data packets of the connections of one local hour and one user "
        "group (Table II)",
        (
            *_PLACE_AND_TIME,
            _USER_GROUP,
            _FLOW_COUNT,
            Column(
                "data_packets",
                pa.int64(),
                "downlink packets with data seen at Gi, retransmissions included",
                "packets",
                "INFOCOM V",
                required=True,
            ),
            Column(
                "lost_access",
                pa.float64(),
                "of these, expected losses on the access side",
                "packets",
                "INFOCOM V",
                required=True,
            ),
            Column(
                "lost_internet",
                pa.float64(),
                "expected losses on the Internet side: data packets that Gi never saw",
                "packets",
                "INFOCOM V",
                required=True,
            ),
        ),
        group_columns=("hour",),
    ),
    Table(
        "fig08_bottleneck",
        "the connections with more losses on the same side (Fig. 8)",
        (
            *_PLACE_AND_TIME,
            Column(
                "bottleneck",
                pa.string(),
                "side with more losses: access or internet; equal; or none",
                required=True,
            ),
            _USER_GROUP,
            _FLOW_COUNT,
        ),
        group_columns=("hour", "bottleneck"),
    ),
    Table(
        "fig10_throughput_by_loss",
        "the large single transfers of one class of loss (Fig. 10)",
        (
            *_PLACE_AND_TIME,
            Column(
                "loss_class",
                pa.int32(),
                "lower edge of the class of the ratio of lost packets to data packets sent: 0, 1, "
                "2 or 3 (3 % and more)",
                "%",
                "INFOCOM VI.A",
                required=True,
            ),
            _USER_GROUP,
            _FLOW_COUNT,
            _sum("throughput", "single-flow throughputs: bytes that passed Gi", "bit/s"),
            _sum(
                "received",
                "throughputs of the bytes that arrived (flows.throughput_received)",
                "bit/s",
            ),
            _sum("goodput", "goodputs", "bit/s"),
        ),
        group_columns=("hour", "loss_class"),
    ),
    Table(
        "table3_clusters",
        "the single greedy transfers above 32 KB of one cluster of TCP options (Table "
        "III, Figs. 14 to 17)",
        (
            *_PLACE_AND_TIME,
            Column("mss_class", pa.string(), "low, high or other, as in flows", required=True),
            Column("window_class", pa.string(), "low, med or high, as in flows", required=True),
            Column("sack", pa.bool_(), "whether both SYNs permit SACK", required=True),
            Column(
                "timestamps", pa.bool_(), "whether both directions have timestamps", required=True
            ),
            Column(
                "size_class",
                pa.int32(),
                "bytes transferred, in powers of two: 15 is 32 to 64 KiB",
                "log2 B",
                required=True,
            ),
            _USER_GROUP,
            Column(
                "rate_bin",
                pa.int32(),
                "bin of the user's channel rate, the median of the hour of UTC in which the "
                "transfer starts (channel_rates): hundred times its natural logarithm in bit/s, "
                "rounded down. Null if none was measured",
                source="INFOCOM IV",
            ),
            _FLOW_COUNT,
            _sum("goodput", "goodputs", "bit/s"),
            Column(
                "goodput_squares",
                pa.float64(),
                "sum of the squares of the goodputs",
                "bit²/s²",
                required=True,
            ),
            _sum("log_goodput", "natural logarithms of the goodputs in bit/s", "1"),
        ),
        group_columns=("hour", "mss_class", "window_class", "sack", "timestamps"),
    ),
    Table(
        "channel_rate_coverage",
        "the connections of more than 100 KB of one class of window, and those of them "
        "with a known channel rate (Fig. 7)",
        (
            *_PLACE_AND_TIME,
            Column(
                "window_class",
                pa.string(),
                "low, med or high, as in flows. Null if the window is not known",
            ),
            _USER_GROUP,
            _FLOW_COUNT,
            _count("flows_with_rate", "of these, connections with a period in channel_rates"),
            Column(
                "ip_bytes",
                pa.int64(),
                "IP bytes to the mobile, of all connections",
                "B",
                required=True,
            ),
            Column(
                "ip_bytes_with_rate",
                pa.int64(),
                "IP bytes to the mobile, of connections with a period in channel_rates",
                "B",
                required=True,
            ),
        ),
        group_columns=("hour", "window_class"),
    ),
    Table(
        "distributions",
        "the samples of one measure and one bin of 2 %, of one user group in one period "
        "of the day, for confidence intervals of the means and quantiles of Figs. 3, 4, "
        "7, 9 and 13, and of users' largest RTTs",
        (
            *(column for column in _PLACE_AND_TIME if column.name != "hour"),
            Column(
                "measure",
                pa.string(),
                "setup_delay, rtt_access, rtt_internet, throughput, throughput_received, "
                "user_throughput or user_throughput_received, as in flows; channel_rate; or "
                "rtt_max or queue_s, as in links, with one sample for each user and hour",
                required=True,
            ),
            Column(
                "category",
                pa.string(),
                "of setup_delay: single (one SYN and one SYN ACK) or repeated, with or without "
                "background traffic; of the user throughputs: the third of background traffic, as "
                "in fig13_user_throughput. Else empty",
                required=True,
            ),
            _USER_GROUP,
            Column(
                "bin",
                pa.int32(),
                "fifty times the natural logarithm of the value in s or bit/s, rounded down",
                required=True,
            ),
            Column("samples", pa.int64(), "number of samples", "samples", required=True),
            Column(
                "weight",
                pa.float64(),
                "sum of their weights: of channel_rate, the seconds for which it was measured; "
                "else 1 for each sample",
                required=True,
            ),
            Column(
                "weighted_sum",
                pa.float64(),
                "sum of weight times value, in s or bit/s",
                required=True,
            ),
        ),
        group_columns=("period", "measure", "category"),
    ),
    Table(
        "rtt_by_flight",
        "the RTT samples on the access side that ended in one local hour, of one bin of "
        "bytes in flight and one bin of the RTT. The samples are those of the table "
        "rtt_samples: of each connection at most one in a round trip and ten a second, "
        "and further ones that differ by a factor of two",
        (
            *_place_and_time("the RTT sample ends"),
            Column(
                "flight",
                pa.int64(),
                "lower edge of the bin of bytes in flight when the data packet passed Gi, its own "
                "included: half powers of two, rounded down (1024, 1448, 2048, 2896, ...)",
                "B",
                required=True,
            ),
            _log_bin("bin", "the RTT in s"),
            DELAYED,
            _USER_GROUPS,
            Column(
                "rtt_samples", pa.int64(), "number of RTT samples", "RTT samples", required=True
            ),
            _sum("rtt", "RTTs", "s"),
            Column(
                "queueing_samples",
                pa.int64(),
                "of these, samples for which the user's base RTT of the hour of UTC is known "
                "(links.rtt_min)",
                "RTT samples",
                required=True,
            ),
            Column(
                "queueing_sum",
                pa.float64(),
                "sum of the differences between their RTTs and the base RTT",
                "s",
                required=True,
            ),
        ),
        group_columns=("hour", "flight", "delayed"),
    ),
    Table(
        "stalls_by_class",
        "the stalls that began in one local hour, of one class, one duration and one "
        "number of users at once",
        (
            *_place_and_time("the stall begins"),
            Column("class", pa.string(), "class of the stalls, as in stalls", required=True),
            Column(
                "bin",
                pa.float64(),
                "lower edge of the bin of the stall's duration: 0.1 s times half powers of two "
                "(0.1, 0.141, 0.2, 0.283, ...). 0 below 0.1 s",
                "s",
                required=True,
            ),
            Column(
                "users_at_once",
                pa.int64(),
                "number of users of the network with a stall that overlaps this one in time, its "
                "own user included and each user counted once: lower edge of 1, 2, 3-4, 5-8, "
                "9-16, ... Many users at once suggest that a radio cell is the cause. Only stalls "
                "of the date that depend on the path count. data_unavailable, client_idle and "
                "zero_window depend on the hosts: they do not count and have null here",
                "users",
            ),
            _USER_GROUPS,
            Column("stalls", pa.int64(), "number of stalls", "stalls", required=True),
            Column("seconds", pa.float64(), "sum of their durations", "s", required=True),
            Column(
                "lost_stalls",
                pa.int64(),
                "of these, stalls for which the fate of the segments in flight is known",
                "stalls",
                required=True,
            ),
            Column(
                "lost",
                pa.int64(),
                "segments in flight in these that were lost on the access side",
                "segments",
                "INFOCOM V",
                required=True,
            ),
            Column(
                "rto_stalls",
                pa.int64(),
                "of all, stalls that an RTO expiry ended, so that the server is in slow start "
                "(stalls.slow_start)",
                "stalls",
                "RFC 5681, 3.1",
                required=True,
            ),
            *(
                Column(
                    name,
                    pa.int64(),
                    f"of all, those that show {meaning} (stalls.interruption)",
                    "stalls",
                    required=True,
                )
                for name, meaning in (
                    ("pauses", "a reselection or a handover"),
                    ("flushes", "a preemption"),
                )
            ),
        ),
        group_columns=("hour", "class", "users_at_once"),
    ),
    Table(
        "limits_by_window",
        "the connections of about the same MSS, window and number of parallel "
        "connections, and what limited them. Only connections with known limits count",
        (
            *_PLACE_AND_TIME,
            Column(
                "mss",
                pa.int64(),
                "maximum segment size, inferred from the largest IP packet less its fixed "
                "headers, rounded down to hundreds. Null if the downlink data fits into one such "
                "packet",
                "B",
                "RFC 9293, 3.7.1",
            ),
            Column(
                "window_segments",
                pa.int64(),
                "the mobile's largest window in such segments, rounded: lower edge of 1, 2-3, "
                "4-7, 8-15, ...; 0 below half a segment. Null if window or segment size is not "
                "known",
                "segments",
                "Kohlwes, Riihijärvi and Mähönen, Figs. 5 to 7",
            ),
            Column(
                "parallel",
                pa.int64(),
                "maximum number of the user's connections that were active at once, this one "
                "included (flows.parallel): lower edge of 1, 2, 3-4, 5-8, ... Null if it was "
                "never active",
                "connections",
                "Kohlwes, Riihijärvi and Mähönen, Figs. 4, 6 and 7",
            ),
            _FLOW_COUNT,
            _USER_GROUPS,
            *(
                Column(
                    f"limited_{limit}",
                    pa.float64(),
                    f"time in which {meaning}",
                    "s",
                    "Zhang et al., SIGCOMM 2002",
                    required=True,
                )
                for limit, meaning in LIMITS.items()
            ),
            *(
                _count(
                    f"flows_{limit}",
                    f"connections whose longest limit was {limit} (flows.limited_by)",
                )
                for limit in LIMITS
            ),
            Column(
                "delay_spikes",
                pa.int64(),
                "number of delay spikes (flows.delay_spikes). Divided by the sum of the six "
                "times, it is their rate",
                "spikes",
                required=True,
            ),
            _count(
                "throughput_flows",
                "connections with a single-flow throughput: single and above 100 KB",
            ),
            _sum("throughput", "single-flow throughputs", "bit/s"),
            _count("user_throughput_flows", "connections with a user throughput: above 100 KB"),
            _sum("user_throughput", "user throughputs", "bit/s"),
            Column("ip_bytes_down", pa.int64(), "IP bytes to the mobile", "B", required=True),
        ),
        group_columns=("hour", "mss", "window_segments", "parallel"),
    ),
    Table(
        "retransmissions_by_cause",
        "the connections of one local hour, one pair of TCP options and one user group, "
        "with the retransmissions of their servers and the causes. Only connections with "
        "known retransmissions count",
        (
            *_PLACE_AND_TIME,
            *_OPTIONS,
            _USER_GROUP,
            _FLOW_COUNT,
            Column(
                "data_packets",
                pa.int64(),
                "downlink packets with data seen at Gi, retransmissions included",
                "packets",
                "Rendón, Casadevall and Faner, Table 2",
                required=True,
            ),
            *(
                Column(name, pa.int64(), text, "packets", source, required=True)
                for cause, circumstance in CAUSES.items()
                for name, text, source in (
                    (
                        cause,
                        f"retransmissions (data, FINs) seen at Gi that were sent {circumstance}",
                        "RFC 5681, 6298, 6675, 8985",
                    ),
                    (
                        f"{cause}_spurious",
                        "of these, spurious retransmissions: their data had arrived",
                        "RFC 3522",
                    ),
                    (
                        f"{cause}_undecided",
                        "of these, retransmissions that may be spurious or not, FINs among them",
                        "",
                    ),
                )
            ),
            Column(
                "synack",
                pa.int64(),
                "retransmissions of SYN ACKs, which are never checked for being spurious",
                "packets",
                required=True,
            ),
            Column(
                "new_data_probes",
                pa.int64(),
                "loss probes with data that was not sent before: no retransmissions",
                "packets",
                "RFC 8985, 7.3",
                required=True,
            ),
            Column(
                "rto_expiries",
                pa.int64(),
                "expiries of the servers' retransmission timers, backed off or not, for data or "
                "SYN ACKs, whether Gi saw what the servers sent then or not (flows.rto_expiries)",
                "expiries",
                "RFC 6298",
                required=True,
            ),
            Column(
                "spurious_rto_expiries",
                pa.int64(),
                "of rto, spurious RTO expiries by any sign (retransmissions.spurious_by)",
                "expiries",
                "RFC 5682, 3522, 3708",
                required=True,
            ),
            Column(
                "frto_rto_expiries",
                pa.int64(),
                "of these, expiries that the server can detect by F-RTO "
                "(retransmissions.spurious_rto)",
                "expiries",
                "RFC 5682",
                required=True,
            ),
        ),
        group_columns=("hour", "sack", "timestamps"),
    ),
    Table(
        "rto_by_options",
        "the RTOs that took effect in one local hour, of one pair of TCP options and one "
        "bin of one measure",
        (
            *_place_and_time("the RTO takes effect"),
            *_OPTIONS,
            Column(
                "backed_off",
                pa.bool_(),
                "true: the RTO was doubled after an RTO expiry; false: a new RTT sample changed "
                "it (rto_values.backed_off)",
                source="RFC 6298, 5.5",
                required=True,
            ),
            Column(
                "measure",
                pa.string(),
                "rto: the RTO in s, for each RTO; rto_by_rtt: the RTO divided by the round trip, "
                "for each RTO for which both are known. The round trip is the connection's latest "
                "RTT on the access side (rtt_samples) plus its smallest RTT on the Internet side "
                "(flows.rtt_internet_min)",
                required=True,
            ),
            _log_bin("bin", "the measure"),
            _USER_GROUPS,
            Column(
                "changes",
                pa.int64(),
                "number of RTOs: one each time that the RTO changed by 1/32 or more (rto_values)",
                "RTOs",
                required=True,
            ),
            Column(
                "seconds",
                pa.float64(),
                "sum of the times in which they held: until the next RTO, or until the "
                "connection's end",
                "s",
                required=True,
            ),
            Column(
                "weighted_sum",
                pa.float64(),
                "sum of the measure times this time. Divided by seconds, it is the mean",
                required=True,
            ),
        ),
        group_columns=("hour", "sack", "timestamps", "backed_off", "measure"),
    ),
    Table(
        "recovery_by_restart",
        "the stalls that began in one local hour with data in flight, of one kind of "
        "interruption, by the end that ended them and by recovery time",
        (
            *_place_and_time("the stall begins"),
            Column(
                "interruption",
                pa.string(),
                "pause (a reselection or a handover) or flush (a preemption), as in stalls. Null "
                "if no interruption shows",
                source="Wennström, Brunstrom and Rendón, GPRS preempted by calls",
            ),
            Column(
                "ended_by",
                pa.string(),
                "end that restarted the transfer: mobile (by an ACK) or server (by a "
                "retransmission or new data)",
                source="Wennström, Brunstrom and Rendón, GPRS preempted by calls",
                required=True,
            ),
            Column(
                "slow_start",
                pa.bool_(),
                "whether an RTO expiry ended the stall, so that the server is in slow start",
                source="RFC 5681, 3.1",
                required=True,
            ),
            _log_bin(
                "bin",
                "the recovery time in s (stalls.recovery)",
                "the data is never acknowledged",
            ),
            _USER_GROUPS,
            Column("stalls", pa.int64(), "number of stalls", "stalls", required=True),
            Column("seconds", pa.float64(), "sum of their durations", "s", required=True),
            Column(
                "recovery_sum",
                pa.float64(),
                "sum of their recovery times; 0 if bin is null",
                "s",
                required=True,
            ),
            Column(
                "segments",
                pa.int64(),
                "segments in flight when they began",
                "segments",
                required=True,
            ),
            Column(
                "lost",
                pa.int64(),
                "of these, segments known to be lost on the access side",
                "segments",
                "INFOCOM V",
                required=True,
            ),
        ),
        group_columns=("hour", "interruption", "ended_by", "slow_start"),
    ),
    Table(
        "largest_rtt_by_user",
        "the users of one local hour, each counted in every hour, of one bin of the "
        "largest RTT on the access side and one bin of the wait in the full queue",
        (
            *_place_and_time("the RTT samples end"),
            _log_bin("bin", "the user's largest RTT of the hour in s (links.rtt_max)"),
            _log_bin(
                "queue_bin",
                "the wait in the full queue in s (links.queue_s)",
                "there were too few losses to infer it",
            ),
            _USER_GROUPS,
            Column(
                "links",
                pa.int64(),
                "number of users and hours: a user counts once in every hour with RTT samples",
                "user-hours",
                "Wennström et al., Electronics Letters 2004, Fig. 2",
                required=True,
            ),
            Column(
                "rtt_max_sum",
                pa.float64(),
                "sum of their largest RTTs",
                "s",
                required=True,
            ),
            Column(
                "rtt_min_sum",
                pa.float64(),
                "sum of their base RTTs: largest RTT less base RTT is queueing delay",
                "s",
                required=True,
            ),
            Column(
                "queue_sum",
                pa.float64(),
                "sum of the waits in their full queues; 0 if queue_bin is null",
                "s",
                required=True,
            ),
        ),
        group_columns=("hour",),
    ),
    Table(
        "examples",
        "the connection of one local hour that one limit, or stalls of one class, held up "
        "the longest",
        (
            *_PLACE_AND_TIME,
            Column(
                "kind",
                pa.string(),
                "limit or stall. The example of a limit is one of the connections that this limit "
                "held up longer than other limits (flows.limited_by)",
                required=True,
            ),
            Column(
                "cause",
                pa.string(),
                "the limit, as in flows.limited_by, or the class of the stalls",
                required=True,
            ),
            Column(
                "flow_id",
                pa.int64(),
                "the connection, as in flows, for `giscope why` and `giscope plot`",
                required=True,
            ),
            Column(
                "held_up", pa.float64(), "total time for which it was held up", "s", required=True
            ),
        ),
        group_columns=("hour", "kind", "cause"),
    ),
)

SUPPRESSED_GROUPS = Table(
    "suppressed_groups",
    "one mart of a network whose networks file sets min_users: the number of its "
    "groups of the day, and the number of those that are left out because they have "
    "fewer users",
    (
        *(column for column in _PLACE_AND_TIME if column.name in ("country", "access")),
        Column("mart", pa.string(), "name of the mart", required=True),
        Column(
            "min_users",
            pa.int32(),
            "minimum number of users of a group that is kept. Users are counted by user "
            "groups, of which there are at most as many",
            "users",
            required=True,
        ),
        Column(
            "groups", pa.int64(), "groups of the day, kept or suppressed", "groups", required=True
        ),
        Column("suppressed", pa.int64(), "of these, suppressed groups", "groups", required=True),
    ),
)
