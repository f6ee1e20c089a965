"""Fig. 7: the channel rate and its time slots; how many slots users are served on."""

import numpy as np
import plotly.graph_objects as go

from spark_jobs.estimators.by_user import UNKNOWN, Estimate
from spark_jobs.estimators.slot_peaks import SlotPeaks, rate_peaks, slot_peaks, slot_shares
from spark_jobs.report import paper
from spark_jobs.report.fig04 import PERIODS
from spark_jobs.report.page_elements import (
    INTERVALS,
    Section,
    NumberTable,
    figure_html,
    group,
    kilobits,
    number,
    percent_tenths,
)
from spark_jobs.report.rates import bin_width, histogram, rate_of, steps
from spark_jobs.report.samples import (
    BINS,
    are_enough,
    distributions,
    of,
    quantile,
    share,
    users_text,
    interval_text,
)
from spark_jobs.report.selection import Selection

SLOTTED = ("gprs", "edge")
"""Kinds of access whose channel is a number of time slots."""
MOST_SLOTS = 8
SHADES = ("#e4e4e4", "#cccccc", "#b2b2b2", "#969696", "#787878", "#5a5a5a", "#3c3c3c", "#1e1e1e")
"""Of one, two, ... slots; hues are networks'."""


def sections(selection: Selection) -> list[Section]:
    """The histogram with its peaks, then the dimensioning figure."""
    rows = selection.rows("""
        select network, period, bin, sum(periods)::bigint as periods, sum(seconds) as seconds
        from fig07_channel_rate group by all order by bin
    """)
    nominal = {
        row["network"]: row["slot_rate"]
        for row in selection.rows("select network, slot_rate from networks")
    }
    by_network = group(rows, "network")
    peaks = {
        n.name: _peaks(by_network[n.name,], n.access in SLOTTED, nominal[n.name])
        for n in selection.networks
        if (n.name,) in by_network
    }
    samples = distributions(selection, "channel_rate")
    return [
        _histogram(selection, rows, peaks, samples),
        _dimensioning(selection, samples, peaks),
    ]


def _peaks(rows: list[dict], slotted: bool, nominal: float | None) -> SlotPeaks:
    rates, seconds = _rates(rows)
    if slotted or nominal:
        return slot_peaks(rates, seconds, nominal)
    rate, part, valleys = rate_peaks(rates, seconds)
    return SlotPeaks(rate, part, np.zeros(len(rate), np.int64), float("nan"), valleys)


def _around(peaks: SlotPeaks, samples: list[dict]) -> list[list[dict]]:
    """Rows of the mart distributions by the peak in whose valleys they lie."""
    found: list[list[dict]] = [[] for _ in peaks.rate]
    for row in samples:
        middle = np.exp((row["bin"] + 0.5) / BINS)
        found[int(np.searchsorted(peaks.valleys, middle))].append(row)
    return found


def _rates(rows: list[dict]) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.array([rate_of(row["bin"]) for row in rows]),
        np.array([row["seconds"] for row in rows]),
    )


def _histogram(
    selection: Selection, rows: list[dict], peaks: dict[str, SlotPeaks], samples: list[dict]
) -> Section:
    figure, table, peak_table = go.Figure(), [], []
    by_network = group(rows, "network")
    width = bin_width(rows, "seconds") if rows else 1000.0
    for network in selection.networks:
        mine = by_network.get((network.name,), [])
        if not mine:
            continue
        of_users = [row for row in samples if row["network"] == network.name]
        found = peaks[network.name]
        table.append(
            [
                network.name,
                number(sum(r["periods"] for r in mine)),
                number(sum(r["seconds"] for r in mine)),
                *(interval_text(quantile(of_users, q), kilobits) for q in (0.1, 0.5, 0.9)),
                kilobits(None if np.isnan(found.slot_bps) else found.slot_bps),
            ]
        )
        if not are_enough(of_users, "samples"):
            continue
        x, y = histogram(mine, "seconds", width)
        figure.add_trace(steps(x, y, network.name, network.colour))
        around = _around(found, of_users) if len(found.rate) else []
        for place, (rate, slots) in enumerate(zip(found.rate, found.slots, strict=True)):
            name = _slots_in_words(slots) if slots else "peak"
            mine_here = around[place]
            peak_table.append(
                [
                    network.name,
                    name,
                    kilobits(rate),
                    interval_text(quantile(mine_here, 0.5), kilobits),
                    interval_text(_part(of_users, mine_here), percent_tenths),
                    number(sum(row["samples"] for row in mine_here)),
                ]
            )
            if not are_enough(mine_here, "samples"):
                continue
            figure.add_annotation(
                x=rate / 1000,
                y=max(y[min(int(rate / width), len(y) - 1)], 0),
                text=name,
                font={"color": network.colour, "size": 11},
                arrowcolor=network.colour,
                arrowhead=2,
                ax=0,
                ay=-24,
                bgcolor="rgba(255, 255, 255, 0.8)",
            )
    figure.update_xaxes(title_text="Available channel rate [kbit/s]", rangemode="tozero")
    figure.update_yaxes(
        title_text=f"Share of measured time per {width / 1000:g} kbit/s",
        ticksuffix=" %",
        rangemode="tozero",
    )
    return Section(
        anchor="fig07",
        title="Fig. 7. Available channel rate",
        source="INFOCOM 2004, Section IV",
        caption="Rate at which the access link delivered IP bytes while a connection kept it "
        "busy: periods with more data in flight than the path holds, without loss, reordering or "
        "retransmission, timed by their ACKs. A peak stands out from the valleys beside it by half "
        "its height; where the peaks are multiples of one rate, that is one time slot's. Shares "
        "and quantiles are of measured time: each period counts for as long as it lasted. Rates "
        "are known to a bin of 2 %. " + INTERVALS,
        samples=f"{number(sum(row['periods'] for row in rows))} periods",
        figure=figure_html(figure, "Histograms of the channel rate by network", 420),
        tables=[
            NumberTable(
                ["network", "peak", "highest at", "median rate", "share of time", "periods"],
                peak_table,
                "peaks, each from the valley before it to the valley after it",
            ),
            NumberTable(
                [
                    "network",
                    "periods",
                    "seconds",
                    "10th percentile",
                    "median",
                    "90th percentile",
                    "one slot",
                ],
                table,
                "rates, by measured time",
            ),
            _rated(selection),
        ],
        notes=[paper.CHANNEL_RATE],
    )


