"""The marts: small aggregates behind each table and figure.

Counts, sums and histograms only, so that hours, days and networks add up without a rescan. Of how
many users a sum is, and how much they differ, tell groups of users, which add up too and name
nobody: a row is of one (`user_group`), or says which it holds (`user_groups`). One mart names
single connections, by which others are understood: `examples`. Any cell of a mart (what its columns
`cells` tell apart) may be of one user: the networks file's `min_users` leaves small ones out, and
`suppressed_groups` says how many.
"""

import pyarrow as pa

from schemas.flows import LIMITS
from schemas.rtt_samples import DELAYED
from schemas.table import Column, Table


def _when(what: str = "the connection starts") -> tuple[Column, ...]:
    """The columns of where and when; what: in the local hour in which it happens."""
    return (
        Column(
            "country", pa.string(), "ISO 3166 alpha-2 code of the network's country", required=True
        ),
        Column("access", pa.string(), "gprs, edge, umts, lte, nr, dialup, ...", required=True),
        Column("hour", pa.int32(), f"local hour in which {what}", "h", required=True),
        Column(
            "period",
            pa.string(),
            "peak, off_peak or other, by the network's local hours",
            source="INFOCOM III.B",
            required=True,
        ),
    )


_WHEN = _when()
_FLOWS = Column("flows", pa.int64(), "connections", "connections", required=True)
_BIN = Column("bin", pa.float64(), "lower edge of the histogram bin", "s", required=True)
_RATE_BIN = Column(
    "bin",
    pa.int32(),
    "hundred times the natural logarithm of the rate in bit/s, rounded down: bins of 1 %",
    required=True,
)


_USER_GROUP = Column(
    "user_group",
    pa.int32(),
    "one of 64 groups of users, by hash: what happens to one user is alike, so the groups tell how "
    "sure a mean or a share is; count(distinct user_group) is at most the number of users",
    required=True,
)
_USER_GROUPS = Column(
    "user_groups",
    pa.int64(),
    "which groups of users are among them, a bit each (user_group of other marts): "
    "bit_count(bit_or(user_groups)) is at most the number of users",
    required=True,
)
_COUNTED = Column(
    "counted",
    pa.string(),
    "what the rate is of: passed (IP bytes that passed Gi, as the paper counts, lost ones and the "
    "first packet's included) or arrived (at the mobile, flows.…_received); every transfer "
    "has a row of each, so choose one",
    required=True,
)


def _count(name: str, meaning: str) -> Column:
    return Column(name, pa.int64(), meaning, "connections", required=True)


def _sum(name: str, meaning: str, unit: str) -> Column:
    return Column(f"{name}_sum", pa.float64(), f"sum of their {meaning}", unit, required=True)


CAUSES = {
    "fast": "on duplicate ACKs or SACK blocks, and in the rest of that recovery",
    "rto": "because the timer went off",
    "slow_start": "after a timeout, as ACKs came",
    "tlp": "as a loss probe",
    "unknown": "for no cause that shows",
}
"""Why servers send data again, as in retransmissions (unknown: null there): fast is driven by data,
rto, slow_start and tlp by a timer."""

_OPTIONS = (
    Column("sack", pa.bool_(), "SACK permitted in both SYNs; null where a SYN was not seen"),
    Column(
        "timestamps",
        pa.bool_(),
        "timestamps in both directions; null where one was not seen",
    ),
)


def _tenth_bin(name: str, value: str, null: str = "") -> Column:
    """A histogram's bins that suit times of any length; null: where there is no value."""
    meaning = (
        f"ten times the natural logarithm of {value}, rounded down: bins of 10 %; a median "
        "interpolated within its bin is right to a few per cent"
    )
    if null:
        meaning += f"; null where {null}"
    return Column(name, pa.int32(), meaning, required=not null)


METRICS = {
    "setup_delay": "set-up delay, mean",
    "setup_failed": "set-ups that fail",
    "rtt_access": "round trip of the handshake, access side, mean",
    "rtt_internet": "round trip of the handshake, Internet side, mean",
    "channel_rate": "channel rate, mean over the time in which it was measured",
    "loss_access": "packets lost behind Gi, of those sent on from there",
    "loss_internet": "packets lost on the Internet side, of those that the servers sent",
    "throughput": "throughput of single transfers above 100 KB, what arrived, mean",
    "goodput": "goodput of transfers above 32 KB, mean",
    "parallel": "connections beside others of their user",
}
"""By what networks, days and hours are compared, and what each is."""

