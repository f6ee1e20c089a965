"""Zeek's logs of real applications, and giscope's verdicts from them, beside what the applications
did (tests/data/applications: recorded by tests/programs/recordings)."""

import csv
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from conftest import ROOT, ask

import spark_jobs.ingest.job as ingest_job
import spark_jobs.jobs.flows as flows_job
from schemas.accounting import STATUSES
from schemas.zeek import LOGS
from spark_jobs.capture.reader import ReadStats
from spark_jobs.capture.zeek_kinds import log_kind
from spark_jobs.capture.zeek_lines import read_log_rows
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.zeek_program import SCRIPTS

RECORDED = ROOT / "tests/data/applications"
LOGGED = ROOT / "tests/data/zeek"
"""By the real Zeek, of the same captures: a folder for each, of the logs that giscope reads."""
OF_APPLICATIONS = ("conn.log", "http.log", "ssl.log")

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def network(plain_network):
    """What the applications did is known by address."""
    return plain_network


def truth(name: str) -> list[dict[str, str]]:
    with (RECORDED / f"{name}.csv").open() as source:
        return list(csv.DictReader(source))


def capture(name: str, folder: Path) -> Path:
    path = folder / f"{name}.pcap"
    path.write_bytes(zstandard.decompress((RECORDED / f"{name}.pcap.zst").read_bytes(), 1 << 28))
    return path


def verdicts(warehouse: Warehouse, network, name: str, with_logs: bool) -> dict[str, bool]:
    """flows.request_response by the exchange's name."""
    files = [capture(name, warehouse.root.parent)]
    if with_logs:
        files += [LOGGED / name / log for log in OF_APPLICATIONS if (LOGGED / name / log).exists()]
    done = ingest_job.ingest(warehouse, [(network, path) for path in files])
    assert [result.error for result in done] == [None] * len(files)
    (day,) = done[0].dates
    flows_job.publish_flows(warehouse, [(network, day)])
    found = ask(warehouse, 'select "user", user_port, request_response from flows')
    by_end = {(user, port): verdict for user, port, verdict in found.fetchall()}
    return {row["exchange"]: by_end[row["client"], int(row["client_port"])] for row in truth(name)}


def wrong(warehouse: Warehouse, network, name: str, with_logs: bool) -> dict[str, bool]:
    """The verdicts that are not what the applications did."""
    given = verdicts(warehouse, network, name, with_logs)
    did = {row["exchange"]: row["one_request_one_response"] == "true" for row in truth(name)}
    assert len(did) == len(truth(name)) > 20
    return {
        exchange: verdict for exchange, verdict in given.items() if verdict is not did[exchange]
    }


WRONG = {
    "web": {
        "expect_100": "sequence",
        "pipelined_3": "sequence",
        "pipelined_large": "sequence",
        "pipelined_behind": "sequence",
        "pipelined_and_closed": "sequence",
        "connect": "sequence",
        "length_too_long": "both",
        "chunks_cut": "both",
        "refused_413_stopped": "both",
        "refused_413_expected": "both",
        "echo": "both",
    },
    "tls": {
        "client_unnamed_alert_tls12": "sequence",
        "server_not_trusted": "sequence",
        "server_not_trusted_tls12": "sequence",
        "no_common_version": "sequence",
        "hello_only": "sequence",
        "tls12_resumed_2": "both",
        "tls13_resumed_2": "both",
        "http_2_parallel": "both",
        "client_unknown": "both",
        "client_unnamed": "both",
        "client_unnamed_alert": "both",
    },
}
"""Exchanges with a wrong verdict: in sequence space only, or with Zeek's logs too. Each one is
explained in docs/zeek.md."""


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("with_logs", [False, True], ids=["sequence", "logs"])
def test_verdicts_are_what_the_applications_did(warehouse, network, name, with_logs):
    exchanges = wrong(warehouse, network, name, with_logs)
    assert set(exchanges) == {
        exchange for exchange, where in WRONG[name].items() if where == "both" or not with_logs
    }


def test_wrong_verdicts_are_explained():
    explained = (ROOT / "docs/zeek.md").read_text()
    names = [exchange for of_name in WRONG.values() for exchange in of_name]
    assert [exchange for exchange in names if f"`{exchange}`" not in explained] == []


UNFINISHED = {"head_unfinished", "body_unfinished", "refused_413_stopped", "refused_413_expected"}


def test_http_log_counts_the_requests_that_were_made(warehouse, network):
    """Also one cut short, but none within CONNECT's tunnel."""
    verdicts(warehouse, network, "web", with_logs=True)
    counts = 'select "user", user_port, requests from sessions join flows using (flow_id)'
    found = ask(warehouse, counts).fetchall()
    counted = {(user, port): requests for user, port, requests in found if requests is not None}
    assert len(counted) > 50
    for row in truth("web"):
        end, exchange = (row["client"], int(row["client_port"])), row["exchange"]
        if end in counted and exchange != "connect":
            assert counted[end] == int(row["requests"]) + (exchange in UNFINISHED), exchange


def test_accounting_log_says_what_the_access_servers_sent(warehouse, network):
    """Requests in the order they were sent, and the addresses that were granted."""
    codes = {"Start": 1, "Stop": 2, "Interim-Update": 3, "Accounting-On": 7, "Accounting-Off": 8}
    sent, granted = [], []
    asked = {}
    for row in truth("radius"):
        who, end = row["subscriber"] or None, (row["nas_port"], row["id"])
        if row["code"] == "Access-Request":
            asked[end] = who
        elif row["code"] == "Access-Accept" and row["address"]:
            granted.append((0, row["nas"], row["address"], asked.pop(end, None)))
        elif row["code"] == "Accounting-Request" and row["status_type"] in codes:
            sent.append((codes[row["status_type"]], row["nas"], row["address"] or None, who))
    logged = rows_of(
        LOGGED / "radius/giscope_accounting.log", ["status", "nas", "address", "subscriber"]
    )
    assert [row for row in logged if row[0] == 0] == granted
    assert [row for row in logged if row[0] in STATUSES and row[0]] == sent
    assert len(granted) == 7


def test_radius_log_of_zeek_grants_no_address(warehouse, network):
    """It takes Framed-IP-Address from challenges only; the package logs authentications itself."""
    addresses = rows_of(LOGGED / "radius/radius.log", ["framed_addr", "result"])
    assert ("success",) in {row[1:] for row in addresses}
    assert {row[0] for row in addresses} == {None}


def rows_of(path: Path, names: list[str] | None = None) -> list[tuple]:
    """The fields that giscope reads, of each row in the file's order."""
    log = log_kind(path)
    tables = [table for block in read_log_rows(path, log, ReadStats()) for table, _, _ in block]
    table = pa.concat_tables(tables).select(names or list(log.fields))
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.usefixtures("zeek")
@pytest.mark.parametrize("name", ["web", "tls", "radius"])
def test_logs_are_what_this_zeek_writes(tmp_path, name):
    capture(name, tmp_path)
    script = SCRIPTS / "accounting.zeek"
    subprocess.run(["zeek", "-C", "-r", f"{name}.pcap", script], cwd=tmp_path, check=True)
    kept = sorted((LOGGED / name).glob("*.log"))
    assert {path.name for path in kept} >= {"conn.log"}
    for path in kept:
        assert sorted(rows_of(tmp_path / path.name), key=str) == sorted(rows_of(path), key=str)
    written = {path.name for path in tmp_path.glob("*.log") if log_kind(path) in LOGS}
    assert written == {path.name for path in kept}