def _part(samples: list[dict], inside: list[dict]) -> Estimate:
    """The share of measured time that some of the rows have; unknown where they are too few."""
    if not are_enough(inside, "samples"):
        return UNKNOWN
    chosen = {id(row) for row in inside}
    return share(samples, lambda row: row["weight"] if id(row) in chosen else 0.0, of("weight"))


def _rated(selection: Selection) -> NumberTable:
    """Of which traffic the channel's rate is known."""
    rows = selection.rows("""
        select network, coalesce(window_class, 'not known') as window_class, user_group,
            sum(flows)::bigint as flows, sum(flows_with_rate)::bigint as flows_with_rate,
            sum(ip_bytes)::bigint as ip_bytes, sum(ip_bytes_with_rate)::bigint as ip_bytes_with_rate
        from channel_rate_coverage group by all order by all
    """)
    table = []
    for network in selection.networks:
        mine = [row for row in rows if row["network"] == network.name]
        windows = {w: found for (w,), found in group(mine, "window_class").items()}
        for label, found in {"all": mine, **windows}.items():
            if not found:
                continue
            table.append(
                [
                    network.name,
                    label,
                    number(sum(row["flows"] for row in found)),
                    number(sum(row["flows_with_rate"] for row in found)),
                    users_text([row for row in found if row["flows_with_rate"]]),
                    interval_text(share(found, of("flows_with_rate")), percent_tenths),
                    interval_text(share(found, of("ip_bytes_with_rate"), of("ip_bytes")), percent_tenths),
                ]
            )
    return NumberTable(
        [
            "network",
            "receive window",
            "connections above 100 KB",
            "with a known rate",
            "of",
            "share",
            "share of their bytes",
        ],
        table,
        "how much of the traffic has a known channel rate",
    )


def _slots_in_words(count: int) -> str:
    return f"{count} slot{'s' if count > 1 else ''}"


def _slots(rows: list[dict], slot_bps: float) -> list[dict]:
    """Rows of the mart distributions with the seconds at 1, 2, ... slots."""
    found = []
    for row in rows:
        rate = np.array([np.exp((row["bin"] + 0.5) / BINS)])
        at = slot_shares(rate, np.array([row["weight"]]), slot_bps, MOST_SLOTS)
        found.append(row | {f"at {n + 1}": part * row["weight"] for n, part in enumerate(at)})
    return found


def _dimensioning(
    selection: Selection, samples: list[dict], peaks: dict[str, SlotPeaks]
) -> Section:
    groups = group(samples, "network", "period")
    shares: dict[str, np.ndarray] = {}
    texts: dict[str, list[str]] = {}
    for network in selection.networks:
        for period, (label, _) in PERIODS.items():
            mine = groups.get((network.name, period))
            if not mine or np.isnan(peaks[network.name].slot_bps):
                continue
            found = _slots(mine, peaks[network.name].slot_bps)
            estimates = [share(found, of(f"at {n + 1}"), of("weight")) for n in range(MOST_SLOTS)]
            name = f"{network.name} {label}"
            texts[name] = [interval_text(estimate, percent_tenths) for estimate in estimates]
            if are_enough(mine, "samples"):
                shares[name] = np.array([estimate.value or 0.0 for estimate in estimates])
    figure = go.Figure()
    used = max((int(np.flatnonzero(s)[-1]) + 1 for s in shares.values()), default=0)
    for slots in range(used):
        name = _slots_in_words(slots + 1)
        figure.add_trace(
            go.Bar(
                y=list(shares),
                x=[100 * s[slots] for s in shares.values()],
                name=name,
                orientation="h",
                marker={"color": SHADES[slots]},
                hovertemplate="%{y}: %{x:.1f} % at " + name + "<extra></extra>",
            )
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title_text="Share of measured time [%]", range=[0, 100])
    figure.update_yaxes(autorange="reversed")
    return Section(
        anchor="dimensioning",
        title="Time slots in use",
        source="INFOCOM 2004, Section IV (dimensioning)",
        hours="peak and off-peak apart",
        caption="Share of the measured time at one, two, three … time slots, each rate counted to "
        "the nearest. More time on few slots at peak than off-peak tells that slots are "
        "scarce at peak. Networks whose peaks tell no slot's rate are left out. " + INTERVALS,
        samples=f"{number(sum(row['weight'] for row in samples))} s measured",
        figure=figure_html(figure, "Share of time by number of time slots", 170 + 44 * len(shares)),
        tables=[
            NumberTable(
                ["network and hours", *(_slots_in_words(n + 1) for n in range(used))],
                [[name, *found[:used]] for name, found in texts.items()],
            )
        ],
    )
