"""The effects of options on the lab's captures, where each user's true channel rate is known."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from conftest import TRUTH, Demo, ask

from schemas import CHANNEL_RATES, FLOWS, LINKS
from spark_jobs.figures.table3_clusters.option_effects import CONTRASTS, effects

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
    """The sample of Table III, a row a transfer, with its user's true rate, the rate in links, and
    the median of those in channel_rates."""
    columns = ["user", "start_ts", "initiator", "single", "request_response", "goodput", "sack",
               "payload_bytes_down", "mss_class", "window_class", "timestamps"]  # fmt: skip
    rows = table(demo, FLOWS, columns)
    rows = rows[(rows["initiator"] == "mobile") & (rows["payload_bytes_down"] > 32768)]
    rows = rows[(rows["single"] == True) & (rows["request_response"] == True)]  # noqa: E712
    rows = rows[rows["goodput"] > 0].assign(hour=rows["start_ts"].dt.hour)
    key = ["network", "user", "hour"]
    links = table(demo, LINKS, ["user", "hour", "rate"])
    links["hour"] = links["hour"].dt.hour
    periods = table(demo, CHANNEL_RATES, ["user", "start_ts", "rate"])
    periods["hour"] = periods["start_ts"].dt.hour
    medians = periods.groupby(key)["rate"].median().rename("period_rate").reset_index()
    true = pd.concat(
        pd.read_csv(TRUTH / lab / "users.csv.zst").assign(network=network, hour=hour)
        for (network, hour), lab in LAB.items()
    )
    for rates in (links, medians, true):
        rows = rows.merge(rates, on=key, how="left")
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


def by_rate(rows: pd.DataFrame, rate: str) -> dict:
    """Return the effects, adjusted for the rate in a column, by the names of the contrasts."""
    measured = rows.assign(rate_bin=np.floor(100 * np.log(rows[rate])))
    found = effects(measured.replace({np.nan: None}).to_dict("records"))
    return {effect.contrast.name: effect for effect in found}


def truth(rows: pd.DataFrame) -> dict[str, float]:
    """Regress all effects at once, in all transfers, on the logarithm of each user's true rate."""
    frame = rows.assign(
        place=rows["network"] + rows["hour"].astype(str), log_rate=np.log(rows["rate_bps"])
    )
    options = " + ".join(f"C({option})" for option in ("mss", "window", "sack", "timestamps"))
    formula = f"log_goodput_sum ~ {options} + C(size_class) + C(place) + log_rate"
    fitted = smf.ols(formula, frame).fit().params
    return {
        contrast.name: float(
            np.expm1(
                fitted.get(f"C({contrast.column})[T.{contrast.value}]", 0)
                - fitted.get(f"C({contrast.column})[T.{contrast.base}]", 0)
            )
        )
        for contrast in CONTRASTS
    }


@pytest.mark.parametrize(("access", "known"), [("gprs", 4), ("dialup", 4)])
def test_effects_are_those_in_all_transfers_under_true_rates(transfers, access, known):
    """known: number of effects of which something is said.

    One dial-up user has a large window. On GPRS, the rate of a quarter of the transfers with a low
    window is unknown: nothing is said of two windows.
    """
    rows = transfers[transfers["access"] == access]
    expected, of_truth = truth(rows), by_rate(rows, "rate_bps")
    said = 0
    for name, effect in by_rate(rows, "rate").items():
        print(
            f"{access}, {name}: {effect.adjusted.text}; true rates {of_truth[name].adjusted.text}"
        )
        if effect.adjusted.low is not None and not effect.rated_differ:
            assert effect.adjusted.estimate == pytest.approx(expected[name], abs=0.02), name
            assert effect.adjusted.low < expected[name] < effect.adjusted.high, name
            said += 1
    assert said == known


def test_rates_of_links_are_known_whatever_the_window(transfers):
    """Half of the transfers with a low window have no rate in channel_rates.

    The rates of others in links are unknown, too: their windows are about as large as the path, so
    late ACKs look like a queue.
    """
    low = transfers[(transfers["access"] == "gprs") & (transfers["window"] == "low")]
    assert low["rate"].notna().mean() > 0.7
    assert low["period_rate"].notna().mean() < 0.5
    error = (low["rate"] / low["rate_bps"] - 1).dropna().abs()
    assert error.median() < 0.01
    assert error.max() < 0.05


def test_nothing_is_said_of_windows_and_mss_if_only_large_windows_have_a_rate(transfers):
    """With the rates of channel_rates, MSS would seem to lose: it gains 3 % under true rates."""
    found = by_rate(transfers[transfers["access"] == "gprs"], "period_rate")
    differ = {name for name, effect in found.items() if effect.rated_differ}
    assert differ == {
        "MSS high against low", "window med against low", "window high against low"
    }  # fmt: skip


def test_mart_gives_the_effects_of_the_transfers(demo, transfers):
    """The mart has fewer user groups than users: the estimate is the same, the interval about as
    wide."""
    groups = ask(
        demo.warehouse,
        """
        select network, hour, size_class, user_group, rate_bin, mss_class as mss,
            window_class as "window", if(sack, 'yes', 'no') as sack,
            if(timestamps, 'yes', 'no') as timestamps, flows, log_goodput_sum
        from table3_clusters where access = 'gprs'
    """,
    ).df()
    rows = transfers[transfers["access"] == "gprs"]
    ours, theirs = (effect_named(frame, "SACK against none") for frame in (groups, rows))
    assert [s.transfers for s in ours.sides] == [s.transfers for s in theirs.sides]
    assert ours.raw.estimate == pytest.approx(theirs.raw.estimate)
    assert [s.rated_transfers for s in ours.sides] == [s.rated_transfers for s in theirs.sides]
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
