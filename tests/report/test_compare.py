"""Two selections beside each other: made-up days whose differences are known, and the demo's."""

from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_up import flow, publish
from test_report import Page
from typer.testing import CliRunner

from schemas import FLOWS, QUALITY
from schemas.marts import METRICS
from spark_jobs.cli import app
from spark_jobs.errors import UserError
from spark_jobs.jobs.ingest import publish_network
from spark_jobs.jobs.marts import marts
from spark_jobs.report import compare, write_report
from spark_jobs.report.compare import OFF_PEAK, PEAK, Comparison, comparisons, parse
from spark_jobs.report.metrics import SHOWN
from spark_jobs.report.selection import Selection, select
from spark_jobs.warehouse import Unit, Warehouse

DAYS = (date(2004, 3, 2), date(2004, 3, 3))
PEAK_HOUR, OFF_PEAK_HOUR = 9, 3
"""UTC; in Budapest 10 and 4 h."""


def made_up(demo, network, where, slower: float, lossier: float) -> Warehouse:
    """Two days of 40 users; at peak set-up takes `slower` s longer and more packets are lost."""
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
            lost = random.binomial(100, 0.02 + lossier * at_peak)
            rows.append(
                usual
                | {
                    "flow_id": n,
                    "user": f"10.64.0.{user}",
                    "start_ts": start,
                    "end_ts": start,
                    "setup_class": "optimal",
                    "setup_delay": 1 + of_user[user] + random.normal(0, 0.2) + slower * at_peak,
                    "data_packets_down": 100,
                    "lost_access_expected": float(lost),
                    "sack": user % 2 == 0,
                }
            )
        publish(warehouse, "aa-gprs", day, {FLOWS: rows})
    marts(warehouse)
    return warehouse


@pytest.fixture(scope="module")
def different(demo, networks, tmp_path_factory) -> Warehouse:
    return made_up(
        demo, networks["aa-gprs"], tmp_path_factory.mktemp("different"), slower=0.3, lossier=0.012
    )


@pytest.fixture(scope="module")
def same(demo, networks, tmp_path_factory) -> Warehouse:
    return made_up(
        demo, networks["aa-gprs"], tmp_path_factory.mktemp("same"), slower=0.0, lossier=0.0
    )


def chosen(warehouse: Warehouse) -> Selection:
    return select(warehouse, None, None, None)


def of(found: list[Comparison], metric: str, network: str = "aa-gprs") -> Comparison:
    return next(c for c in found if (c.network.name, c.metric) == (network, metric))


def test_metrics_shown_are_those_of_the_mart():
    assert list(SHOWN) == list(METRICS)


def test_known_difference_is_found(different):
    found = comparisons(chosen(different), PEAK, OFF_PEAK)
    delay, loss = of(found, "setup_delay"), of(found, "loss_access")
    assert delay.claimed
    assert loss.claimed
    assert delay.difference.interval.low < 0.3 < delay.difference.interval.high
    assert loss.difference.interval.low < 0.012 < loss.difference.interval.high
    assert delay.sentence.startswith("3")
    assert "ms longer at peak than off-peak" in delay.sentence
    assert "points more at peak than off-peak" in loss.sentence


def test_none_is_claimed_where_there_is_none(same):
    found = comparisons(chosen(same), PEAK, OFF_PEAK)
    assert {c.metric for c in found} >= {"setup_delay", "loss_access"}
    assert not any(c.claimed for c in found)
    assert "no difference beyond chance" in of(found, "setup_delay").sentence


@pytest.mark.parametrize(
    ("first", "second"),
    [("hours=10-11", "hours=4-5"), ("hours=peak,sack=yes", "hours=off-peak,sack=yes")],
)
def test_any_two_selections(different, first, second):
    found = comparisons(chosen(different), parse(first), parse(second))
    assert of(found, "loss_access").claimed


def test_options_are_told_by_connections_that_agreed_on_them(different):
    found = comparisons(chosen(different), parse("sack=yes"), parse("sack=no"))
    assert "setup_delay" not in {c.metric for c in found}
    assert not of(found, "loss_access").claimed


def test_flows_and_marts_tell_the_same(demo):
    """By options the flows are read."""
    marts(demo.warehouse)
    selection = chosen(demo.warehouse)
    source = compare._by_options(selection)
    keys = ("network", "metric", "period")
    of_marts = compare.by(selection, "metrics", keys=keys)
    of_flows = compare.by(selection, source, keys=keys)
    assert [key for key, _ in of_marts] == [key for key, _ in of_flows]
    for (_, ours), (key, theirs) in zip(of_marts, of_flows, strict=True):
        assert ours.measured == theirs.measured, key
        assert ours.bottom.sum() == pytest.approx(theirs.bottom.sum()), key
        assert ours.top.sum() == pytest.approx(theirs.top.sum()), key


