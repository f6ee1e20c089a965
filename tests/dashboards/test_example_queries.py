"""The examples of SQL Lab: the queries of docs/queries.md, each with its question."""

import json
import re

import pytest

from spark_jobs.dashboards.assets import assets
from spark_jobs.dashboards.example_queries import PAGE, Example, example_queries

MARKDOWN = """# Questions

## Loss

On which side are `packets`
lost, and when? It depends. Is it? Perhaps.

```sql
select 1
```

### Who loses most?

Words.

- a list
- of words?

| table? |
| --- |

```sql
select 2

from t
```

```
giscope sql "select 3"
```
"""


def test_the_last_question_before_a_query_is_its_question():
    assert [*example_queries(MARKDOWN)] == [
        Example("Loss", "On which side are packets lost, and when?", "select 1"),
        Example("Loss", "Who loses most?", "select 2\n\nfrom t"),
    ]


def test_a_query_without_a_question_is_refused():
    with pytest.raises(ValueError, match="no question before the query select 3"):
        [*example_queries(MARKDOWN + "\n```sql\nselect 3\n```\n")]


def test_every_query_of_the_page_is_imported_as_it_is():
    shown = re.findall(r"^```sql\n(.*?)\n```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    imported = [
        json.loads(json.dumps(file)) for path, file in assets().items() if "queries/" in path
    ]
    assert sorted(file["sql"] for file in imported) == sorted(shown)
    assert all(file["label"].endswith("?") and len(file["label"]) <= 256 for file in imported)
