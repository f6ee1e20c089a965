"""The page of what makes transfers slow: limits, windows, stalls, retransmissions, timeouts, queues."""

from collections.abc import Iterable

from infra.superset.charts import bars, cumulative, listed, shares, table
from infra.superset.colours import paler
from infra.superset.common import FILTERS, FLOWS, KEYS, NETWORK, USER_GROUPS, share_of_series
from infra.superset.intervals import as_told, share_of, sums, tabled
from infra.superset.parts import (
    Chart,
    Dashboard,
    Dataset,
    Metric,
    Text,
    labelled,
    literal,
    outlined,
    told_if_enough,
)
from schemas.flows import LIMITS
from schemas.marts import CAUSES
from spark_jobs.estimators.by_user import MIN_SAMPLES


def _spaced(names: Iterable[str]) -> list[str]:
    return [name.replace("_", " ") for name in names]


OPTIONS = """case
        when sack is null or timestamps is null then null
        when sack and timestamps then 'SACK and timestamps'
        when sack then 'SACK'
        when timestamps then 'timestamps'
        else 'neither'
    end"""
"""The pair of options that marts tell apart."""

LIMITED = Dataset(
    "limits",
    f"""
select {KEYS},
    unnest({_spaced(LIMITS)}) as limited_by,
    unnest([{", ".join(f"limited_{limit}" for limit in LIMITS)}]) as seconds
from limits_by_window
""",
    [Metric("seconds", "sum(seconds)", "time of transfers [s]", ",.0f")],
)
SMALL_MSS, LARGE_MSS = 700, 1200
"""In B: small is below the one, large not below the other, medium between them."""
SEGMENTS = f"""case when mss < {SMALL_MSS} then 'small' when mss < {LARGE_MSS} then 'medium'
        else 'large' end"""
