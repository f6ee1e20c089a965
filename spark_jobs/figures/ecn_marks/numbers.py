"""The shares of downlink packets that are marked by ECN, or lost, on either side."""

from spark_jobs.figures.format import PER_1000
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio

OF_CLASSIC = "case when ecn = 'classic' then ect_packets else 0 end"
NUMBERS = Numbers(
    mart("ecn_marks"),
    [
        Ratio("ecn_share", "packets that can be marked", "ect_packets", "data_packets",
              kind="none"),
        Ratio("internet_marks", "marked on the Internet side", "marked_internet", "ect_packets",
              samples="ect_packets"),
        Ratio("access_marks", "marked on the access side (accurate ECN)", "marked_access",
              "counted_packets", samples="counted_packets"),
        Ratio("access_episodes", "episodes of marks on the access side (classic ECN)",
              "episodes_access", OF_CLASSIC, PER_1000, OF_CLASSIC, "none"),
        Ratio("internet_loss", "lost on the Internet side", "lost_internet",
              "data_packets + lost_internet"),
        Ratio("access_loss", "lost on the access side", "lost_access", "data_packets"),
    ],
    counts={"packets": ("data packets seen at Gi", "data_packets")},
)  # fmt: skip
