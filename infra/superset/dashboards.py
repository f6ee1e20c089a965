"""What the dashboards show: datasets over the marts, charts, pages. `assets.py` writes it as YAML.

Every dataset has the columns of KEYS, for filters and for row-level security by country.
"""

from dataclasses import replace

from infra.superset.colours import paler
from infra.superset.parts import (
    Chart,
    Choice,
    Dashboard,
    Dataset,
    Dates,
    Metric,
    bars,
    big_number,
    cumulative,
    enough,
    histogram,
    labelled,
    outlined,
    pivot,
    rate_axis,
    shares,
    table,
    told_if_enough,
)
from infra.superset.peak import PEAK_PAGE
from schemas import SKIP_REASONS
from schemas.flows import LIMITS
from spark_jobs.report import fig03, fig04, fig05, fig08, fig10, table1, table3, throughput
from spark_jobs.report.rates import SHOWN_BINS

NETWORK = "network, date, country, access"
SERIES = f"{NETWORK}, hour, hours, series"
KEYS = f"""{NETWORK}, hour, replace(period, '_', '-') as hours,
    network || ' ' || replace(period, '_', '-') as series"""
"""series: what is compared, a network's peak with its off-peak and with other networks."""

FLOWS = Metric("flows", "sum(flows)", "connections", ",d")
FRAMES = Metric("frames", "sum(frames)", "frames", ",d")
USER_GROUPS = "1::ubigint << user_group as user_groups"
"""A bit each, as marts without user_group have them."""


def share_of_series(counted: str, meaning: str, samples: str = "flows") -> Metric:
    """Of a series, where a chart groups by series."""
    whole = f"sum(sum({counted})) over (partition by series)"
    return Metric(
        "share", told_if_enough(f"sum({counted}) / {whole}", samples, "series"), meaning, ".0%"
    )


def told_by(key: str, counted: str, meaning: str, samples: str = "flows") -> Metric:
    """A sum, none where the rows with the same key are too few."""
    return Metric(
        f"{counted}_by_{key}", told_if_enough(f"sum({counted})", samples, key), meaning, ",.0f"
    )


def share(name: str, meaning: str, part: str, whole: str = "flows") -> Metric:
    sql = f"sum({part}) / nullif(sum({whole}), 0)"
    return Metric(name, told_if_enough(sql, whole), meaning, ".2%")


def mean_rate(name: str, meaning: str) -> Metric:
    sql = f"sum({name}_sum) / nullif(sum(flows), 0) / 1000"
    return Metric(name, told_if_enough(sql, "flows"), f"{meaning} [kbit/s]", ",.3~r")


# Overview

