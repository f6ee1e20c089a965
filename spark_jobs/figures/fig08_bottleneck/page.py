"""Fig. 8: connections without loss, with more loss on the access or on the Internet side."""

from spark_jobs.figures.fig08_bottleneck.numbers import NUMBERS, SIDES
from spark_jobs.figures.format import NOT_MEASURED, PERCENT, count
from spark_jobs.figures.page_elements import NumberTable, Section, share_bars
from spark_jobs.figures.selection import Selection

PAPER = {"paper: GPRS": {"none": 0.47, "access": 0.48, "internet": 0.05}}


def sections(selection: Selection) -> list[Section]:
    """Return the shares of connections by the side of most losses, with a bar for each network."""
    networks = NUMBERS.rows(selection, "network")
    shares = {
        row["network"]: {side: row[side].value for side in SIDES}
        for row in networks
        if row["none"].value is not None
    } | PAPER
    parts = {
        label: (colour, [of_network.get(side, 0) for of_network in shares.values()])
        for side, (label, colour) in SIDES.items()
    }
    table = [[row["network"], count(row["flows"]), *row.texts] for row in networks]
    table += [
        [name, NOT_MEASURED, *(PERCENT.text(values.get(side), 1) for side in SIDES)]
        for name, values in PAPER.items()
    ]
    return [
        Section(
            anchor="fig08",
            title="Fig. 8. Where connections lose packets",
            source="INFOCOM 2004, Section V",
            caption="Connections with downlink data, by the side on which they lost more data "
            "packets.",
            samples=f"{count(sum(row['flows'] for row in networks))} connections",
            figure=share_bars(
                list(shares),
                parts,
                "Share of connections",
                "Shares of connections by side of most losses",
            ),
            tables=[NumberTable(["network", "connections", *NUMBERS.labels], table)],
        )
    ]
