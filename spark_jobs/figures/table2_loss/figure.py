"""Table II: shares of the data packets lost on the access side and on the Internet side."""

from spark_jobs.figures.figure import Figure
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio

NUMBERS = Numbers(
    mart("table2_loss"),
    [
        Ratio("internet_loss", "loss on the Internet side", "lost_internet",
              "data_packets + lost_internet"),
        Ratio("access_loss", "loss on the access side", "lost_access", "data_packets"),
        Ratio("access_loss_min", "of these, if all undecided packets arrived", "lost_access_min",
              "data_packets", kind="none"),
        Ratio("access_loss_max", "of these, if all undecided packets were lost", "lost_access_max",
              "data_packets", kind="none"),
    ],
    counts={"packets": ("data packets seen at Gi", "data_packets")},
)  # fmt: skip
FIGURE = Figure(
    "table2",
    "Table II. Packet loss",
    "INFOCOM 2004, Section V",
    "Downlink packets with data, retransmissions included. Internet side: lost between server and "
    "Gi, in % of the packets that servers sent. Access side: lost between Gi and the mobile, in % "
    "of the packets at Gi. If the ACKs do not decide a packet's fate, it counts with its loss "
    "probability. The two rows below show what the loss would be if all these packets had arrived, "
    "or if all had been lost.",
    "channel",
    NUMBERS,
    in_columns=True,
    paper={
        "paper: Average GPRS": {"internet_loss": 0.0015, "access_loss": 0.0122},
        "paper: Wireline dial-up": {"internet_loss": 0.0039, "access_loss": 0.0016},
    },
    paper_places=2,
    counted="data packets",
    hourly=["access_loss"],
)
