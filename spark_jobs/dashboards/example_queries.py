"""The queries of docs/queries.md, which analysts find in SQL Lab among their saved queries."""

import tomllib
from pathlib import Path
from typing import NamedTuple

QUERIES = Path(__file__).with_suffix(".toml")


class Example(NamedTuple):
    """A query, the question that it answers, and the heading of the page's section."""

    section: str
    question: str
    sql: str


def example_queries() -> list[Example]:
    """Return the queries in the order of the page."""
    sections = tomllib.loads(QUERIES.read_text(encoding="utf-8"))
    return [
        Example(section, query["question"], query["sql"].strip())
        for section, queries in sections.items()
        for query in queries
    ]