MARTS = (
    Table(
        "metrics",
        "a metric, as far as the connections or channel-rate periods of one local hour and one "
        "group of users tell it",
        (
            *_when("they start"),
            Column(
                "metric",
                pa.string(),
                "; ".join(f"{name}: {meaning}" for name, meaning in METRICS.items()),
                required=True,
            ),
            Column(
                "user_group",
                pa.int32(),
                "one of 64 groups of users, by hash: what one user has is alike",
                required=True,
            ),
            Column(
                "measured", pa.int64(), "connections, or periods of a channel rate", required=True
            ),
            Column(
                "numerator",
                pa.float64(),
                "the metric is the sum of this by that of bottom: seconds, connections, packets, "
                "bits, bit/s",
                required=True,
            ),
            Column(
                "denominator",
                pa.float64(),
                "connections; of the channel rate seconds, of losses packets",
                required=True,
            ),
        ),
        group_columns=("hour", "metric"),
    ),
    Table(
        "table1_summary",
        "the connections that the mobile opened in one local hour (Table I)",
        (
            *_WHEN,
            _USER_GROUP,
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
        group_columns=("hour",),
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
            _USER_GROUPS,
            Column("delay_sum", pa.float64(), "sum of their set-up delays", "s", required=True),
        ),
        group_columns=("hour", "single", "background"),
    ),
    Table(
        "fig04_round_trip_time",
        "the connections of one bin of handshake round-trip time (Fig. 4)",
        (
            *_WHEN,
            Column("side", pa.string(), "access or internet", required=True),
            _BIN,
            _FLOWS,
            _USER_GROUPS,
            Column("rtt_sum", pa.float64(), "sum of their round-trip times", "s", required=True),
        ),
        group_columns=("hour", "side"),
    ),
    Table(
        "fig05_setup_tree",
        "the connections of one leaf of the set-up tree (Fig. 5)",
        (
            *_WHEN,
            Column("setup_class", pa.string(), "area of the tree, as in flows", required=True),
            Column("setup_retransmission", pa.string(), "of slight_problem: as in flows"),
            Column("setup_reset", pa.bool_(), "of serious_problem: ended by an RST"),
            Column(
                "reset_by",
                pa.string(),
                "of a set-up that an RST ended (refused, or serious_problem with setup_reset): who "
                "sent it, as in flows; null where nothing else came from that end",
                source="Weaver, Sommer and Paxson, NDSS 2009",
            ),
            Column("background", pa.bool_(), "background traffic of the same user", required=True),
            _USER_GROUP,
            _FLOWS,
            _count("delay_flows", "of these, with a set-up delay"),
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
        "the measurement periods of one local hour with about the same channel rate (Fig. 7)",
        (
            *_when("the period starts"),
            _RATE_BIN,
            Column("periods", pa.int64(), "measurement periods", "periods", required=True),
            _USER_GROUPS,
            Column("seconds", pa.float64(), "how long they lasted in all", "s", required=True),
            Column("ip_bytes", pa.int64(), "IP bytes sent in them", "B", required=True),
        ),
        group_columns=("hour",),
    ),
    Table(
        "fig09_throughput",
        "the large single transfers of one local hour with about the same throughput (Fig. 9)",
        (
            *_WHEN,
            _COUNTED,
            _RATE_BIN,
            _FLOWS,
            _USER_GROUPS,
            _sum("throughput", "single-flow throughputs", "bit/s"),
        ),
        group_columns=("hour", "counted"),
    ),
    Table(
        "fig11_tcp_share",
        "the large transfers with about the same share of their user's bytes (Fig. 11)",
        (
            *_WHEN,
            Column(
                "bin",
                pa.float64(),
                "lower edge, in twentieths, of Btcp / (Btcp + Bother); alone is 1",
                source="INFOCOM VI.B",
                required=True,
            ),
            _USER_GROUP,
            _FLOWS,
        ),
        group_columns=("hour",),
    ),
    Table(
        "fig13_user_throughput",
        "the large transfers of one level of background traffic with about the same user "
        "throughput (Fig. 13)",
        (
            *_WHEN,
            Column(
                "background_thirds",
                pa.int32(),
                "Bother / (Btcp + Bother): 0 below 1/3, 1 from 1/3 to 2/3, 2 at least 2/3",
                source="INFOCOM VI.B",
                required=True,
            ),
            _COUNTED,
            _RATE_BIN,
            _FLOWS,
            _USER_GROUPS,
            _sum("user_throughput", "user throughputs", "bit/s"),
        ),
        group_columns=("hour", "background_thirds", "counted"),
    ),
    Table(
        "table2_loss",
        "the downlink data packets of the connections of one local hour (Table II)",
        (
            *_WHEN,
            _USER_GROUP,
            _FLOWS,
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
                "of these, expected number lost on the access side",
                "packets",
                "INFOCOM V",
                required=True,
            ),
            Column(
                "lost_internet",
                pa.float64(),
                "expected number of data packets lost on the Internet side, never seen there",
                "packets",
                "INFOCOM V",
                required=True,
            ),
        ),
        group_columns=("hour",),
    ),
    Table(
        "fig08_bottleneck",
        "the connections with the same side of most losses (Fig. 8)",
        (
            *_WHEN,
            Column("bottleneck", pa.string(), "none, access, internet or equal", required=True),
            _USER_GROUP,
            _FLOWS,
        ),
        group_columns=("hour", "bottleneck"),
    ),
    Table(
        "fig10_throughput_by_loss",
        "the large single transfers of one class of loss (Fig. 10)",
        (
            *_WHEN,
            Column(
                "loss_class",
                pa.int32(),
                "lower edge of the class of lost to sent data packets: 0, 1, 2; 3 and more as 3",
                "%",
                "INFOCOM VI.A",
                required=True,
            ),
            _USER_GROUP,
            _FLOWS,
            _sum("throughput", "single-flow throughputs: what passed Gi", "bit/s"),
            _sum("received", "throughputs of what arrived (flows.throughput_received)", "bit/s"),
            _sum("goodput", "goodputs", "bit/s"),
        ),
        group_columns=("hour", "loss_class"),
    ),
    Table(
        "table3_clusters",
        "the single greedy transfers above 32 KB of one cluster of TCP options (Table III, "
        "Figs. 14 to 17)",
        (
            *_WHEN,
            Column("mss_class", pa.string(), "low, high or other, as in flows", required=True),
            Column("window_class", pa.string(), "low, med or high, as in flows", required=True),
            Column("sack", pa.bool_(), "SACK permitted in both SYNs", required=True),
            Column("timestamps", pa.bool_(), "timestamps in both directions", required=True),
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
                "the user's channel rate, the median of the UTC hour in which the transfer starts "
                "(channel_rates): hundred times its natural logarithm in bit/s, rounded down; null "
                "where nothing told it",
                source="INFOCOM IV",
            ),
            _FLOWS,
            _sum("goodput", "goodputs", "bit/s"),
            Column(
                "goodput_squares", pa.float64(), "sum of their squares", "bit²/s²", required=True
            ),
            _sum("log_goodput", "natural logarithms of the goodputs in bit/s", "1"),
        ),
        group_columns=("hour", "mss_class", "window_class", "sack", "timestamps"),
    ),
    Table(
        "channel_rate_coverage",
        "the connections of more than 100 KB of one class of window, and of which of them the "
        "channel rate is known (Fig. 7)",
        (
            *_WHEN,
            Column("window_class", pa.string(), "low, med or high, as in flows"),
            _USER_GROUP,
            _FLOWS,
            _count("flows_with_rate", "of these, with a period in channel_rates"),
            Column("ip_bytes", pa.int64(), "IP bytes to the mobile, of all", "B", required=True),
            Column("ip_bytes_with_rate", pa.int64(), "and of those with one", "B", required=True),
        ),
        group_columns=("hour", "window_class"),
    ),
    Table(
        "distributions",
        "the samples of one measure and one bin of 2 %, of one group of users in a period of the "
        "day: for intervals of the means and quantiles of Figs. 3, 4, 7, 9 and 13, and of users' "
        "longest round trips",
        (
            *(column for column in _WHEN if column.name != "hour"),
            Column(
                "measure",
                pa.string(),
                "setup_delay, rtt_access, rtt_internet, throughput, throughput_received, "
                "user_throughput, user_throughput_received, as in flows; channel_rate; or rtt_max "
                "and queue_s, as in links, a sample a user and hour",
                required=True,
            ),
            Column(
                "category",
                pa.string(),
                "of setup_delay: single (one SYN and one SYN ACK) or repeated, with or without "
                "background; of the user's throughputs the thirds of background traffic, as in "
                "fig13_user_throughput; else empty",
                required=True,
            ),
            _USER_GROUP,
            Column(
                "bin",
                pa.int32(),
                "fifty times the natural logarithm of the value in s or bit/s, rounded down",
                required=True,
            ),
            Column("samples", pa.int64(), "samples", "samples", required=True),
            Column(
                "weight",
                pa.float64(),
                "their weight: of channel_rate the seconds for which it lasted, else their number",
                required=True,
            ),
            Column(
                "weighted_sum",
                pa.float64(),
                "sum of weight times value in s or bit/s",
                required=True,
            ),
        ),
        group_columns=("period", "measure", "category"),
    ),
    Table(
        "rtt_by_flight",
        "the round trips between Gi and the mobile that ended in one local hour, of one bin of "
        "bytes in flight and one of the round trip: a thinned sample, as rtt_samples has it (of "
        "each connection one in a round trip and ten a second at most, and those that differ by a "
        "factor of two)",
        (
            *_when("the round trip ends"),
            Column(
                "flight",
                pa.int64(),
                "lower edge of the bin of bytes in flight when the data packet passed Gi, its own "
                "included: half powers of two, rounded down (1024, 1448, 2048, 2896, ...)",
                "B",
                required=True,
            ),
            _tenth_bin("bin", "the round trip in s"),
            DELAYED,
            _USER_GROUPS,
            Column("rtt_samples", pa.int64(), "round trips", "round trips", required=True),
            _sum("rtt", "round trips", "s"),
            Column(
                "queueing_samples",
                pa.int64(),
                "of these, where the user's least round trip of the hour (UTC) is known",
                "round trips",
                required=True,
            ),
            Column(
                "queueing_sum",
                pa.float64(),
                "sum of what these took beyond it (links.rtt_min)",
                "s",
                required=True,
            ),
        ),
        group_columns=("hour", "flight", "delayed"),
    ),
    Table(
        "stalls_by_class",
        "the stalls that began in one local hour, of one class, length and number of users at once",
        (
            *_when("the stall begins"),
            Column("class", pa.string(), "why, as in stalls", required=True),
            Column(
                "bin",
                pa.float64(),
                "lower edge of the bin of the stall's length: 0.1 s times half powers of two (0.1, "
                "0.141, 0.2, 0.283, ...); 0 below 0.1 s",
                "s",
                required=True,
            ),
            Column(
                "users_at_once",
                pa.int64(),
                "how many users of the network have a stall that overlaps this one in time, its "
                "own included and each counted once: lower edge of 1, 2, 3-4, 5-8, 9-16, ...; many "
                "at once are a cell's doing. Of the stalls of the date that speak of the path: "
                "data_unavailable, client_idle and zero_window are the hosts' doing, do not count "
                "and have null here",
                "users",
            ),
            _USER_GROUPS,
            Column("stalls", pa.int64(), "stalls", "stalls", required=True),
            Column("seconds", pa.float64(), "how long they lasted in all", "s", required=True),
            Column(
                "lost_stalls",
                pa.int64(),
                "of these, where it is known what became of the segments in flight",
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
                "of all, ended by a timeout, so that the server starts slowly (stalls.slow_start)",
                "stalls",
                "RFC 5681, 3.1",
                required=True,
            ),
            *(
                Column(
                    name,
                    pa.int64(),
                    f"of all, those that look like {meaning} (stalls.interruption)",
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
        "the connections with about the same MSS, window and number of parallel connections, and "
        "what limited them; those of which it is known",
        (
            *_WHEN,
            Column(
                "mss",
                pa.int64(),
                "maximum segment size that the SYNs agreed on, told by the largest IP packet less "
                "its fixed headers, rounded down to hundreds; null where there was no more "
                "downlink data than fits into one such packet",
                "B",
                "RFC 9293, 3.7.1",
            ),
            Column(
                "window_segments",
                pa.int64(),
                "the mobile's largest window in such segments, rounded: lower edge of 1, 2-3, 4-7, "
                "8-15, ...; 0 below half of one; null where window or segment is not known",
                "segments",
                "Kohlwes, Riihijärvi and Mähönen, Figs. 5 to 7",
            ),
            Column(
                "parallel",
                pa.int64(),
                "the most connections of the user, itself included, that were active at once "
                "(flows.parallel): lower edge of 1, 2, 3-4, 5-8, ...; null where it was not active",
                "connections",
                "Kohlwes, Riihijärvi and Mähönen, Figs. 4, 6 and 7",
            ),
            _FLOWS,
            _USER_GROUPS,
            *(
                Column(
                    f"limited_{limit}",
                    pa.float64(),
                    f"how long they were held up: {meaning}",
                    "s",
                    "Zhang et al., SIGCOMM 2002",
                    required=True,
                )
                for limit, meaning in LIMITS.items()
            ),
            *(
                _count(f"flows_{limit}", f"limited by {limit} the longest (flows.limited_by)")
                for limit in LIMITS
            ),
            Column(
                "delay_spikes",
                pa.int64(),
                "how often the delay rose of a sudden, as at a handover (flows.delay_spikes); over "
                "the sum of the six times, their rate",
                "spikes",
                required=True,
            ),
            _count("throughput_flows", "with a single-flow throughput: alone and above 100 KB"),
            _sum("throughput", "single-flow throughputs", "bit/s"),
            _count("user_throughput_flows", "with a user throughput: above 100 KB"),
            _sum("user_throughput", "user throughputs", "bit/s"),
            Column("ip_bytes_down", pa.int64(), "IP bytes to the mobile", "B", required=True),
        ),
        group_columns=("hour", "mss", "window_segments", "parallel"),
    ),
    Table(
        "retransmissions_by_cause",
        "the connections of one local hour, pair of TCP options and group of users, what their "
        "servers retransmitted and why; those of which it is known",
        (
            *_WHEN,
            *_OPTIONS,
            _USER_GROUP,
            _FLOWS,
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
                for cause, why in CAUSES.items()
                for name, text, source in (
                    (
                        cause,
                        f"packets (data, FINs) seen at Gi that were retransmitted {why}",
                        "RFC 5681, 6298, 6675, 8985",
                    ),
                    (f"{cause}_spurious", "of these, those whose data had arrived", "RFC 3522"),
                    (
                        f"{cause}_undecided",
                        "of these, those of which it is not known, FINs among them",
                        "",
                    ),
                )
            ),
            Column(
                "synack",
                pa.int64(),
                "SYN ACKs retransmitted; of none it is asked whether it was needed",
                "packets",
                required=True,
            ),
            Column(
                "new_data_probes",
                pa.int64(),
                "loss probes with data that had not been sent before: no retransmissions",
                "packets",
                "RFC 8985, 7.3",
                required=True,
            ),
            Column(
                "rto_expiries",
                pa.int64(),
                "how often the servers' timers went off, backed off or not, for data or SYN ACKs, "
                "whether Gi saw what they sent then or not (flows.rto_expiries)",
                "rto_expiries",
                "RFC 6298",
                required=True,
            ),
            Column(
                "spurious_rto_expiries",
                pa.int64(),
                "of rto, those that came too soon by whatever tells it "
                "(retransmissions.spurious_by)",
                "rto_expiries",
                "RFC 5682, 3522, 3708",
                required=True,
            ),
            Column(
                "frto_rto_expiries",
                pa.int64(),
                "of these, those that the server could tell by F-RTO "
                "(retransmissions.spurious_rto)",
                "rto_expiries",
                "RFC 5682",
                required=True,
            ),
        ),
        group_columns=("hour", "sack", "timestamps"),
    ),
    Table(
        "rto_by_options",
        "the retransmission timeouts that took effect in one local hour, of one pair of TCP "
        "options, and one bin of one measure",
        (
            *_when("the timeout takes effect"),
            *_OPTIONS,
            Column(
                "backed_off",
                pa.bool_(),
                "true: it was doubled, for the timer had gone off; false: a round trip was "
                "measured (rto_values.backed_off)",
                source="RFC 6298, 5.5",
                required=True,
            ),
            Column(
                "measure",
                pa.string(),
                "rto: the timeout in s, of each once; rto_by_rtt: by the round trip, which is the "
                "connection's latest on the access side (rtt_samples) and its least before it "
                "(flows.rtt_internet_min), of each of which both are known",
                required=True,
            ),
            _tenth_bin("bin", "the measure"),
            _USER_GROUPS,
            Column(
                "changes",
                pa.int64(),
                "timeouts: one each time that it changed by 1/32 or more (rto_values)",
                "rto_expiries",
                required=True,
            ),
            Column(
                "seconds",
                pa.float64(),
                "for how long they were in effect: until the next, or the connection's end",
                "s",
                required=True,
            ),
            Column(
                "weighted_sum",
                pa.float64(),
                "sum of the measure times that: by seconds, its mean",
                required=True,
            ),
        ),
        group_columns=("hour", "sack", "timestamps", "backed_off", "measure"),
    ),
    Table(
        "recovery_by_restart",
        "the stalls that began in one local hour with data in flight, of one kind of interruption, "
        "by who ended them and how long it took to recover",
        (
            *_when("the stall begins"),
            Column(
                "interruption",
                pa.string(),
                "pause (a reselection or a handover) or flush (a preemption), as in stalls; null: "
                "no interruption of the link shows",
                source="Wennström, Brunstrom and Rendón, GPRS preempted by calls",
            ),
            Column(
                "ended_by",
                pa.string(),
                "who restarted the transfer: mobile (an ACK) or server (a retransmission or new data)",
                source="Wennström, Brunstrom and Rendón, GPRS preempted by calls",
                required=True,
            ),
            Column(
                "slow_start",
                pa.bool_(),
                "a timeout ended it, so that the server starts slowly",
                source="RFC 5681, 3.1",
                required=True,
            ),
            _tenth_bin(
                "bin",
                "the time in s from its beginning until all that was in flight is acknowledged "
                "(stalls.recovery)",
                "that never was",
            ),
            _USER_GROUPS,
            Column("stalls", pa.int64(), "stalls", "stalls", required=True),
            Column("seconds", pa.float64(), "how long they lasted in all", "s", required=True),
            Column(
                "recovery_sum",
                pa.float64(),
                "sum of their times of recovery; 0 where bin is null",
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
                "of these, known to be lost on the access side",
                "segments",
                "INFOCOM V",
                required=True,
            ),
        ),
        group_columns=("hour", "interruption", "ended_by", "slow_start"),
    ),
    Table(
        "largest_rtt_by_user",
        "the users of one local hour, each counted in every hour, of one bin of the longest round "
        "trip on the access side and one of what a packet waits when the queue is full",
        (
            *_when("the round trips end"),
            _tenth_bin("bin", "the user's longest round trip of the hour in s (links.rtt_max)"),
            _tenth_bin(
                "queue_bin",
                "what a packet waits in the full queue in s (links.queue_s)",
                "too little was lost to tell",
            ),
            _USER_GROUPS,
            Column(
                "links",
                pa.int64(),
                "users and hours: of a day, a user as often as there are hours with round trips",
                "user-hours",
                "Wennström et al., Electronics Letters 2004, Fig. 2",
                required=True,
            ),
            Column(
                "rtt_max_sum",
                pa.float64(),
                "sum of their longest round trips",
                "s",
                required=True,
            ),
            Column(
                "rtt_min_sum",
                pa.float64(),
                "sum of their least round trips: the longest less the least is queueing",
                "s",
                required=True,
            ),
            Column(
                "queue_sum",
                pa.float64(),
                "sum of what a packet waits in their full queues; 0 where queue_bin is null",
                "s",
                required=True,
            ),
        ),
        group_columns=("hour",),
    ),
    Table(
        "examples",
        "the connection of one local hour that a limit, or stalls of a class, held up the longest",
        (
            *_WHEN,
            Column(
                "kind",
                pa.string(),
                "limit (of the connections that it limited the longest, flows.limited_by) or stall",
                required=True,
            ),
            Column(
                "cause",
                pa.string(),
                "which: of limits as in flows.limited_by, of stalls their class",
                required=True,
            ),
            Column(
                "flow_id",
                pa.int64(),
                "the connection, as in flows: for `giscope why` and `giscope plot`",
                required=True,
            ),
            Column("held_up", pa.float64(), "for how long in all", "s", required=True),
        ),
        group_columns=("hour", "kind", "cause"),
    ),
)

SUPPRESSED_GROUPS = Table(
    "suppressed_groups",
    "a mart of a network whose networks file sets min_users: how many cells it has of the day, and "
    "how many of them are of fewer users and left out",
    (
        *(column for column in _WHEN if column.name in ("country", "access")),
        Column("mart", pa.string(), "its name", required=True),
        Column(
            "min_users",
            pa.int32(),
            "the fewest users of a cell that is kept, told by groups of users, of which there are "
            "at most as many",
            "users",
            required=True,
        ),
        Column(
            "groups", pa.int64(), "groups of the day, kept or suppressed", "groups", required=True
        ),
        Column("suppressed", pa.int64(), "of these, suppressed", "groups", required=True),
    ),
)