CONNECTIONS = Dataset(
    "connections",
    f"select {KEYS}, {USER_GROUPS}, * exclude ({NETWORK}, hour, period) from table1_summary",
    [
        Metric("flows", "sum(flows)", "TCP connections", ",d"),
        Metric("bytes_down", "sum(ip_bytes_down)", "IP bytes to the mobiles [B]", ".3s"),
        Metric("bytes_up", "sum(ip_bytes_up)", "IP bytes from the mobiles [B]", ".3s"),
        Metric("networks", "count(distinct network)", "networks", ",d"),
        *(share(f"{name}_share", label, name) for name, label in table1.ROWS.items()),
    ],
)
DATES = Dates()
COUNTRY, NETWORKS = (
    Choice("country", "Country", CONNECTIONS),
    Choice("network", "Network", CONNECTIONS, narrowed_by=("country", "access")),
)
COMMONEST_ACCESS = "access of most networks"
"""Whose name `load.py` knows."""
HOUR = Choice("hour", "Local hour", CONNECTIONS)
HOURS = Choice("hours", "Peak or off-peak", CONNECTIONS)
FILTERS = (
    COUNTRY,
    Choice("access", "Access", CONNECTIONS, chosen=(COMMONEST_ACCESS,), single=True),
    NETWORKS,
    DATES,
    replace(HOURS, chosen=("peak", "off-peak")),
    HOUR,
)
"""Of pages whose figures are of one access technology each, at peak and off-peak."""
QUALITY = Dataset(
    "capture_quality",
    f"""
with counted as (
    select network, date, 'kept as packets' as fate, packets as frames from ingest_log
    union all
    select network, date, entry.key, entry.value
    from (select network, date, unnest(map_entries(skipped)) as entry from ingest_log)
)
select counted.*, country, access,
    {labelled("fate", SKIP_REASONS, "'rows of packets'")} as meaning
from counted join networks using (network)
""",
    [FRAMES],
)
CAPTURES = Dataset(
    "captures",
    """
select network, date, country, access, capture, frames, packets, first_ts, last_ts,
    error is not null as failed
from ingest_log join networks using (network)
""",
    [
        Metric("captures", "count(*)", "captures", ",d"),
        Metric("failed", "count_if(failed)", "unreadable captures", ",d"),
        FRAMES,
        Metric("packets", "sum(packets)", "packets kept", ",d"),
        Metric("kept", "sum(packets) / nullif(sum(frames), 0)", "frames kept", ".2%"),
    ],
)
OVERVIEW = Dashboard(
    "Overview",
    "giscope-overview",
    rows=[
        [
            big_number("TCP connections", CONNECTIONS, "flows"),
            big_number("IP bytes to the mobiles", CONNECTIONS, "bytes_down"),
            big_number("IP bytes from the mobiles", CONNECTIONS, "bytes_up"),
            big_number("Networks", CONNECTIONS, "networks"),
        ],
        [
            pivot(
                "Table I. Summary statistics",
                CONNECTIONS,
                ["flows", *(f"{name}_share" for name in table1.ROWS)],
                rows=["access", "network", "hours"],
                columns=[],
                height=78,
            )
        ],
        [
            bars("TCP connections by day", CONNECTIONS, "date", "flows", "network", stacked=True),
            bars("IP bytes to the mobiles by day", CONNECTIONS, "date", "bytes_down", "network",
                 stacked=True),
        ],
        [
            bars("TCP connections by local hour", CONNECTIONS, "hour", "flows", "network",
                 x_title="Local hour [h]"),
            bars("IP bytes to the mobiles by local hour", CONNECTIONS, "hour", "bytes_down",
                 "network", x_title="Local hour [h]"),
        ],
        [
            table("Data quality: captures", CAPTURES, ["network", "date"],
                  ["captures", "failed", "frames", "packets", "kept"], order="date",
                  newest_first=True, height=40),
        ],
        [
            table("Data quality: what became of the frames", QUALITY,
                  ["network", "fate", "meaning"], ["frames"], order="network", height=40),
        ],
    ],
    filters=[COUNTRY, Choice("access", "Access", CONNECTIONS), NETWORKS, DATES, HOURS, HOUR],
)  # fmt: skip

# Set-up and delay

