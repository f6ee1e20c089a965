"""The dashboards' comparison in SQL is the report's, told by another way."""

import datetime
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from infra.superset.peak import COMPARED, DAYS, SPANS
from spark_jobs.report.compare import OFF_PEAK, PEAK, comparisons
from spark_jobs.report.metrics import SHOWN
from spark_jobs.report.selection import Selection, ShownNetwork, select
from spark_jobs.warehouse import Warehouse

FIRST_DAY = datetime.date(2004, 3, 1)


@pytest.fixture(scope="session")
def demo(plain_demo):
    """Which users are in a group together is chance, and how near the two agree hangs on it."""
    return plain_demo


def told(selection: Selection, days: str = "all days") -> dict[tuple[str, str], dict]:
    """The page's rows of some days, by network and metric."""
    rows = selection.rows(f"select * from ({COMPARED.sql}) where days = '{days}'")
    return {(row["network"], row["metric"]): row for row in rows}


def agree(selection: Selection) -> int:
    """Of how many differences the page says the report's; all."""
    shown = told(selection)
    found = comparisons(selection, PEAK, OFF_PEAK)
    for comparison in found:
        row = shown.pop((comparison.network.name, comparison.metric))
        assert row["sentence"] == comparison.sentence
        assert row["claimed"] == comparison.claimed
        scale = SHOWN[comparison.metric].unit.scale
        theirs = comparison.difference
        assert row["peak"] == (theirs.first and pytest.approx(scale * theirs.first))
        assert row["off_peak"] == (theirs.second and pytest.approx(scale * theirs.second))
        if theirs.interval:
            reach = scale * (theirs.interval.high - theirs.interval.low) / 2
            for end in ("low", "high"):
                expected = scale * getattr(theirs.interval, end)
                assert row[end] == pytest.approx(expected, abs=1e-3 * reach)
    assert all(row["sentence"].startswith("nothing to compare: no ") for row in shown.values())
    return len(found)


def test_of_the_demo(demo):
    assert agree(select(demo.warehouse, None, None, None)) > 5


@pytest.mark.parametrize("seed", range(40))
def test_of_made_up_days(seed):
    """Few or many users, alike or not, light or heavy; some networks differ, some do not, some have
    one half only."""
    random = np.random.default_rng(seed)
    rows = []
    for network, effect in (("a", 0.0), ("b", 0.4), ("c", 0.1)):
        users = random.integers(8, 64)
        of_user = random.normal(1, 0.3, users)
        weight = random.pareto(0.8 if seed % 2 else 3, users) + 0.1
        for period in ("peak", "off_peak") if network != "c" or seed % 5 else ("peak",):
            for metric in ("setup_delay", "loss_access"):
                for day in range(2):
                    for user in np.flatnonzero(random.random(users) < 0.9):
                        value = abs(of_user[user] + random.normal(effect * (period == "peak"), 0.3))
                        rows.append((
                            network, FIRST_DAY + datetime.timedelta(days=day), "AA", "gprs", 10,
                            period, metric, int(user), 5, value * weight[user], weight[user],
                        ))  # fmt: skip
    columns = "network date country access hour period metric user_group measured top bottom"
    connection = duckdb.connect()
    connection.register("frame", pd.DataFrame(rows, columns=columns.split()))
    connection.execute("create table metrics as select * replace (date::date as date) from frame")
    networks = [ShownNetwork(name, "AA", "gprs", "") for name in "abc"]
    last = FIRST_DAY + datetime.timedelta(days=1)
    assert agree(Selection(networks, FIRST_DAY, last, connection, Warehouse(Path()))) >= 4


def test_of_the_last_days(demo):
    """Of one day, every span is the same; days are counted back from the warehouse's last."""
    selection = select(demo.warehouse, None, None, None)
    sentences = [
        {key: row["sentence"] for key, row in told(selection, days).items()} for days in SPANS
    ]
    assert all(sentences[0] == others for others in sentences[1:])


def test_a_day_is_held_back_with_its_reasons():
    connection = duckdb.connect()
    connection.execute("create table networks as select 'a' as network, 'AA' country, 'lte' access")
    connection.execute("""
        create table quality as select 'a' as network, '2004-03-01'::date + day as date, * from (
            values (0, 'm', true, 'fine', null), (1, 'm', true, 'fine', null),
                (1, 'n', false, 'too few', null), (2, 'n', false, 'too few', 'holiday')
        ) as found(day, measure, passed, finding, released)
    """)
    shown = connection.sql(f"select state, amiss from ({DAYS.sql}) order by date").fetchall()
    assert shown == [
        ("published", "nothing"),
        ("HELD BACK", "too few"),
        ("released in spite of a failed check", "too few"),
    ]
