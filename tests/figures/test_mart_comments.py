"""The comments of each mart's SQL describe the columns that DuckDB gives."""

import pytest

from spark_jobs.figures import FOLDER, marts
from spark_jobs.figures.mart_sql import mart_query
from spark_jobs.figures.marts import mart
from spark_jobs.figures.tables import MARTS
from tests.helpers.mart_examples import connect, create_tables

TYPES = {
    "BIGINT": "int64",
    "HUGEINT": "int64",
    "INTEGER": "int32",
    "INTEGER[]": "list<item: int32>",
    "DOUBLE": "double",
    "VARCHAR": "string",
    "BOOLEAN": "bool",
}


@pytest.fixture(scope="module")
def connection():
    connection = connect()
    create_tables(connection, {})
    return connection


@pytest.mark.parametrize("table", MARTS, ids=lambda table: table.name)
def test_types_are_those_of_the_sql(connection, table):
    described = connection.execute(f"describe {mart_query(table)}").fetchall()
    types = {name: TYPES.get(kind) for name, kind, *_ in described}
    assert {column.name: column.type for column in table.columns} == {
        column.name: types[column.name] for column in table.columns
    }


QUESTION = "-- Which?\n-- One row: the connections\n-- of an hour.\n-- Groups: hour, side\n"


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Read a mart from its SQL."""
    monkeypatch.setattr(marts, "FOLDER", tmp_path)

    def read(sql: str):
        (tmp_path / "made_up").mkdir()
        (tmp_path / "made_up/mart.sql").write_text(sql)
        mart.cache_clear()
        return mart("made_up")

    yield read
    mart.cache_clear()


def test_comments_of_every_form_are_read(read):
    table = read(
        f"{QUESTION}--\n-- A note.\nwith a as (\n-- no column\n    select 1\n)\nselect\n"
        "    -- int32 [h]: local hour of the end\n    local_hour,\n"
        "    -- string or null (RFC 1, 2): the side: this,\n    -- or (that)\n    --\n    -- why\n"
        "    concat('a, b', if(x, 'y', 'z')) as side, a.user_group,\n"
        "    -- double [bit/s]: sum of\n    sum(case\n        when a then b\n    end) as rates\n"
        "from a\n"
    )
    assert (table.row, table.group_columns) == ("the connections of an hour", ("hour", "side"))
    found = {column.name: column for column in table.columns}
    assert [*found] == ["country", "access", "hour", "period", "side", "user_group", "rates"]
    assert (found["hour"].type, found["hour"].meaning) == ("int32", "local hour of the end")
    side, rates = found["side"], found["rates"]
    assert (side.type, side.required, side.source) == ("string", False, "RFC 1, 2")
    assert side.meaning == "the side: this, or (that)"
    assert (rates.type, rates.unit, rates.required) == ("double", "bit/s", True)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select\n    local_hour\nfrom a\n", "does not begin with a question"),
        (f"{QUESTION}select\n    a as b\nfrom a\n", "column b: the comment above it is not"),
        (f"{QUESTION}select\n    -- no type\n    a as b\nfrom a\n", "column b: the comment above"),
    ],
)
def test_what_cannot_be_read_is_named(read, tmp_path, sql, message):
    with pytest.raises(ValueError, match=message) as error:
        read(sql)
    assert str(tmp_path / "made_up/mart.sql") in str(error.value)


def test_each_figure_with_sql_is_a_mart():
    with_sql = {path.parent.name for path in FOLDER.glob("*/mart.sql")}
    assert {table.name for table in MARTS} == with_sql
