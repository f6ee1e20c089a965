"""Packages that only some users need; giscope[EXTRA] installs them."""

from importlib.util import find_spec

from spark_jobs.base.errors import UserError

EXTRAS = {"postgres": ("psycopg",), "s3": ("obstore", "fsspec"), "spark": ("pyspark",)}
"""The packages that are imported from each extra of pyproject.toml."""


def require(extra: str, place: str) -> None:
    """Raise a UserError if a package of an extra is missing.

    place: the user's setting or URL that needs the package.
    """
    for package in EXTRAS[extra]:
        if find_spec(package) is None:
            raise UserError(f"{place}: needs {package}: install giscope[{extra}]")
