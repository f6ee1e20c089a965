"""Names of the roles, and the countries whose rows the present user's roles let him see."""

from flask import g

ALL_COUNTRIES = "All countries"
ALL_COUNTRIES_ANALYST = "Analyst all countries"
READER_PREFIX, ANALYST_PREFIX = "Country ", "Analyst "
"""Prefixes of a country in a role's name. Readers see the pages; analysts also write SQL."""
ADMINISTRATOR = "Admin"


def countries_on_pages() -> set[str] | None:
    """Return the countries whose rows the user may see on the pages; None: all."""
    roles = _roles()
    if roles & {ADMINISTRATOR, ALL_COUNTRIES, ALL_COUNTRIES_ANALYST}:
        return None
    return _countries_of(READER_PREFIX, roles) | _countries_of(ANALYST_PREFIX, roles)


def countries_in_sql() -> set[str] | None:
    """Return the countries whose rows the user may query with SQL; None: all."""
    roles = _roles()
    return (
        None
        if roles & {ADMINISTRATOR, ALL_COUNTRIES_ANALYST}
        else _countries_of(ANALYST_PREFIX, roles)
    )


def _roles() -> set[str]:
    from superset import security_manager

    user = g.get("user") if g else None
    return {role.name for role in security_manager.get_user_roles(user)} if user else set()


def _countries_of(prefix: str, roles: set[str]) -> set[str]:
    return {role.removeprefix(prefix) for role in roles if role.startswith(prefix)}
