"""The page on slow transfers: limits, windows, stalls, retransmissions, RTOs and queueing."""

from collections.abc import Iterable

from schemas.flows import LIMITS
from schemas.marts import CAUSES
from spark_jobs.dashboards.charts import bars, cumulative, raw_table, share_bars, table
from spark_jobs.dashboards.colours import paler
from spark_jobs.dashboards.common import FILTERS, FLOWS, KEYS, NETWORK, USER_GROUPS, share_of_series
from spark_jobs.dashboards.intervals import (
    estimate_table,
    share_ratio,
    text_metric,
    user_group_sums,
)
from spark_jobs.dashboards.parts import (
    Chart,
    Dashboard,
    Dataset,
    Metric,
    Text,
    histogram_outline,
    if_enough_data,
    label_sql,
    literal,
)
from spark_jobs.figures.statistics import MIN_SAMPLES


def _with_spaces(names: Iterable[str]) -> list[str]:
    return [name.replace("_", " ") for name in names]


OPTION_PAIR = """case
        when sack is null or timestamps is null then null
        when sack and timestamps then 'SACK and timestamps'
        when sack then 'SACK'
        when timestamps then 'timestamps'
        else 'neither'
    end"""
"""SQL of the pair of options that the marts distinguish."""

TRANSFER_LIMITS = Dataset(
    "limits",
    f"""
select {KEYS},
    unnest({_with_spaces(LIMITS)}) as limited_by,
    unnest([{", ".join(f"limited_{limit}" for limit in LIMITS)}]) as seconds
from limits_by_window
""",
    [Metric("seconds", "sum(seconds)", "time of transfers [s]", ",.0f")],
)
SMALL_MSS, LARGE_MSS = 700, 1200
"""Classes of the MSS (B): small below the first, large from the second on, medium between them."""
MSS_CLASS = f"""case when mss < {SMALL_MSS} then 'small' when mss < {LARGE_MSS} then 'medium'
        else 'large' end"""