SETUP_CATEGORIES = " ".join(
    f"when single = {single} and background = {background} then '{label}'"
    for label, (single, background) in fig03.CATEGORIES.items()
    if single is not None
)
SETUP_DELAY = Dataset(
    "setup_delay",
    outlined(
        f"{KEYS}, user_groups, case {SETUP_CATEGORIES} end as category",
        ["flows", "delay_sum"],
        "fig03_setup_delay",
        f"least(bin, {fig03.SHOWN_S})",
        str(fig03.BIN_S),
        "delay",
    ),
    [
        FLOWS,
        told_by("series", "flows", "set-ups"),
        share_of_series("flows", "share of set-ups"),
        Metric(
            "mean_delay",
            told_if_enough("sum(delay_sum) / nullif(sum(flows), 0)", "flows"),
            "mean set-up delay [s]",
            ",.2f",
        ),
    ],
)
ROUND_TRIPS = Dataset(
    "round_trip_time",
    outlined(
        f"{KEYS}, side, user_groups",
        ["flows"],
        "fig04_round_trip_time",
        "1000 * bin",
        str(1000 * fig04.BIN_S),
        "rtt_ms",
    ),
    [FLOWS, share_of_series("flows", "share of connections")],
)
SETUP_CLASSES = {
    "optimal": "optimal",
    "slight_problem": "slight problem",
    "no_response": "no response",
    "refused": "refused",
    "serious_problem": "serious problem",
}
SETUP_TREE = Dataset(
    "setup_tree",
    f"""
select {KEYS},
    if(setup_class in {fig05.CONNECTED}, 'connected', 'not connected') as outcome,
    {labelled("setup_class", SETUP_CLASSES)}
        || case when setup_repeat = 'premature' then ': timer too short'
            when setup_repeat = 'lost' then ': lost'
            when setup_class <> 'serious_problem' then ''
            when setup_reset then ': RST' || case reset_by when 'mobile' then ' by the mobile'
                when 'server' then ' by the server' when 'between' then ' by something between'
                else '' end
            else ': silent' end as area,
    if(background, 'background', 'no background') as background,
    flows, delay_flows, delay_sum, {USER_GROUPS}
from fig05_setup_tree
""",
    [
        FLOWS,
        Metric("setups", "sum(flows)", "share of set-ups", ""),
        Metric(
            "mean_delay",
            told_if_enough("sum(delay_sum) / nullif(sum(delay_flows), 0)", "delay_flows"),
            "mean set-up delay [s]",
            ",.2f",
        ),
    ],
)
SETUP_COLOURS = {
    "optimal": "#7fb77e",
    "slight problem": "#f2cf63",
    "slight problem: lost": "#e3b52e",
    "slight problem: timer too short": "#f0a35e",
    "no response": "#8fb4d9",
    "refused": "#b493c9",
    "serious problem: RST": "#d9735b",
    "serious problem: RST by the mobile": "#d9735b",
    "serious problem: RST by the server": "#c4573e",
    "serious problem: RST by something between": "#e39a87",
    "serious problem: silent": "#a8452f",
}
SETUP = Dashboard(
    "Set-up and delay",
    "giscope-setup",
    filters=FILTERS,
    rows=[
        [
            histogram("Fig. 3. Connection set-up time", SETUP_DELAY, "delay", "flows_by_series",
                      f"Set-up delay [s], last bar: {fig03.SHOWN_S:.0f} s and more",
                      f"Share of set-ups per {fig03.BIN_S} s"),
            cumulative("Fig. 3. Set-up time, peak and off-peak", SETUP_DELAY, "delay_below",
                       "Set-up delay [s]", "Cumulative share of set-ups"),
        ],
        [
            bars("Fig. 3. Share of set-ups by component", SETUP_DELAY, "category", "share",
                 "series", horizontal=True, y_title="Share of set-ups", where="flows > 0",
                 height=40),
        ],
        [
            bars("Fig. 3. Mean set-up delay by component", SETUP_DELAY, "category", "mean_delay",
                 "series", horizontal=True, where="flows > 0", height=40),
        ],
        [
            cumulative("Fig. 4. CDF of the round-trip time, access side", ROUND_TRIPS,
                       "rtt_ms_below", "Round-trip time [ms]", "Cumulative share of connections",
                       where="side = 'access'"),
            cumulative("Fig. 4. CDF of the round-trip time, Internet side", ROUND_TRIPS,
                       "rtt_ms_below", "Round-trip time [ms]", "Cumulative share of connections",
                       where="side = 'internet'"),
        ],
        [
            shares("Fig. 5. Connection set-up classes", SETUP_TREE, "area", "flows",
                   "Share of set-ups"),
        ],
        [
            pivot("Fig. 5. Mean set-up delay [s]", SETUP_TREE,
                  ["mean_delay"], rows=["area", "background"], columns=["network", "hours"],
                  where="delay_flows > 0", height=64),
        ],
        [
            pivot("Fig. 5. Connection set-up classification tree, share of set-ups", SETUP_TREE,
                  ["setups"], rows=["outcome", "area", "background"],
                  columns=["network", "hours"], share=True, height=96),
        ],
    ],
    colours=SETUP_COLOURS,
)  # fmt: skip

