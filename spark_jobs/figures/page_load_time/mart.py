"""The columns of the mart page_load_time."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import USER_GROUP, place_and_time, sum_of

MART = Table(
    "page_load_time",
    "the pages that start in one local hour, of one class of parallel connections and one user "
    "group",
    (
        *place_and_time("the page starts"),
        Column(
            "parallel",
            "int64",
            "maximum number of connections of the page that were active at the same time: lower "
            "edge of 1, 2-3, 4-7, and 8 and more",
            "connections",
            "Kohlwes, Riihijärvi and Mähönen, Fig. 4",
            required=True,
        ),
        USER_GROUP,
        Column("pages", "int64", "number of pages", "pages", required=True),
        sum_of("load_time", "times from a page's start to the ACK of its last data", "s"),
        Column(
            "above_10_s", "int64", "of these, pages that load for more than 10 s", "pages",
            "Nielsen, Usability Engineering, 5.5", required=True,
        ),
        Column("ip_bytes", "int64", "IP bytes of data to the mobile", "B", required=True),
        Column("connections", "int64", "connections of the pages", "connections", required=True),
    ),
    group_columns=("hour", "parallel"),
)  # fmt: skip
