"""The report's page: its numbers are those of the tables, it loads nothing from outside, and what
does not exist is refused."""

import re
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from schemas import CHANNEL_RATES, FLOWS
from spark_jobs.base.errors import UserError
from spark_jobs.figures.fig07_channel_rate.page import _share_of_time
from spark_jobs.figures.statistics import UNKNOWN
from spark_jobs.figures.table3_clusters.clusters import pooling_reverses
from spark_jobs.jobs.marts import update_marts
from spark_jobs.report.build import write_report
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.report_page import Page, shows, value_and_interval


@pytest.fixture(scope="module")
def page(demo, tmp_path_factory) -> Page:
    update_marts(demo.warehouse)
    path = write_report(demo.warehouse, tmp_path_factory.mktemp("report") / "report.html")
    return Page(path.read_text(encoding="utf-8"))


def test_table_1_has_the_papers_values_beside_its_own(page):
    assert page.row("table1", "TCP connections")[-2:] == ["12,587,056", "225,932"]
    assert page.row("table1", "SACK enabled")[-2:] == ["55.49 %", "59.48 %"]


def flows(demo, columns: list[str]) -> pd.DataFrame:
    """Connections that the mobiles opened, from the Parquet files."""
    parts = [
        pd.read_parquet(path, columns=["user", "initiator", *columns], partitioning=None).assign(
            network=path.parent.parent.name.removeprefix("network=")
        )
        for path in demo.warehouse.files(FLOWS)
    ]
    rows = pd.concat(parts, ignore_index=True)
    return rows[rows["initiator"] == "mobile"]


def test_intervals_agree_with_resampled_users(demo, page):
    """Resampling users gives about the interval that the report shows for a mean and a median."""
    rows = flows(demo, ["throughput_received"]).dropna()
    rows = rows[rows["network"] == "aa-gprs"]
    by_user = [mine.to_numpy() for _, mine in rows.groupby("user")["throughput_received"]]
    random = np.random.default_rng(3)
    draws = [
        np.concatenate([by_user[k] for k in random.integers(0, len(by_user), len(by_user))])
        for _ in range(2000)
    ]
    shown = page.row("fig09", "aa-gprs", "arrived")
    for text, statistic in ((shown[1], np.mean), (shown[3], np.median)):
        ends = [float(end) for end in re.search(r"\((.*) … (.*)\)", text).groups()]
        drawn = np.quantile([statistic(draw) for draw in draws], [0.025, 0.975]) / 1000
        assert ends[1] - ends[0] == pytest.approx(drawn[1] - drawn[0], rel=0.35)
        assert np.mean(ends) == pytest.approx(np.mean(drawn), rel=0.03)