# Channel and loss

FEWEST_ROUND_TRIPS = 20
"""Of which a mean is drawn."""
CHANNEL_RATE = Dataset(
    "channel_rate",
    rate_axis(
        "fig07_channel_rate",
        f"{KEYS}, user_groups",
        ["seconds", "periods", "ip_bytes"],
        SHOWN_BINS,
    ),
    [
        Metric("seconds", "sum(seconds)", "measured time [s]", ",.0f"),
        Metric("periods", "sum(periods)", "measurement periods", ",d"),
        told_by("series", "seconds", "measured time [s]", "periods"),
        share_of_series("seconds", "share of measured time", "periods"),
        Metric(
            "mean_rate",
            told_if_enough("8 * sum(ip_bytes) / nullif(sum(seconds), 0) / 1000", "periods"),
            "mean rate [kbit/s]",
            ",.1f",
        ),
    ],
)
RATED = Dataset(
    "rated_transfers",
    f"""select {KEYS}, {USER_GROUPS}, coalesce(window_class, 'not known') as "window",
    flows, rated_flows, ip_bytes, rated_ip_bytes
from rated_transfers""",
    [
        FLOWS,
        share("rated_share", "gave a rate", "rated_flows"),
        Metric(
            "rated_bytes",
            told_if_enough("sum(rated_ip_bytes) / nullif(sum(ip_bytes), 0)", "flows"),
            "of their bytes",
            ".2%",
        ),
    ],
)
BOTTLENECK = Dataset(
    "bottleneck",
    f"""select {KEYS}, {USER_GROUPS}, flows,
    {labelled("bottleneck", {key: label for key, (label, _) in fig08.SIDES.items()})} as side
from fig08_bottleneck""",
    [FLOWS, told_by("series", "flows", "connections")],
)
LOSS = Dataset(
    "loss",
    f"""
select {KEYS}, {USER_GROUPS}, flows, data_packets, lost_access, lost_internet,
    data_packets + lost_internet as sent
from table2_loss
""",
    [
        share("internet_loss", "Internet side loss", "lost_internet", "sent"),
        share("access_loss", "Access side loss", "lost_access", "data_packets"),
        Metric("data_packets", "sum(data_packets)", "data packets seen at Gi", ",d"),
    ],
)
ROUND_TRIPS_BY_FLIGHT = Dataset(
    "rtt_by_flight",
    f"""
select {KEYS}, flight, delayed, round_trips, rtt_sum, queueing_round_trips, queueing_sum
from rtt_by_flight
""",
    [
        Metric("round_trips", "sum(round_trips)", "round trips", ",d"),
        Metric(
            "mean_rtt", "sum(rtt_sum) / nullif(sum(round_trips), 0)", "mean round trip [s]", ",.2f"
        ),
        Metric(
            "mean_queueing",
            "sum(queueing_sum) / nullif(sum(queueing_round_trips), 0)",
            "mean beyond the least of the user's hour [s]",
            ",.2f",
        ),
    ],
)
CHANNEL = Dashboard(
    "Channel and loss",
    "giscope-channel",
    filters=FILTERS,
    rows=[
        [
            histogram("Fig. 7. Available channel rate", CHANNEL_RATE, "rate_kbps",
                      "seconds_by_series",
                      "Available channel rate [kbit/s]", "Share of measured time"),
            cumulative("Fig. 7. Channel rate, peak and off-peak", CHANNEL_RATE,
                       "rate_kbps_below", "Available channel rate [kbit/s]",
                       "Cumulative share of measured time"),
        ],
        [
            pivot("Fig. 7. Measured periods and mean rate", CHANNEL_RATE,
                  ["periods", "seconds", "mean_rate"], columns=["network", "hours"],
                  metrics_in_rows=True, height=40),
            pivot("Table II. Packet loss", LOSS, ["internet_loss", "access_loss", "data_packets"],
                  columns=["network", "hours"], metrics_in_rows=True, height=40),
        ],
        [
            pivot("Fig. 7. Connections above 100 KB that gave a rate", RATED,
                  ["flows", "rated_share", "rated_bytes"], rows=["window"],
                  columns=["network", "hours"], height=44),
        ],
        [
            shares("Fig. 8. Where connections lose packets", BOTTLENECK, "side", "flows_by_series",
                   "Share of connections"),
        ],
        [
            bars("Table II. Access side loss by local hour", LOSS, "hour", "access_loss",
                 "network", x_title="Local hour [h]"),
        ],
        [
            bars("Access side round trip by data in flight", ROUND_TRIPS_BY_FLIGHT, "flight",
                 "mean_rtt", "series", x_title="Data in flight, from [B]", where="not delayed",
                 having=f"sum(round_trips) >= {FEWEST_ROUND_TRIPS}"),
            bars("Access side queueing by data in flight", ROUND_TRIPS_BY_FLIGHT, "flight",
                 "mean_queueing", "series", x_title="Data in flight, from [B]",
                 where="not delayed", having=f"sum(round_trips) >= {FEWEST_ROUND_TRIPS}"),
        ],
    ],
    colours=dict(fig08.SIDES.values()),
)  # fmt: skip

