"""Fig. 3: histograms of the set-up delay, for all set-ups and the paper's four categories."""

from typing import Any

from spark_jobs.figures.fig03_setup_delay.numbers import BIN_S, CATEGORIES, SHOWN_S
from spark_jobs.figures.format import MILLISECONDS, PERCENT, count
from spark_jobs.figures.page_elements import NumberTable, Section, figure_html, group_rows
from spark_jobs.figures.samples import are_enough, distributions, mean_and_quantiles, share
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.subplots import GRID, subplots

PAPER = (
    "The paper (Section III.A): a peak around one second and a tail of 5 to 10 s. With one SYN, "
    "one SYN ACK and no background traffic, the delay is almost deterministic. Background traffic "
    "dominates the tail."
)


def sections(selection: Selection) -> list[Section]:
    """Return a histogram of the set-up delay for each category, in shares of all set-ups."""
    rows = selection.rows("""
        select network, single, background, bin, sum(flows)::bigint as flows,
            sum(delay_sum) as delay_sum
        from fig03_setup_delay group by all order by bin
    """)
    samples = group_rows(distributions(selection, "setup_delay"), "network")
    by_network = group_rows(rows, "network")
    totals = {name: sum(row["flows"] for row in group) for (name,), group in by_network.items()}
    plots = subplots([[label] for label in CATEGORIES], (0, 0.045))
    traces: list[dict[str, Any]] = []
    table, in_legend, last = [], set(), len(CATEGORIES) - 1
    for place, (label, category) in enumerate(CATEGORIES.items()):
        for network in selection.networks:
            members = _in_category(by_network.get((network.name,), []), category)
            total = totals.get(network.name, 0)
            network_samples = samples.get((network.name,), [])
            table.append([label, network.name, *_table_numbers(network_samples, category, members)])
            if not are_enough(_samples_in_category(network_samples, category)):
                continue
            x, y = _steps(members, total)
            traces.append(
                {
                    "type": "scatter",
                    "x": x,
                    "y": y,
                    "mode": "lines",
                    "line": {"shape": "hv", "color": network.colour, "width": 1.6},
                    "name": network.name,
                    "legendgroup": network.name,
                    "showlegend": network.name not in in_legend,
                    "hovertemplate": "%{x:.1f} s: %{y:.2f} %<extra>" + network.name + "</extra>",
                    **plots.axes(place, 0),
                }
            )
            in_legend.add(network.name)
        x_axis = {"range": [0, SHOWN_S], "showgrid": True, "gridcolor": GRID}
        if place == last:
            x_axis["title"] = {"text": "Set-up delay [s]"}
        else:
            x_axis |= {"showticklabels": False, "matches": plots.axes(last, 0)["xaxis"]}
        y_axis: dict[str, Any] = {"rangemode": "tozero", "ticksuffix": " %"}
        if place == len(CATEGORIES) // 2:
            y_axis["title"] = {"text": "Share of set-ups per 0.1 s"}
        plots.set_axes(place, 0, x_axis, y_axis)
    headings = [
        "category",
        "network",
        "set-ups",
        "share",
        "mean",
        "median",
        "90th percentile",
        f"above {SHOWN_S:.0f} s",
    ]
    return [
        Section(
            anchor="fig03",
            title="Fig. 3. Connection set-up time components",
            source="INFOCOM 2004, Section III.A",
            caption="Time from the first SYN to the first ACK at Gi. The four lower histograms add "
            "up to the uppermost. 1+ SYN and/or 1+ SYN ACK, as in the paper: at least one was "
            "retransmitted. Background traffic: another packet of the user within 5 s before the "
            "first SYN, or during the set-up.",
            samples=f"{count(sum(totals.values()))} completed set-ups",
            figure=figure_html(
                {"data": traces, "layout": plots.layout},
                "Histograms of the set-up delay by category and network",
                900,
            ),
            tables=[NumberTable(headings, table)],
            notes=[PAPER],
        )
    ]


def _in_category(rows: list[dict], category: tuple[bool | None, bool | None]) -> list[dict]:
    single, background = category
    return [
        row
        for row in rows
        if single is None or (row["single"] == single and row["background"] == background)
    ]


def _bins(rows: list[dict]) -> list[tuple[float, int]]:
    counts: dict[int, int] = {}
    for row in rows:
        place = round(row["bin"] / BIN_S)
        counts[place] = counts.get(place, 0) + row["flows"]
    return [(place * BIN_S, counts[place]) for place in sorted(counts)]


def _steps(rows: list[dict], total: int) -> tuple[list[float], list[float]]:
    flows = {round(low / BIN_S): count for low, count in _bins(rows)}
    places = range(round(SHOWN_S / BIN_S) + 1)
    return (
        [place * BIN_S for place in places],
        [100 * flows.get(place, 0) / total if total else 0.0 for place in places],
    )


def _samples_in_category(
    samples: list[dict], category: tuple[bool | None, bool | None]
) -> list[dict]:
    """Return the mart distributions' rows of a category."""
    single, background = category
    if single is None:
        return samples
    name = ("single" if single else "repeated") + (" background" if background else "")
    return [row for row in samples if row["category"] == name]


def _table_numbers(
    samples: list[dict], category: tuple[bool | None, bool | None], rows: list[dict]
) -> list[str]:
    members = _samples_in_category(samples, category)
    names = {row["category"] for row in members}
    fraction = share(
        samples,
        lambda row: row["samples"] if row["category"] in names else 0,
        lambda row: row["samples"],
    )
    return [
        count(sum(row["samples"] for row in members)),
        PERCENT.text(1 if samples else None)
        if category == (None, None)
        else PERCENT.estimate(fraction, bool(samples)),
        *mean_and_quantiles(members, MILLISECONDS, (0.5, 0.9)),
        count(sum(n for low, n in _bins(rows) if low >= SHOWN_S - BIN_S / 2)),
    ]
