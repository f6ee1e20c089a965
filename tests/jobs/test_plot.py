"""`giscope plot`, and the pages of the report's examples."""

import re
import shutil
from pathlib import Path

import pytest
from conftest import DAY, ask

from spark_jobs.commands.cli import main
from spark_jobs.figures.names import PLOTS, plot_file_name
from spark_jobs.jobs import plot
from spark_jobs.report import build
from spark_jobs.report.build import REPORT
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit

LOADED = re.compile(r"""<(?:script|link|img)[^>]*(?:src|href)=["'](?!data:)([^"']+)""")


def command(demo, *arguments: object) -> list[str]:
    return ["plot", "--warehouse", str(demo.warehouse.root), *map(str, arguments)]


def some_flows(demo, count: int) -> list[int]:
    rows = ask(demo.warehouse, f"select flow_id from flows order by all limit {count}")
    return [flow_id for (flow_id,) in rows.fetchall()]


def test_page_is_self_contained_and_its_path_is_printed(demo, tmp_path, capsys):
    (flow_id,) = some_flows(demo, 1)
    main(command(demo, flow_id, "--output", tmp_path / "one.html"))
    assert capsys.readouterr().out == f"{tmp_path / 'one.html'}\n"
    text = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert LOADED.findall(text) == []
    assert 'id="plotly"' in text
    assert str(flow_id) in text


def test_several_pages_are_written_to_a_folder(demo, tmp_path, capsys, monkeypatch):
    ids = some_flows(demo, 2)
    main(command(demo, *ids, "--output", tmp_path))
    written = [str(tmp_path / plot_file_name(flow_id)) for flow_id in ids]
    assert capsys.readouterr().out.splitlines() == written
    monkeypatch.chdir(tmp_path)
    Path(written[0]).unlink()
    main(command(demo, ids[0]))
    assert Path(written[0]).exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("7",), "{root}: no flow 7"),
        (("7", "8", "--output", "no/such"), "plot: no/such: no such folder"),
    ],
)
def test_plot_reports_user_errors_in_a_line(demo, capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        main(command(demo, *arguments))
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"giscope: {message.format(root=demo.warehouse.root)}\n"


@pytest.fixture(scope="module")
def made(demo, tmp_path_factory) -> Warehouse:
    """Make the demo's report and the pages of its examples."""
    root = tmp_path_factory.mktemp("plots") / "w"
    shutil.copytree(demo.warehouse.root, root)
    warehouse = Warehouse(root)
    build.step(warehouse).bring_up_to_date(warehouse)
    plot.step(warehouse).bring_up_to_date(warehouse)
    return warehouse


def test_every_link_of_the_report_leads_to_a_page(made):
    text = (made.root / REPORT).read_text(encoding="utf-8")
    links = set(re.findall(rf'href="({PLOTS}/[^"]+)"', text))
    assert len(links) > 9
    pages = {path for path in (made.root / PLOTS).iterdir() if path.suffix == ".html"}
    assert {made.root / link for link in links} == pages
    for path in pages:
        (script,) = LOADED.findall(path.read_text(encoding="utf-8"))
        assert (path.parent / script).stat().st_size > 1_000_000


def test_examples_are_the_connections_limited_the_longest(made):
    """The report names the connection that recovery limited the longest."""
    ((flow_id,),) = ask(
        made,
        """
        select flow_id from flows where limited_by = 'recovery' and initiator = 'mobile'
        order by limited_recovery desc limit 1
        """,
    ).fetchall()
    text = (made.root / REPORT).read_text(encoding="utf-8")
    row = next(r for r in text.split("<tr>") if "recovery: the server recovered from losses" in r)
    assert f'href="{PLOTS}/{plot_file_name(flow_id)}"' in row


def test_missing_pages_are_made_again_and_others_removed(made):
    folder = made.root / PLOTS
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    plot.step(made).bring_up_to_date(made)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    shutil.rmtree(folder)
    plot.step(made).bring_up_to_date(made)
    assert set(folder.iterdir()) == set(before)
    (folder / "flow-1.html").touch()
    made.record_made(Unit.of_file(PLOTS), "of something else")
    plot.step(made).bring_up_to_date(made)
    assert set(folder.iterdir()) == set(before)


def test_plot_of_a_connection_without_packets_is_refused(demo, tmp_path, capsys):
    root = tmp_path / "w"
    shutil.copytree(demo.warehouse.root, root)
    query = "select min(flow_id) from flows where network = 'aa-gprs'"
    (flow_id,) = ask(Warehouse(root), query).fetchone()
    for published in Warehouse(root).published_units("capture", "aa-gprs"):
        Warehouse(root).publish(published.unit, {}, published.facts)
    with pytest.raises(SystemExit):
        main(["plot", "--warehouse", str(root), str(flow_id)])
    assert capsys.readouterr().err == f"giscope: {root}: no packets of flow {flow_id}\n"
    assert Warehouse(root).published(Unit.of_day("day", "aa-gprs", DAY)) is not None
