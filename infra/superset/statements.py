"""Check of statements for DuckDB: only a query, over tables and views by their names, or its plan.

DuckDB itself parses the statement: the check looks at the statement's type and at the nodes of the
query's tree. It refuses all nodes that it does not know, so a new version of DuckDB cannot bring a
way to write.
"""

import json
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

import duckdb

QUERIES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
SOURCES = {
    "BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY", "PIVOT",
    "SHOW_REF",
}  # fmt: skip
DETAIL_SUFFIXES = ("_MODIFIER", "_TYPE_INFO", "ORDER_DEFAULT", "ASCENDING", "DESCENDING")
FUNCTIONS = {
    "unnest", "range", "generate_series", "duckdb_columns", "duckdb_constraints",
    "duckdb_databases", "duckdb_functions", "duckdb_indexes", "duckdb_keywords", "duckdb_schemas",
    "duckdb_tables", "duckdb_types", "duckdb_views",
}  # fmt: skip
"""Allowed table functions: of lists and of the catalog. Others read files or run SQL."""
SCHEMAS = {"warehouse", "system", "main", "information_schema", "pg_catalog"}
"""Allowed databases and schemas. DuckDB takes other names for files: FOLDER.parquet."""


class QueryRefused(duckdb.Error):
    """A statement that is not a query of the warehouse's tables, or that exceeds a limit."""


@lru_cache(500)
def require_query(sql: str) -> None:
    """Check that a statement is one query of the warehouse's tables, or asks for its plan.

    Raises QueryRefused, or duckdb.ParserException if DuckDB cannot parse it.
    """
    kinds = [statement.type for statement in duckdb.extract_statements(sql)]
    if kinds == [duckdb.StatementType.EXPLAIN]:
        if (query := _explained(sql)[1]).startswith("("):
            raise QueryRefused("Superset knows explain QUERY and explain analyze QUERY, no options")
        require_query(query)
        return
    if len(kinds) > 1:
        raise QueryRefused(f"Superset runs one query at a time, not {len(kinds)} statements")
    if kinds == [duckdb.StatementType.MULTI]:
        raise QueryRefused(
            "DuckDB makes two statements of this pivot, and Superset runs one: list the values, "
            "as in pivot flows on network in ('a', 'b') using count(*)"
        )
    if kinds != [duckdb.StatementType.SELECT]:
        raise QueryRefused(
            f"Superset runs only queries, not {kinds[0].name if kinds else 'nothing'}"
        )
    [[tree]] = _parser().cursor().execute("select json_serialize_sql($1::text)", [sql]).fetchall()
    parsed = json.loads(tree)
    if parsed["error"]:
        raise QueryRefused(f"DuckDB cannot show the query's structure: {parsed['error_message']}")
    for node in _nodes(parsed["statements"]):
        _require_allowed_node(node)


def statement_of_plan(sql: str) -> str | None:
    """Return the statement that answers with a query's plan in JSON; None: sql asks for no plan.

    sql: a statement that require_query accepts.
    """
    if duckdb.extract_statements(sql)[0].type != duckdb.StatementType.EXPLAIN:
        return None
    analyze, query = _explained(sql)
    return f"explain ({'analyze, ' if analyze else ''}format json) {query}"


def _explained(sql: str) -> tuple[bool, str]:
    """Return whether a text begins with `explain analyze`, and what follows these words.

    DuckDB finds the words. Options in parentheses are left to what follows: no query has them.
    """
    text = sql.encode()
    tokens = [at for at, kind in duckdb.tokenize(sql) if kind != duckdb.token_type.comment]
    analyze = text[tokens[1] :][: len("analyze")].lower() == b"analyze"
    return analyze, text[tokens[2 if analyze else 1] :].decode()


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


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all nodes of a tree but expressions, which have a class; also nodes within them."""
    remaining = [tree]
    while remaining:
        part = remaining.pop()
        if isinstance(part, list):
            remaining += part
        elif isinstance(part, dict):
            remaining += part.values()
            if "class" not in part and isinstance(part.get("type"), str):
                yield part


def _require_allowed_node(node: dict[str, Any]) -> None:
    kind = node["type"]
    if kind not in QUERIES | SOURCES and not kind.endswith(DETAIL_SUFFIXES):
        raise QueryRefused(f"{kind} is not allowed in a query")
    if kind == "TABLE_FUNCTION":
        name = node["function"].get("function_name", "")
        if name.lower() not in FUNCTIONS:
            raise QueryRefused(f"{name}() is not allowed: query tables and views by their names")
    if kind == "BASE_TABLE":
        *places, table = node["qualified_name"]["path"]
        if (
            not {place.lower() for place in places} <= SCHEMAS
            or not table.replace(" ", "_").isidentifier()
        ):
            raise QueryRefused(f"not a table of the warehouse: {'.'.join([*places, table])}")
