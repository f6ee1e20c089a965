"""What cannot be made withholds itself alone: a task of flows its network's day, a mart, a section,
a page. One line says so, the exit status is 2, everything else is published, and a later run tries
again. The inputs in tests/data/reports/runs ended the whole run with a traceback once."""

import shutil
from pathlib import Path

import pytest
from conftest import REPORTS

import spark_jobs.jobs.flows as flows_job
from spark_jobs.figures import parts
from spark_jobs.figures.names import PLOTS
from spark_jobs.jobs import marts as marts_job
from spark_jobs.jobs import plot as plot_job
from spark_jobs.tables import mart_rows as mart_rows_module
from tests.helpers.command import giscope
from tests.helpers.isolation import Place

RUNS = sorted((REPORTS / "runs").glob("*.pcap.gz"))
GOOD, BAD = "good", "bad"

pytestmark = pytest.mark.usefixtures("in_this_process")


def put(folder: Path, **captures: Path) -> None:
    """Copy captures; the name is that of the network."""
    for network, capture in captures.items():
        target = folder / "captures" / network / capture.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(capture, target)


@pytest.fixture
def two(tmp_path) -> Place:
    """A network whose flows, marts or pages fail in the tests, beside one where nothing fails."""
    place = Place(tmp_path, GOOD, BAD)
    captures = {GOOD: "tfo_request_after.pcap.gz", BAD: "runs/tcp-user-beside-quic-user.pcap.gz"}
    put(tmp_path, **{network: REPORTS / name for network, name in captures.items()})
    return place


def withheld(done) -> list[str]:
    lines = done.stderr.splitlines()
    assert "Traceback" not in done.stderr
    return [line for line in lines if line.startswith("giscope: withheld: ")]


@pytest.mark.parametrize("capture", RUNS, ids=lambda path: path.name.partition(".")[0])
def test_a_capture_that_once_ended_the_run_gives_all_marts(capture, tmp_path):
    place = Place(tmp_path, "odd")
    put(tmp_path, odd=capture)
    done = place.run()
    assert (withheld(done), done.returncode) == ([], 0)
    assert place.ask("select count(*) > 0 from table1_summary") == [(True,)]
    assert (place.root / "report.html").exists()


def fail_flows(monkeypatch, network: str) -> None:
    make = flows_job._make_flows

    def failing(item):
        if item.names.network == network:
            raise ValueError("an odd connection")
        return make(item)

    monkeypatch.setattr(flows_job, "_make_flows", failing)


def test_flows_that_fail_hold_their_day_alone(two, monkeypatch):
    with monkeypatch.context() as patch:
        fail_flows(patch, BAD)
        for _ in range(2):
            done = two.run()
            [line] = withheld(done)
            assert line.startswith("giscope: withheld: flows of bad on ")
            assert "ValueError: an odd connection" in line
            assert done.returncode == 2
            assert done.stderr.splitlines()[-1] == "giscope: everything else is done"
            assert two.ask("select distinct network from table1_summary") == [(GOOD,)]
            held = "select network, passed, finding from quality where measure = 'failed'"
            [(network, passed, finding)] = two.ask(held)
            assert (network, passed) == (BAD, False)
            assert "ValueError: an odd connection" in finding
            assert two.ask("from packets where network = 'bad'")
        day = two.ask("select distinct date from quality where network = 'bad'")[0][0]
        done = giscope("release", *two.where, "--network", BAD, "--date", day, "--reason", "no")
        assert done.returncode == 2
        assert "has nothing new to publish: flows: ValueError: an odd connection" in done.stderr
    done = two.run()
    assert (withheld(done), done.returncode) == ([], 0)
    assert two.ask("select count(distinct network) from table1_summary") == [(2,)]
    assert two.ask("from quality where measure = 'failed'") == []


