"""Fig. 7: the channel rate, its peaks, and the number of time slots in use."""

from typing import Any

import numpy as np

from spark_jobs.figures.curves import RESOLUTION, bin_width, distribution, histogram
from spark_jobs.figures.fig07_channel_rate.slot_peaks import (
    SlotPeaks,
    rate_peaks,
    slot_peaks,
    slot_shares,
)
from spark_jobs.figures.format import KBITS, PERCENT, count
from spark_jobs.figures.names import PERIODS
from spark_jobs.figures.numbers import BINS
from spark_jobs.figures.page_elements import (
    NumberTable,
    Section,
    figure_html,
    group_rows,
    share_bars,
)
from spark_jobs.figures.plots import line
from spark_jobs.figures.samples import are_enough, column, quantile, share
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.statistics import UNKNOWN, Estimate

PAPER = (
    "The paper (Section IV): two dominant peaks over GPRS (CS-2, about 12 kbit/s a time slot at "
    "the RLC layer), around 21 to 22 and 34 to 35 kbit/s: two and three time slots. Dial-up is "
    "more heterogeneous, around 33 and between 40 and 50 kbit/s."
)
SLOTTED = ("gprs", "edge")
"""Access technologies whose channel consists of time slots."""
MAX_SLOTS = 8
RATES = distribution("measure = 'channel_rate'", KBITS, (0.1, 0.5, 0.9))
SHADES = ("#e4e4e4", "#cccccc", "#b2b2b2", "#969696", "#787878", "#5a5a5a", "#3c3c3c", "#1e1e1e")
"""Greys of one, two, ... slots; hues stand for networks."""


def sections(selection: Selection) -> list[Section]:
    """Return the histogram with its peaks, and the shares of time by number of time slots."""
    rows = selection.rows("""
        select network, period, bin, sum(periods)::bigint as periods, sum(seconds) as seconds
        from fig07_channel_rate group by all order by bin
    """)
    slot_rates = {
        row["network"]: row["slot_rate"]
        for row in selection.rows("select network, slot_rate from networks")
    }
    by_network = group_rows(rows, "network")
    peaks = {
        n.name: _peaks(by_network[n.name,], n.access in SLOTTED, slot_rates[n.name])
        for n in selection.networks
        if (n.name,) in by_network
    }
    samples = RATES.bins(selection, "network", "period")
    return [
        _histogram(selection, rows, peaks, samples),
        _dimensioning(selection, samples, peaks),
    ]


def _peaks(rows: list[dict], slotted: bool, slot_rate: float | None) -> SlotPeaks:
    rates, seconds = _rates(rows)
    if slotted or slot_rate:
        return slot_peaks(rates, seconds, slot_rate)
    rate, shares, valleys = rate_peaks(rates, seconds)
    return SlotPeaks(rate, shares, np.zeros(len(rate), np.int64), float("nan"), valleys)


def _samples_by_peak(peaks: SlotPeaks, samples: list[dict]) -> list[list[dict]]:
    """Return the mart distributions' rows by peak; valleys separate the peaks."""
    by_peak: list[list[dict]] = [[] for _ in peaks.rate]
    for row in samples:
        middle = np.exp((row["bin"] + 0.5) / BINS)
        by_peak[int(np.searchsorted(peaks.valleys, middle))].append(row)
    return by_peak


def _rates(rows: list[dict]) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.array([np.exp((row["bin"] + 0.5) / 100) for row in rows]),
        np.array([row["seconds"] for row in rows]),
    )


