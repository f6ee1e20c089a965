"""Table I: summary statistics, measured and in the paper."""

from spark_jobs.report import paper
from spark_jobs.report.page_elements import (
    INTERVALS,
    NumberTable,
    Section,
    group_rows,
    number,
    percent,
    percent_tenths,
)
from spark_jobs.report.samples import column, interval_text, share
from spark_jobs.report.selection import Selection

ROWS = {
    "sack": "SACK enabled",
    "timestamps": "TCP timestamp",
    "mss_low": "MSS low (largest IP packet 400–600 B)",  # noqa: RUF001
    "mss_high": "MSS high (1400–1600 B)",  # noqa: RUF001
    "window_low": "Wnd low (< 10,000 B)",
    "window_med": "Wnd med (10,000–20,000 B)",  # noqa: RUF001
    "window_high": "Wnd high (> 20,000 B)",
}


def section(selection: Selection) -> Section:
    """Return the shares of the connections that mobiles opened, failed set-ups included."""
    sums = ", ".join(f"sum({name})::bigint as {name}" for name in ("flows", *ROWS))
    counted = selection.rows(
        f"select network, user_group, {sums} from table1_summary group by all order by all"
    )
    by_network = {name: rows for (name,), rows in group_rows(counted, "network").items()}
    flows = {name: sum(row["flows"] for row in rows) for name, rows in by_network.items()}
    rows = [
        [
            "TCP connections",
            *map(number, flows.values()),
            *(number(p["flows"]) for p in paper.TABLE_1.values()),
        ]
    ]
    for name, label in ROWS.items():
        rows.append(
            [
                label,
                *(
                    interval_text(share(members, column(name)), percent_tenths)
                    for members in by_network.values()
                ),
                *(percent(values[name]) for values in paper.TABLE_1.values()),
            ]
        )
    headings = ["", *by_network, *(f"paper: {name}" for name in paper.TABLE_1)]
    return Section(
        anchor="table1",
        title="Table I. Summary statistics",
        source="INFOCOM 2004, Section II",
        caption="Connections that the mobile opened, failed set-ups included. SACK is enabled if "
        "both SYNs permit it, timestamps if both directions carry them. The window is the largest "
        "that the mobile advertised, with window scaling applied. " + INTERVALS,
        samples=f"{number(sum(flows.values()))} connections",
        tables=[NumberTable(headings, rows)],
        open_tables=True,
    )
