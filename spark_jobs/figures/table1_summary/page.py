"""Table I: summary statistics, measured and in the paper."""

from spark_jobs.figures.format import PERCENT, count
from spark_jobs.figures.page_elements import NumberTable, Section
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.table1_summary.numbers import NUMBERS

PAPER = {
    "Sum of all GPRS": {
        "flows": 12_587_056,
        "sack": 0.5549,
        "timestamps": 0.0948,
        "mss_low": 0.2512,
        "mss_high": 0.2252,
        "window_low": 0.5590,
        "window_med": 0.2554,
        "window_high": 0.1856,
    },
    "Wireline dial-up": {
        "flows": 225_932,
        "sack": 0.5948,
        "timestamps": 0.0245,
        "mss_low": 0.4929,
        "mss_high": 0.0796,
        "window_low": 0.9674,
        "window_med": 0.0101,
        "window_high": 0.0225,
    },
}


def sections(selection: Selection) -> list[Section]:
    """Return the shares of the connections that mobiles opened, failed set-ups included."""
    networks = NUMBERS.rows(selection, "network")
    flows = [row["flows"] for row in networks]
    rows = [
        ["TCP connections", *map(count, flows), *(count(p["flows"]) for p in PAPER.values())],
        *(
            [
                ratio.label,
                *(row.text(ratio.name) for row in networks),
                *(PERCENT.text(values[ratio.name], 2) for values in PAPER.values()),
            ]
            for ratio in NUMBERS.ratios
        ),
    ]
    headings = ["", *(row["network"] for row in networks), *(f"paper: {name}" for name in PAPER)]
    return [
        Section(
            anchor="table1",
            title="Table I. Summary statistics",
            source="INFOCOM 2004, Section II",
            caption="Connections that the mobile opened, failed set-ups included. SACK is enabled "
            "if both SYNs permit it, timestamps if both directions carry them. The window is the "
            "largest that the mobile advertised, with window scaling applied.",
            samples=f"{count(sum(flows))} connections",
            tables=[NumberTable(headings, rows)],
            open_tables=True,
        )
    ]
