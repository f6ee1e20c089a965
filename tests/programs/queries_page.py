"""Writes the code's queries into docs/queries.md; `make docs` runs it."""

import re
from collections.abc import Sequence
from pathlib import Path

from spark_jobs.dashboards.example_queries import Example, example_queries

PAGE = Path(__file__).parents[2] / "docs/queries.md"
SQL = re.compile(r"(?<=^```sql\n).*?(?=\n```$)", re.MULTILINE | re.DOTALL)
"""The content of a block of SQL."""


def with_queries(page: str, examples: Sequence[Example]) -> str:
    """Return a page with the examples in its blocks of SQL, one after the other.

    Raises ValueError if the numbers differ, or if a query's section and its question, as the
    beginning of a paragraph or a heading, are not before its block.
    """
    texts = SQL.split(page)
    if len(texts) != len(examples) + 1:
        raise ValueError(f"{len(texts) - 1} blocks of SQL for {len(examples)} queries")
    section = ""
    for text, example in zip(texts, examples, strict=False):
        section = [section, *re.findall(r"^## (.+)", text, re.MULTILINE)][-1]
        paragraphs = [" ".join(p.replace("`", "").split()) for p in text.split("\n\n")]
        asked = any(p.removeprefix("### ").startswith(example.question) for p in paragraphs)
        if section != example.section or not asked:
            raise ValueError(f"not before its query, in {example.section}: {example.question}")
    queries = iter(examples)
    return SQL.sub(lambda _: next(queries).sql, page)


if __name__ == "__main__":
    PAGE.write_text(with_queries(PAGE.read_text(), example_queries()))
