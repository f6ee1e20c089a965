"""The examples of SQL Lab: the queries of the code, which docs/queries.md shows."""

import json

import pytest

from spark_jobs.dashboards.assets import assets
from spark_jobs.dashboards.example_queries import Example, example_queries
from tests.programs.queries_page import PAGE, with_queries

MARKDOWN = """# Questions

## Loss

On which side are `packets`
lost, and when? It depends.

```sql
select 0
```

### Who loses most?

```
giscope sql "select 3"
```

```sql

```
"""
SIDES = Example("Loss", "On which side are packets lost, and when?", "select 1")
USERS = Example("Loss", "Who loses most?", "select 2\n\nfrom t")


def test_a_page_gets_its_queries():
    expected = MARKDOWN.replace("select 0", SIDES.sql)
    expected = expected.replace("```sql\n\n```", f"```sql\n{USERS.sql}\n```")
    assert with_queries(MARKDOWN, [SIDES, USERS]) == expected


@pytest.mark.parametrize(
    "examples",
    [
        [SIDES],
        [USERS, SIDES],
        [SIDES, USERS._replace(section="Delay")],
        [SIDES, USERS._replace(question="Who gains most?")],
    ],
    ids=["another number", "another order", "another section", "not asked"],
)
def test_a_page_that_does_not_ask_is_refused(examples):
    with pytest.raises(ValueError, match=r"blocks of SQL for|not before its query"):
        with_queries(MARKDOWN, examples)


def test_the_documentation_shows_the_queries_of_the_code():
    """To repair it: make docs."""
    assert PAGE.read_text() == with_queries(PAGE.read_text(), example_queries())


def test_every_query_is_imported_as_it_is():
    imported = [
        json.loads(json.dumps(file)) for path, file in assets().items() if "queries/" in path
    ]
    assert [file["sql"] for file in imported] == [example.sql for example in example_queries()]
    assert all(file["label"].endswith("?") and len(file["label"]) <= 256 for file in imported)