# Transfers

THROUGHPUT = Dataset(
    "throughput",
    rate_axis(
        "fig09_throughput",
        f"{KEYS}, counted, user_groups",
        ["flows", "throughput_sum"],
        SHOWN_BINS,
    ),
    [FLOWS, told_by("series", "flows", "connections"),
     share_of_series("flows", "share of connections"),
     mean_rate("throughput", "mean throughput")],
)  # fmt: skip
BY_LOSS = Dataset(
    "throughput_by_loss",
    f"""select {KEYS}, {USER_GROUPS}, flows, throughput_sum, received_sum, goodput_sum, loss_class,
    {labelled("loss_class", fig10.CLASSES)} as loss
from fig10_throughput_by_loss""",
    [
        FLOWS,
        mean_rate("throughput", "mean throughput, passed Gi"),
        mean_rate("received", "mean throughput, arrived"),
        mean_rate("goodput", "mean goodput"),
    ],
)
TCP_SHARE = Dataset(
    "tcp_share",
    outlined(
        f"{KEYS}, {USER_GROUPS}",
        ["flows"],
        "fig11_tcp_share",
        f"least(bin, {1 - 1 / throughput.TWENTIETHS})",
        str(1 / throughput.TWENTIETHS),
        "tcp_share",
    ),
    [FLOWS, told_by("series", "flows", "connections")],
)
USER_THROUGHPUT = Dataset(
    "user_throughput",
    rate_axis(
        "fig13_user_throughput",
        f"{KEYS}, counted, user_groups, "
        f"{labelled('background_thirds', throughput.LEVELS)} as level",
        ["flows", "user_throughput_sum"],
        SHOWN_BINS,
    ),
    [FLOWS, told_by("series", "flows", "connections"),
     share_of_series("flows", "share of connections"),
     mean_rate("user_throughput", "mean user throughput")],
)  # fmt: skip
LIMITED = Dataset(
    "limits",
    f"""
select {KEYS}, mss, window_segments, parallel,
    unnest({[limit.replace("_", " ") for limit in LIMITS]}) as limited_by,
    unnest([{", ".join(f"limited_{limit}" for limit in LIMITS)}]) as seconds
from limits_by_window
""",
    [Metric("seconds", "sum(seconds)", "time of transfers [s]", ",.0f")],
)
STALLS = Dataset(
    "stalls",
    f"""
select {KEYS}, replace(class, '_', ' ') as class, bin, users_at_once, stalls, seconds, lost,
    timeout_stalls
from stalls_by_class
""",
    [
        Metric("stalls", "sum(stalls)", "stalls", ",d"),
        Metric("seconds", "sum(seconds)", "time in stalls [s]", ",.0f"),
    ],
)
CAUSES_COLOURS = dict(
    zip(
        (
            *(limit.replace("_", " ") for limit in LIMITS),
            "ack delay", "client idle", "continuous loss", "data unavailable", "double resend",
            "packet delay", "small window", "tail resend", "zero window",
        ),
        (
            "#c7b299", "#9fb8ad", "#d8c3d1", "#d9a7a0", "#a9a4c9", "#cfd3a5", "#b6c9d8", "#8f9e8b",
            "#e3cfa6", "#a58e8e", "#87a3b8", "#c9b1bd", "#b8b8b8", "#d6c0b0", "#93aa7f", "#bba98f",
        ),
        strict=False,
    )
)  # fmt: skip
"""Of what is no network: dull, and none of theirs."""
PASSED, ARRIVED = "counted = 'passed'", "counted = 'arrived'"
"""What a rate is of: the paper's, and what reached the mobile."""
TRANSFERS = Dashboard(
    "Transfers",
    "giscope-transfers",
    filters=FILTERS,
    rows=[
        [
            histogram("Fig. 9. Throughput of single, large TCP flows", THROUGHPUT, "rate_kbps",
                      "flows_by_series", "Throughput [kbit/s]", "Share of connections",
                      where=PASSED),
            cumulative("Fig. 9. Throughput, peak and off-peak", THROUGHPUT,
                       "rate_kbps_below", "Throughput [kbit/s]", "Cumulative share of connections",
                       where=PASSED),
        ],
        [
            histogram("Fig. 9. Throughput of what arrived", THROUGHPUT, "rate_kbps",
                      "flows_by_series", "Throughput [kbit/s]", "Share of connections",
                      where=ARRIVED),
            cumulative("Fig. 9. Throughput of what arrived, peak and off-peak", THROUGHPUT,
                       "rate_kbps_below", "Throughput [kbit/s]", "Cumulative share of connections",
                       where=ARRIVED),
        ],
        [
            bars("Fig. 10. Average throughput by packet loss", BY_LOSS, "loss", "throughput",
                 "series", horizontal=True),
            bars("Fig. 10. Average throughput of what arrived by packet loss", BY_LOSS, "loss",
                 "received", "series", horizontal=True),
        ],
        [
            bars("Fig. 10. Average goodput by packet loss", BY_LOSS, "loss", "goodput",
                 "series", horizontal=True),
            histogram("Fig. 11. Background traffic during TCP flows", TCP_SHARE, "tcp_share",
                      "flows_by_series", "Btcp / (Btcp + Bother)", "Share of connections"),
        ],
        [
            histogram("Fig. 13. User throughput", USER_THROUGHPUT, "rate_kbps",
                      "flows_by_series", "User throughput [kbit/s]", "Share of connections",
                      where=PASSED),
            bars("Fig. 13. Mean user throughput by background traffic", USER_THROUGHPUT, "level",
                 "user_throughput", "series", horizontal=True, descending=True,
                 where=f"flows > 0 and {PASSED}"),
        ],
        [
            cumulative("Fig. 13. User throughput, peak and off-peak", USER_THROUGHPUT,
                       "rate_kbps_below", "User throughput [kbit/s]",
                       "Cumulative share of connections", where=PASSED),
            bars("Fig. 13. Mean of what users received by background traffic", USER_THROUGHPUT,
                 "level", "user_throughput", "series", horizontal=True, descending=True,
                 where=f"flows > 0 and {ARRIVED}"),
        ],
        [
            shares("What limited transfers", LIMITED, "limited_by", "seconds",
                   "Share of the transfers' time"),
        ],
        [
            shares("What connections stalled for", STALLS, "class", "seconds",
                   "Share of the time in stalls"),
        ],
    ],
    colours=CAUSES_COLOURS,
)  # fmt: skip

