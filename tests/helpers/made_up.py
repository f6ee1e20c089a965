"""Days whose tables are made up, without packets."""

from datetime import date

import pyarrow as pa
from conftest import Demo, ask

from schemas import FLOWS, PEAK_HOURS
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit


def publish(warehouse: Warehouse, network: str, day: date, tables: dict) -> None:
    """Publish rows of tables as a unit of the day, and the paper's peak hours."""
    with warehouse.staging() as staging:
        for table, rows in tables.items():
            staging.write(table, network, day, "test", pa.Table.from_pylist(rows, table.arrow))
        warehouse.publish(Unit.of_day("day", network, day), staging.files, {"inputs": ""})
    hours = {"peak_from": 10, "peak_until": 12, "off_peak_from": 3, "off_peak_until": 7}
    with warehouse.staging() as staging:
        rows = pa.Table.from_pylist([hours | {"set_by": "file"}], PEAK_HOURS.arrow)
        staging.write(PEAK_HOURS, network, day, "hours", rows)
        warehouse.publish(Unit.of_day("hours", network, day), staging.files, {"inputs": ""})


def flow(demo: Demo, **changes: object) -> dict:
    """Return a connection of the demo in the peak hours (10 to 12 in Budapest), with changes."""
    query = """
        from flows where network = 'aa-gprs' and initiator = 'mobile'
        and hour(start_ts at time zone 'Europe/Budapest') between 10 and 11
        order by flow_id limit 1
    """
    [row] = ask(demo.warehouse, query).to_arrow_table().to_pylist()
    return {name: row[name] for name in FLOWS.arrow.names} | changes
