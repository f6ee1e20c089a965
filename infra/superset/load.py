"""Brings Superset up to date: imports assets/, makes a role for each country of a networks file.

Run by start.sh in Superset's environment: load.py NETWORKS
"""

import json
import re
import sys
import tomllib
from pathlib import Path

import duckdb
from connections import VIEWS
from flask import g
from roles import ALL_COUNTRIES, ANALYST, ANALYST_OF_ALL, READER
from superset.app import create_app

ASSETS = Path(__file__).parent / "assets"
NUMBERED = r"network (\d+)( .*)?"
COMMONEST_ACCESS = "access of most networks"
NOT_FOR_READERS = ("can export on Dashboard", "can get drill info on Dataset")
"""An export has every network's name; the other is asked for with each page, and for nothing."""


def import_assets() -> None:
    """What an earlier import made is replaced."""
    from superset.commands.importers.v1.assets import ImportAssetsCommand

    files = {
        str(path.relative_to(ASSETS)): path.read_text() for path in sorted(ASSETS.rglob("*.yaml"))
    }
    ImportAssetsCommand(files).run()


def name_networks(warehouse: Path) -> None:
    """The assets cannot know the networks. They give colours to the first by name, the second and
    so on, and let pages start with the access of most: here these get their names."""
    from hooks import write_countries
    from superset import db
    from superset.models.dashboard import Dashboard

    if not warehouse.exists():
        return
    with duckdb.connect(warehouse, read_only=True) as connection:
        answer = connection.execute("select distinct network, country from networks order by all")
        countries = dict(answer.fetchall())
        accesses = connection.execute(
            "select access from networks group by access order by count(distinct network) desc, 1"
        ).fetchall()
    names = list(countries)
    if not names:
        return
    write_countries(countries)
    for page in db.session.query(Dashboard).filter(Dashboard.slug.like("giscope-%")):
        commonest = json.dumps(accesses[0][0])
        metadata = json.loads(page.json_metadata.replace(json.dumps(COMMONEST_ACCESS), commonest))
        colours = metadata["label_colors"]
        numbered = {label: re.fullmatch(NUMBERED, label) for label in colours}
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
    """Roles that read the dashboards: one a country, which sees its rows only, and one for all; of
    each another one that writes SQL, too."""
    from superset import db, security_manager
    from superset.connectors.sqla.models import RowLevelSecurityFilter, SqlaTable
    from superset.models.core import Database
    from superset.utils.core import RowLevelSecurityFilterType

    datasets = db.session.query(SqlaTable).join(Database).filter_by(database_name="giscope").all()
    analysis = db.session.query(Database).filter_by(database_name="analysis").one()
    reading = [
        *(
            permission
            for permission in security_manager.find_role("Gamma").permissions
            if str(permission) not in NOT_FOR_READERS
        ),
        *(
            security_manager.add_permission_view_menu("datasource_access", dataset.perm)
            for dataset in datasets
        ),
    ]
    writing_sql = [
        *security_manager.find_role("sql_lab").permissions,
        security_manager.add_permission_view_menu("database_access", analysis.perm),
    ]
    for name in [ALL_COUNTRIES, *(READER + country for country in sorted(countries))]:
        security_manager.add_role(name).permissions = reading
    for name in [ANALYST_OF_ALL, *(ANALYST + country for country in sorted(countries))]:
        security_manager.add_role(name).permissions = [*{*reading, *writing_sql}]
    for country in sorted(countries):
        name = READER + country
        rule = db.session.query(RowLevelSecurityFilter).filter_by(name=name).one_or_none()
        rule = rule or RowLevelSecurityFilter(name=name)
        rule.filter_type = RowLevelSecurityFilterType.REGULAR
        rule.group_key = "country"  # rules of one group add up: two roles see two countries
        rule.clause = f"country = '{country}'"
        rule.roles = [security_manager.find_role(kind + country) for kind in (READER, ANALYST)]
        rule.tables = datasets
        db.session.add(rule)
    db.session.commit()


def main(networks: Path) -> None:
    countries = {network["country"] for network in tomllib.loads(networks.read_text())["network"]}
    app = create_app()
    with app.app_context():
        g.user = app.appbuilder.sm.find_user("admin")
        import_assets()
        name_networks(VIEWS)
        make_roles(countries)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
