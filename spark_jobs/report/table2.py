"""Table II: shares of the data packets lost on the access side and on the Internet side."""

from spark_jobs.report import paper
from spark_jobs.report.page_elements import (
    INTERVALS,
    NumberTable,
    Section,
    group_rows,
    number,
    percent,
)
from spark_jobs.report.samples import column, interval_text, share
from spark_jobs.report.selection import Selection


def section(selection: Selection) -> Section:
    """Return the loss ratios of downlink data packets for each network."""
    counted = selection.rows("""
        select network, user_group, sum(data_packets)::bigint as packets,
            sum(lost_access) as access, sum(lost_internet) as internet
        from table2_loss group by all order by all
    """)
    by_network = {name: rows for (name,), rows in group_rows(counted, "network").items()}
    packets = {name: sum(row["packets"] for row in rows) for name, rows in by_network.items()}
    rows = [
        [
            "Internet side loss",
            *(
                interval_text(share(rows, column("internet"), _sent), percent)
                for rows in by_network.values()
            ),
            *(percent(values["internet"]) for values in paper.TABLE_2.values()),
        ],
        [
            "Access side loss",
            *(
                interval_text(share(rows, column("access"), column("packets")), percent)
                for rows in by_network.values()
            ),
            *(percent(values["access"]) for values in paper.TABLE_2.values()),
        ],
        [
            "data packets at Gi",
            *map(number, packets.values()),
            *(number(None) for _ in paper.TABLE_2),
        ],
    ]
    headings = ["", *by_network, *(f"paper: {n}" for n in paper.TABLE_2)]
    return Section(
        anchor="table2",
        title="Table II. Packet loss",
        source="INFOCOM 2004, Section V",
        caption="Downlink packets with data, retransmissions included. Internet side: lost between "
        "server and Gi, in % of the packets that servers sent. Access side: lost between Gi and "
        "the mobile, in % of the packets at Gi. If the ACKs do not decide a packet's fate, it "
        "counts with its loss probability. " + INTERVALS,
        samples=f"{number(sum(packets.values()))} data packets",
        tables=[NumberTable(headings, rows)],
        open_tables=True,
    )


def _sent(row: dict) -> float:
    return row["packets"] + row["internet"]
