"""QUIC beside TCP: shares, set-ups, and round trips."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from spark_jobs.figures.format import MILLISECONDS, NOT_MEASURED, count
from spark_jobs.figures.hours import Hours, split_by_hours
from spark_jobs.figures.mart_columns import common_user_group
from spark_jobs.figures.numbers import Row
from spark_jobs.figures.page_elements import (
    NumberTable,
    Section,
    figure_html,
    group_rows,
    log_seconds_axis,
    share_bars,
)
from spark_jobs.figures.quic_beside_tcp.numbers import (
    NUMBERS,
    PARTIAL,
    PROTOCOLS,
    QUANTITIES,
    SETUP_CLASSES,
    SETUP_SHARES,
    SHARES,
    SPIN_BITS,
    SPIN_LABELS,
    SPIN_RTT,
    TIMES,
)
from spark_jobs.figures.samples import are_enough, cumulative, mean_and_quantiles
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.subplots import GRID, subplots

PROTOCOL_COLOURS = dict(zip(PROTOCOLS, ("#b8b8b8", "#1f6fb4"), strict=True))
KILOBYTE = 1000
STATISTICS = ("mean", "median", "90th percentile")
MARKS_S = [step * 10.0**power for power in range(-3, 3) for step in (1, 3)]
"""Marks of the time axes (s)."""
NOT_KNOWN = (
    "QUIC encrypts packet numbers and acknowledgments (RFC 9001, 5). Its losses, retransmissions "
    "and windows are therefore not known, and no figure shows them."
)
HOURS = "peak and off-peak separately"
NO_QUIC = Section(
    anchor="quic-shares",
    title="QUIC beside TCP",
    source="RFC 9000",
    caption="There are no QUIC connections in these networks and days.",
    samples="0 QUIC connections",
)


def sections(selection: Selection) -> list[Section]:
    """Return the shares, set-ups and times of both protocols, or one line if there is no QUIC."""
    shares = split_by_hours(selection, SHARES.rows(selection, "network", "period"))
    if not shares:
        return [NO_QUIC]
    numbers = split_by_hours(selection, NUMBERS.rows(selection, "network", "period", "protocol"))
    times = split_by_hours(selection, _times(selection))
    return [_shares_section(shares), _setups_section(numbers), _times_section(times, numbers)]


def _shares_section(by_hours: Sequence[Hours[Row]]) -> Section:
    rows = [(hours, row) for hours in by_hours for row in hours.rows]
    known = [(hours, row) for hours, row in rows if row["share_of_down"].value is not None]
    quic = [row["share_of_down"].value or 0.0 for _, row in known]
    parts = dict(zip(PROTOCOLS, ([1 - share for share in quic], quic), strict=True))
    table = [
        [
            hours.network.name,
            hours.label,
            label + (" [kB]" if _is_bytes(name) else ""),
            *(_quantity(row, name, protocol) for protocol in PROTOCOLS),
            row.text(f"share_of_{name}"),
            _quantity(row, name, PARTIAL),
        ]
        for hours, row in rows
        for name, (label, _) in QUANTITIES.items()
    ]
    return Section(
        anchor="quic-shares",
        title="QUIC beside TCP: shares",
        source="RFC 9000; beside Table I",
        hours=HOURS,
        caption="Connections that the mobile opened and whose beginning Gi saw. 100 % is TCP and "
        "QUIC together, without other traffic (not_tcp_share of the daily checks includes it). "
        "Partial QUIC: the beginning was not seen, so only the port may show that it is QUIC. "
        "Partial connections count in no share. Only days on which the network has QUIC. "
        "kB: 1,000 B.",
        samples=" and ".join(
            f"{count(sum(row[f'connections_of_{protocol}'] for _, row in rows))} {protocol}"
            for protocol in PROTOCOLS
        )
        + " connections",
        figure=share_bars(
            [hours.name for hours, _ in known],
            {name: (PROTOCOL_COLOURS[name], part) for name, part in parts.items()},
            "Share of IP bytes to the mobile",
            "Shares of TCP and QUIC in the bytes to the mobile by network and hours",
        )
        if known
        else Markup(),
        tables=[
            NumberTable(
                ["network", "hours", "", *PROTOCOLS, "QUIC's share", "partial QUIC"],
                table,
            )
        ],
        notes=[NOT_KNOWN],
    )


def _is_bytes(name: str) -> bool:
    return name in ("down", "up")


def _quantity(row: Row, name: str, protocol: str) -> str:
    return count(row[f"{name}_of_{protocol}"] / (KILOBYTE if _is_bytes(name) else 1))


def _setups_section(by_hours: Sequence[Hours[Row]]) -> Section:
    rows = {
        (hours.name, protocol): row
        for hours in by_hours
        for protocol in PROTOCOLS
        for row in hours.rows
        if row["protocol"] == protocol and row["setups"]
    }
    known = {key: row for key, row in rows.items() if row["optimal"].value is not None}
    parts = {
        of.label: (of.colour, [row[name].value or 0.0 for row in known.values()])
        for name, of in SETUP_CLASSES.items()
    }
    table = [
        [hours.network.name, hours.label, label]
        + [_setups_text(rows.get((hours.name, protocol)), name) for protocol in PROTOCOLS]
        for hours in by_hours
        for name, label in (
            ("setups", "set-ups"),
            *((ratio.name, ratio.label) for ratio in SETUP_SHARES),
        )
    ]
    return Section(
        anchor="quic-setups",
        title="QUIC beside TCP: set-ups",
        source="INFOCOM 2004, Section III.C; RFC 9000, 6, 8.1, 17.2; beside Fig. 5",
        hours=HOURS,
        caption="Set-up categories. Optimal: TCP has one SYN and one SYN ACK; QUIC has one Initial "
        "before the server answers, and then the handshake. Retry: the server had the mobile prove "
        "its address. Version negotiation: the server did not know the mobile's version. No "
        "response: SYNs or Initials only. Refused: an RST to the SYN, or ICMP for QUIC. Serious "
        "problem: the server answered, but the mobile did not complete the set-up. "
        f"{NOT_MEASURED}: the protocol does not have the category.",
        samples=f"{count(sum(row['setups'] for row in rows.values()))} set-ups",
        figure=share_bars(
            [", ".join(key) for key in known],
            parts,
            "Share of set-ups",
            "Set-up categories of TCP and QUIC by network and hours",
        )
        if known
        else Markup(),
        tables=[NumberTable(["network", "hours", "", *PROTOCOLS], table)],
    )


def _setups_text(row: Row | None, name: str) -> str:
    if row is None:
        return NOT_MEASURED
    return count(row[name]) if name == "setups" else row.text(name)


def _times_section(times: Sequence[Hours[dict]], numbers: Sequence[Hours[Row]]) -> Section:
    members = {
        (hours.name, *key): rows
        for hours in times
        for key, rows in group_rows(hours.rows, "protocol", "measure").items()
    }
    table = [
        [
            label,
            hours.network.name,
            hours.label,
            protocol,
            count(sum(row["samples"] for row in rows)),
            *mean_and_quantiles(rows, MILLISECONDS, (0.5, 0.9)),
        ]
        for measure, label in (*TIMES.items(), ("spin_rtt", SPIN_RTT))
        for hours in times
        for protocol in PROTOCOLS
        if (rows := members.get((hours.name, protocol, measure)))
    ]
    spins = [
        [hours.network.name, hours.label, count(row["spin_bits"])]
        + [row.text(ratio.name) for ratio in SPIN_BITS]
        for hours in numbers
        for row in hours.rows
        if row["spin_bits"]
    ]
    return Section(
        anchor="quic-times",
        title="QUIC beside TCP: set-up delay and RTT",
        source="INFOCOM 2004, Sections III.A and III.B; RFC 9312, 2.4, 3.8; beside Figs. 3 and 4",
        hours=HOURS,
        caption="Cumulative distributions. QUIC's set-up delay is the time from the mobile's first "
        "Initial to its first packet that needs the server's handshake. It includes the TLS "
        "handshake, which TCP's does not. The RTTs are those of the set-up. TCP's count without "
        "background traffic only, QUIC's count with any. The spin bit (RFC 9000, 17.4) shows the "
        "RTT from mobile to server and back during the connection; the table has the distribution "
        "of the connections' medians. Only a spin bit that spins shows the RTT. One without signal "
        "changes as random values do.",
        samples=f"{count(sum(row['samples'] for hours in times for row in hours.rows))} times",
        figure=_plots(times, members),
        tables=[
            NumberTable(
                ["time", "network", "hours", "protocol", "connections", *STATISTICS],
                table,
            ),
            NumberTable(
                ["network", "hours", "connections", *SPIN_LABELS.values()], spins, "Spin bits"
            ),
        ],
    )


def _plots(times: Sequence[Hours[dict]], members: dict[tuple, list[dict]]) -> Markup:
    """Return a grid of distributions, a row for each protocol and a column for each time, if any.

    Those of few samples or users are left out.
    """
    titles = [[f"{protocol}: {label}" for label in TIMES.values()] for protocol in PROTOCOLS]
    plots = subplots(titles, (0.05, 0.16))
    traces: list[dict[str, Any]] = []
    for place, protocol in enumerate(PROTOCOLS):
        for column, measure in enumerate(TIMES):
            for hours in times:
                rows = members.get((hours.name, protocol, measure), [])
                if not are_enough(rows):
                    continue
                x, y = cumulative(rows)
                traces.append(
                    {
                        "type": "scatter",
                        "mode": "lines",
                        "x": x,
                        "y": y,
                        "name": hours.name,
                        "legendgroup": hours.name,
                        "showlegend": hours.name not in {trace["name"] for trace in traces},
                        "line": {"color": hours.network.colour, "dash": hours.dash, "width": 2},
                        "hovertemplate": "%{y:.2f} below %{x:.3f} s<extra>"
                        f"{hours.name}, {protocol}</extra>",
                        **plots.axes(place, column),
                    }
                )
            x_axis = log_seconds_axis("Time [s]") | {"tickvals": MARKS_S}
            if place < len(PROTOCOLS) - 1:
                x_axis |= {"title": {"text": ""}}
            if place:
                x_axis["matches"] = plots.axes(0, column)["xaxis"]
            y_axis = {"range": [0, 1.01], "showgrid": True, "gridcolor": GRID}
            if not column:
                y_axis["title"] = {"text": "Cumulative share"}
            plots.set_axes(place, column, x_axis, y_axis)
    if not traces:
        return Markup()
    return figure_html(
        {"data": traces, "layout": plots.layout},
        "Cumulative distributions of set-up delays and RTTs by protocol, network and hours",
        640,
    )


def _times(selection: Selection) -> list[dict]:
    """Return the mart's times as `samples` takes the mart distributions' rows."""
    return selection.rows(f"""
        select network, period, protocol, measure, bin,
            {common_user_group("quic_beside_tcp")} as user_group,
            sum(flows)::bigint as samples, sum(flows)::double as weight,
            sum(value_sum) as weighted_sum, min(lowest) as lowest, max(highest) as highest
        from quic_beside_tcp where bin is not null group by all order by all
    """)