# Options

OPTIONS = {
    "mss": "mss_class",
    "window": "window_class",
    "sack": "if(sack, 'yes', 'no')",
    "timestamps": "if(timestamps, 'yes', 'no')",
}
"""The options by their names in table3.LABELS, and where the mart has them."""
NAMED = ",\n    ".join(
    f'{labelled(sql, table3.LABELS[name])} as "{name}"' for name, sql in OPTIONS.items()
)


OPTIONS_COLOURS = {
    f"{label}, {hours}": paler(colour, 0.5 if hours == "off-peak" else 0.75 * (hours == "other"))
    for name in OPTIONS
    for label, colour in zip(
        table3.LABELS[name].values(), ("#7a6a9b", "#5c7f3b", "#8a5a44", "#555555"), strict=False
    )
    for hours in ("peak", "off-peak", "other")
}
VALUES = [*(label for name in OPTIONS for label in table3.LABELS[name].values()), "overall"]


def _clusters(option: str) -> str:
    """Each value of an option in every cluster of the others, then in all of them."""
    others = " || ', ' || ".join(f'"{name}"' for name in OPTIONS if name != option)
    return f"""
select {SERIES}, user_groups, flows, goodput_sum, goodput_squares, '{option}' as option,
    "{option}" as value, unnest([{others}, 'overall']) as cluster
from named where "{option}" is not null"""


