"""The traffic whose channel rate is known."""

from spark_jobs.figures.channel_rate_coverage.numbers import NUMBERS
from spark_jobs.figures.format import count
from spark_jobs.figures.page_elements import NumberTable, Section
from spark_jobs.figures.selection import Selection


def sections(selection: Selection) -> list[Section]:
    """Return the shares of each network, and by class of window."""
    networks = NUMBERS.rows(selection, "network")
    by_window = NUMBERS.rows(selection, "network", "window")
    rows = [
        [row["network"], row.get("window", "all"), count(row["flows"]),
         count(row["flows_with_rate"]), *row.texts]
        for network in networks
        for row in [network, *(r for r in by_window if r["network"] == network["network"])]
    ]  # fmt: skip
    return [
        Section(
            anchor="channel-rate-coverage",
            title="Fig. 7. Traffic with a known channel rate",
            source="INFOCOM 2004, Section IV",
            caption="Connections above 100 KiB of distinct payload with at least one period of a "
            "known channel rate. Small windows keep the link from being busy, and so hide its "
            "rate.",
            samples=f"{count(sum(row['flows'] for row in networks))} connections",
            tables=[
                NumberTable(
                    ["network", "window", "connections above 100 KiB", "with a channel rate",
                     "share", "share of bytes"],
                    rows,
                )
            ],
            open_tables=True,
        )
    ]  # fmt: skip
