"""`giscope why`: what the tables have on a connection, in five lines."""

import re
from dataclasses import replace

import pyarrow.compute as pc
import pytest
from conftest import ask

from spark_jobs.base.errors import UserError
from spark_jobs.report.connection import read_connection
from spark_jobs.report.why import explanation
from spark_jobs.warehouse.store import Warehouse


def flow_of(demo, question: str) -> dict:
    """Return one row of the demo's flows."""
    query = f"select * from flows where {question} limit 1"
    [row] = ask(demo.warehouse, query).to_arrow_table().to_pylist()
    return row


def test_five_sentences_have_the_numbers_of_the_tables(demo):
    flow = flow_of(demo, "retransmissions > 20 and rto_expiries > 1 and lost_access > 5")
    speed, limits, losses, retransmissions, stalls = explanation(
        read_connection(demo.warehouse, flow["flow_id"])
    )
    assert f"{flow['payload_bytes_down']:,} bytes" in speed
    assert f"{flow['goodput'] / 1000:,.1f} kbit/s" in speed
    assert f"{flow['lost_access']:,} were lost on the access side" in losses
    assert f"The server retransmitted {flow['retransmissions']:,} packets" in retransmissions
    assert f"timer expired {flow['rto_expiries']:,} times" in retransmissions
    assert sum(map(int, re.findall(r"(\d+) %", limits))) == pytest.approx(100, abs=3)
    count, seconds = ask(
        demo.warehouse,
        f"""
        select count(*), sum(epoch(end_ts - start_ts)) from stalls
        where flow_id = {flow["flow_id"]}
    """,
    ).fetchall()[0]
    assert f"The connection stalled {count} time" in stalls
    assert f"for {seconds:.1f} s in total" in stalls


def test_largest_limit_is_named_first(demo):
    flow = flow_of(demo, "limited_by = 'receiver' and limited_receiver > 10")
    assert (
        "the mobile's window was full ("
        in explanation(read_connection(demo.warehouse, flow["flow_id"]))[1].split(",")[1]
    )


def test_limits_and_retransmissions_of_an_unanswered_connection_are_unknown(demo):
    flow = flow_of(demo, "setup_class = 'no_response'")
    _, limits, losses, retransmissions, stalls = explanation(
        read_connection(demo.warehouse, flow["flow_id"])
    )
    assert limits == "The limits of the transfer are unknown."
    assert losses.startswith("Of the 0 data packets")
    assert retransmissions == "The retransmissions are unknown."
    assert stalls == "The connection never stalled."


def test_empty_warehouse_has_no_flow(tmp_path):
    with pytest.raises(UserError, match="no flow 1"):
        read_connection(Warehouse(tmp_path), 1)


def test_one_packet_and_one_byte_are_in_the_singular(demo):
    """Of a connection of the demo whose numbers are all made one."""
    flow = flow_of(
        demo,
        "flow_id in (select flow_id from retransmissions where not needed and not new_data) "
        "and lost_access > 0 and retransmissions > 3",
    )
    connection = read_connection(demo.warehouse, flow["flow_id"])
    one = connection.retransmissions.filter(pc.equal(connection.retransmissions["needed"], False))
    numbers = ("payload_bytes_down", "data_packets_down", "lost_access", "lost_internet")
    ones = dict.fromkeys((*numbers, "retransmissions", "rto_expiries"), 1)
    text = " ".join(
        explanation(replace(connection, flow=connection.flow | ones, retransmissions=one[:1]))[:4]
    )
    assert "sent 1 byte to" in text
    assert "Of the 1 data packet that Gi saw, 1 was lost on the access side" in text
    assert "The Internet side lost 1 packet" in text
    assert "retransmitted 1 packet: 1 " in text
    assert "1 of them was spurious" in text
    assert "timer expired 1 time." in text
    assert not re.search(r"\b1 (packets|bytes|times|were|of them were)\b", text)