WINDOWS = Dataset(
    "windows",
    f"""
select *, {SEGMENTS} || ', ' || hours as segment
from (
    select {KEYS}, mss, window_segments, parallel,
        user_throughput_flows as flows, user_throughput_sum
    from limits_by_window
    where mss is not null and window_segments is not null and parallel is not null
)
""",
    [
        FLOWS,
        Metric(
            "throughput",
            "sum(user_throughput_sum) / nullif(sum(flows), 0) / 1000",
            "mean user throughput [kbit/s]",
            ",.3~r",
        ),
    ],
)
AT_ONCE = {1: " 1", 2: " 2", 3: " 3 to 4", 5: " 5 to 8", 9: " 9 to 16", 17: "17 to 32"}
"""By the lower edge; blanks sort them."""
MOST = "33 and more"
STALLS = Dataset(
    "stalls",
    f"""
select {KEYS}, replace(class, '_', ' ') as class, stalls, seconds, rto_stalls,
    users_at_once, {labelled("users_at_once", AT_ONCE, literal(MOST))} as at_once
from stalls_by_class
""",
    [
        Metric("stalls", "sum(stalls)", "stalls", ",d"),
        Metric("seconds", "sum(seconds)", "time in stalls [s]", ",.0f"),
        Metric("time", "sum(seconds)", "time in stalls [s]", "~s"),
        Metric("mean", "sum(seconds) / nullif(sum(stalls), 0)", "mean length [s]", ",.2f"),
        Metric(
            "by_timeout",
            "sum(rto_stalls) / nullif(sum(stalls), 0)",
            "ended by a timeout",
            ".0%",
        ),
        Metric(
            "alone",
            "sum(seconds) filter (users_at_once = 1)"
            " / nullif(sum(seconds) filter (users_at_once is not null), 0)",
            "no other user stalled, of the time",
            ".0%",
        ),
    ],
)
RETRANSMISSIONS = Dataset(
    "retransmissions",
    f"""
select {KEYS}, {USER_GROUPS}, data_packets,
    unnest([{", ".join(f"'{c}', '{c}, spurious'" for c in _spaced(CAUSES))}]) as cause,
    unnest([{", ".join(f"{c} - {c}_spurious, {c}_spurious" for c in CAUSES)}]) as retransmissions
from retransmissions_by_cause
""",
    [
        Metric(
            "share",
            told_if_enough("sum(retransmissions) / nullif(sum(data_packets), 0)", "data_packets"),
            "of the data packets sent",
            ".1%",
        )
    ],
)
ALL = " + ".join(CAUSES)
SPURIOUS = " + ".join(f"{cause}_spurious" for cause in CAUSES)
UNDECIDED = " + ".join(f"{cause}_undecided" for cause in CAUSES)
OPTIONS_RETRANSMISSIONS = Dataset(
    "retransmissions_by_options",
    tabled(
        sums(
            "retransmissions_by_cause",
            [
                *("data_packets", "rto", "spurious_rto_expiries", f"{ALL} as retransmissions"),
                *(f"{SPURIOUS} as spurious", f"{ALL} - ({UNDECIDED}) as decided"),
            ],
            {"options": OPTIONS},
            f"{OPTIONS} is not null",
        ),
        ["network", "country", "access", "hours", "options"],
        [
            share_of("retransmissions", "retransmissions", "data_packets", "data_packets"),
            share_of("spurious", "spurious", "decided", "decided"),
            share_of("too_soon", "spurious_rto_expiries", "rto", "rto"),
        ],
        {"data_packets": "sum(data_packets)"},
    ),
    [
        as_told("retransmissions", "retransmitted [%]"),
        as_told("spurious", "of these spurious [%]"),
        as_told("too_soon", "timeouts too soon [%]"),
        Metric("data_packets", "max(data_packets)", "data packets", ",d"),
    ],
)
LONGEST_RTO = 60
"""In s: the last bin that is drawn ends about here, and holds what is longer, too."""
TIMEOUTS = Dataset(
    "rto_expiries",
    outlined(
        f"{NETWORK}, hour, hours, series, user_groups",
        ["seconds", "changes"],
        f"""(select {NETWORK}, hour, replace(period, '_', '-') as hours, {OPTIONS} as series,
        user_groups, seconds, changes,
        exp(least(bin, floor(10 * ln({LONGEST_RTO})) - 1) / 10) as low
    from rto_by_options where measure = 'rto' and not backed_off and {OPTIONS} is not null)""",
        "low",
        "(exp(0.1) - 1) * low",
        "rto",
    ),
    [share_of_series("seconds", "share of the connections' time", "changes")],
)
THRESHOLDS = (1, 5, 10, 30)
"""What the longest round trips are held against, in s; a bin's edge lies within 1 % of each."""
LONGEST = Dataset(
    "longest_round_trips",
    f"""
select {KEYS}, user_groups, links, above,
    if(bin >= round(10 * ln(above)), links, 0) as longer
from largest_rtt_by_user, unnest({list(THRESHOLDS)}) as thresholds(above)
""",
    [
        Metric(
            "share",
            told_if_enough("sum(longer) / sum(links)", "links"),
            "share of users, hour by hour",
            ".0%",
        )
    ],
)
FEWEST_ROUND_TRIPS = 20
"""Of which a mean is drawn."""
ROUND_TRIPS_BY_FLIGHT = Dataset(
    "rtt_by_flight",
    f"""
select {KEYS}, flight, delayed, rtt_samples, rtt_sum, queueing_samples, queueing_sum
from rtt_by_flight
""",
    [
        Metric("rtt_samples", "sum(rtt_samples)", "round trips", ",d"),
        Metric(
            "mean_rtt", "sum(rtt_sum) / nullif(sum(rtt_samples), 0)", "mean round trip [s]", ",.2f"
        ),
        Metric(
            "mean_queueing",
            "sum(queueing_sum) / nullif(sum(queueing_samples), 0)",
            "mean queueing [s]",
            ",.2f",
        ),
    ],
)
INTERRUPTIONS = {
    "pause": "a pause (reselection, handover)",
    "flush": "a flush (preemption)",
}
RECOVERY = Dataset(
    "recovery",
    f"""
select {KEYS}, user_groups, stalls, seconds, recovery_sum, segments, lost,
    if(bin is null, 0, stalls) as recovered,
    {labelled("interruption", INTERRUPTIONS, "'nothing that shows'")} as "interrupted by",
    case when ended_by = 'mobile' then 'mobile, by an ACK'
        when slow_start then 'server, by a timeout'
        else 'server, otherwise' end as "restarted by"
from recovery_by_restart
""",
    [
        Metric("stalls", "sum(stalls)", "stalls", ",d"),
        Metric(
            "mean_stall",
            told_if_enough("sum(seconds) / sum(stalls)", "stalls"),
            "mean silence [s]",
            ",.1f",
        ),
        Metric(
            "mean_recovery",
            told_if_enough("sum(recovery_sum) / nullif(sum(recovered), 0)", "recovered"),
            "mean recovery [s]",
            ",.1f",
        ),
        Metric(
            "lost",
            told_if_enough("sum(lost) / nullif(sum(segments), 0)", "stalls"),
            "lost of those in flight",
            ".0%",
        ),
    ],
)
EXAMPLES = Dataset(
    "examples",
    f"""
select {KEYS}, if(kind = 'limit', 'held up: ', 'stalled: ') || replace(cause, '_', ' ') as cause,
    round(held_up, 1) as "for [s]", 'giscope plot ' || flow_id as "see it by"
from examples
""",
    [Metric("connections", "count(*)", "connections", ",d")],
)
LIGHT = (
    "#77aadd", "#ee8866", "#eedd88", "#ffaabb", "#99ddff", "#44bb99", "#bbcc33", "#aaaa00",
    "#bbbbbb",
)  # fmt: skip
"""Tol's light colours, told apart by all kinds of sight, with dark text upon them."""
CLASSES = (
    "ack delay", "client idle", "continuous loss", "data unavailable", "double retransmission",
    "packet delay", "small window", "tail retransmission", "zero window",
)  # fmt: skip
MUTED = ("#332288", "#cc6677", "#117733", "#ddaa33", "#666666")
"""Tol's muted ones."""
CAUSES_COLOURS = {
    **dict(zip(CLASSES, LIGHT, strict=True)),
    **dict(zip(_spaced(LIMITS), LIGHT, strict=False)),
}
RETRANSMISSIONS_COLOURS = {
    cause + spurious: paler(colour, 0 if spurious else 0.7)
    for cause, colour in zip(_spaced(CAUSES), MUTED, strict=True)
    for spurious in ("", ", spurious")
}
OPTIONS_COLOURS = dict(
    zip(("neither", "SACK", "timestamps", "SACK and timestamps"), MUTED, strict=False)
)
SEGMENTS_COLOURS = {
    f"{segment}, {hours}": paler(colour, 0.5 * (hours == "off-peak"))
    for segment, colour in zip(("small", "medium", "large"), MUTED, strict=False)
    for hours in ("peak", "off-peak")
}
AT_ONCE_COLOURS = {
    label: paler("#8c2d04", share)
    for label, share in zip(
        [*AT_ONCE.values(), MOST], (0.9, 0.75, 0.6, 0.45, 0.3, 0.15, 0), strict=True
    )
}


