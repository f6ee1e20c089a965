"""The effects of options on the lab's captures, where each user's true channel rate is known."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from conftest import TRUTH, Demo

from schemas import CHANNEL_RATES, FLOWS
from spark_jobs.figures.table3_clusters.option_effects import effects

LAB = {
    ("aa-gprs", 10): "aa-gprs-peak",
    ("aa-gprs", 4): "aa-gprs-offpeak",
    ("bb-gprs", 10): "bb-gprs-peak",
    ("cc-dialup", 10): "cc-dialup-peak",
}
"""By network and hour (UTC)."""
PLANTED = 0.1


@pytest.fixture(scope="session")
def demo(plain_demo):
    """Without pseudonyms: the ground truth names users by address."""
    return plain_demo


def table(demo: Demo, table, columns: list[str]) -> pd.DataFrame:
    """Rows of the Parquet files of all networks."""
    parts = []
    for path in demo.warehouse.files(table):
        part = pd.read_parquet(path, columns=columns, partitioning=None)
        parts.append(part.assign(network=path.parent.parent.name.removeprefix("network=")))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def transfers(demo) -> pd.DataFrame:
    """The sample of Table III, a row a transfer, with its user's measured and true channel rate."""
    columns = ["user", "start_ts", "initiator", "single", "request_response", "goodput", "sack",
               "payload_bytes_down", "mss_class", "window_class", "timestamps"]  # fmt: skip
    rows = table(demo, FLOWS, columns)
    rows = rows[(rows["initiator"] == "mobile") & (rows["payload_bytes_down"] > 32768)]
    rows = rows[(rows["single"] == True) & (rows["request_response"] == True)]  # noqa: E712
    rows = rows[rows["goodput"] > 0].assign(hour=rows["start_ts"].dt.hour)
    periods = table(demo, CHANNEL_RATES, ["user", "start_ts", "rate"])
    periods["hour"] = periods["start_ts"].dt.hour
    key = ["network", "user", "hour"]
    rates = periods.groupby(key)["rate"].median().reset_index()
    true = pd.concat(
        pd.read_csv(TRUTH / lab / "users.csv.zst").assign(network=network, hour=hour)
        for (network, hour), lab in LAB.items()
    )
    rows = rows.merge(rates, on=key, how="left").merge(true, on=key, how="left")
    return rows.assign(
        mss=rows["mss_class"],
        window=rows["window_class"],
        sack=np.where(rows["sack"], "yes", "no"),
        timestamps=np.where(rows["timestamps"], "yes", "no"),
        size_class=np.floor(np.log2(rows["payload_bytes_down"])),
        user_group=rows.groupby(["network", "user"]).ngroup(),
        rate_bin=np.floor(100 * np.log(rows["rate"])),
        flows=1,
        log_goodput_sum=np.log(rows["goodput"]),
        access=np.where(rows["network"] == "cc-dialup", "dialup", "gprs"),
    )


def effect_named(rows: pd.DataFrame, name: str):
    groups = rows.replace({np.nan: None}).to_dict("records")
    return next(effect for effect in effects(groups) if effect.contrast.name == name)


def truth(rows: pd.DataFrame, option: str, value: str) -> float:
    """Regress the effect among these transfers on each user's true rate."""
    frame = rows.assign(place=rows["network"] + rows["hour"].astype(str))
    others = " + ".join(f"C({o})" for o in ("mss", "window", "sack", "timestamps") if o != option)
    frame["has"] = (frame[option] == value).astype(float)
    formula = f"log_goodput_sum ~ has + {others} + C(size_class) + C(place) + C(rate_bps)"
    return float(np.expm1(smf.ols(formula, frame).fit().params["has"]))


@pytest.mark.parametrize("access", ["gprs", "dialup"])
@pytest.mark.parametrize("option", ["sack", "timestamps"])
def test_adjusting_for_the_measured_rate_is_adjusting_for_the_true_rate(transfers, access, option):
    rows = transfers[transfers["access"] == access]
    name = {"sack": "SACK against none", "timestamps": "timestamps against none"}[option]
    found = effect_named(rows, name).adjusted
    known = truth(rows[rows["rate"].notna()], option, "yes")
    assert found.estimate == pytest.approx(known, abs=0.02)
    assert found.low < known < found.high


def test_mart_gives_the_effects_of_the_transfers(demo, transfers):
    """The mart has fewer user groups than users: the estimate is the same, the interval about as
    wide."""
    groups = (
        demo.warehouse.connect()
        .sql("""
        select network, hour, size_class, user_group, rate_bin, mss_class as mss,
            window_class as "window", if(sack, 'yes', 'no') as sack,
            if(timestamps, 'yes', 'no') as timestamps, flows, log_goodput_sum
        from table3_clusters where access = 'gprs'
    """)
        .df()
    )
    rows = transfers[transfers["access"] == "gprs"]
    ours, theirs = (effect_named(frame, "SACK against none") for frame in (groups, rows))
    assert [s.transfers for s in ours.sides] == [s.transfers for s in theirs.sides]
    assert ours.raw.estimate == pytest.approx(theirs.raw.estimate)
    assert ours.adjusted.estimate == pytest.approx(theirs.adjusted.estimate, abs=0.01)
    width, other = (e.adjusted.high - e.adjusted.low for e in (ours, theirs))
    assert width == pytest.approx(other, rel=0.4)


@pytest.mark.slow
@pytest.mark.parametrize(("access", "fewest"), [("gprs", 0), ("gprs", 24), ("dialup", 0)])
def test_intervals_contain_a_planted_effect_as_often_as_they_claim(transfers, access, fewest):
    """The lab's users are given an option at random, and those who have it a tenth more goodput;
    200 times. By chance 95 % is between 92 and 98 %. fewest: so many users only, drawn anew each
    time."""
    rows = transfers[transfers["access"] == access]
    users = rows["user_group"].unique()
    random = np.random.default_rng(11)
    contained = []
    for _ in range(200):
        chosen = random.permutation(users)[: fewest or len(users)]
        with_option = chosen[: len(chosen) * random.integers(3, 8) // 10]
        mine = rows[rows["user_group"].isin(chosen)]
        has = mine["user_group"].isin(with_option)
        found = effect_named(
            mine.assign(
                timestamps=np.where(has, "yes", "no"),
                log_goodput_sum=mine["log_goodput_sum"] + np.log1p(PLANTED) * has,
            ),
            "timestamps against none",
        ).adjusted
        if found.low is not None:
            contained.append(found.low <= PLANTED <= found.high)
    print(f"\n{access}, {fewest or len(users)} users: {np.mean(contained):.3f} of {len(contained)}")
    assert len(contained) > 100
    assert 0.92 <= np.mean(contained) <= (1 if fewest else 0.985)
