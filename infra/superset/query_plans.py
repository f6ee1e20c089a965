"""Plans of queries: the statement that asks DuckDB for a plan, and the plan's steps as rows."""

import json
from collections.abc import Iterator
from typing import Any

import duckdb

from spark_jobs.queries.guard import explained


def statement_of_plan(sql: str) -> str | None:
    """Return the statement that answers with a query's plan in JSON; None: sql asks for no plan.

    sql: a statement that queries.guard accepts.
    """
    if duckdb.extract_statements(sql)[0].type != duckdb.StatementType.EXPLAIN:
        return None
    analyze, query = explained(sql)
    return f"explain ({'analyze, ' if analyze else ''}format json) {query}"


def steps_of_plan(plan: str) -> list[dict[str, Any]]:
    """Return the steps of a plan as rows, each above the steps that it reads, which are indented.

    plan: in JSON, as DuckDB gives it. rows and seconds are null if the query was not run.
    """
    tree = json.loads(plan)
    return [*_steps(tree["operator"] if isinstance(tree, dict) else tree, "")]


def _steps(nodes: list[dict[str, Any]], indent: str) -> Iterator[dict[str, Any]]:
    for node in nodes:
        details = {
            name: ", ".join(value) if isinstance(value, list) else value
            for name, value in node.get("extra_info", {}).items()
        }
        yield {
            "step": indent + node.get("name", node.get("type")),
            "estimated_rows": details.pop("Estimated Cardinality", None),
            "rows": node.get("intermediate_rows"),
            "seconds": node.get("timing"),
            "details": "; ".join(f"{name}: {value}" for name, value in details.items()),
        }
        yield from _steps(node.get("children", []), indent + 4 * "\N{NO-BREAK SPACE}")