OPTIONS_DATA = Dataset(
    "tcp_options",
    f"""
with named as (
    select {KEYS}, {USER_GROUPS}, flows, goodput_sum, goodput_squares,
    {NAMED}
    from table3_clusters
)
select *, list_position({VALUES}, value) as place, value || ', ' || hours as value_hours
from (
{" union all ".join(map(_clusters, OPTIONS))}
union all
select {SERIES}, user_groups, flows, goodput_sum, goodput_squares, 'overall', 'overall',
    'overall'
from named
)
""",
    [
        FLOWS,
        mean_rate("goodput", "mean goodput"),
        Metric(
            "deviation",
            told_if_enough(
                "sqrt(greatest(sum(goodput_squares) - sum(goodput_sum) ^ 2 / sum(flows), 0)"
                " / nullif(sum(flows) - 1, 0)) / 1000",
                "flows",
            ),
            "standard deviation [kbit/s]",
            ",.1f",
        ),
    ],
)


def _figure(figure: table3.Figure) -> Chart:
    return bars(
        figure.title, OPTIONS_DATA, "cluster", "goodput", "value_hours",
        where=f"option = '{figure.option}' and cluster is not null",
        having=enough("flows"), horizontal=True, y_title="Goodput [kbit/s]", height=90,
    )  # fmt: skip


OPTION_CHARTS = [_figure(figure) for figure in table3.FIGURES]
EFFECTS = Dashboard(
    "Options",
    "giscope-options",
    filters=FILTERS,
    rows=[
        [
            table("Table III. Goodput by TCP options", OPTIONS_DATA, ["access", "value", "hours"],
                  ["goodput", "deviation", "flows"], where="cluster = 'overall'",
                  order="place", height=78),
            bars("Table III. Goodput by TCP options, by network", OPTIONS_DATA, "value",
                 "goodput", "series", where="cluster = 'overall'", y_title="Goodput [kbit/s]",
                 horizontal=True, height=78),
        ],
        OPTION_CHARTS[:2],
        OPTION_CHARTS[2:],
    ],
    colours=OPTIONS_COLOURS,
)  # fmt: skip

DASHBOARDS = (PEAK_PAGE, OVERVIEW, SETUP, CHANNEL, TRANSFERS, EFFECTS)
