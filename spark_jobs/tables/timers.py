"""timers: the servers' retransmission timeouts over time."""

import numpy as np
import pyarrow as pa

from schemas import TIMERS, TIMESTAMP
from spark_jobs.estimators.sender import samples, timer
from spark_jobs.tables import round_trips
from spark_jobs.tables.bucket import Bucket
from spark_jobs.tables.rows import column, dictionary, measured, table_of


def rows(bucket: Bucket) -> pa.Table:
    """The rows of schemas.TIMERS."""
    timers = bucket.sending.timers
    mine = timers[(bucket.connections.mine & bucket.replayed)[timers["connection"]]]
    mine = mine[np.lexsort((mine["rto"], mine["ts"], mine["connection"]))]
    trips = round_trips.told(bucket)
    return table_of(
        TIMERS,
        {
            "flow_id": pa.array(bucket.flow_ids[mine["connection"]]),
            "ts": column(mine, "ts").cast(TIMESTAMP),
            "rto": column(mine, "rto"),
            "lasted": pa.array(_lasted_us(mine, bucket.connections.end_ts) / 1e6),
            "rtt": measured(_latest_us(mine, trips[trips["side"] == samples.ACCESS]) / 1e6),
            "backed_off": column(mine, "backed_off"),
            "rule": dictionary(mine["kind"], timer.TIMERS),
        },
    )


def _lasted_us(timers: np.ndarray, end_us: np.ndarray) -> np.ndarray:
    """int64[timers]: how long each was the timeout, up to the connection's next or its end."""
    until = end_us[timers["connection"]]
    goes_on = timers["connection"][1:] == timers["connection"][:-1]
    until[:-1][goes_on] = timers["ts"][1:][goes_on]
    return np.maximum(until - timers["ts"], 0)


def _latest_us(timers: np.ndarray, trips: np.ndarray) -> np.ndarray:
    """float64[timers]: the round trip that was measured last in the connection by then; of several
    at a time the longest. NaN: none was."""
    if not len(timers) or not len(trips):
        return np.full(len(timers), np.nan)
    trips = trips[np.lexsort((trips["rtt"], trips["ts"], trips["connection"]))]
    first = min(timers["ts"].min(), trips["ts"].min())
    span = max(timers["ts"].max(), trips["ts"].max()) - first + 1
    when, seen = (of["connection"] * span + of["ts"] - first for of in (timers, trips))
    at = np.searchsorted(seen, when, side="right") - 1
    known = (at >= 0) & (trips["connection"][at] == timers["connection"])
    return np.where(known, trips["rtt"][at], np.nan)
