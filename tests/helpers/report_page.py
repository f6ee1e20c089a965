"""A report's page, and the numbers that it shows."""

import re
from html.parser import HTMLParser


class Page(HTMLParser):
    """A page's sections: texts of its tables' cells by row, and every address that it loads."""

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
        """Return the rest of the one row that begins with these texts."""
        found = [r for r in self.rows[section] if r[: len(beginning)] == list(beginning)]
        assert len(found) == 1, (section, beginning, found)
        return found[0][len(beginning) :]


def value(text: str) -> float:
    return float(text.split()[0].replace(",", ""))


def shows(text: str, expected: float) -> bool:
    """Return whether a text begins with a value, rounded to the digits that it shows."""
    number = text.split()[0].replace(",", "")
    digits = len(number.partition(".")[2])
    return abs(float(number) - expected) <= 0.5001 * 10**-digits


def value_and_interval(text: str) -> tuple[float, float, float]:
    """Read a value and the ends of its interval."""
    low, high = map(value, re.search(r"\((.*) … (.*)\)", text).groups())
    return value(text), low, high
