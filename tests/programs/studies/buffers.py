"""GPRS buffering (Wennström, Brunstrom and Rendón, Electronics Letters 2004, Figs. 1 to 4)."""

import duckdb

from spark_jobs.figures.largest_rtt_by_user.page import PAPER
from tests.programs.studies.markdown import number, table
from tests.programs.studies.warehouse import groups, rows

NETWORK = "buffers"
PDCH = 11_000
"""bit/s at the IP layer, of one channel with CS-2."""
PAPER_THROUGHPUT = {(63, 1): "about 10", (63, 2): "-", (63, 3): "about 30"}
"""kbit/s, by the buffer's lifetime in s and the number of PDCHs (Fig. 1 and the text); of the
others it is almost the same."""

OURS = f"""
    with trips as (
        select "user", max(rtt_max) as rtt_max, max(queue_s) as queue_s
        from links where network = '{NETWORK}' group by all
    )
    select cell, flow_id, goodput, rtt_max, rtt_access_median as rtt_median, queue_s, lost_access
    from cells left join trips using ("user")
    where cells.network = '{NETWORK}'
"""
TRUE = f"""
    with transfers as (
        select "user", "group" as cell,
            8 * sum(bytes) / (max("end") - min(connected)) as goodput
        from true_clients where network = '{NETWORK}' group by all
    ),
    kernel as (
        select "user", max(rtt) / 1e6 as rtt_max from true_sender
        where network = '{NETWORK}' and last = 0 group by all
    )
    select * from transfers join kernel using ("user")
"""


def section(db: duckdb.DuckDBPyConnection) -> str:
    ours, true = rows(db, OURS), rows(db, TRUE)
    cells = []
    for cell, group in groups(NETWORK).items():
        lifetime, channels = int(group.access.lifetime or 0), round(group.access.rate / PDCH)
        mine, truth = ours[cell], true[cell]
        cells.append(
            (
                f"{channels} PDCH, {lifetime} s",
                *(number(each["goodput"] / 1000) for each in (mine, truth)),
                PAPER_THROUGHPUT.get((lifetime, channels), "almost the same"),
                *(number(each["rtt_max"], 1) for each in (mine, truth)),
                number(PAPER.get((lifetime, channels)), 0),
                number(mine["rtt_median"], 1),
                number(mine["queue_s"], 1),
                number(mine["lost_access"], 0),
                f"`giscope plot {mine['flow_id']}`",
            )
        )
    return TEXT.format(
        cells=table(
            ["buffer", "throughput, kbit/s: giscope", "truth", "paper",
             "largest RTT, s: giscope, access side", "kernel, smoothed, whole path", "paper",
             "median RTT, s",
             "buffer's limit, s: giscope", "packets lost", "plot"],
            cells,
        )
    )  # fmt: skip


TEXT = """\
## GPRS buffering

Paper: A. Wennström, A. Brunstrom, J. Rendón. One bulk transfer of 15 minutes runs over one, two or
three PDCHs. The buffer of BSSGP (the protocol between SGSN and base station) drops data that has
waited for 63 s, or for 5 s. The sender is Linux with its window of 64 KB, Reno, SACK and
timestamps.

{cells}

The throughput depends on the channels alone, the RTTs depend on the buffer. The figures are nearly
those of the paper. giscope's largest RTT is one RTT sample, the kernel's is a smoothed one. A
window of 64 KB does not fill a buffer of 63 s, so nothing shows the limit of this buffer. giscope's
value for the limit of 5 s includes the time to send the packet itself, 1.1 s over one channel.
"""