def test_flows_that_fail_again_keep_what_was_published(two, monkeypatch):
    assert two.run().returncode == 0
    before = two.ask("from flows order by all")
    for network in (GOOD, BAD):
        put(two.folder, **{network: REPORTS / "runs/snap-64-freebsd-syn.pcap.gz"})
    fail_flows(monkeypatch, BAD)
    done = two.run()
    assert done.returncode == 2
    of_bad = [row for row in two.ask("from flows order by all") if BAD in row]
    assert of_bad == [row for row in before if BAD in row]
    assert two.ask("select sum(flows) from table1_summary where network = 'bad'") == [(1,)]
    assert two.ask("select sum(flows) from table1_summary where network = 'good'") == [(2,)]


def fail_mart(monkeypatch, mart: str, network: str) -> None:
    query = mart_rows_module.mart_query

    def failing(table):
        sql = query(table)
        bad = f"select error('no {mart}') from flows where network = '{network}'"
        return f"{sql} where ({bad} limit 1) is null" if table.name == mart else sql

    monkeypatch.setattr(mart_rows_module, "mart_query", failing)


def test_a_mart_that_fails_is_left_out_alone(two, monkeypatch):
    with monkeypatch.context() as patch:
        fail_mart(patch, "table1_summary", BAD)
        for _ in range(2):
            done = two.run()
            assert done.returncode == 2
            [line] = withheld(done)
            assert line.startswith("giscope: withheld: mart table1_summary of bad on ")
            assert two.ask("select distinct network from table1_summary") == [(GOOD,)]
            assert two.ask("select distinct network from metrics order by all") == [(BAD,), (GOOD,)]
            row = "select network, passed, finding from quality where measure = 'failed'"
            [(network, passed, finding)] = two.ask(row)
            assert (network, passed) == (BAD, True)
            assert finding.startswith("withheld: mart table1_summary: ")
            assert "InvalidInputException" in finding
        assert BAD in (two.root / "report.html").read_text()
    done = two.run()
    assert (withheld(done), done.returncode) == ([], 0)
    assert two.ask("select count(distinct network) from table1_summary") == [(2,)]
    assert two.ask("from quality where measure = 'failed'") == []


def test_marts_of_a_task_that_fails_stay_as_they_are(two, monkeypatch):
    make = marts_job._write_marts

    def failing(staging, threads, memory_limit, batch):
        if any(network == BAD for network, _ in batch.days):
            raise RuntimeError("no marts")
        return make(staging, threads, memory_limit, batch)

    def run_and_fail():
        with monkeypatch.context() as patch:
            patch.setattr(marts_job, "_write_marts", failing)
            done = two.run()
        [line] = withheld(done)
        assert line.startswith("giscope: withheld: all marts of bad on ")
        assert done.returncode == 2

    flows = "select network, sum(flows) from table1_summary group by all order by all"
    run_and_fail()
    assert two.ask(flows) == [(GOOD, 1)]
    assert two.run().returncode == 0
    assert two.ask(flows) == [(BAD, 1), (GOOD, 1)]
    capture = REPORTS / "runs/snap-64-freebsd-syn.pcap.gz"
    put(two.folder, **dict.fromkeys((GOOD, BAD), capture))
    run_and_fail()
    assert two.ask(flows) == [(BAD, 1), (GOOD, 2)]


def test_a_section_that_fails_is_a_line_in_its_place(two, monkeypatch):
    [section] = [part for part in parts("page") if "fig09" in part.__name__]
    with monkeypatch.context() as patch:
        patch.setattr(section, "sections", lambda selection: 1 / 0)
        done = two.run()
        [line] = withheld(done)
        assert line.startswith(
            "giscope: withheld: section fig09_throughput of the report: ZeroDivisionError"
        )
        assert done.returncode == 2
        page = (two.root / "report.html").read_text()
        assert "withheld: ZeroDivisionError: division by zero" in page
        assert 'id="fig13"' in page
        assert two.run().returncode == 2
    done = two.run()
    assert (withheld(done), done.returncode) == ([], 0)
    assert "withheld" not in (two.root / "report.html").read_text()