def _histogram(
    selection: Selection, rows: list[dict], peaks: dict[str, SlotPeaks], samples: list[dict]
) -> Section:
    traces: list[dict[str, Any]] = []
    arrows: list[dict[str, Any]] = []
    table, peak_table = [], []
    by_network = group_rows(rows, "network")
    width = bin_width(samples)
    for network in selection.networks:
        members = by_network.get((network.name,), [])
        if not members:
            continue
        network_samples = [row for row in samples if row["network"] == network.name]
        network_peaks = peaks[network.name]
        table.append(
            [
                network.name,
                count(sum(r["periods"] for r in members)),
                count(sum(r["seconds"] for r in members)),
                *(KBITS.estimate(quantile(network_samples, q)) for q in (0.1, 0.5, 0.9)),
                KBITS.text(None if np.isnan(network_peaks.slot_bps) else network_peaks.slot_bps),
            ]
        )
        if not are_enough(network_samples):
            continue
        edges, y = histogram(network_samples, width)
        x = [edge / 1000 for edge in edges]
        hover = "%{x:.1f} kbit/s: %{y:.1f} %"
        traces.append(line(network.name, network.colour, x, y, hover, steps=True))
        by_peak = (
            _samples_by_peak(network_peaks, network_samples) if len(network_peaks.rate) else []
        )
        for place, (rate, slots) in enumerate(
            zip(network_peaks.rate, network_peaks.slots, strict=True)
        ):
            name = _slots_text(slots) if slots else "peak"
            peak_samples = by_peak[place]
            peak_table.append(
                [
                    network.name,
                    name,
                    KBITS.text(rate),
                    KBITS.estimate(quantile(peak_samples, 0.5)),
                    PERCENT.estimate(_share_of_time(network_samples, peak_samples)),
                    count(sum(row["samples"] for row in peak_samples)),
                ]
            )
            if not are_enough(peak_samples):
                continue
            arrow = {
                "x": rate / 1000,
                "y": max(y[min(int(rate / width), len(y) - 1)], 0),
                "text": name,
                "font": {"color": network.colour, "size": 11},
                "arrowcolor": network.colour,
                "arrowhead": 2,
                "ax": 0,
                "ay": -24,
                "bgcolor": "rgba(255, 255, 255, 0.8)",
            }
            arrows.append(arrow)
    layout = {
        "annotations": arrows,
        "xaxis": {"title": {"text": "Available channel rate [kbit/s]"}, "rangemode": "tozero"},
        "yaxis": {
            "title": {"text": f"Share of measured time per {width / 1000:g} kbit/s"},
            "ticksuffix": " %",
            "rangemode": "tozero",
        },
    }
    return Section(
        anchor="fig07",
        title="Fig. 7. Available channel rate",
        source="INFOCOM 2004, Section IV",
        caption="Rate at which the access link delivered IP bytes while a connection kept it busy. "
        "Each period has more data in flight than the path holds, and no loss, reordering or "
        "retransmission; its ACKs give the time. A peak stands out from the valleys beside it by "
        "half its height. If the peaks are multiples of one rate, that is the rate of one time "
        "slot. Shares and quantiles are of measured time: a period counts with its duration. "
        + RESOLUTION,
        samples=f"{count(sum(row['periods'] for row in rows))} periods",
        figure=figure_html(
            {"data": traces, "layout": layout}, "Histograms of the channel rate by network", 420
        ),
        tables=[
            NumberTable(
                ["network", "peak", "rate at the peak", "median rate", "share of time", "periods"],
                peak_table,
                "Peaks, each between the valleys beside it",
            ),
            NumberTable(
                [
                    "network",
                    "periods",
                    "seconds",
                    "10th percentile",
                    "median",
                    "90th percentile",
                    "rate of one slot",
                ],
                table,
                "Rates by measured time",
            ),
        ],
        notes=[PAPER],
    )


def _share_of_time(samples: list[dict], chosen: list[dict]) -> Estimate:
    """Return the share of measured time of some of the samples; UNKNOWN if they are too few."""
    if not are_enough(chosen):
        return UNKNOWN
    identities = {id(row) for row in chosen}
    return share(
        samples, lambda row: row["weight"] if id(row) in identities else 0.0, column("weight")
    )


def _slots_text(count: int) -> str:
    return f"{count} slot{'s' if count > 1 else ''}"


def _with_slot_seconds(rows: list[dict], slot_bps: float) -> list[dict]:
    """Return the mart distributions' rows with the seconds at 1, 2, ... slots as new columns."""
    result = []
    for row in rows:
        rate = np.array([np.exp((row["bin"] + 0.5) / BINS)])
        shares = slot_shares(rate, np.array([row["weight"]]), slot_bps, MAX_SLOTS)
        seconds = {f"at {n + 1}": share * row["weight"] for n, share in enumerate(shares)}
        result.append(row | seconds)
    return result


def _dimensioning(
    selection: Selection, samples: list[dict], peaks: dict[str, SlotPeaks]
) -> Section:
    groups = group_rows(samples, "network", "period")
    shares: dict[str, np.ndarray] = {}
    texts: dict[str, list[str]] = {}
    for network in selection.networks:
        for period, (label, _) in PERIODS.items():
            members = groups.get((network.name, period))
            if not members or np.isnan(peaks[network.name].slot_bps):
                continue
            with_seconds = _with_slot_seconds(members, peaks[network.name].slot_bps)
            estimates = [
                share(with_seconds, column(f"at {n + 1}"), column("weight"))
                for n in range(MAX_SLOTS)
            ]
            name = f"{network.name} {label}"
            texts[name] = [PERCENT.estimate(estimate) for estimate in estimates]
            if are_enough(members):
                shares[name] = np.array([estimate.value or 0.0 for estimate in estimates])
    used = max((int(np.flatnonzero(s)[-1]) + 1 for s in shares.values()), default=0)
    parts = {
        _slots_text(n + 1): (SHADES[n], [of_hours[n] for of_hours in shares.values()])
        for n in range(used)
    }
    return Section(
        anchor="dimensioning",
        title="Time slots in use",
        source="INFOCOM 2004, Section IV (dimensioning)",
        hours="peak and off-peak separately",
        caption="Share of the measured time at one, two, three … time slots; each rate counts for "
        "the nearest number of slots. More time on few slots at peak than off-peak indicates that "
        "slots are scarce at peak. Networks whose peaks show no rate of one slot are left out.",
        samples=f"{count(sum(row['weight'] for row in samples))} s measured",
        figure=share_bars(
            list(shares), parts, "Share of measured time", "Share of time by number of time slots"
        ),
        tables=[
            NumberTable(
                ["network and hours", *(_slots_text(n + 1) for n in range(used))],
                [[name, *row[:used]] for name, row in texts.items()],
            )
        ],
    )
