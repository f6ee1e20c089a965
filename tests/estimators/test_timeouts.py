"""Sorting of RTO values, and the round trip before each, compared with NumPy's sort and search."""

import numpy as np
import pytest

from spark_jobs.estimators.sender.replay import RTO
from spark_jobs.estimators.sender.rtt_sampling import SAMPLE
from spark_jobs.estimators.sender.timeouts import in_order, latest_rtt_us


def found(dtype: np.dtype, records: int, connections: int, late: int) -> np.ndarray:
    """Records connection by connection, one every 3 µs, each up to `late` µs late; numbered."""
    random = np.random.default_rng(records)
    out = np.zeros(records, dtype)
    out["connection"] = np.sort(random.integers(0, connections, records))
    out["ts"] = 3 * np.arange(records) + random.integers(0, late + 1, records)
    out["rto" if dtype == RTO else "rtt"] = np.arange(records)
    return out


@pytest.mark.parametrize("late", [0, 6, 40, 10**6], ids=lambda late: f"{late} us late")
@pytest.mark.parametrize("dtype", [RTO, SAMPLE], ids=["rto_expiries", "round trips"])
def test_records_are_sorted_by_connection_and_time_in_a_stable_way(dtype, late):
    records = found(dtype, 2000, 7, late)
    records["ts"] //= 4  # several are of one time
    assert np.array_equal(
        in_order(records), records[np.lexsort((records["ts"], records["connection"]))]
    )


def test_connections_in_any_order_are_sorted():
    records = found(RTO, 500, 50, 6)[::-1].copy()
    assert np.array_equal(
        in_order(records), records[np.lexsort((records["ts"], records["connection"]))]
    )


@pytest.mark.parametrize("late", [0, 9])
def test_latest_round_trip_is_that_of_the_same_connection(late):
    """Compared with a search through all records."""
    rtos, trips = in_order(found(RTO, 300, 9, late)), in_order(found(SAMPLE, 200, 11, late))
    rtos["ts"] -= 250  # some come before any round trip
    expected = []
    for rto in rtos:
        mine = trips[(trips["connection"] == rto["connection"]) & (trips["ts"] <= rto["ts"])]
        expected.append(mine["rtt"][-1] if len(mine) else np.nan)
    assert np.isnan(expected).any()
    np.testing.assert_array_equal(latest_rtt_us(rtos, trips), expected)


def test_latest_round_trip_is_nan_without_round_trips():
    rtos = found(RTO, 3, 1, 0)
    assert np.isnan(latest_rtt_us(rtos, np.zeros(0, SAMPLE))).all()
    assert len(latest_rtt_us(rtos[:0], found(SAMPLE, 3, 1, 0))) == 0
    assert len(in_order(rtos[:0])) == 0
