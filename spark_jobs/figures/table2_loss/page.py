"""Table II: shares of the data packets lost on the access side and on the Internet side."""

from spark_jobs.figures.format import PERCENT, count
from spark_jobs.figures.page_elements import NumberTable, Section
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.table2_loss.numbers import NUMBERS

PAPER = {
    "Average GPRS": {"internet_loss": 0.0015, "access_loss": 0.0122},
    "Wireline dial-up": {"internet_loss": 0.0039, "access_loss": 0.0016},
}


def sections(selection: Selection) -> list[Section]:
    """Return the loss ratios of downlink data packets for each network."""
    networks = NUMBERS.rows(selection, "network")
    packets = [row["packets"] for row in networks]
    rows = [
        *(
            [
                ratio.label,
                *(row.text(ratio.name) for row in networks),
                *(PERCENT.text(values.get(ratio.name), 2) for values in PAPER.values()),
            ]
            for ratio in NUMBERS.ratios
        ),
        ["data packets seen at Gi", *map(count, packets), *(count(None) for _ in PAPER)],
    ]
    headings = ["", *(row["network"] for row in networks), *(f"paper: {n}" for n in PAPER)]
    return [
        Section(
            anchor="table2",
            title="Table II. Packet loss",
            source="INFOCOM 2004, Section V",
            caption="Downlink packets with data, retransmissions included. Internet side: lost "
            "between server and Gi, in % of the packets that servers sent. Access side: lost "
            "between Gi and the mobile, in % of the packets at Gi. If the ACKs do not decide a "
            "packet's fate, it counts with its loss probability. The two rows below show what the "
            "loss would be if all these packets had arrived, or if all had been lost.",
            samples=f"{count(sum(packets))} data packets",
            tables=[NumberTable(headings, rows)],
            open_tables=True,
        )
    ]
