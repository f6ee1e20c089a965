"""Table II: which share of the data packets is lost, on which side."""

from spark_jobs.report import paper
from spark_jobs.report.page_elements import INTERVALS, Section, NumberTable, group, number, percent
from spark_jobs.report.samples import of, share, interval_text
from spark_jobs.report.selection import Selection


def section(selection: Selection) -> Section:
    """Loss ratios of the downlink data packets, network by network."""
    counted = selection.rows("""
        select network, user_group, sum(data_packets)::bigint as seen,
            sum(lost_access) as access, sum(lost_internet) as internet
        from table2_loss group by all order by all
    """)
    ours = {name: rows for (name,), rows in group(counted, "network").items()}
    seen = {name: sum(row["seen"] for row in rows) for name, rows in ours.items()}
    rows = [
        [
            "Internet side loss",
            *(interval_text(share(rows, of("internet"), _sent), percent) for rows in ours.values()),
            *(percent(column["internet"]) for column in paper.TABLE_2.values()),
        ],
        [
            "Access side loss",
            *(
                interval_text(share(rows, of("access"), of("seen")), percent)
                for rows in ours.values()
            ),
            *(percent(column["access"]) for column in paper.TABLE_2.values()),
        ],
        [
            "data packets seen at Gi",
            *map(number, seen.values()),
            *(number(None) for _ in paper.TABLE_2),
        ],
    ]
    headings = ["", *ours, *(f"paper: {n}" for n in paper.TABLE_2)]
    return Section(
        anchor="table2",
        title="Table II. Packet loss",
        source="INFOCOM 2004, Section V",
        caption="Downlink packets with data, retransmissions included. Internet side: lost between the "
        "server and Gi, of those sent. Access side: lost between Gi and the mobile, of those "
        "seen at Gi; where the acknowledgements do not decide a packet's fate it counts with its "
        "probability. " + INTERVALS,
        samples=f"{number(sum(seen.values()))} data packets",
        tables=[NumberTable(headings, rows)],
        open_tables=True,
    )


def _sent(row: dict) -> float:
    return row["seen"] + row["internet"]
