"""Interruptions of the link, and how transfers recover.

Source: Wennström, Brunstrom and Rendón on preemption by calls, Table I.
"""

from spark_jobs.figures.format import (
    KBITS,
    NOT_MEASURED,
    PERCENT,
    SECONDS,
    TOO_FEW,
    count,
)
from spark_jobs.figures.hours import Hours, split_by_hours
from spark_jobs.figures.metrics.numbers import numbers_of
from spark_jobs.figures.numbers import Row
from spark_jobs.figures.page_elements import NumberTable, Section, group_rows, log_quantile
from spark_jobs.figures.recovery_by_restart.numbers import (
    INTERRUPTIONS,
    NO_INTERRUPTION,
    NUMBERS,
    RESTARTED_BY,
)
from spark_jobs.figures.retransmissions_by_cause.numbers import ALL
from spark_jobs.figures.rtt_by_flight.numbers import NUMBERS as RTTS
from spark_jobs.figures.samples import USERS_NOTE
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.statistics import enough

PAPER = (
    "The study of preemption (Section III): calls of 3 and 6 s end with an ACK that the mobile had "
    "buffered, and congestion avoidance follows. Calls of 15 s end with the server's "
    "retransmission, and slow start follows. The recovery takes about 20 s, as almost ten segments "
    "in a row are lost."
)
PREEMPTED = {
    3: (21_640.0, 0.0696, 2.911),
    6: (22_200.0, 0.0655, 3.081),
    15: (21_270.0, 0.0703, 3.316),
}
"""By duration of each preemption (s): throughput (bit/s), retransmitted share, mean RTT (s).

Source: the study of preemption, Table I.
"""
THROUGHPUT = numbers_of("throughput", "throughput of single transfers", KBITS)


def sections(selection: Selection) -> list[Section]:
    """Return the interruptions, and how transfers recover from them."""
    by_hours = split_by_hours(
        selection, NUMBERS.rows(selection, "network", "period", "interruption", "ended_by")
    )
    interrupted = {
        hours.name: sum(
            row["stalls"] for row in hours.rows if row["interruption"] != NO_INTERRUPTION
        )
        for hours in by_hours
    }
    without = [name for name, stalls in interrupted.items() if not stalls]
    if not any(interrupted.values()):
        notes = ["No interruption of the link in these networks and days.", PAPER]
    elif without:
        notes = [f"No interruption of the link in: {', '.join(without)}.", PAPER]
    else:
        notes = [PAPER]
    restart_table = _restart_table(selection, by_hours)
    return [
        Section(
            anchor="interruptions",
            title="Interruptions of the link",
            source="Wennström, Brunstrom and Rendón (the study of preemption by calls), Table I",
            hours="peak and off-peak separately",
            caption="Stalls with data in flight during which the mobile sent no packet. Pause: the "
            "data in flight arrived late. Flush: the first data in flight was lost, the rest "
            "arrived. None: all other such stalls. Restarted by: the mobile with an ACK, or the "
            "server with data. Recovered: time from the beginning until all data in flight is "
            "acknowledged. " + USERS_NOTE,
            samples=f"{count(sum(interrupted.values()))} interruptions",
            tables=[*([restart_table] if restart_table.rows else []), _preemption_table(selection)],
            open_tables=True,
            notes=notes,
        )
    ]


def _restart_table(selection: Selection, by_hours: list[Hours[Row]]) -> NumberTable:
    histograms = group_rows(
        selection.rows(f"""
            select network, period, {NUMBERS.dimensions["interruption"]} as interruption,
                {NUMBERS.dimensions["ended_by"]} as ended_by, bin, sum(stalls)::bigint as stalls
            from (select network, period, interruption, ended_by, bin, stalls
                from recovery_by_restart)
            group by all
        """),
        "network", "period", "interruption", "ended_by",
    )  # fmt: skip
    return NumberTable(
        [
            "network",
            "hours",
            "interruption",
            "restarted by",
            "stalls",
            "users",
            *NUMBERS.labels,
            "median",
            "90th percentile",
            "never",
        ],
        [
            [
                hours.network.name,
                hours.label,
                interruption,
                ended_by,
                *_restart_cells(row, histograms[hours.network.name, hours.period, *key]),
            ]
            for hours in by_hours
            for interruption in (*INTERRUPTIONS.values(), NO_INTERRUPTION)
            for ended_by in RESTARTED_BY.values()
            for key in [(interruption, ended_by)]
            for row in hours.rows
            if (row["interruption"], row["ended_by"]) == key
        ],
    )


def _restart_cells(row: Row, histogram: list[dict]) -> list[str]:
    known = enough(row["recovered"], row["users"])
    return [
        count(row["stalls"]),
        count(row["users"]),
        *row.texts,
        *(
            SECONDS.text(log_quantile(histogram, "stalls", q)) if known else TOO_FEW
            for q in (0.5, 0.9)
        ),
        count(row["stalls"] - row["recovered"]),
    ]


def _preemption_table(selection: Selection) -> NumberTable:
    """Return throughput, retransmissions and RTT, with the paper's values for preemption."""
    columns = (
        (THROUGHPUT, "throughput"),
        (ALL, "retransmissions"),
        (RTTS, "rtt"),
    )
    texts = [
        {
            hours.name: row.text(name)
            for hours in split_by_hours(selection, numbers.rows(selection, "network", "period"))
            for row in hours.rows
        }
        for numbers, name in columns
    ]
    with_data = split_by_hours(selection, ALL.rows(selection, "network", "period"))
    return NumberTable(
        ["network", "hours", *(numbers[name].label for numbers, name in columns)],
        [
            *(
                [hours.network.name, hours.label]
                + [of_column.get(hours.name, NOT_MEASURED) for of_column in texts]
                for hours in with_data
            ),
            *(
                [
                    f"paper: preempted for {duration} s",
                    NOT_MEASURED,
                    KBITS.text(rate),
                    PERCENT.text(retransmissions),
                    SECONDS.text(rtt),
                ]
                for duration, (rate, retransmissions, rtt) in PREEMPTED.items()
            ),
        ],
        "Comparison with transfers that calls preempted every minute.",
    )
