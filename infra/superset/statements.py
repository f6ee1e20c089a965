"""What reaches DuckDB from Superset: one query at a time, over tables and views by their names.

Told by DuckDB itself: its parser's types of statements, and the query as the tree that it makes of
it. What is not known here is refused, so that a new DuckDB cannot bring a way to write.
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
DETAILS = ("_MODIFIER", "_TYPE_INFO", "ORDER_DEFAULT", "ASCENDING", "DESCENDING")
FUNCTIONS = {
    "unnest", "range", "generate_series", "duckdb_columns", "duckdb_constraints",
    "duckdb_databases", "duckdb_functions", "duckdb_indexes", "duckdb_keywords", "duckdb_schemas",
    "duckdb_tables", "duckdb_types", "duckdb_views",
}  # fmt: skip
"""That give rows: of a list, and of the catalog. Others read files, or run SQL of their own."""
PLACES = {"warehouse", "system", "main", "information_schema", "pg_catalog"}
"""Databases and schemas. DuckDB takes other names for files: FOLDER.parquet."""


class Refused(duckdb.Error):
    """A statement that is no query, or a query of something other than the warehouse's tables."""


@lru_cache(500)
def must_be_a_query(sql: str) -> None:
    """Raises Refused, and duckdb.ParserException where DuckDB cannot parse it."""
    statements = duckdb.extract_statements(sql)
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        kinds = ", ".join(statement.type.name for statement in statements) or "nothing"
        raise Refused(f"only queries are run here, one at a time, not {kinds}")
    [[tree]] = _parser().cursor().execute("select json_serialize_sql($1::text)", [sql]).fetchall()
    told = json.loads(tree)
    if told["error"]:
        raise Refused(f"not understood: {told['error_message']}")
    for node in _nodes(told["statements"]):
        _must_be_of_a_query(node)


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """But expressions, which have a class; what is within them, too."""
    left = [tree]
    while left:
        part = left.pop()
        if isinstance(part, list):
            left += part
        elif isinstance(part, dict):
            left += part.values()
            if "class" not in part and isinstance(part.get("type"), str):
                yield part


def _must_be_of_a_query(node: dict[str, Any]) -> None:
    kind = node["type"]
    if kind not in QUERIES | SOURCES and not kind.endswith(DETAILS):
        raise Refused(f"no part of a query: {kind}")
    if kind == "TABLE_FUNCTION":
        name = node["function"].get("function_name", "")
        if name.lower() not in FUNCTIONS:
            raise Refused(f"no rows from {name}(): ask tables and views by their names")
    if kind == "BASE_TABLE":
        *places, table = node["qualified_name"]["path"]
        if (
            not {place.lower() for place in places} <= PLACES
            or not table.replace(" ", "_").isidentifier()
        ):
            raise Refused(f"no such table: {'.'.join([*places, table])}")
