"""Fig. 9: throughput of large single transfers."""

from spark_jobs.figures.curves import COUNTED, COUNTED_TEXT, RESOLUTION, Curves, rates
from spark_jobs.figures.figure import Figure
from spark_jobs.figures.format import KBITS

sections = Figure(
    "fig09",
    "Fig. 9. Throughput of single, large TCP connections",
    "INFOCOM 2004, Section VI.A",
    "Single connections (no other traffic of the user) above 100 KiB of distinct payload with one "
    "request and its response. Throughput is IP bytes over the time from the ACK of the first to "
    f"the ACK of the last data packet. {COUNTED_TEXT}{RESOLUTION}",
    "",
    rates("throughput"),
    by={"counted": ("counted", COUNTED)},
    drawn=Curves("Throughput", KBITS, "connections", "histogram", dashed="counted"),
    notes=[
        "The paper (Section VI.A): most of the distribution lies around the channel rate's peaks. "
        "Slow start and losses explain the rest."
    ],
).sections
