"""Zeek's conn, http and ssl logs to sessions, and their effect on flows."""

import json

import pytest
from conftest import DAY, NOON, ask, count

import spark_jobs.ingest.job as ingest_job
import spark_jobs.jobs.flows as flows_job
from spark_jobs.ingest.publish import CaptureOutcome
from tests.helpers.capture_files import Frame, pcap
from tests.helpers.sessions import DATA, SEGMENTS, conn, download, frame, request
from tests.helpers.stale_days import stale_days
from tests.helpers.zeek_logs import CONNECTION, site_log

pytestmark = pytest.mark.usefixtures("in_this_process")


def capture(warehouse, network, *frames: Frame) -> None:
    path = warehouse.root.parent / "a.pcap"
    path.write_bytes(pcap(sorted(frames, key=lambda frame: frame.ts)))
    assert ingest_job.ingest_capture(warehouse, network, path).error is None


def put(warehouse, network, name: str, text: str) -> CaptureOutcome:
    path = warehouse.root.parent / name
    path.write_text(text)
    (result,) = ingest_job.ingest(warehouse, [(network, path)])
    assert result.error is None
    return result


def rows(warehouse, network, table: str) -> list[dict]:
    flows_job.publish_flows(warehouse, [(network, DAY)])
    return ask(warehouse, f"from {table}").to_arrow_table().to_pylist()


def test_one_request_is_one_session_with_its_flow(warehouse, network):
    capture(warehouse, network, *download(NOON))
    put(warehouse, network, "conn.log", site_log("conn", [conn(NOON, 16)]))
    put(warehouse, network, "http.log", site_log("http", [request(NOON + 0.61)]))
    (session,) = rows(warehouse, network, "sessions")
    (flow,) = rows(warehouse, network, "flows")
    assert session["flow_id"] == flow["flow_id"]
    assert (session["service"], session["requests"], session["responses"]) == ("http", 1, 1)
    assert session["request_response"] is flow["request_response"] is True


def test_two_logged_requests_override_one_turn(warehouse, network):
    """Pipelined requests are one turn in sequence space; http.log knows that they are two."""
    capture(warehouse, network, *download(NOON, requests=2))
    (flow,) = rows(warehouse, network, "flows")
    assert flow["request_response"] is True
    assert flow["throughput"] is not None
    text = site_log("http", [request(NOON + 0.61), request(NOON + 0.62, 2)])
    put(warehouse, network, "http.log", text)
    assert (network, DAY) in stale_days(warehouse, [network])
    (flow,) = rows(warehouse, network, "flows")
    assert flow["request_response"] is False
    assert flow["throughput"] is None
    assert flow["goodput"] == pytest.approx(8 * (SEGMENTS - 1) * DATA / 14.9)


def test_request_in_several_turns_is_one_pair_where_the_log_says_so(warehouse, network):
    """A server that sends interim responses: five short answers before the long one."""
    frames = download(NOON)
    shift = 5 * 10
    head = []
    for i in range(5):
        at = NOON + 0.7 + i / 20
        head.append(frame(at, "down", "PA", 500 + 10 * i, 200 + 10 * i, 10))
        head.append(frame(at + 0.01, "up", "PA", 200 + 10 * i, 510 + 10 * i, 10))
    opening, body = frames[:4], frames[4:]
    moved = []
    for i in range(SEGMENTS):
        at, seq = NOON + 1 + i * 0.1, 500 + shift + i * DATA
        moved.append(frame(at, "down", "A", seq, 250, DATA))
        moved.append(frame(at + 0.5, "up", "A", 250, seq + DATA))
    assert len(moved) == len(body)
    capture(warehouse, network, *opening, *head, *moved)
    (flow,) = rows(warehouse, network, "flows")
    assert flow["request_response"] is False
    put(warehouse, network, "http.log", site_log("http", [request(NOON + 0.61)]))
    (flow,) = rows(warehouse, network, "flows")
    assert flow["request_response"] is True
    assert flow["throughput"] is not None


@pytest.mark.parametrize("status", ["-", "100"])
def test_request_without_a_final_status_is_no_pair(warehouse, network, status):
    capture(warehouse, network, *download(NOON))
    put(warehouse, network, "http.log", site_log("http", [request(NOON + 0.61, status=status)]))
    (session,) = rows(warehouse, network, "sessions")
    assert (session["requests"], session["responses"]) == (1, 0)
    assert session["request_response"] is False


