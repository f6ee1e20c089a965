"""How users are counted: each by a number, or on days with many users by their groups."""

import datetime

import pytest
from conftest import DAY

from spark_jobs.figures.format import SECONDS
from spark_jobs.figures.mart_columns import GROUPS, MAX_USERS_WITH_NUMBERS, USER_COUNT
from spark_jobs.figures.mart_sql import mart_query
from spark_jobs.figures.numbers import USERS, Numbers, mean
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.tables import TABLES
from tests.helpers.mart_examples import connect, create_tables, input_rows

NEXT_DAY = DAY + datetime.timedelta(days=1)
MARTS = ("table1_summary", "metrics", "fig03_setup_delay")
FLOW = {"setup_delay": 1.0, "syn_count": 1, "synack_count": 1, "setup_background": False}
DELAY = Numbers(
    TABLES["metrics"],
    [mean("delay", "set-up delay", "numerator", SECONDS, "denominator", "measured")],
    where="metric = 'setup_delay'",
    counts={},
    aggregates=USERS,
)


def selection_of(*flows: dict) -> Selection:
    """Return a selection of the marts of some connections."""
    connection = connect()
    create_tables(connection, input_rows({"flows": [FLOW | flow for flow in flows]}))
    for mart in MARTS:
        connection.execute(f"create table {mart} as {mart_query(TABLES[mart])}")
    return Selection([], DAY, NEXT_DAY, connection, lambda table, days: table.name)


def answer(selection: Selection, sql: str) -> tuple:
    [row] = selection.connection.sql(sql).fetchall()
    return row


def test_users_of_a_day_are_counted_exactly_up_to_a_limit():
    selection = selection_of({"users": MAX_USERS_WITH_NUMBERS}, {"users": 3})
    for mart, users in (
        ("table1_summary", "count(distinct user_group)"),
        ("metrics", "count(distinct user_group)"),
        ("fig03_setup_delay", USER_COUNT),
    ):
        assert answer(selection, f"select {users} from {mart}") == (MAX_USERS_WITH_NUMBERS,)
    [row] = DELAY.rows(selection, "network")
    assert row["users"] == MAX_USERS_WITH_NUMBERS


def test_a_day_with_more_users_has_no_more_rows_than_groups():
    selection = selection_of({"users": MAX_USERS_WITH_NUMBERS + 1})
    rows = answer(selection, "select count(*), max(user_group) from table1_summary")
    assert rows == (GROUPS, GROUPS - 1)
    users = answer(selection, f"select {USER_COUNT}, count(user_numbers) from fig03_setup_delay")
    assert users == (GROUPS, 0)


def test_a_user_on_days_with_few_and_with_many_users_is_one_user():
    """Three users are there on two days, with a thousand others on one of them."""
    many = {"users": MAX_USERS_WITH_NUMBERS + 1, "setup_delay": None}
    selection = selection_of(many, {"users": 3}, {"users": 3, "date": NEXT_DAY})
    days = answer(selection, "select min(user_group), max(user_group) from metrics")
    assert days[0] < GROUPS <= days[1]
    [row] = DELAY.rows(selection, "network")
    groups = "count(distinct user_group(user))"
    expected = f"select {groups} from flows where setup_delay is not null"
    assert (row["users"],) == answer(selection, expected)
    by_day = DELAY.rows(selection, "network", "date")
    assert [row["users"] for row in by_day] == [row["users"]] * 2


@pytest.mark.parametrize(("users", "shown"), [(2, False), (3, True), (4, True)])
def test_a_cell_is_shown_from_three_users_on_whatever_their_groups(users, shown):
    """Of a thousand users of the day, these have the set-up delays; they share a group."""
    connection = connect()
    create_tables(connection, {})
    pairs = connection.sql("""
        select list(i order by i) from (select i, user_group('user' || i) as g from range(500) t(i))
        group by g order by g limit 1
    """).fetchall()
    chosen = pairs[0][0][:users]
    selection = selection_of(
        {"users": 1000, "setup_delay": None},
        *({"user": 1 + n} for n in chosen for _ in range(3)),
    )
    [row] = DELAY.rows(selection, "network")
    assert row["users"] == users
    assert (row["delay"].value is not None) == shown
    assert answer(selection, f"select {USER_COUNT} from fig03_setup_delay") == (users,)