def test_an_examples_page_that_fails_is_a_line_in_its_place(two, monkeypatch):
    draw = plot_job._draw

    def failing(page):
        if page.connection.flow["network"] == BAD:
            raise KeyError("colour")
        return draw(page)

    with monkeypatch.context() as patch:
        patch.setattr(plot_job, "_draw", failing)
        done = two.run()
        assert done.returncode == 2
        assert all("page of connection" in line and "KeyError" in line for line in withheld(done))
        texts = [page.read_text() for page in (two.root / PLOTS).glob("*.html")]
        failed = [text for text in texts if "withheld: KeyError" in text]
        assert 0 < len(failed) < len(texts)
    assert two.run().returncode == 0
    texts = [page.read_text() for page in (two.root / PLOTS).glob("*.html")]
    assert not [text for text in texts if "withheld" in text]


@pytest.mark.parametrize("command", ["forget", "purge"])
def test_removal_depends_on_no_drawing_and_no_flows(two, monkeypatch, command):
    assert two.run().returncode == 0
    users = two.users(BAD)
    monkeypatch.setattr(plot_job, "write_examples", lambda *_: 1 / 0)
    monkeypatch.setattr("spark_jobs.report.build.write_report", lambda *_: 1 / 0)
    fail_flows(monkeypatch, BAD)
    of_bad = [*two.where, "--network", BAD]
    removal = [*of_bad, *users]
    if command == "purge":
        removal = ["--warehouse", two.root, "--network", BAD, "--before", "2100-01-01"]
    done = giscope(command, *removal)
    assert "Traceback" not in done.stderr
    assert not (two.root / "report.html").exists()
    for table in ("packets", "flows", "examples", "table1_summary"):
        assert two.ask(f"from {table} where network = 'bad'") == [], table
    again = giscope(command, *removal)
    assert "in progress" not in again.stderr


def test_a_network_without_rows_is_beside_one_that_has_some(two):
    """All its users are forgotten, then its capture is read again."""
    assert two.run().returncode == 0
    users = two.users(BAD)
    assert giscope("forget", *two.where, "--network", BAD, *users).returncode == 0
    (two.folder / "captures/bad/tcp-user-beside-quic-user.pcap.gz").touch()
    done = two.run()
    assert (withheld(done), done.returncode) == ([], 0)
    assert GOOD in (two.root / "report.html").read_text()


def test_damaged_files_of_the_right_size_stop_no_other_network(two):
    """A crash of a machine can leave a file of zeros. Only its content shows that."""
    flows = "select network, sum(flows) from table1_summary group by all"
    put(two.folder, **{BAD: REPORTS / "runs/tcp-beside-quic.pcap.gz"})
    assert two.run().returncode == 0
    before = dict(two.ask(flows))
    damaged = [
        file
        for table in ("packets", "fig09_throughput")
        for file in (two.root / table / f"network={BAD}").rglob("*.parquet")
    ]
    for file in damaged:
        file.write_bytes(bytes(file.stat().st_size))
    same_day = REPORTS / "runs/clock-step-in-handshake.pcap.gz"
    put(two.folder, **dict.fromkeys((GOOD, BAD), same_day))
    done = two.run()
    assert done.returncode == 2
    named = [line for line in done.stderr.splitlines() if "remove it, and the next run" in line]
    assert named
    assert all(any(str(file) in line for file in damaged) for line in named)
    found = dict(two.ask(flows))
    assert (found[GOOD] > before[GOOD], found[BAD]) == (True, before[BAD])
    report = giscope("report", *two.where[:2], "--output", two.root / "other.html")
    [line] = report.stderr.splitlines()
    assert report.returncode == 2
    assert any(str(file) in line for file in damaged)
    for file in damaged:
        file.unlink()
    two.run()  # makes the removed files again; the new capture may be compared with one of them
    done = two.run()
    assert (withheld(done), done.returncode) == ([], 0), done.stderr
    assert dict(two.ask(flows))[BAD] > before[BAD]
