"""RADIUS accounting messages, ingested."""

import spark_jobs.ingest.job as ingest_job
from schemas.zeek import ACCOUNTING_LOG
from tests.helpers.zeek_logs import package_log

HOUR = 3600


ADDRESS = "10.64.0.1"


START, STOP, UPDATE, ON = "1", "2", "3", "7"


def message(at_s: float, status: str, subscriber: str, session: str = "", **more: str) -> dict:
    """Return an Accounting-Request; its session is the subscriber's unless given."""
    row = {"ts": f"{at_s:.6f}", "nas": "192.0.2.1", "status": status}
    if status != ON:
        row |= {"session": session or subscriber, "address": ADDRESS, "subscriber": subscriber}
    return row | more


def put_log(warehouse, network, text: str, name: str = "giscope_accounting.log"):
    path = warehouse.root.parent / name
    path.write_text(text)
    (result,) = ingest_job.ingest(warehouse, [(network, path)])
    assert result.error is None
    return result


def put(warehouse, network, *messages: dict, name: str = "giscope_accounting.log"):
    return put_log(warehouse, network, package_log(ACCOUNTING_LOG, messages), name)
