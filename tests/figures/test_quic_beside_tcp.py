"""The report's sections on QUIC where there is none, little, or no TCP beside it."""

from conftest import DAY

from spark_jobs.figures.mart_sql import mart_query
from spark_jobs.figures.marts import mart
from spark_jobs.figures.page_elements import Section
from spark_jobs.figures.quic_beside_tcp.figure import FIGURES
from spark_jobs.figures.selection import Selection, ShownNetwork
from tests.helpers.mart_examples import connect, create_tables, input_rows

QUIC = {
    "begin_seen": True, "ip_bytes_down": 100, "setup_class": "optimal", "setup_delay": 0.25,
    "rtt_access": 0.1, "rtt_internet": 0.1, "spin": "spins", "spin_rtt_median": 0.2,
}  # fmt: skip


def sections_of(**rows: list[dict]) -> list[Section]:
    connection = connect()
    create_tables(connection, input_rows(rows))
    connection.execute(
        f"create table {mart('quic_beside_tcp').name} as {mart_query(mart('quic_beside_tcp'))}"
    )
    networks = [ShownNetwork("n", "AA", "gprs", "#000000")]
    selection = Selection(networks, DAY, DAY, connection, lambda table, days: table.name)
    return [section for figure in FIGURES for section in figure.sections(selection)]


def test_of_two_users_no_value_is_shown_and_no_figure_is_empty():
    found = sections_of(quic_flows=[QUIC | {"users": 2}])
    assert [section.anchor for section in found] == ["quic-shares", "quic-setups", "quic-times"]
    assert not any(section.figure for section in found)
    rows = [row for section in found for table in section.tables for row in table.rows]
    assert ["n", "peak", "connections", "0", "2", "0", "too few"] in rows
    assert ["n", "peak", "QUIC", "2", "too few", "\N{EN DASH}"] in [row[:6] for row in rows]
    delay = ["n", "peak", "set-up delay", "QUIC", "2", *["too few"] * 4]
    assert delay in rows