def _by_window(title: str, where: str) -> Chart:
    return bars(
        f"What windows give {title}, by MSS (small: < {SMALL_MSS} B, large: ≥ {LARGE_MSS} B)",
        WINDOWS, "window_segments", "throughput", "segment",
        x_title="Mobile's window, from [segments]", where=where,
        having=f"sum(flows) >= {MIN_SAMPLES}", height=42,
    )  # fmt: skip


def _timeouts(hours: str) -> Chart:
    return cumulative(
        f"How long servers wait, {hours}: retransmission timeout by TCP options", TIMEOUTS,
        "rto_below", "Retransmission timeout [s]", "Cumulative share of time",
        where=f"hours = '{hours}'", x_most=LONGEST_RTO,
    )  # fmt: skip


def _by_flight(what: str, metric: str) -> Chart:
    return bars(
        f"Access side {what} by data in flight", ROUND_TRIPS_BY_FLIGHT, "flight", metric, "series",
        x_title="Data in flight, from [B]", where="not delayed",
        having=f"sum(rtt_samples) >= {FEWEST_ROUND_TRIPS}",
    )  # fmt: skip


LIMITS_LISTED = "\n".join(f"- {name.replace('_', ' ')}: {when}" for name, when in LIMITS.items())
TEXT = f"""
**What held transfers up**, from the handshake to the ACK of the last data:

{LIMITS_LISTED}
"""
WHY = Dashboard(
    "Why slow",
    "giscope-why",
    filters=FILTERS,
    rows=[
        [
            shares("What held transfers up", LIMITED, "limited_by", "seconds",
                   "Share of the transfers' time", width=8),
            Text(TEXT, height=50),
        ],
        [_by_window("a user's only connection", "parallel = 1")],
        [_by_window("several connections at once", "parallel > 1")],
        [
            shares("What connections stalled for", STALLS, "class", "seconds",
                   "Share of the time in stalls"),
        ],
        [
            table("Stalls: how many, how long, how they end, and whether others stall too", STALLS,
                  ["network", "class", "hours"],
                  ["stalls", "seconds", "mean", "by_timeout", "alone"],
                  order="network || class || hours", height=50),
        ],
        [
            bars("What servers retransmit, needed or not", RETRANSMISSIONS, "series", "share", "cause",
                 stacked=True, horizontal=True, y_title="Of the data packets sent"),
        ],
        [
            table("Retransmissions and timeouts by TCP options, with 95 % intervals", OPTIONS_RETRANSMISSIONS,
                  ["network", "options", "hours"],
                  ["retransmissions", "spurious", "too_soon", "data_packets"],
                  order="network || options || hours", height=50),
        ],
        [_timeouts("peak"), _timeouts("off-peak")],
        [
            bars("How many users stall at once", STALLS, "hour", "time", "at_once",
                 x_title="Local hour [h]", stacked=True, where="users_at_once is not null"),
            bars("Users whose longest round trip exceeds 1, 5, 10, 30 s", LONGEST, "above",
                 "share", "series", x_title="Longest RTT on the access side above [s]", whole=True),
        ],
        [
            _by_flight("round trip", "mean_rtt"),
            _by_flight("queueing, beyond the user's least of the hour,", "mean_queueing"),
        ],
        [
            table("Recovery after silences (until all is acknowledged), by who restarted",
                  RECOVERY,
                  ["network", "interrupted by", "restarted by", "hours"],
                  ["stalls", "mean_stall", "mean_recovery", "lost"],
                  order='network || "interrupted by" || "restarted by" || hours', height=50),
        ],
        [
            listed("Examples: the connection that each cause held up the longest, hour by hour",
                   EXAMPLES,
                   ["network", "date", "hour", "hours", "cause", "for [s]", "see it by"],
                   order="date, network, hour, cause", height=70),
        ],
    ],
    colours={
        **CAUSES_COLOURS, **RETRANSMISSIONS_COLOURS, **OPTIONS_COLOURS, **SEGMENTS_COLOURS,
        **AT_ONCE_COLOURS,
    },
)  # fmt: skip
