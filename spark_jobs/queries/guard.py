"""Guard of users' statements: only a query passes, or what asks for its plan.

DuckDB itself parses the statement: the guard looks at the statement's type and at the nodes of the
query's tree. It refuses all nodes that it does not know, so a new version of DuckDB cannot bring a
way to write. Superset's environment imports this module: it needs only DuckDB and the standard
library.
"""

import json
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import duckdb
from duckdb import StatementType

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
"""Table functions of lists and of the catalog. Others read files or run SQL."""
SQL_FUNCTIONS = {"query", "json_execute_serialized_sql"}
"""Table functions that run SQL."""
SCHEMAS = {"warehouse", "system", "main", "information_schema", "pg_catalog"}
"""Databases and schemas of tables. DuckDB takes other names for files: FOLDER.parquet."""
OPTIONS = re.compile(r"\A\((\s*(analyze|format\s+\w+)\s*,?)+\)", re.IGNORECASE)
"""The options of explain."""
PRAGMAS = re.compile(
    r"collations|database_list|database_size|functions|platform|show\w*|storage_info|table_info"
    "|version"
)
"""Pragmas that only read."""
FIRST_WORDS = {
    "(", "desc", "describe", "from", "pivot", "select", "summarize", "unpivot", "values", "with",
}  # fmt: skip
"""Words with which a query can begin that has a pivot."""
WRITING_WORDS = {"copy", "delete", "insert", "merge", "update"}
"""Words with which a statement that writes can begin in a WITH clause."""


class QueryRefused(duckdb.Error):
    """A statement that is not a query of the warehouse's tables, or that exceeds a limit."""


@lru_cache(500)
def require_query(sql: str, any_read: bool = False) -> None:
    """Check that a statement is one query of the warehouse's tables, or asks for its plan.

    any_read: accept all that only reads, also files, as far as DuckDB's settings allow that, and
        what DuckDB runs as two statements. Otherwise accept what Superset may run.

    Raises QueryRefused, or duckdb.ParserException if DuckDB cannot parse it.
    """
    kinds = [statement.type for statement in duckdb.extract_statements(sql)]
    words = [word.lower() for _, word in _words(sql)]
    if len(kinds) > 1:
        raise QueryRefused(f"Superset runs one query at a time, not {len(kinds)} statements")
    if words[:1] == ["explain"]:
        query = explained(sql)[1]
        if any_read:
            query = OPTIONS.sub("", query)
        elif query.startswith("("):
            raise QueryRefused("Superset knows explain QUERY and explain analyze QUERY, no options")
        require_query(query, any_read)
    elif kinds == [StatementType.MULTI] and not any_read:
        raise QueryRefused(
            "DuckDB makes two statements of this pivot, and Superset runs one: list the values, "
            "as in pivot flows on network in ('a', 'b') using count(*)"
        )
    elif kinds == [StatementType.MULTI]:
        _require_reading_words(words)
    elif kinds == [StatementType.SELECT]:
        for node in _nodes(_tree(sql)):
            _require_allowed_node(node, any_read)
    elif not (kinds == [StatementType.PRAGMA] and any_read and PRAGMAS.fullmatch(words[1])):
        raise QueryRefused(
            f"Superset runs only queries, not {kinds[0].name if kinds else 'nothing'}"
        )


def explained(sql: str) -> tuple[bool, str]:
    """Return whether a text begins with `explain analyze`, and what follows these words.

    DuckDB finds the words. Options in parentheses are left to what follows: no query has them.
    """
    (_, _), *following = _words(sql)
    analyze = following[0][1].lower() == "analyze"
    return analyze, sql.encode()[following[1 if analyze else 0][0] :].decode()


def _words(sql: str) -> list[tuple[int, str]]:
    """Return the position (bytes) and the text of each token but comments."""
    text = sql.encode()
    tokens = [*duckdb.tokenize(sql), (len(text), None)]
    return [
        (at, text[at:end].decode().strip())
        for (at, kind), (end, _) in pairwise(tokens)
        if kind != duckdb.token_type.comment
    ]


def _require_reading_words(words: list[str]) -> None:
    """Check the words of a pivot whose columns come from the data: DuckDB shows no tree of it.

    A statement that begins as a query can write only in its WITH clause, or by a function.
    """
    functions = {word.strip('"') for word, after in pairwise(words) if after.startswith("(")}
    refused = ({words[0]} - FIRST_WORDS) | (WRITING_WORDS & {*words}) | (SQL_FUNCTIONS & functions)
    if refused:
        raise QueryRefused(f"{', '.join(sorted(refused))}: not allowed in a query with pivot")


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:")


def _tree(sql: str) -> list[Any]:
    [[text]] = _parser().cursor().execute("select json_serialize_sql($1::text)", [sql]).fetchall()
    parsed = json.loads(text)
    if parsed["error"]:
        raise QueryRefused(f"DuckDB cannot show the query's structure: {parsed['error_message']}")
    return parsed["statements"]


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


def _require_allowed_node(node: dict[str, Any], any_read: bool) -> None:
    kind = node["type"]
    if kind not in QUERIES | SOURCES and not kind.endswith(DETAIL_SUFFIXES):
        raise QueryRefused(f"{kind} is not allowed in a query")
    if kind == "TABLE_FUNCTION":
        name = node["function"].get("function_name", "")
        if any_read and name.lower() == "query" and (sql := _text_argument(node["function"])):
            require_query(sql, any_read)
        elif name.lower() in SQL_FUNCTIONS if any_read else name.lower() not in FUNCTIONS:
            raise QueryRefused(f"{name}() is not allowed: query tables and views by their names")
    if kind == "BASE_TABLE" and not any_read:
        *places, table = node["qualified_name"]["path"]
        if (
            not {place.lower() for place in places} <= SCHEMAS
            or not table.replace(" ", "_").isidentifier()
        ):
            raise QueryRefused(f"not a table of the warehouse: {'.'.join([*places, table])}")


def _text_argument(function: dict[str, Any]) -> str:
    """Return the only argument of a function if it is a text; else an empty text."""
    match function.get("arguments"):
        case [{"expression": {"literal": {"text": text}}}]:
            return text
    return ""
