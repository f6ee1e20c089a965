"""Fig. 9: throughput of large single transfers."""

from spark_jobs.figures.page_elements import Section
from spark_jobs.figures.rates import rate_section
from spark_jobs.figures.selection import Selection

SECTION = Section(
    anchor="fig09",
    title="Fig. 9. Throughput of single, large TCP connections",
    source="INFOCOM 2004, Section VI.A",
    caption="Single connections (no other traffic of the user) above 100 KiB of distinct payload "
    "with one request and its response. Throughput is IP bytes over the time from the ACK of the "
    "first to the ACK of the last data packet. ",
    samples="",
    notes=[
        "The paper (Section VI.A): most of the distribution lies around the channel rate's peaks. "
        "Slow start and losses explain the rest."
    ],
)


def sections(selection: Selection) -> list[Section]:
    """Return Fig. 9: throughput of single transfers."""
    return [rate_section(SECTION, selection, "throughput", "Throughput [kbit/s]", {"": ""})]
