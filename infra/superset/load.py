"""Make Superset's administrator, import the pages, and make the roles of a networks file.

import.sh runs it in Superset's environment: `load.py ASSETS NETWORKS`. The file ASSETS comes from
`python -m spark_jobs.dashboards.assets`.
"""

import json
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

import duckdb
from duckdb_connections import HOME, VIEWS
from flask import g
from performance_alerts import ALERTS, make_alerts
from roles import ADMINISTRATOR, ALL_COUNTRIES, ALL_COUNTRIES_ANALYST, ANALYST_PREFIX, READER_PREFIX
from superset.app import create_app

from spark_jobs.base.secret_files import secret_of

ADMINISTRATOR_NAME = "admin"
NUMBERED_NETWORK = r"network (\d+)(, .*|__.*)?"
MOST_COMMON_ACCESS = "access of most networks"
DRILL_INFORMATION = "can get drill info on Dataset"
"""Permission that nobody gets: each chart would ask for data that nothing on a page uses."""
DENIED_TO_READERS = ("can export on Dashboard", DRILL_INFORMATION)
"""Permissions that readers do not get. An export contains the names of all networks."""


def make_administrator() -> None:
    """Make the user admin, unless there is one.

    The password is that of SUPERSET_ADMIN_PASSWORD_FILE, or of admin_password in Superset's home.
    It is on no command line, which other users of the machine could read.
    """
    from superset import security_manager

    if security_manager.find_user(ADMINISTRATOR_NAME):
        return
    password = secret_of("SUPERSET_ADMIN_PASSWORD") or (HOME / "admin_password").read_text().strip()
    role = security_manager.find_role(ADMINISTRATOR)
    made = security_manager.add_user(
        ADMINISTRATOR_NAME, "Admin", "giscope", "admin@localhost", role, password=password
    )
    if not made:
        raise RuntimeError("Superset did not make the user admin: see the lines above")


def import_assets(assets: Path) -> None:
    """Import the pages and the example queries; they replace what an earlier import made."""
    from app_hooks import write_examples
    from superset.commands.importers.v1.assets import ImportAssetsCommand

    files = json.loads(assets.read_text())
    ImportAssetsCommand({path: text for path, text in files.items() if path != ALERTS}).run()
    write_examples(
        [json.loads(text)["uuid"] for path, text in files.items() if path.startswith("queries/")]
    )


def known_networks(warehouse: Path, configured: list[dict]) -> list[tuple[str, str, str]]:
    """Return name, country and access technology of the warehouse's networks, sorted.

    Before the first day is published, they are those of the networks file.
    """
    published = []
    if warehouse.exists():
        with duckdb.connect(warehouse, read_only=True) as connection:
            query = "select distinct network, country, access from networks"
            published = connection.execute(query).fetchall()
    return sorted(published or ((n["name"], n["country"], n["access"]) for n in configured))


def name_networks(networks: list[tuple[str, str, str]]) -> None:
    """Replace the placeholders of the pages by names of networks.

    The assets cannot know the networks. They give colours to a first network, a second network and
    so on, in the order of the names, and select the most common access technology.
    """
    from app_hooks import write_countries
    from superset import db
    from superset.models.dashboard import Dashboard

    countries = {name: country for name, country, _ in networks}
    accesses = Counter(access for name, access in sorted({(n, a) for n, _, a in networks}))
    names = list(countries)
    if not names:
        return
    write_countries(countries)
    most_common = json.dumps(min(accesses, key=lambda access: (-accesses[access], access)))
    for page in db.session.query(Dashboard).filter_by(slug="giscope"):
        metadata = json.loads(
            page.json_metadata.replace(json.dumps(MOST_COMMON_ACCESS), most_common)
        )
        colours = metadata["label_colors"]
        numbered = {label: re.fullmatch(NUMBERED_NETWORK, label) for label in colours}
        places = len({match[1] for match in numbered.values() if match})
        metadata["label_colors"] = {
            label: colour for label, colour in colours.items() if not numbered[label]
        } | {
            name + (match[2] or ""): colours[label]
            for n, name in enumerate(names)
            for label, match in numbered.items()
            if match and int(match[1]) == n % places + 1
        }
        page.json_metadata = json.dumps(metadata)
    db.session.commit()


def make_roles(countries: set[str]) -> None:
    """Make the roles of readers and analysts, and the row-level security of their countries.

    The administrator does not get the permission for data that no page uses either.
    There is a role of readers for each country, which sees rows of that country only, and one for
    all countries. For each of them there is a role of analysts, which may also write SQL.
    """
    from superset import db, security_manager
    from superset.connectors.sqla.models import RowLevelSecurityFilter, SqlaTable
    from superset.models.core import Database
    from superset.utils.core import RowLevelSecurityFilterType

    administrator = security_manager.find_role(ADMINISTRATOR)
    administrator.permissions = [
        permission
        for permission in administrator.permissions
        if str(permission) != DRILL_INFORMATION
    ]
    datasets = db.session.query(SqlaTable).join(Database).filter_by(database_name="giscope").all()
    analysis = db.session.query(Database).filter_by(database_name="analysis").one()
    read_permissions = [
        *(
            permission
            for permission in security_manager.find_role("Gamma").permissions
            if str(permission) not in DENIED_TO_READERS
        ),
        *(
            security_manager.add_permission_view_menu("datasource_access", dataset.perm)
            for dataset in datasets
        ),
    ]
    sql_permissions = [
        *security_manager.find_role("sql_lab").permissions,
        security_manager.add_permission_view_menu("database_access", analysis.perm),
    ]
    for name in [ALL_COUNTRIES, *(READER_PREFIX + country for country in sorted(countries))]:
        security_manager.add_role(name).permissions = read_permissions
    for name in [
        ALL_COUNTRIES_ANALYST,
        *(ANALYST_PREFIX + country for country in sorted(countries)),
    ]:
        security_manager.add_role(name).permissions = [*{*read_permissions, *sql_permissions}]
    for country in sorted(countries):
        name = READER_PREFIX + country
        rule = db.session.query(RowLevelSecurityFilter).filter_by(name=name).one_or_none()
        rule = rule or RowLevelSecurityFilter(name=name)
        rule.filter_type = RowLevelSecurityFilterType.REGULAR
        rule.group_key = (
            "country"  # rules of one group add up, so a user with two roles sees two countries
        )
        rule.clause = f"country = '{country}'"
        rule.roles = [
            security_manager.find_role(prefix + country)
            for prefix in (READER_PREFIX, ANALYST_PREFIX)
        ]
        rule.tables = datasets
        db.session.add(rule)
    db.session.commit()


def main(assets: Path, networks: Path) -> None:
    """Bring Superset up to date with the pages, the warehouse and a networks file."""
    configured = tomllib.loads(networks.read_text())["network"]
    app = create_app()
    with app.app_context():
        make_administrator()
        g.user = app.appbuilder.sm.find_user(ADMINISTRATOR_NAME)
        import_assets(assets)
        name_networks(known_networks(VIEWS, configured))
        make_roles({network["country"] for network in configured})
        make_alerts(assets, g.user)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
