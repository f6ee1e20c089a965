"""Table II: which share of the data packets is lost, on which side."""

from spark_jobs.report import paper
from spark_jobs.report.parts import Section, TableOfNumbers, number, percent
from spark_jobs.report.selection import Selection


def section(selection: Selection) -> Section:
    """Loss ratios of the downlink data packets, network by network."""
    ours = selection.rows("""
        select network, sum(data_packets)::bigint as seen, sum(lost_access) as access,
            sum(lost_internet) as internet
        from table2_loss group by network order by network
    """)
    rows = [
        [
            "Internet side loss",
            *(percent(row["internet"], row["seen"] + row["internet"]) for row in ours),
            *(percent(column["internet"]) for column in paper.TABLE_2.values()),
        ],
        [
            "Access side loss",
            *(percent(row["access"], row["seen"]) for row in ours),
            *(percent(column["access"]) for column in paper.TABLE_2.values()),
        ],
        [
            "data packets seen at Gi",
            *(number(row["seen"]) for row in ours),
            *(number(None) for _ in paper.TABLE_2),
        ],
    ]
    headings = ["", *(row["network"] for row in ours), *(f"paper: {n}" for n in paper.TABLE_2)]
    return Section(
        anchor="table2",
        title="Table II. Packet loss",
        source="INFOCOM 2004, Section V",
        caption="Downlink packets with data, resends included. Internet side: lost between the "
        "server and Gi, of those sent. Access side: lost between Gi and the mobile, of those "
        "seen at Gi; where the acknowledgements do not decide a packet's fate it counts with its "
        "probability.",
        samples=f"{number(sum(row['seen'] for row in ours))} data packets",
        tables=[TableOfNumbers(headings, rows)],
        open_tables=True,
    )