def test_values_are_those_of_the_flows(demo):
    """By pandas from the Parquet files, of the network that has both halves."""
    marts(demo.warehouse)
    found = comparisons(chosen(demo.warehouse), PEAK, OFF_PEAK)
    files = demo.warehouse.files(FLOWS)
    flows = pd.concat(
        [
            pq.read_table(path, partitioning=None).to_pandas()
            for path in files
            if "aa-gprs" in str(path)
        ]
    )
    flows = flows[flows.initiator == "mobile"]
    hour = flows.start_ts.dt.tz_convert("Europe/Budapest").dt.hour
    peak, off_peak = flows[hour.isin([10, 11])], flows[hour.isin([4, 5])]
    for half, name in ((peak, "first"), (off_peak, "second")):
        classes = half.setup_class.dropna()
        known = half[half.lost_access_expected.notna() & (half.data_packets_down > 0)]
        sent = known.data_packets_down + known.lost_internet_expected
        expected = {
            "setup_delay": half.setup_delay.mean(),
            "setup_failed": 1 - classes.isin(["optimal", "slight_problem"]).mean(),
            "rtt_access": half.rtt_access.mean(),
            "rtt_internet": half.rtt_internet.mean(),
            "loss_access": known.lost_access_expected.sum() / known.data_packets_down.sum(),
            "loss_internet": known.lost_internet_expected.sum() / sent.sum(),
            "throughput": half.throughput_received.mean(),
            "goodput": half[half.payload_bytes_down > 32768].goodput.mean(),
            "parallel": (half.parallel.dropna() > 1).mean(),
        }
        for metric, value in expected.items():
            got = getattr(of(found, metric).difference, name)
            assert got == pytest.approx(value), (metric, name)


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
def test_halves_that_are_none(text, reason):
    with pytest.raises(UserError, match=reason):
        parse(text)


def test_networks_are_compared_one_with_one(demo):
    marts(demo.warehouse)
    selection = chosen(demo.warehouse)
    pair = comparisons(
        selection, parse("network=aa-gprs,hours=peak"), parse("network=bb-gprs,hours=peak")
    )
    assert {c.network.name for c in pair} == {"aa-gprs"}
    with pytest.raises(UserError, match="nothing to show for 'zz'"):
        comparisons(selection, parse("network=zz"), parse("hours=peak"))


def test_page(different, tmp_path):
    """The first section has a row a metric; then come the days."""
    path = write_report(different, tmp_path / "r.html")
    page = Page(path.read_text(encoding="utf-8"))
    assert next(iter(page.rows)) == "compare"
    told = page.row("compare", SHOWN["loss_access"].title)
    assert told[0].endswith(" %")
    assert told[2].startswith("● 1.")
    assert 'id="days-aa-gprs"' in path.read_text(encoding="utf-8")


def test_days_held_back_stand_on_the_first_page(different, tmp_path):
    """Newest first, with the reasons, even if long ago; of the others the last seven."""
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
    assert [row[0] for row in rows] == [f"2004-02-{n}" for n in range(19, 12, -1)] + ["2004-01-03"]
    assert rows[0][1:] == ["aa-gprs", "published", ""]
    assert rows[-1][1:] == ["aa-gprs", "held back", "half skipped"]


def test_compare_is_given_twice(different, tmp_path):
    runner = CliRunner()
    common = ["report", "--warehouse", str(different.root), "--output", str(tmp_path / "c.html")]
    once = runner.invoke(app, [*common, "--compare", "hours=peak"])
    assert isinstance(once.exception, UserError)
    done = runner.invoke(app, [*common, "--compare", "hours=peak", "--compare", "hours=off-peak"])
    assert done.exit_code == 0
    page = Page((tmp_path / "c.html").read_text(encoding="utf-8"))
    assert set(page.rows) == {"compare", "quality"}


def test_what_is_of_fewer_than_min_users_is_not_compared(demo, network, tmp_path):
    """Of 40 users, half with SACK."""
    careful = network.model_copy(update={"min_users": 21})
    selection = select(made_up(demo, careful, tmp_path / "w", 0.3, 0.0), None, None, None)
    assert comparisons(selection, PEAK, OFF_PEAK)
    assert comparisons(selection, parse("hours=peak"), parse("hours=off-peak"))
    assert comparisons(selection, parse("sack=yes"), parse("sack=no")) == []
