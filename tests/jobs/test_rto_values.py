"""The duration of each RTO value and the RTT sample before it, as SQL computes them from the
tables; rows of one time in the order in which they are written."""

from schemas import RTO_VALUES, RTT_SAMPLES

SQL = """
with timed as (
    select network, date, flow_id, ts, rto, null as rtt, file_row_number as place
    from read_parquet({rto_values}, file_row_number = true)
    union all
    select network, date, flow_id, ts, null, rtt, file_row_number
    from read_parquet({rtt_samples}, file_row_number = true) where side = 'access'
),
known as (
    select
        * exclude (rtt),
        last(rtt ignore nulls) over (
            of_flow rows between unbounded preceding and current row
        ) as rtt,
        first(if(rto is null, null, ts) ignore nulls) over (
            of_flow rows between 1 following and unbounded following
        ) as until
    from timed
    window of_flow as (
        partition by network, date, flow_id order by ts, rto is not null, place
    )
)
select
    network, date, flow_id, known.ts, rto,
    greatest(epoch_us(coalesce(until, end_ts)) - epoch_us(known.ts), 0) / 1e6 as duration, rtt
from known join flows using (network, date, flow_id)
where rto is not null
order by all
"""


def test_rto_values_last_until_the_next_and_have_the_rtt_sample_before(demo):
    connection = demo.warehouse.connect()
    files = {
        table.name: list(map(str, demo.warehouse.files(table)))
        for table in (RTO_VALUES, RTT_SAMPLES)
    }
    expected = connection.execute(SQL.format(**files)).fetchall()
    query = "select network, date, flow_id, ts, rto, duration, rtt from rto_values order by all"
    assert connection.execute(query).fetchall() == expected
    assert len(expected) > 10_000
    assert any(rtt is None for *_, rtt in expected)
