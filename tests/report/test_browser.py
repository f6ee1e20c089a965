"""The report's page and a connection's page, as a browser shows them."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import CHROMIUM, ask
from playwright.sync_api import Browser, Page
from playwright.sync_api import TimeoutError as PageTimeoutError

from spark_jobs.jobs.marts import update_marts
from spark_jobs.jobs.plot import plot
from spark_jobs.report.build import write_report

PATIENCE_MS = 60_000

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def report(demo, tmp_path_factory) -> Path:
    update_marts(demo.warehouse)
    return write_report(demo.warehouse, tmp_path_factory.mktemp("report") / "report.html")


def opened(browser: Browser, report: Path, width: int = 1280) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.set_default_timeout(PATIENCE_MS)
    page.goto(report.as_uri())
    page.locator(".plot").first.scroll_into_view_if_needed()
    page.wait_for_selector(".plot .main-svg")
    return page


@pytest.mark.parametrize("width", [1280, 1920])
def test_every_figure_is_drawn_and_nothing_is_cut(browser, report, width):
    """Those in view at once, the others as they come into view."""
    page = opened(browser, report, width)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    assert page.locator(".plot:not([data-drawn])").count() > 0
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.evaluate("document.querySelectorAll('.plot').forEach(draw)")
    page.wait_for_function("[...document.querySelectorAll('.plot')].every(p => p.data)")
    cut = page.evaluate(
        "[...document.querySelectorAll('.scroll, .figure')]"
        ".filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.closest('section').id)"
    )
    assert cut == []
    assert wrong == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_tables_are_saved_as_csv(browser, report, tmp_path):
    page = opened(browser, report)
    with page.expect_download() as download:
        page.locator("#compare .csv").first.click()
    download.value.save_as(tmp_path / "saved.csv")
    first, *rows = (tmp_path / "saved.csv").read_text(encoding="utf-8-sig").splitlines()
    assert download.value.suggested_filename == "giscope-compare.csv"
    assert first.startswith("metric,at peak value,at peak unit,at peak low,at peak high,")
    assert rows[0].startswith("Set-up delay,")
    assert len(rows) == page.locator("#compare table").first.locator("tbody tr").count()


def test_figures_are_saved_as_svg(browser, report):
    page = opened(browser, report)
    page.locator("#fig03 .plot").first.hover()
    with page.expect_download() as download:
        page.locator("#fig03 .modebar-btn").first.click()
    assert download.value.suggested_filename == "giscope-fig03.svg"


@pytest.mark.parametrize("width", [1280, 1920])
def test_every_section_is_linked_beside_the_page(browser, report, width):
    page = opened(browser, report, width)
    links = page.locator("nav a")
    assert links.count() == page.locator("section").count()
    links.last.scroll_into_view_if_needed()
    box, text = (page.locator(part).first.bounding_box() for part in ("nav", "main section"))
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= text["x"]
    assert page.locator("nav").evaluate("nav => nav.scrollWidth <= nav.clientWidth")


def test_the_first_figure_is_there_without_javascript(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    figure = page.locator("#compare .figure svg")
    assert figure.locator("circle").count() > 10
    assert figure.bounding_box()["height"] > 300
    context.close()


def test_page_is_small_and_needs_nothing_from_outside(browser, report):
    assert report.stat().st_size < 5_000_000
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    page.locator(".plot").first.scroll_into_view_if_needed()
    page.wait_for_selector(".plot .main-svg")
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_figures_fit_the_sheet_when_printed_and_have_their_size_again_afterwards(browser, report):
    """A sheet of A4 has 703 px between its margins, and 1031 from top to bottom."""
    page = opened(browser, report)
    shape = """[...document.querySelectorAll('.plot')].map(p => {
        const box = p.querySelector('.main-svg').getBoundingClientRect();
        return [box.width, box.height];
    })"""
    page.evaluate("document.querySelectorAll('.plot').forEach(draw)")
    page.wait_for_function("[...document.querySelectorAll('.plot')].every(p => p.data)")
    before = page.evaluate(shape)
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(f"{shape}.every(([w, h]) => w <= 703 && h <= 900)")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    same = json.dumps(json.dumps(before, separators=(",", ":")))
    page.wait_for_function(f"JSON.stringify({shape}) === {same}")


@pytest.fixture(scope="module")
def drawn_flow(demo, tmp_path_factory) -> Path:
    """The page of a connection with retransmissions and stalls."""
    ((flow_id,),) = ask(
        demo.warehouse,
        "select flow_id from flows order by rto_expiries desc nulls last, flow_id limit 1",
    ).fetchall()
    return plot(demo.warehouse, flow_id, tmp_path_factory.mktemp("plot") / "flow.html")


RANGES = "['xaxis', 'yaxis2', 'yaxis3'].map(axis => plot._fullLayout[axis].range)"


@pytest.mark.parametrize("width", [1280, 1920])
def test_connection_is_drawn_and_zooms_in_and_out_again(browser, drawn_flow, width):
    """A drag along the time in the graph of sequence numbers; all graphs follow."""
    page = opened(browser, drawn_flow, width)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.wait_for_function("plot._fullLayout && plot._fullLayout.yaxis3")
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    whole = page.evaluate(RANGES)
    graph = page.locator(".nsewdrag.drag[data-subplot=xy2]").bounding_box()
    assert graph is not None
    height = graph["y"] + graph["height"] / 2
    page.mouse.move(graph["x"] + graph["width"] / 4, height)
    page.mouse.down()
    page.mouse.move(graph["x"] + graph["width"] / 2, height, steps=5)
    page.mouse.up()
    page.wait_for_function(f"({RANGES})[0][1] < {whole[0][1]} * 0.6")
    low, high = page.evaluate(RANGES)[0]
    assert high - low == pytest.approx((whole[0][1] - whole[0][0]) / 4, rel=0.05)
    for _ in range(10):  # on a busy machine the page may see two single clicks
        page.mouse.dblclick(graph["x"] + graph["width"] * 0.6, height)
        with suppress(PageTimeoutError):
            page.wait_for_function(
                f"Math.abs(({RANGES})[0][1] - {whole[0][1]}) < 1e-6", timeout=PATIENCE_MS / 10
            )
            break
    else:
        pytest.fail("a double click does not show all again")
    assert wrong == []


def test_directions_are_shown_one_at_a_time(browser, drawn_flow):
    page = opened(browser, drawn_flow)
    shown = "plot.data.filter(t => t.meta && t.visible).map(t => t.meta[0])"
    page.wait_for_function("plot.data")
    assert set(page.evaluate(shown)) == {"down"}
    page.click("[data-direction=up]")
    page.wait_for_function(f"!({shown}).includes('down')")
    assert set(page.evaluate(shown)) == {"up"}
    assert page.locator("[data-direction=up]").get_attribute("aria-pressed") == "true"


def test_the_printed_report_has_less_than_thirty_sheets(browser, report):
    page = opened(browser, report)
    assert len(re.findall(rb"/Type\s*/Page[^s]", page.pdf(format="A4"))) < 30
