"""The page: its numbers are the tables', it needs nothing from outside, it refuses what is not
there."""

import re
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import pytest

from spark_jobs.errors import UserError
from spark_jobs.jobs.marts import marts
from spark_jobs.report import write_report
from spark_jobs.warehouse import Warehouse


class Page(HTMLParser):
    """A page's sections: texts of table cells by row, and every address it refers to."""

    def __init__(self, text: str):
        super().__init__()
        self.section = ""
        self.rows: dict[str, list[list[str]]] = {}
        self.loaded: list[str] = []
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "section":
            self.section = given["id"] or ""
        elif tag == "tr":
            self.rows.setdefault(self.section, []).append([])
        elif tag in ("td", "th"):
            self.rows[self.section][-1].append("")
            self._cell = True
        address = given.get("src") or (given.get("href") if tag == "link" else None)
        if address:
            self.loaded.append(address)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.rows[self.section][-1][-1] += data.replace("\N{NO-BREAK SPACE}", " ")

    def row(self, section: str, *beginning: str) -> list[str]:
        """The rest of the one row that begins so."""
        found = [r for r in self.rows[section] if r[: len(beginning)] == list(beginning)]
        assert len(found) == 1, (section, beginning, found)
        return found[0][len(beginning) :]


@pytest.fixture(scope="module")
def page(demo, tmp_path_factory) -> Page:
    marts(demo.warehouse)
    path = write_report(demo.warehouse, tmp_path_factory.mktemp("report") / "report.html")
    return Page(path.read_text(encoding="utf-8"))


def one(demo, query: str) -> tuple:
    (row,) = demo.warehouse.connect().sql(query).fetchall()
    return row


def test_table_1_shows_the_flows_and_their_shares(demo, page):
    flows, sack = one(
        demo,
        """
        select count(*), avg(sack::int) from flows
        where network = 'aa-gprs' and initiator = 'mobile'
        """,
    )
    assert page.row("table1", "TCP connections")[0] == f"{flows:,}"
    assert page.row("table1", "SACK enabled")[0] == f"{100 * sack:.2f} %"


def test_table_1_stands_beside_the_papers_values(page):
    assert page.row("table1", "TCP connections")[-2:] == ["12,587,056", "225,932"]
    assert page.row("table1", "SACK enabled")[-2:] == ["55.49 %", "59.48 %"]


def test_fig04_numbers_are_the_flows_round_trips(demo, page):
    count, mean = one(
        demo,
        """
        select count(rtt_access), avg(rtt_access) from flows
        where network = 'cc-dialup' and initiator = 'mobile'
        """,
    )
    shown = page.row("fig04", "access", "cc-dialup", "peak")
    assert shown[:2] == [f"{count:,}", f"{1000 * mean:,.0f} ms"]


def test_page_loads_nothing_from_outside(page):
    assert all(address.startswith("data:") for address in page.loaded)


def test_only_the_chosen_network_is_shown(demo, tmp_path):
    path = write_report(demo.warehouse, tmp_path / "r.html", ["bb-gprs"])
    text = path.read_text(encoding="utf-8")
    assert "bb-gprs" in text
    assert "cc-dialup" not in text


def test_unknown_network_is_refused(demo, tmp_path):
    with pytest.raises(UserError, match=re.escape("no network 'nowhere'")):
        write_report(demo.warehouse, tmp_path / "r.html", ["nowhere"])
    assert not list(tmp_path.iterdir())


def test_days_without_flows_are_refused(demo, tmp_path):
    with pytest.raises(UserError, match="nothing to show"):
        write_report(demo.warehouse, tmp_path / "r.html", since=date(2020, 1, 1))


def test_empty_warehouse_is_refused(tmp_path):
    with pytest.raises(UserError, match="nothing to show"):
        write_report(Warehouse(tmp_path / "w"), tmp_path / "r.html")


def test_folder_that_is_not_there_is_refused(demo, tmp_path):
    missing = tmp_path / "missing" / "r.html"
    with pytest.raises(UserError, match=re.escape(str(missing))):
        write_report(demo.warehouse, Path(missing))