WINDOWS = Dataset(
    "windows",
    f"""
select *, {MSS_CLASS} || ', ' || hours as segment
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
USERS_AT_ONCE = {1: " 1", 2: " 2", 3: " 3 to 4", 5: " 5 to 8", 9: " 9 to 16", 17: "17 to 32"}
"""Labels of the numbers of users that stall at once, by the lowest; leading blanks sort them."""
MOST_USERS_AT_ONCE = "33 and more"
STALLS = Dataset(
    "stalls",
    f"""
select {KEYS}, replace(class, '_', ' ') as class, stalls, seconds, rto_stalls,
    users_at_once,
    {label_sql("users_at_once", USERS_AT_ONCE, literal(MOST_USERS_AT_ONCE))} as at_once
from stalls_by_class
""",
    [
        Metric("stalls", "sum(stalls)", "stalls", ",d"),
        Metric("seconds", "sum(seconds)", "time in stalls [s]", ",.0f"),
        Metric("time", "sum(seconds)", "time in stalls [s]", "~s"),
        Metric("mean", "sum(seconds) / nullif(sum(stalls), 0)", "mean duration [s]", ",.2f"),
        Metric(
            "by_rto_expiry",
            "sum(rto_stalls) / nullif(sum(stalls), 0)",
            "ended by an RTO expiry",
            ".0%",
        ),
        Metric(
            "single_user",
            "sum(seconds) filter (users_at_once = 1)"
            " / nullif(sum(seconds) filter (users_at_once is not null), 0)",
            "time without other users' stalls",
            ".0%",
        ),
    ],
)
RETRANSMISSIONS = Dataset(
    "retransmissions",
    f"""
select {KEYS}, {USER_GROUPS}, data_packets,
    unnest([{", ".join(f"'{c}', '{c}, spurious'" for c in _with_spaces(CAUSES))}]) as cause,
    unnest([{", ".join(f"{c} - {c}_spurious, {c}_spurious" for c in CAUSES)}]) as retransmissions
from retransmissions_by_cause
""",
    [
        Metric(
            "share",
            if_enough_data("sum(retransmissions) / nullif(sum(data_packets), 0)", "data_packets"),
            "share of data packets",
            ".1%",
        )
    ],
)
ALL_CAUSES = " + ".join(CAUSES)
SPURIOUS = " + ".join(f"{cause}_spurious" for cause in CAUSES)
UNDECIDED = " + ".join(f"{cause}_undecided" for cause in CAUSES)
OPTIONS_RETRANSMISSIONS = Dataset(
    "retransmissions_by_options",
    estimate_table(
        user_group_sums(
            "retransmissions_by_cause",
            [
                *(
                    "data_packets",
                    "rto",
                    "spurious_rto_expiries",
                    f"{ALL_CAUSES} as retransmissions",
                ),
                *(f"{SPURIOUS} as spurious", f"{ALL_CAUSES} - ({UNDECIDED}) as decided"),
            ],
            {"options": OPTION_PAIR},
            f"{OPTION_PAIR} is not null",
        ),
        ["network", "country", "access", "hours", "options"],
        [
            share_ratio("retransmissions", "retransmissions", "data_packets", "data_packets"),
            share_ratio("spurious", "spurious", "decided", "decided"),
            share_ratio("spurious_expiries", "spurious_rto_expiries", "rto", "rto"),
        ],
        {"data_packets": "sum(data_packets)"},
    ),
    [
        text_metric("retransmissions", "retransmissions [% of data packets]"),
        text_metric("spurious", "spurious [% of decided retransmissions]"),
        text_metric("spurious_expiries", "spurious RTO expiries [%]"),
        Metric("data_packets", "max(data_packets)", "data packets", ",d"),
    ],
)
MAX_DRAWN_RTO_S = 60
"""End of the last bin that is drawn, about (s); that bin also holds all longer RTOs."""
RTOS = Dataset(
    "retransmission_timeouts",
    histogram_outline(
        f"{NETWORK}, hour, hours, series, user_groups",
        ["seconds", "changes"],
        f"""(select {NETWORK}, hour, replace(period, '_', '-') as hours, {OPTION_PAIR} as series,
        user_groups, seconds, changes,
        exp(least(bin, floor(10 * ln({MAX_DRAWN_RTO_S})) - 1) / 10) as low
    from rto_by_options where measure = 'rto' and not backed_off and {OPTION_PAIR} is not null)""",
        "low",
        "(exp(0.1) - 1) * low",
        "rto",
    ),
    [share_of_series("seconds", "share of connections' time", "changes")],
)
THRESHOLDS = (1, 5, 10, 30)
"""Thresholds of the largest RTTs (s); an edge of a bin lies within 1 % of each."""
LARGEST_RTTS = Dataset(
    "largest_rtts",
    f"""
select {KEYS}, user_groups, links, above,
    if(bin >= round(10 * ln(above)), links, 0) as longer
from largest_rtt_by_user, unnest({list(THRESHOLDS)}) as thresholds(above)
""",
    [
        Metric(
            "share",
            if_enough_data("sum(longer) / sum(links)", "links"),
            "share of users, by hour",
            ".0%",
        )
    ],
)
MIN_RTT_SAMPLES = 20
"""Minimum number of RTT samples of a mean that is drawn."""
RTT_BY_FLIGHT = Dataset(
    "rtt_by_flight",
    f"""
select {KEYS}, flight, delayed, rtt_samples, rtt_sum, queueing_samples, queueing_sum
from rtt_by_flight
""",
    [
        Metric("rtt_samples", "sum(rtt_samples)", "RTT samples", ",d"),
        Metric("mean_rtt", "sum(rtt_sum) / nullif(sum(rtt_samples), 0)", "mean RTT [s]", ",.2f"),
        Metric(
            "mean_queueing",
            "sum(queueing_sum) / nullif(sum(queueing_samples), 0)",
            "mean queueing delay [s]",
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
    {label_sql("interruption", INTERRUPTIONS, "'no interruption seen'")} as "interrupted by",
    case when ended_by = 'mobile' then 'mobile, by an ACK'
        when slow_start then 'server, by an RTO expiry'
        else 'server, otherwise' end as "restarted by"
from recovery_by_restart
""",
    [
        Metric("stalls", "sum(stalls)", "stalls", ",d"),
        Metric(
            "mean_stall",
            if_enough_data("sum(seconds) / sum(stalls)", "stalls"),
            "mean stall [s]",
            ",.1f",
        ),
        Metric(
            "mean_recovery",
            if_enough_data("sum(recovery_sum) / nullif(sum(recovered), 0)", "recovered"),
            "mean recovery [s]",
            ",.1f",
        ),
        Metric(
            "lost",
            if_enough_data("sum(lost) / nullif(sum(segments), 0)", "stalls"),
            "lost, of segments in flight",
            ".0%",
        ),
    ],
)
EXAMPLES = Dataset(
    "examples",
    f"""
select {KEYS}, if(kind = 'limit', 'limit: ', 'stall: ') || replace(cause, '_', ' ') as cause,
    round(held_up, 1) as "time [s]", 'giscope plot ' || flow_id as "command"
from examples
""",
    [Metric("connections", "count(*)", "connections", ",d")],
)
LIGHT_COLOURS = (
    "#77aadd", "#ee8866", "#eedd88", "#ffaabb", "#99ddff", "#44bb99", "#bbcc33", "#aaaa00",
    "#bbbbbb",
)  # fmt: skip
"""Tol's light colours: colour-blind readers can distinguish them; dark text is legible on them."""
STALL_CLASSES = (
    "ack delay", "client idle", "continuous loss", "data unavailable", "double retransmission",
    "packet delay", "small window", "tail retransmission", "zero window",
)  # fmt: skip
MUTED_COLOURS = ("#332288", "#cc6677", "#117733", "#ddaa33", "#666666")
"""Tol's muted colours."""
CAUSES_COLOURS = {
    **dict(zip(STALL_CLASSES, LIGHT_COLOURS, strict=True)),
    **dict(zip(_with_spaces(LIMITS), LIGHT_COLOURS, strict=False)),
}
RETRANSMISSIONS_COLOURS = {
    cause + spurious: paler(colour, 0 if spurious else 0.7)
    for cause, colour in zip(_with_spaces(CAUSES), MUTED_COLOURS, strict=True)
    for spurious in ("", ", spurious")
}
OPTIONS_COLOURS = dict(
    zip(("neither", "SACK", "timestamps", "SACK and timestamps"), MUTED_COLOURS, strict=False)
)
MSS_COLOURS = {
    f"{segment}, {hours}": paler(colour, 0.5 * (hours == "off-peak"))
    for segment, colour in zip(("small", "medium", "large"), MUTED_COLOURS, strict=False)
    for hours in ("peak", "off-peak")
}
USERS_AT_ONCE_COLOURS = {
    label: paler("#8c2d04", share)
    for label, share in zip(
        [*USERS_AT_ONCE.values(), MOST_USERS_AT_ONCE],
        (0.9, 0.75, 0.6, 0.45, 0.3, 0.15, 0),
        strict=True,
    )
}


