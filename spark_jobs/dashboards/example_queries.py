"""The queries of docs/queries.md, which analysts find in SQL Lab among their saved queries."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs/queries.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
"""A block of code, with its language."""


class Example(NamedTuple):
    """A query, the question that it answers, and the heading of the page's section."""

    section: str
    question: str
    sql: str


def example_queries(page: str) -> Iterator[Example]:
    """Yield the queries of a page in Markdown. The last question before a query belongs to it.

    A question is a heading or the beginning of a paragraph. Raises ValueError if there is none.
    """
    section, question = "", None
    texts, languages, codes = (FENCE.split(page)[k::3] for k in range(3))
    for text, language, code in zip(texts, languages, codes, strict=False):
        for paragraph in text.split("\n\n"):
            if heading := re.match(r"\n?##(#?) (.+)", paragraph):
                section = section if heading[1] else heading[2]
                question = heading[2] if heading[2].endswith("?") else None
            elif asked := re.match(r"\n?\w[^?|]*\?(?=\s|$)", paragraph):
                question = " ".join(asked[0].replace("`", "").split())
        if language == "sql":
            if question is None:
                raise ValueError(f"no question before the query {code}")
            yield Example(section, question, code)
            question = None
