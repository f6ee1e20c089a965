"""Fig. 13: throughput of users with background traffic."""

from spark_jobs.figures.fig13_user_throughput.numbers import LEVELS
from spark_jobs.figures.page_elements import Section
from spark_jobs.figures.rates import rate_section
from spark_jobs.figures.selection import Selection

SECTION = Section(
    anchor="fig13",
    title="Fig. 13. User throughput by background traffic",
    source="INFOCOM 2004, Section VI.B",
    caption="All bytes that a user received during a connection above 100 KiB of distinct payload, "
    "over the time from the ACK of its first to that of its last data packet: "
    "R = 8 (Btcp + Bother) / (T2ack − T1ack). "  # noqa: RUF001
    "Levels: the share of background bytes. Levels without connections are left out. ",
    samples="",
    notes=[
        "The paper (Section VI.B): user throughput improves and comes closer to the channel rate "
        "as background traffic increases, as several connections are less sensitive to losses and "
        "timeouts."
    ],
)


def sections(selection: Selection) -> list[Section]:
    """Return Fig. 13: user throughput by level of background traffic."""
    levels = {str(level): label for level, label in reversed(LEVELS.items())}
    return [rate_section(SECTION, selection, "user_throughput", "User throughput [kbit/s]", levels)]
