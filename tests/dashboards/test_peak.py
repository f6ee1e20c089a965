"""The dashboards' comparison in SQL is the report's, and both are what a plain regression says."""

import datetime

import numpy as np
import pandas as pd
import pytest

from spark_jobs.figures.metrics.compare import OFF_PEAK, PEAK, Comparison, comparisons
from spark_jobs.figures.metrics.dashboard import BY_HOUR, COMPARED, SINCE_BEFORE, SPANS, TREND
from spark_jobs.figures.metrics.labels import SHOWN_METRICS
from spark_jobs.figures.selection import Selection
from spark_jobs.report.selection import select
from tests.helpers.compared import compared, of_other_users, selection_of

FIRST_DAY = datetime.date(2004, 3, 1)
COLUMNS = [
    "network", "date", "country", "access", "hour", "period", "metric", "user_group", "measured",
    "numerator", "denominator",
]  # fmt: skip


def page_rows(selection: Selection, days: str = "all days") -> dict[tuple[str, str], dict]:
    """The page's rows of some days, by network and metric."""
    rows = selection.rows(f"select * from ({COMPARED.sql}) where days = '{days}'")
    return {(row["network"], row["metric"]): row for row in rows}


def agree(selection: Selection) -> int:
    """Of how many differences the page says the report's, and both the regression's; all."""
    shown = page_rows(selection)
    found = comparisons(selection, PEAK, OFF_PEAK)
    plain = compared(selection.connection.sql("select * from metrics").df())
    assert {(c.network.name, c.metric) for c in found} == set(plain.index)
    for comparison in found:
        row = shown.pop((comparison.network.name, comparison.metric))
        agree_with_regression(comparison, plain.loc[(comparison.network.name, comparison.metric)])
        assert row["sentence"] == comparison.sentence
        assert row["significant"] == comparison.significant
        scale = SHOWN_METRICS[comparison.metric].unit.scale
        theirs = comparison.difference
        assert row["peak"] == (theirs.first and pytest.approx(scale * theirs.first, rel=1e-9))
        assert row["off_peak"] == (theirs.second and pytest.approx(scale * theirs.second, rel=1e-9))
        if theirs.interval:
            reach = scale * (theirs.interval.high - theirs.interval.low) / 2
            for end in ("low", "high"):
                expected = scale * getattr(theirs.interval, end)
                assert row[end] == pytest.approx(expected, rel=1e-9, abs=1e-9 * reach)
    assert all(row["sentence"].startswith("nothing to compare: no ") for row in shown.values())
    return len(found)


def agree_with_regression(comparison: Comparison, plain: pd.Series) -> None:
    """A comparison of the report is the regression's."""
    theirs = comparison.difference
    for value, name in ((theirs.first, "first"), (theirs.second, "second")):
        assert value == (None if pd.isna(plain[name]) else pytest.approx(plain[name], rel=1e-9))
    assert (theirs.interval is None) == pd.isna(plain["low"])
    if theirs.interval:
        ends = theirs.interval.low, theirs.interval.high
        assert ends == pytest.approx((plain["low"], plain["high"]), rel=1e-9, abs=1e-12)
    assert comparison.significant == plain["claimed"]


@pytest.mark.parametrize("how", ["demo", "plain_demo"])
def test_of_the_demo(how, request):
    """Only one of its networks has an off-peak. With pseudonyms and without, for which users are in
    a group together hangs on that."""
    selection = select(request.getfixturevalue(how).warehouse, None, None, None)
    assert agree(selection) == len(SHOWN_METRICS)
    alone = {
        row["sentence"] for (name, _), row in page_rows(selection).items() if name != "aa-gprs"
    }
    assert alone == {"nothing to compare: no off-peak data"}


@pytest.mark.parametrize("seeds", [(0, 1), (1, 3), (3, 8), (8, 20), (20, 40)])
def test_of_made_up_days(seeds):
    """Few or many users, alike or not, light or heavy, some at peak only, some off-peak only; some
    networks differ, some do not, some have one half only. Few or many comparisons on a page."""
    rows = pd.concat([made_up_days(seed) for seed in range(*seeds)])
    assert agree(selection_of(rows)) >= 4 * (seeds[1] - seeds[0])


