"""The peak and off-peak hours of days: those of the file, of the paper, and of the traffic."""

import datetime
from collections.abc import Mapping
from datetime import timedelta

import pytest
from conftest import DAY, ask

from schemas import FLOWS
from spark_jobs.ingest.networks import publish_network
from spark_jobs.jobs import quality
from spark_jobs.jobs.hours import update_hours
from spark_jobs.jobs.marts import update_marts
from spark_jobs.warehouse.facts import MadeFacts
from spark_jobs.warehouse.units import Unit
from tests.helpers.made_up import flow, publish

NOTHING = (None, None, None, None)


def publish_day(warehouse, demo, network, day, bytes_by_hour: Mapping[int, int]) -> None:
    """Publish a connection for each UTC hour of a day, with so many bytes."""
    connection = flow(demo, ip_bytes_up=0)
    rows = [
        connection
        | {
            "flow_id": n,
            "start_ts": datetime.datetime.combine(day, datetime.time(hour, 5), datetime.UTC),
            "end_ts": datetime.datetime.combine(day, datetime.time(hour, 6), datetime.UTC),
            "ip_bytes_down": size,
        }
        for n, (hour, size) in enumerate(bytes_by_hour.items())
    ]
    publish(warehouse, network.name, day, {FLOWS: rows})
    publish_network(warehouse, network)


def hours_by_day(warehouse, network) -> dict:
    update_hours(warehouse, [network])
    query = """select date, peak_from, peak_until, off_peak_from, off_peak_until, set_by
        from peak_hours order by date"""
    return {day: (tuple(hours), set_by) for day, *hours, set_by in ask(warehouse, query).fetchall()}


def with_settings(network, **settings):
    return type(network).model_validate(
        network.model_dump(exclude_unset=True) | {"timezone": "UTC"} | settings
    )


def test_default_hours_are_those_of_days_with_connections_in_them(warehouse, demo, network):
    default = with_settings(network)
    publish_day(warehouse, demo, default, DAY, {4: 10, 22: 10})
    publish_day(warehouse, demo, default, DAY + timedelta(days=1), {7: 10, 9: 10, 22: 10})
    assert hours_by_day(warehouse, default) == {
        DAY: ((10, 12, 3, 7), "default"),
        DAY + timedelta(days=1): (NOTHING, "default"),
    }


@pytest.mark.parametrize(
    ("peak", "periods"),
    [
        ((22, 1), {0: "peak", 4: "off_peak", 21: "other", 22: "peak", 23: "peak"}),
        ((21, 24), {0: "other", 4: "off_peak", 21: "peak", 22: "peak", 23: "peak"}),
    ],
)
def test_hours_of_the_file_may_be_over_midnight(warehouse, demo, network, peak, periods):
    """Table I has each connection in its period; the first hour of a period stands for it."""
    at_night = with_settings(network, peak_hours=peak)
    publish_day(warehouse, demo, at_night, DAY, dict.fromkeys(periods, 10))
    [verdict] = quality.check(warehouse, [at_night])
    assert (verdict.held, verdict.remark) == (False, None)
    assert hours_by_day(warehouse, at_night) == {DAY: ((*peak, 3, 7), "file")}
    update_marts(warehouse)
    found = ask(warehouse, "select hour, period from table1_summary").fetchall()
    assert dict(found) == periods
    found = ask(warehouse, "select distinct period from distributions").fetchall()
    assert {period for (period,) in found} == {*periods.values()}


def test_a_first_capture_outside_the_default_hours_is_shown_with_all_hours(
    warehouse, demo, network
):
    default = with_settings(network)
    publish_day(warehouse, demo, default, DAY, {21: 10, 22: 10})
    [verdict] = quality.check(warehouse, [default])
    assert not verdict.held
    assert verdict.remark == (
        "no connections in the default peak hours, 10 to 12 h, or off-peak hours, 3 to 7 h, so the "
        "figures are of all hours: the day has connections from 21 to 23 h, most at 21 h (local "
        "time): set peak_hours and off_peak_hours in the networks file"
    )
    update_marts(warehouse)
    assert ask(warehouse, "select count(*) from published_flows").fetchall() == [(2,)]
    assert ask(warehouse, "select distinct period from metrics").fetchall() == [("all",)]
    asked = with_settings(network, peak_hours=(10, 12))
    [verdict] = quality.check(warehouse, [asked])
    assert verdict.held
    assert verdict.findings[0].startswith(
        "0 connections in the peak hours, 10 to 12 h: the day has"
    )


def test_busiest_hours_are_those_of_earlier_days_and_stay(warehouse, demo, network):
    """Seven days with 23 and 0 h busiest, of 24 hours; then a week that is busy at noon."""
    busiest = with_settings(network, peak_hours="busiest")
    by_hour = {hour: 100 + hour for hour in range(24)} | {23: 900, 0: 800}
    first = [DAY + timedelta(days=n) for n in range(8)]
    for day in first:
        publish_day(warehouse, demo, busiest, day, by_hour)
    found = hours_by_day(warehouse, busiest)
    assert [found[day] for day in first[:7]] == [(NOTHING, "traffic")] * 7
    assert found[first[7]] == ((23, 1, 1, 5), "traffic")
    later = [DAY + timedelta(days=n) for n in range(8, 40)]
    for day in later:
        publish_day(warehouse, demo, busiest, day, {**by_hour, 12: 9000, 13: 8000})
    publish_day(warehouse, demo, busiest, first[6], {3: 100_000})
    changed = hours_by_day(warehouse, busiest)
    assert changed[first[7]] == found[first[7]]
    assert changed[later[-1]] == ((12, 14, 1, 5), "traffic")
    warehouse.publish_facts(Unit.of_day("hours", network.name, first[7]), MadeFacts())
    assert hours_by_day(warehouse, busiest)[first[7]] == found[first[7]]


def test_hours_that_were_not_captured_are_not_quiet(warehouse, demo, network):
    busiest = with_settings(network, peak_hours="busiest")
    days = [DAY + timedelta(days=n) for n in range(8)]
    for day in days:
        publish_day(warehouse, demo, busiest, day, {h: 10 + h for h in range(8, 18)})
    assert hours_by_day(warehouse, busiest)[days[-1]] == ((16, 18, 8, 12), "traffic")
