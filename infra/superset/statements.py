"""Check of statements for DuckDB: only one query at a time, over tables and views by their names.

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
    """Check that a statement is one query of the warehouse's tables.

    Raises QueryRefused, or duckdb.ParserException if DuckDB cannot parse it.
    """
    kinds = [statement.type for statement in duckdb.extract_statements(sql)]
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
