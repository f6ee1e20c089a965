"""The roles by their names, and whose rows the present user's let him see."""

from flask import g

ALL_COUNTRIES = "All countries"
ANALYST_OF_ALL = "Analyst all countries"
READER, ANALYST = "Country ", "Analyst "
"""Before a country. Readers see the pages; analysts write SQL, too."""
ADMINISTRATOR = "Admin"


def countries_on_pages() -> set[str] | None:
    """None: of all."""
    roles = _roles()
    if roles & {ADMINISTRATOR, ALL_COUNTRIES, ANALYST_OF_ALL}:
        return None
    return _named(READER, roles) | _named(ANALYST, roles)


def countries_in_sql() -> set[str] | None:
    """None: of all."""
    roles = _roles()
    return None if roles & {ADMINISTRATOR, ANALYST_OF_ALL} else _named(ANALYST, roles)


def _roles() -> set[str]:
    from superset import security_manager

    user = g.get("user") if g else None
    return {role.name for role in security_manager.get_user_roles(user)} if user else set()


def _named(kind: str, roles: set[str]) -> set[str]:
    return {role.removeprefix(kind) for role in roles if role.startswith(kind)}