def made_up_days(seed: int) -> pd.DataFrame:
    """Return a mart `metrics` of two days of three networks, whose names end with the seed."""
    random = np.random.default_rng(seed)
    rows = []
    for network, effect in (("a", 0.0), ("b", 0.4), ("c", 0.1)):
        users = random.integers(8, 64)
        groups = random.choice(64, users, replace=False)
        of_user = random.normal(1, 0.3, users)
        weight = random.pareto(0.8 if seed % 2 else 3, users) + 0.1
        for period in ("peak", "off_peak") if network != "c" or seed % 5 else ("peak",):
            for metric in ("setup_delay", "loss_access"):
                for day in range(2):
                    for user in np.flatnonzero(random.random(users) < 0.6):
                        value = abs(of_user[user] + random.normal(effect * (period == "peak"), 0.3))
                        rows.append((
                            f"{network}{seed}", FIRST_DAY + datetime.timedelta(days=day), "AA",
                            "gprs", 10, period, metric, int(groups[user]), 5, value * weight[user],
                            weight[user],
                        ))  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def test_of_the_last_days(demo):
    """Of one day, every span is the same; days are counted back from the warehouse's last."""
    selection = select(demo.warehouse, None, None, None)
    sentences = [
        {key: row["sentence"] for key, row in page_rows(selection, days).items()} for days in SPANS
    ]
    assert all(sentences[0] == others for others in sentences[1:])


def days_of(days: dict[int, float], hours: tuple[int, ...] = (10, 11)) -> pd.DataFrame:
    """Thirty users a day, whose set-up delay is about the day's value, at peak."""
    random = np.random.default_rng(1)
    rows = [
        (
            "a", FIRST_DAY + datetime.timedelta(days=day), "AA", "gprs", hour, "peak",
            "setup_delay", user, 5, 5 * (value + random.normal(0, 0.05)), 5.0,
        )
        for day, value in days.items()
        for hour in hours
        for user in range(30)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def test_the_last_day_is_compared_with_the_day_and_the_week_before():
    """Twice as long as a week ago, as long as yesterday; each is what a plain regression says."""
    rows = days_of({0: 0.5, 1: 0.7, 6: 1.0, 7: 1.0})
    shown = selection_of(rows).rows(f"select * from ({SINCE_BEFORE.sql}) order by days")
    assert [row["compared with"] for row in shown] == ["the day before", "the week before"]
    assert [row["significant"] for row in shown] == [False, True]
    texts = [row["difference (95 % interval)"] for row in shown]
    assert "no difference beyond chance" in texts[0] or texts[0].startswith("perhaps")
    assert texts[1].startswith("● ▲ ")
    assert "ms longer on this day than before" in texts[1]
    for row, days in zip(shown, (1, 7), strict=True):
        halves = rows[rows["date"].isin([rows["date"].max(), rows["date"].max()
                                         - datetime.timedelta(days=days)])]  # fmt: skip
        period = np.where(halves["date"] == rows["date"].max(), "peak", "off_peak")
        plain = compared(halves.assign(period=period)).loc["a", "setup_delay"]
        for text, value in ((row["this day"], plain["first"]), (row["before"], plain["second"])):
            number = float(text.split("\N{NO-BREAK SPACE}")[0].replace(",", ""))
            assert number == pytest.approx(1000 * value, rel=0.005)


def test_only_hours_that_both_days_have_are_compared():
    """The last day ends after 10 h. At 11 h, the day before was slow."""
    before = days_of({0: 1.0}), days_of({0: 9.0}, (11,)), days_of({1: 1.0}, (10,))
    row, week = selection_of(pd.concat([before[0][before[0]["hour"] == 10], *before[1:]])).rows(
        f"{SINCE_BEFORE.sql} order by days"
    )
    assert week["difference (95 % interval)"] == (
        "nothing to compare: no data of 2004-02-24 in the same hours"
    )
    assert not row["significant"]
    assert float(row["before"].split("\N{NO-BREAK SPACE}")[0].replace(",", "")) < 1100


def test_a_day_without_data_is_a_gap():
    """Of three days, the second has no data: all of its values are null, and all of its hours."""
    rows = of_other_users(0.0, draws=1)
    rows = pd.concat([rows, rows.assign(date=FIRST_DAY + datetime.timedelta(days=2))])
    selection = selection_of(rows)
    trend = selection.rows(f"select date, value from ({TREND.sql})")
    by_day = {day: [row["value"] for row in trend if row["date"] == day] for day in
              {row["date"] for row in trend}}  # fmt: skip
    assert len(by_day) == 3
    assert set(by_day[FIRST_DAY + datetime.timedelta(days=1)]) == {None}
    assert None not in by_day[FIRST_DAY]
    hours = selection.rows(f"""
        select date, hour, {BY_HOUR.metrics[0].sql} as share from ({BY_HOUR.sql}) group by all
    """)
    assert len({(row["date"], row["hour"]) for row in hours}) == 3 * 24
