"""Comparisons of two selections: made-up days whose differences are known, and the demo's."""

from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from schemas import CHANNEL_RATES, FLOWS, QUALITY, Table
from spark_jobs.base.errors import UserError
from spark_jobs.commands.cli import app
from spark_jobs.figures.marts import mart
from spark_jobs.figures.metrics import compare
from spark_jobs.figures.metrics import page as metrics_page
from spark_jobs.figures.metrics.compare import OFF_PEAK, PEAK, Comparison, comparisons, parse_subset
from spark_jobs.figures.metrics.labels import SHOWN_METRICS
from spark_jobs.figures.selection import Selection
from spark_jobs.ingest.networks import publish_network
from spark_jobs.jobs.marts import update_marts
from spark_jobs.report.build import write_report
from spark_jobs.report.selection import select
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
from tests.helpers.compared import compared, of_other_users, selection_of
from tests.helpers.made_up import flow, publish
from tests.helpers.report_page import Page

DAYS = (date(2004, 3, 2), date(2004, 3, 3))
PEAK_HOUR, OFF_PEAK_HOUR = 9, 3
"""UTC; in Budapest 10 and 4 h."""


def made_up(demo, network, where, extra_delay: float, extra_loss: float) -> Warehouse:
    """Make two days of 40 users; at peak the set-up takes `extra_delay` s longer and `extra_loss`
    more is lost."""
    warehouse = Warehouse(where)
    publish_network(warehouse, network)
    random = np.random.default_rng(11)
    of_user = random.normal(0, 0.1, 40)
    usual = flow(demo)
    for day in DAYS:
        rows = []
        for n in range(1200):
            user, hour = n % 40, (PEAK_HOUR, OFF_PEAK_HOUR)[n // 40 % 2]
            at_peak = hour == PEAK_HOUR
            start = datetime(day.year, day.month, day.day, hour, n % 60, tzinfo=UTC)
            lost = random.binomial(100, 0.02 + extra_loss * at_peak)
            rows.append(
                usual
                | {
                    "flow_id": n,
                    "user": f"10.64.0.{user}",
                    "start_ts": start,
                    "end_ts": start,
                    "setup_class": "optimal",
                    "setup_delay": 1
                    + of_user[user]
                    + random.normal(0, 0.2)
                    + extra_delay * at_peak,
                    "data_packets_down": 100,
                    "lost_access_expected": float(lost),
                    "sack": user % 2 == 0,
                }
            )
        publish(warehouse, "aa-gprs", day, {FLOWS: rows})
    update_marts(warehouse)
    return warehouse


@pytest.fixture(scope="module")
def different(demo, networks, tmp_path_factory) -> Warehouse:
    return made_up(
        demo,
        networks["aa-gprs"],
        tmp_path_factory.mktemp("different"),
        extra_delay=0.3,
        extra_loss=0.012,
    )


def chosen(warehouse: Warehouse) -> Selection:
    return select(warehouse, None, None, None)


def comparison_of(found: list[Comparison], metric: str, network: str = "aa-gprs") -> Comparison:
    return next(c for c in found if (c.network.name, c.metric) == (network, metric))


def test_metrics_shown_are_those_of_the_mart():
    (metric,) = (column for column in mart("metrics").columns if column.name == "metric")
    assert list(SHOWN_METRICS) == [part.partition(":")[0] for part in metric.meaning.split("; ")]


def test_known_difference_is_found(different):
    found = comparisons(chosen(different), PEAK, OFF_PEAK)
    delay, loss = comparison_of(found, "setup_delay"), comparison_of(found, "loss_access")
    assert delay.significant
    assert loss.significant
    assert delay.difference.interval.low < 0.3 < delay.difference.interval.high
    assert loss.difference.interval.low < 0.012 < loss.difference.interval.high
    assert delay.sentence.startswith("3")
    assert "ms longer at peak than off-peak" in delay.sentence
    assert "points more at peak than off-peak" in loss.sentence


@pytest.mark.parametrize(
    ("first", "second"),
    [("hours=10-11", "hours=4-5"), ("hours=peak,sack=yes", "hours=off-peak,sack=yes")],
)
def test_any_two_selections_can_be_compared(different, first, second):
    found = comparisons(chosen(different), parse_subset(first), parse_subset(second))
    assert comparison_of(found, "loss_access").significant


def test_comparisons_by_options_leave_out_the_metrics_of_the_set_up(different):
    found = comparisons(chosen(different), parse_subset("sack=yes"), parse_subset("sack=no"))
    assert "setup_delay" not in {c.metric for c in found}
    loss = comparison_of(found, "loss_access")
    assert not loss.significant
    assert "no difference beyond chance" in loss.sentence


def test_sums_of_flows_and_of_marts_are_equal(demo):
    """Comparisons by options read the flows, others the marts."""
    update_marts(demo.warehouse)
    selection = chosen(demo.warehouse)
    source = compare._measures_by_options(selection)
    of_marts, of_flows = (
        selection.connection.sql(f"""
            select network, metric, period, sum(measured), sum(denominator), sum(numerator)
            from {rows} group by all having sum(denominator) > 0 order by all
        """).df()
        for rows in ("metrics", source)
    )
    pd.testing.assert_frame_equal(of_marts, of_flows, check_dtype=False)


def rows_of(warehouse: Warehouse, table: Table) -> pd.DataFrame:
    """Read a table's rows by pandas, with their period; each user is a group of its own."""
    rows = pd.concat(
        pq.read_table(path, partitioning=None).to_pandas().assign(network=path.parts[-3][8:])
        for path in warehouse.files(table)
    )
    hour = rows["start_ts"].dt.tz_convert("Europe/Budapest").dt.hour
    return rows.assign(
        period=np.select([hour.isin([10, 11]), hour.isin([4, 5])], ["peak", "off_peak"], "other"),
        user_group=pd.factorize(rows["user"])[0],
    )


def metrics_of(warehouse: Warehouse) -> pd.DataFrame:
    """Return what each connection, or channel rate, adds to the metrics, without the marts."""
    flows = rows_of(warehouse, FLOWS)
    flows = flows[flows["initiator"] == "mobile"]
    rates = rows_of(warehouse, CHANNEL_RATES)
    data, lost_internet = flows["data_packets_down"], flows["lost_internet_expected"]
    known = flows["lost_access_expected"].notna() & (data > 0)
    well = flows["setup_class"].isin(["optimal", "slight_problem"])
    large = flows["payload_bytes_down"] > 32768
    numerators_and_denominators = {
        "setup_delay": (flows, flows["setup_delay"], 1),
        "setup_failed": (flows, (~well).where(flows["setup_class"].notna()), 1),
        "rtt_access": (flows, flows["rtt_access"], 1),
        "rtt_internet": (flows, flows["rtt_internet"], 1),
        "channel_rate": (
            rates, 8 * rates["ip_bytes"], (rates["end_ts"] - rates["start_ts"]).dt.total_seconds(),
        ),
        "loss_access": (flows, flows["lost_access_expected"].where(known), data),
        "loss_internet": (flows, lost_internet.where(known), data + lost_internet),
        "throughput": (flows, flows["throughput_received"], 1),
        "goodput": (flows, flows["goodput"].where(large), 1),
        "parallel": (flows, (flows["parallel"] > 1).where(flows["parallel"].notna()), 1),
    }  # fmt: skip
    parts = [
        rows[["network", "period", "user_group"]]
        .assign(
            metric=metric, measured=1, numerator=numerator.astype(float), denominator=denominator
        )
        .dropna()
        for metric, (rows, numerator, denominator) in numerators_and_denominators.items()
    ]
    return pd.concat(parts)


def test_differences_are_those_of_the_flows(demo):
    """Values, intervals and what is beyond chance, by pandas and a plain regression from the
    Parquet files. One network has both halves; at peak the others have users in more groups."""
    update_marts(demo.warehouse)
    found = {
        (c.network.name, c.metric): c for c in comparisons(chosen(demo.warehouse), PEAK, OFF_PEAK)
    }
    expected = compared(metrics_of(demo.warehouse))
    assert {network for network, _ in found} == {"aa-gprs"}
    assert set(found) == set(expected.index)
    for key, row in expected.iterrows():
        shown = found[key].difference
        assert (shown.first, shown.second) == pytest.approx((row["first"], row["second"])), key
        ends = shown.interval.low, shown.interval.high
        assert ends == pytest.approx((row["low"], row["high"])), key
        assert found[key].significant == row["claimed"], key
    beyond = {metric for (_, metric), row in expected.iterrows() if row["claimed"]}
    assert beyond == {
        "setup_delay", "rtt_access", "channel_rate", "loss_internet", "throughput", "goodput",
    }  # fmt: skip


@pytest.mark.parametrize("true", [0.0, 0.3])
def test_intervals_contain_the_true_difference_as_often_as_claimed(true):
    """Halves with different users: none of the fewer ones off-peak is taken for another."""
    found = comparisons(selection_of(of_other_users(true, draws=400)), PEAK, OFF_PEAK)
    intervals = [c.difference.interval for c in found]
    assert len(intervals) == 400
    assert 0.92 <= np.mean([i.low <= true <= i.high for i in intervals]) <= 0.98


def test_user_groups_of_two_networks_are_different_users():
    """Groups of the same numbers, by chance with the same levels, do not cancel."""
    rows = of_other_users(0.3, draws=1)
    one, other = (rows[rows["period"] == period] for period in ("peak", "off_peak"))
    selection = selection_of(pd.concat([one, other.assign(network="n1", period="peak")]))
    (found,) = comparisons(selection, parse_subset("network=n0"), parse_subset("network=n1"))
    others = other.assign(user_group=other["user_group"] + 64)
    (apart,) = compared(pd.concat([one, others])).itertuples()
    (same,) = compared(rows).itertuples()
    ends = found.difference.interval.low, found.difference.interval.high
    assert ends == pytest.approx((apart.low, apart.high))
    assert same.high - same.low < 0.95 * (apart.high - apart.low)


def test_two_networks_make_one_comparison_without_a_note_on_others(demo):
    update_marts(demo.warehouse)
    selection = chosen(demo.warehouse)
    first, second = (
        parse_subset("network=aa-gprs,hours=peak"),
        parse_subset("network=bb-gprs,hours=peak"),
    )
    assert {c.network.name for c in comparisons(selection, first, second)} == {"aa-gprs"}
    page = metrics_page.comparison_section(selection, first, second)
    assert page.notes == []
    assert len(page.tables) == 1
    page = metrics_page.comparison_section(selection, PEAK, OFF_PEAK)
    assert [note.partition(":")[0] for note in page.notes] == ["bb-gprs", "cc-dialup"]
    with pytest.raises(UserError, match="nothing to show for 'zz'"):
        comparisons(selection, parse_subset("network=zz"), parse_subset("hours=peak"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sack", "'sack' is not"),
        ("colour=red", "'colour=red' is not"),
        ("hours=25-26", "no value of hours"),
        ("hours=5-5", "no value of hours"),
        ("days=2004-02-30", "no value of days"),
        ("network=a'b", "no value of network"),
        ("mss=huge", "no value of mss"),
    ],
)
def test_invalid_subsets_are_refused(text, reason):
    with pytest.raises(UserError, match=reason):
        parse_subset(text)


def test_page_has_the_comparison_first_and_then_the_days(different, tmp_path):
    """The comparison has a row for each metric."""
    path = write_report(different, tmp_path / "r.html")
    page = Page(path.read_text(encoding="utf-8"))
    assert next(iter(page.rows)) == "compare"
    shown = page.row("compare", SHOWN_METRICS["loss_access"].title)
    assert shown[0].endswith(" %")
    assert shown[2].startswith("● 1.")
    assert 'id="days-aa-gprs"' in path.read_text(encoding="utf-8")


def test_page_lists_days_that_are_held_back(different, tmp_path):
    """Newest first, with the reasons, even if long ago; days without captures in one row."""
    checks = [(date(2004, 2, n), True) for n in range(10, 20)] + [(date(2004, 1, 3), False)]
    for day, passed in checks:
        row = {
            "measure": "skipped_share", "value": 0.5, "passed": passed, "finding": "half skipped",
        }  # fmt: skip
        with different.staging() as staging:
            rows = pa.Table.from_pylist([row], QUALITY.arrow)
            staging.write(QUALITY, "aa-gprs", day, "test", rows)
            different.publish(Unit.of_day("quality", "aa-gprs", day), staging.files, {})
    path = write_report(different, tmp_path / "r.html")
    _, *rows = Page(path.read_text(encoding="utf-8")).rows["state"]
    states = {row[0]: row[1:] for row in rows}
    assert list(states) == sorted(states, reverse=True)
    assert states["2004-02-19"] == ["aa-gprs", "passed, figures not made yet", ""]
    assert states["2004-01-04 to 2004-02-09"] == ["aa-gprs", "no captures", ""]
    assert states["2004-01-03"] == ["aa-gprs", "HELD, not shown", "half skipped"]


def test_option_compare_must_be_given_twice(different, tmp_path):
    runner = CliRunner()
    common = ["report", "--warehouse", str(different.root), "--output", str(tmp_path / "c.html")]
    once = runner.invoke(app, [*common, "--compare", "hours=peak"])
    assert isinstance(once.exception, UserError)
    done = runner.invoke(app, [*common, "--compare", "hours=peak", "--compare", "hours=off-peak"])
    assert done.exit_code == 0
    page = Page((tmp_path / "c.html").read_text(encoding="utf-8"))
    assert set(page.rows) == {"compare", "quality"}


def test_selections_of_fewer_than_min_users_are_not_compared(demo, network, tmp_path):
    """40 users, half of them with SACK."""
    careful = network.model_copy(update={"min_users": 21})
    selection = select(made_up(demo, careful, tmp_path / "w", 0.3, 0.0), None, None, None)
    assert comparisons(selection, PEAK, OFF_PEAK)
    assert comparisons(selection, parse_subset("hours=peak"), parse_subset("hours=off-peak"))
    assert comparisons(selection, parse_subset("sack=yes"), parse_subset("sack=no")) == []