def resampled(rows: pd.DataFrame, part: pd.Series, weight: pd.Series) -> tuple[float, float]:
    """Return the ends of the interval of a share in %, from resampling users."""
    sums = pd.DataFrame({"part": part * weight, "whole": weight}).groupby(rows["user"]).sum()
    random = np.random.default_rng(5)
    drawn = sums.to_numpy()[random.integers(0, len(sums), (4000, len(sums)))].sum(axis=1)
    low, high = np.quantile(100 * drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return low, high


PEAKS = {
    ("aa-gprs", "2 slots"): (18e3, 30e3),
    ("aa-gprs", "3 slots"): (30e3, 42e3),
    ("bb-gprs", "3 slots"): (30e3, 42e3),
    ("cc-dialup", "peak"): (20e3, 38e3),
}
"""bit/s; between them and beside them the lab's channels give next to nothing."""


@pytest.mark.parametrize(("network", "peak"), list(PEAKS))
def test_intervals_of_fig07_agree_with_resampled_users(demo, page, network, peak):
    parts = [pd.read_parquet(path, partitioning=None)
             for path in demo.warehouse.files(CHANNEL_RATES)
             if path.parent.parent.name == f"network={network}"]  # fmt: skip
    rows = pd.concat(parts, ignore_index=True)
    weight = (rows["end_ts"] - rows["start_ts"]).dt.total_seconds()
    inside = rows["rate"].between(*PEAKS[network, peak])
    shown = next(r for r in page.rows["fig07"] if r[:2] == [network, peak] and len(r) == 6)
    assert int(shown[5]) == inside.sum()
    _, low, high = value_and_interval(shown[4])
    assert shows(shown[4], 100 * weight[inside].sum() / weight.sum())
    ends = resampled(rows, inside, weight)
    assert high - low == pytest.approx(ends[1] - ends[0], rel=0.35)
    assert (low + high) / 2 == pytest.approx(sum(ends) / 2, abs=0.25 * (high - low))
    mine = rows[inside].sort_values("rate")
    half = np.searchsorted(weight[mine.index].cumsum(), weight[inside].sum() / 2)
    median = mine["rate"].iloc[half] / 1000
    middle, low, high = value_and_interval(shown[3])
    assert middle == pytest.approx(median, rel=0.02)
    assert low <= middle <= high


def test_a_peak_of_few_samples_or_users_has_no_interval():
    """Four periods of four users; five of two."""

    def row(user: int, samples: int, rate_bin: int) -> dict:
        return {"network": "n", "user_group": 64 + user, "samples": samples, "bin": rate_bin,
                "weight": 2.0 * samples}  # fmt: skip

    common = [row(user, 10, 500) for user in range(6)]
    for few in ([row(user, 1, 520) for user in range(4)], [row(1, 3, 520), row(2, 2, 520)]):
        assert _share_of_time([*common, *few], few) == UNKNOWN
    enough = [row(user, 5, 520) for user in range(4)]
    assert _share_of_time([*common, *enough], enough).value == pytest.approx(20 / 80)


def test_values_of_too_few_transfers_or_users_are_not_shown(demo, page):
    """Two of cc-dialup's single transfers lost 3 % and more; one of its users has large windows."""
    assert page.row("fig10", "cc-dialup", "3 % and more") == ["2", *["too few"] * 3]
    assert page.row("table3-dialup", "Wnd high")[0] == "too few"


def test_networks_are_not_added_up_where_that_reverses_an_effect():
    """In either network SACK is a tenth slower; the fast one has it more often."""

    def row(network: str, sack: str, flows: int, goodput: float) -> dict:
        return {"network": network, "sack": sack, "flows": flows, "goodput_sum": flows * goodput}

    reversed_effect = [
        row("slow", "SACK", 10, 18), row("slow", "no SACK", 90, 20),
        row("fast", "SACK", 90, 180), row("fast", "no SACK", 10, 200),
    ]  # fmt: skip
    assert pooling_reverses(reversed_effect, "sack")
    assert not pooling_reverses(reversed_effect[:2], "sack")
    alike = [row("slow", "SACK", 50, 18), row("slow", "no SACK", 50, 20),
             row("fast", "SACK", 50, 180), row("fast", "no SACK", 50, 200)]  # fmt: skip
    assert not pooling_reverses(alike, "sack")


def test_page_loads_nothing_from_outside(page):
    assert all(address.startswith("data:") for address in page.loaded)


def test_only_the_chosen_network_is_shown(demo, tmp_path):
    path = write_report(demo.warehouse, tmp_path / "r.html", ["bb-gprs"])
    text = path.read_text(encoding="utf-8")
    assert "bb-gprs" in text
    assert "cc-dialup" not in text


def test_unknown_network_is_refused(demo, tmp_path):
    with pytest.raises(UserError, match=re.escape("no network 'nowhere'")):
        write_report(demo.warehouse, tmp_path / "r.html", ["nowhere"])
    assert not list(tmp_path.iterdir())


def test_days_without_flows_are_refused(demo, tmp_path):
    with pytest.raises(UserError, match="nothing to show"):
        write_report(demo.warehouse, tmp_path / "r.html", since=date(2020, 1, 1))


def test_empty_warehouse_is_refused(tmp_path):
    with pytest.raises(UserError, match="nothing to show"):
        write_report(Warehouse(tmp_path / "w"), tmp_path / "r.html")


def test_missing_folder_is_refused(demo, tmp_path):
    missing = tmp_path / "missing" / "r.html"
    with pytest.raises(UserError, match=re.escape(str(missing))):
        write_report(demo.warehouse, Path(missing))