def test_tls_is_a_session_without_known_requests(warehouse, network):
    capture(warehouse, network, *download(NOON))
    row = {"ts": f"{NOON + 0.7}", "version": "TLSv13", "resumed": "F", "established": "T"}
    put(warehouse, network, "ssl.log", site_log("ssl", [row]))
    (session,) = rows(warehouse, network, "sessions")
    (flow,) = rows(warehouse, network, "flows")
    assert (session["service"], session["requests"]) == ("ssl", None)
    assert session["request_response"] is None
    assert flow["request_response"] is True


def test_log_rows_of_reused_ports_are_assigned_by_time(warehouse, network):
    end = frame(NOON + 20, "up", "RA", 200, 500 + SEGMENTS * DATA)
    again = frame(NOON + 600, "up", "S", 70_000, 0)
    capture(
        warehouse, network, *download(NOON), end, again, frame(NOON + 602, "up", "S", 70_000, 0)
    )
    rows_of_log = [request(NOON + 0.61), request(NOON + 600.61), request(NOON + 601, 2)]
    put(warehouse, network, "http.log", site_log("http", rows_of_log))
    found = rows(warehouse, network, "sessions join flows using (flow_id) order by start_ts")
    assert [session["requests"] for session in found] == [1, 2]


def test_rows_of_no_flow_are_no_session(warehouse, network):
    capture(warehouse, network, *download(NOON))
    others = [request(NOON + 300), request(NOON + 1) | {"id.orig_p": "1001"}]
    put(warehouse, network, "http.log", site_log("http", others))
    assert rows(warehouse, network, "sessions") == []


def test_server_may_be_the_originator(warehouse, network):
    capture(warehouse, network, *download(NOON))
    turned = {
        "id.orig_h": CONNECTION["id.resp_h"],
        "id.orig_p": CONNECTION["id.resp_p"],
        "id.resp_h": CONNECTION["id.orig_h"],
        "id.resp_p": CONNECTION["id.orig_p"],
    }
    put(warehouse, network, "conn.log", site_log("conn", [conn(NOON, 16, **turned)]))
    (session,) = rows(warehouse, network, "sessions")
    assert session["service"] == "http"


def as_json(row: dict[str, str], time: object) -> str:
    numbers = ("id.orig_p", "id.resp_p", "trans_depth", "status_code", "request_body_len")
    merged = CONNECTION | row
    values = {k: int(v) if k in numbers else v for k, v in merged.items()}
    return json.dumps(values | {"ts": time}) + "\n"


@pytest.mark.parametrize("time", [NOON + 0.61, "2004-03-02T12:00:00.610000Z"])
def test_json_logs_give_the_same_sessions(warehouse, network, time):
    capture(warehouse, network, *download(NOON))
    put(warehouse, network, "http.json", as_json(request(NOON), time))
    (session,) = rows(warehouse, network, "sessions")
    assert (session["service"], session["requests"], session["responses"]) == ("http", 1, 1)


def test_bad_rows_are_named_counted_and_the_others_kept(warehouse, network):
    good = conn(NOON, 16)
    text = site_log(
        "conn",
        [
            good,
            conn(NOON, 16) | {"id.orig_p": "70000"},
            conn(NOON, 16) | {"id.resp_h": "198.51.100"},
            conn(NOON, 16) | {"ts": "-"},
            conn(NOON, 16, proto="udp"),
            conn(NOON, 16) | {"id.orig_h": "192.0.2.1"},
        ],
    )
    result = put(warehouse, network, "conn.log", text)
    assert result.facts.rows == 1
    assert result.facts.skipped == {"malformed_line": 3, "not_subscriber": 1, "not_tcp": 1}
    places = [note.removeprefix(str(warehouse.root.parent)).split(": ")[0] for note in result.notes]
    assert sorted(places) == ["/conn.log:10", "/conn.log:11", "/conn.log:12"]


def test_log_in_a_dated_folder_is_not_mistaken_for_another_days(warehouse, network):
    work = []
    for day in ("2004-03-02", "2004-03-03"):
        path = warehouse.root.parent / day / "conn.log"
        path.parent.mkdir()
        path.write_text(site_log("conn", [conn(NOON, 16, history=day)]))
        work.append((network, path))
    results = ingest_job.ingest(warehouse, work)
    assert [result.capture for result in results] == ["2004-03-02/conn.log", "2004-03-03/conn.log"]
    assert count(warehouse, "application_log") == 2


def test_log_with_nothing_of_a_subscriber_is_no_error(warehouse, network):
    text = site_log("conn", [conn(NOON, 16) | {"id.orig_h": "192.0.2.1"}])
    assert put(warehouse, network, "conn.log", text).facts.rows == 0
    path = warehouse.root.parent / "conn.log"
    (again,) = ingest_job.ingest(warehouse, [(network, path)])
    assert again.unchanged