def _window_chart(title: str, where: str) -> Chart:
    return bars(
        f"User throughput by window and MSS, {title}"
        f" (small: < {SMALL_MSS} B, large: ≥ {LARGE_MSS} B)",
        WINDOWS, "window_segments", "throughput", "segment",
        x_title="Mobile's window, lower edge [segments]", where=where,
        having=f"sum(flows) >= {MIN_SAMPLES}", height=42,
    )  # fmt: skip


def _rto_chart(hours: str) -> Chart:
    return cumulative(
        f"RTO by TCP options, {hours}", RTOS,
        "rto_below", "RTO [s]", "Cumulative share of time",
        where=f"hours = '{hours}'", x_max=MAX_DRAWN_RTO_S,
    )  # fmt: skip


def _flight_chart(quantity: str, metric: str) -> Chart:
    return bars(
        f"{quantity} on the access side by bytes in flight", RTT_BY_FLIGHT, "flight", metric,
        "series", x_title="Bytes in flight, lower edge [B]", where="not delayed",
        having=f"sum(rtt_samples) >= {MIN_RTT_SAMPLES}",
    )  # fmt: skip


LIMITS_LIST = "\n".join(f"- {name.replace('_', ' ')}: {when}" for name, when in LIMITS.items())
TEXT = f"""
**Limits of transfers**, from the handshake to the ACK of the last data:

{LIMITS_LIST}
"""
WHY = Dashboard(
    "Why slow",
    "giscope-why",
    filters=FILTERS,
    rows=[
        [
            share_bars("Limits of transfers", TRANSFER_LIMITS, "limited_by", "seconds",
                       "Share of the transfers' time", width=8),
            Text(TEXT, height=50),
        ],
        [_window_chart("one connection at a time", "parallel = 1")],
        [_window_chart("several connections at once", "parallel > 1")],
        [
            share_bars("Causes of stalls", STALLS, "class", "seconds",
                       "Share of the time in stalls"),
        ],
        [
            table("Stalls: number, duration, RTO expiries, and stalls of other users", STALLS,
                  ["network", "class", "hours"],
                  ["stalls", "seconds", "mean", "by_rto_expiry", "single_user"],
                  order="network || class || hours", height=50),
        ],
        [
            bars("Retransmissions by cause; dark: spurious", RETRANSMISSIONS, "series", "share",
                 "cause", stacked=True, horizontal=True, y_title="Share of data packets"),
        ],
        [
            table("Retransmissions and RTO expiries by TCP options, with 95 % intervals",
                  OPTIONS_RETRANSMISSIONS, ["network", "options", "hours"],
                  ["retransmissions", "spurious", "spurious_expiries", "data_packets"],
                  order="network || options || hours", height=50),
        ],
        [_rto_chart("peak"), _rto_chart("off-peak")],
        [
            bars("Time in stalls by number of users that stall at once", STALLS, "hour", "time",
                 "at_once", x_title="Local hour [h]", stacked=True,
                 where="users_at_once is not null"),
            bars("Users with RTTs above 1, 5, 10, 30 s", LARGEST_RTTS, "above",
                 "share", "series", x_title="Largest RTT on the access side above [s]",
                 axis_to_100_percent=True),
        ],
        [
            _flight_chart("RTT", "mean_rtt"),
            _flight_chart("Queueing (RTT above the user's smallest of the hour)", "mean_queueing"),
        ],
        [
            table("Recovery after stalls (until all is acknowledged), by interruption and restart",
                  RECOVERY,
                  ["network", "interrupted by", "restarted by", "hours"],
                  ["stalls", "mean_stall", "mean_recovery", "lost"],
                  order='network || "interrupted by" || "restarted by" || hours', height=50),
        ],
        [
            raw_table("Examples: the connection that each cause delayed most, by hour",
                      EXAMPLES,
                      ["network", "date", "hour", "hours", "cause", "time [s]", "command"],
                      order="date, network, hour, cause", height=70),
        ],
    ],
    colours={
        **CAUSES_COLOURS, **RETRANSMISSIONS_COLOURS, **OPTIONS_COLOURS, **MSS_COLOURS,
        **USERS_AT_ONCE_COLOURS,
    },
)  # fmt: skip
