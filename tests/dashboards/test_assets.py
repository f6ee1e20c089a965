"""What Superset imports, without Superset."""

import duckdb
import pytest

from spark_jobs.dashboards.assets import assets
from spark_jobs.dashboards.pages import DASHBOARD
from spark_jobs.figures.daily_checks.numbers import DAYS_SQL
from spark_jobs.figures.dashboard_parts import ValueFilter
from spark_jobs.figures.marts import mart
from spark_jobs.figures.tables import MARTS
from tests.helpers.report_and_dashboards import chart_keys, chart_named

CHARTS = DASHBOARD.charts
DATASETS = {chart.dataset.name: chart.dataset for chart in CHARTS}


def test_every_mart_is_on_a_dashboard():
    text = " ".join(dataset.sql for dataset in DATASETS.values())
    assert [mart.name for mart in MARTS if mart.name not in text] == []


def test_every_dataset_has_the_columns_of_the_filters_and_of_the_rows_security():
    for path, content in assets().items():
        if path.startswith("datasets/"):
            columns = {column["column_name"] for column in content["columns"]}
            assert columns >= {"country", "network", "access", "date"}, path


@pytest.mark.parametrize("name", DATASETS)
def test_every_metric_can_be_asked_for(demo, name):
    """The captures of the demo have no QUIC."""
    dataset = DATASETS[name]
    connection = demo.warehouse.connect(dataset.sql)
    columns = connection.sql(dataset.sql).columns
    assert len(columns) == len(set(columns))
    keys = [key for key in ("network", "hours", "options", "series") if key in columns]
    asked = ", ".join([*keys, *(metric.sql for metric in dataset.metrics)])
    by = ", ".join(keys)
    answer = connection.sql(f"select {asked} from ({dataset.sql}) group by {by}").fetchall()
    assert bool(answer) == (mart("quic_beside_tcp").name not in dataset.sql)


def test_nothing_is_shown_of_fewer_than_five_connections_or_three_users(demo):
    """Fig. 10, computed from the flows; users who share a group by chance count once."""
    dataset = DATASETS["fig10_rows"]
    connection = demo.warehouse.connect()
    shown = connection.sql(f"""
        select network, loss_class, {dataset.metric("throughput").sql}, count(distinct user_groups)
        from ({dataset.sql}) group by all
    """).fetchall()
    counted = connection.sql("""
        select network,
            least(floor(100 * (lost_access_expected + lost_internet_expected)
                / (data_packets_down + lost_internet_expected)), 3),
            count(*), count(distinct "user"), avg(throughput) / 1000
        from flows where throughput is not null and initiator = 'mobile' group by all
    """).fetchall()
    values = {row[:2]: row[2] for row in shown}
    groups = {row[:2]: row[3] for row in shown}
    assert None in values.values()
    for network, loss_class, flows, users, mean in counted:
        key = network, loss_class
        assert groups[key] <= users
        expected = pytest.approx(mean) if flows >= 5 and groups[key] >= 3 else None
        assert values[key] == expected, key


@pytest.mark.parametrize("chart", CHARTS, ids=[chart.title for chart in CHARTS])
def test_networks_are_not_pooled_where_peak_and_off_peak_are_compared(chart):
    """A chart shows networks apart, or shows the one of a filter, or does not divide the hours.

    Totals divide nothing. Effects of options are computed within networks and hours.
    """
    keys = {
        key
        for name in ("x_axis", "groupby", "groupbyRows", "groupbyColumns", "all_columns")
        for key in [chart.form_data.get(name, [])]
        for key in ([key] if isinstance(key, str) else key)
    }
    if keys & {"network", "about", "series"} and not chart.one_network:
        return
    if chart.title == "Totals" or chart.kind == "big_number":
        return
    if chart.dataset.name == "option_effects":
        return
    [one] = [
        shown
        for shown in DASHBOARD.filters
        if isinstance(shown, ValueFilter) and shown.key == "drawn" and chart.title in shown.charts
    ]
    assert (one.column, one.single, one.select_first) == ("network", True, True)


