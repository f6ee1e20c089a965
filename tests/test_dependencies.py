"""What is imported is declared in pyproject.toml, and what is declared is imported."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions

from conftest import ROOT

from spark_jobs.extras import EXTRAS

GISCOPE = ("schemas", "spark_jobs", "zeek_scripts", "infra/spark")
DEVELOPMENT = ("tests", "infra/audit.py")
"""Other folders of infra/, and dags/, run in the environments of Airflow and Superset."""
WITHOUT_IMPORT = {
    "psycopg": "SQLAlchemy's driver for PostgreSQL",
    "pytz": "DuckDB makes Python's times with a time zone by it",
    "tzdata": "zoneinfo reads it where the system has no time zones",
    "btest": "a program of the Zeek package's tests",
    "flask": "moto's server needs it",
    "flask-cors": "moto's server needs it",
    "import-linter": "a program of make lint",
    "mypy": "a program of make lint",
    "pip-audit": "a program of make lint",
    "pytest-xdist": "make test runs tests in several processes by it",
    "ruff": "a program of make lint",
    "zkg": "a program of the Zeek package's tests",
}
"""Packages that are declared but not imported, and why."""
OTHER_ENVIRONMENT = {"aioquic", "ns"}
"""Modules that only a program with an environment of its own imports."""

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OWN = {path.stem for room in ("tests", "dags", "infra") for path in (ROOT / room).rglob("*.py")}
OWN |= {"infra", "schemas", "spark_jobs", "tests"}


def names(requirements: Iterable[str]) -> set[str]:
    """Return the packages' names, as `normalized` does."""
    return {normalized(re.match(r"[\w.-]+", text)[0]) for text in requirements}


def normalized(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def imported_packages(*places: str) -> set[str]:
    """Return the packages of other projects that the Python files in these places import."""
    by_module = packages_distributions()
    modules = {module for place in places for module in imported_modules(place)}
    others = modules - OWN - OTHER_ENVIRONMENT - sys.stdlib_module_names
    return {normalized(by_module[module][0]) for module in others}


def imported_modules(place: str) -> Iterator[str]:
    for path in [ROOT / place, *(ROOT / place).rglob("*.py")]:
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    yield from (alias.name.partition(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    yield node.module.partition(".")[0]


DEPENDENCIES = names(PYPROJECT["project"]["dependencies"])
BY_EXTRA = {
    extra: names(packages)
    for extra, packages in PYPROJECT["project"]["optional-dependencies"].items()
}
TOOLS = names(PYPROJECT["dependency-groups"]["dev"])


def test_giscope_imports_what_it_declares():
    declared = DEPENDENCIES.union(*BY_EXTRA.values())
    assert imported_packages(*GISCOPE) == declared - WITHOUT_IMPORT.keys()


def test_tests_import_what_is_declared():
    imported = imported_packages(*DEVELOPMENT)
    declared = DEPENDENCIES.union(TOOLS, *BY_EXTRA.values())
    assert imported | WITHOUT_IMPORT.keys() <= declared
    assert imported >= TOOLS - WITHOUT_IMPORT.keys()


def test_an_extra_is_asked_for_by_its_packages():
    assert EXTRAS.keys() == BY_EXTRA.keys()
    for extra, packages in EXTRAS.items():
        assert set(packages) <= BY_EXTRA[extra]
