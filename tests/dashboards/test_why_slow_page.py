"""The page of what makes transfers slow, against the tables that its marts are made of."""

import re

import pytest

from schemas.flows import LIMITS
from spark_jobs.figures.examples.dashboard import EXAMPLES
from spark_jobs.figures.rto_by_options.dashboard import RTO_DISTRIBUTION


def test_timeouts_are_drawn_up_to_a_minute_with_all_their_time(demo):
    connection = demo.warehouse.connect()
    ((drawn, last),) = connection.sql(f"""
        select sum(seconds), max(rto_below) from ({RTO_DISTRIBUTION.sql})
    """).fetchall()
    ((all_time,),) = connection.sql("""
        select sum(seconds) from rto_by_options
        where measure = 'rto' and not backed_off and sack is not null and timestamps is not null
    """).fetchall()
    assert drawn == pytest.approx(all_time)
    assert 54 < last <= 60


def test_examples_are_those_held_up_the_longest_and_name_nobody(demo):
    connection = demo.warehouse.connect()
    examples = connection.sql(EXAMPLES.sql)
    assert not {"user", "server", "user_port"} & set(examples.columns)
    rows = connection.sql(f"""
        select network, hour, hours, cause, "time [s]", connection from ({EXAMPLES.sql})
    """).fetchall()
    hours = connection.sql("select distinct network, hour, period from table1_summary").fetchall()
    assert {row[:3] for row in rows} == {
        (network, hour, period.replace("_", "-")) for network, hour, period in hours
    }
    assert len(rows) == len({row[:4] for row in rows})
    flow_ids = connection.sql("select network, flow_id from flows").fetchall()
    assert {(row[0], int(re.search(r">(\d+)<", row[5])[1])) for row in rows} <= {*flow_ids}
    longest = {}
    for network, _, _, cause, seconds, _ in rows:
        longest[network, cause] = max(longest.get((network, cause), 0), seconds)
    limits = " union all ".join(
        f"select network, 'limit: {limit}' as cause, max(limited_{limit}) as seconds"
        f" from flows where limited_by = '{limit}' and initiator = 'mobile' group by network"
        for limit in LIMITS
    )
    expected = connection.sql(f"""
        with stalled as (
            select network, 'stall: ' || class as cause, sum(epoch(end_ts - start_ts)) as seconds
            from (select * from stalls where flow_id in (
                select flow_id from flows where initiator = 'mobile'))
            group by network, class, date, flow_id
        )
        select network, replace(cause, '_', ' '), round(max(seconds), 1)
        from ({limits} union all select * from stalled) group by all
    """).fetchall()
    assert longest == {row[:2]: row[2] for row in expected}