def test_a_click_filters_charts_by_columns_that_mean_the_same(demo):
    """Values of a column that a click sends are found in each chart that it filters.

    A dash stands for the hours of a day with nothing to compare.
    """
    connection = demo.warehouse.connect()
    rows = {
        name: connection.sql(dataset.sql).to_arrow_table() for name, dataset in DATASETS.items()
    }
    keys = {key for chart in CHARTS for key in chart_keys(chart)}
    values = {
        (name, column): set(found[column].unique().drop_null().to_pylist()) - {"\N{EN DASH}"}
        for name, found in rows.items()
        for column in keys & set(found.column_names)
    }
    [page] = [content for path, content in assets().items() if path.startswith("dashboards/")]
    scopes = page["metadata"]["chart_configuration"]
    filtered = set()
    for number, chart in enumerate(CHARTS, 1):
        excluded = scopes[str(number)]["crossFilters"]["scope"]["excluded"]
        sent = chart.form_data.get("groupby") or chart_keys(chart)
        for other, shown in enumerate(CHARTS, 1):
            for column in set(sent) & set(rows[shown.dataset.name].column_names):
                if other not in excluded:
                    own = values[chart.dataset.name, column]
                    found = values[shown.dataset.name, column]
                    assert not own or not found or own & found, (chart.title, shown.title, column)
                    filtered.add((chart.title, column))
    assert {
        ("TCP connections by day", "network"),
        (chart_named("Fig. 9. Throughput, peak").title, "hours"),
    } <= filtered


def test_every_dataset_has_a_name_of_its_own():
    """Superset finds a dataset by its name; the charts of the first would show the second's."""
    found = {}
    for chart in CHARTS:
        assert found.setdefault(chart.dataset.name, chart.dataset) == chart.dataset


def test_every_chart_says_what_it_is_about():
    described = {
        chart["slice_name"]: chart["description"]
        for path, chart in assets().items()
        if path.startswith("charts/")
    }
    for chart in CHARTS:
        assert (chart.description or chart.dataset.measured) in described[chart.title]
        assert described[chart.title].startswith(chart.caption)
    assert "the access link was busy" in described["Limits of transfers: share of the time"]
    stalls = [chart for chart in CHARTS if chart.title.startswith("Causes of stalls: ")]
    assert {chart.dataset.measured for chart in stalls} == {"stalls"}


HELD_DAYS = """
    create table networks (network text, country text, access text);
    create table metrics (network text, date date, metric text);
    create table peak_hours (
        network text, date date, peak_from int, peak_until int, off_peak_from int,
        off_peak_until int
    );
    create table quality (
        network text, date date, measure text, passed bool, finding text, released text
    );
    insert into networks values ('aa', 'AA', 'lte'), ('bb', 'BB', 'lte'), ('cc', 'CC', 'nr');
    insert into metrics values ('aa', '2004-03-01', 'm'), ('aa', '2004-03-01', 'n');
    insert into quality values
        ('aa', '2004-03-01', 'peak_flows', false, '0 connections', null),
        ('aa', '2004-03-01', 'volume_ratio', false, 'volume 0.1', null),
        ('aa', '2004-03-01', 'one_way_share', true, '0 %', null),
        ('aa', '2004-03-02', 'peak_flows', false, '0 connections', null),
        ('aa', '2004-03-03', 'peak_flows', true, '9 connections', null),
        ('bb', '2004-03-01', 'peak_flows', true, '9 connections', null),
        ('bb', '2004-03-04', 'peak_flows', false, '0 connections', 'a holiday')
"""


def test_every_day_has_a_state():
    """Of bb, there were no captures on two days between the first and the last."""
    connection = duckdb.connect()
    connection.execute(HELD_DAYS)
    connection.execute("""
        insert into metrics values ('bb', '2004-03-01', 'm'), ('cc', '2004-03-09', 'm')
    """)
    days = connection.execute(f"""
        select network, day(date), state from ({DAYS_SQL}) order by network, date
    """).fetchall()
    assert days == [
        ("aa", 1, "HELD, shown although it failed its checks"),
        ("aa", 2, "HELD, not shown"),
        ("aa", 3, "passed, figures not made yet"),
        ("bb", 1, "published"),
        ("bb", 2, "no captures"),
        ("bb", 3, "no captures"),
        ("bb", 4, "released in spite of a failed check"),
        ("cc", 9, "not checked"),
    ]


def test_held_days_come_first_whatever_is_chosen():
    made = assets()
    days = made["charts/days_held_days_first_then_the_newest.yaml"]
    assert days["params"]["order_by_cols"][:2] == ['["held", false]', '["date", false]']
    dashboard = made["dashboards/giscope.yaml"]
    [number] = [
        part["meta"]["chartId"]
        for key, part in dashboard["position"].items()
        if key.startswith("CHART-") and part["meta"]["sliceName"] == days["slice_name"]
    ]
    filters = dashboard["metadata"]["native_filter_configuration"]
    apart = {chosen["name"]: chosen["scope"]["excluded"] for chosen in filters}
    assert number in apart["Dates (UTC)"]
    assert number in apart["Access"]
    assert number not in apart["Network"] + apart["Country"]
