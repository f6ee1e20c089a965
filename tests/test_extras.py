"""giscope without its extras: what needs one says so in a line, and all else runs."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import GISCOPE, ROOT

from spark_jobs.base.extras import EXTRAS
from tests.programs.many_days import write_captures

OPTIONAL = {"pyspark", "psycopg", "obstore", "fsspec", "pandas"}
"""Packages that a warehouse in a folder does not need.

PyIceberg installs fsspec; the tests, pandas.
"""
HIDE = """
import os, sys
from importlib.machinery import PathFinder

class Others(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in os.environ["HIDDEN"].split():
            return super().find_spec(name, path, target)
        with open(os.environ["ASKED"], "a") as file:
            print(name.partition(".")[0], file=file)

sys.meta_path[sys.meta_path.index(PathFinder)] = Others
"""
"""Python runs this at its start, also in the processes that run the tasks."""


def giscope(
    folder: Path, *args: object, hidden: set[str] = OPTIONAL, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to which these packages are not installed; folder/asked names those that it
    looked for."""
    (folder / "sitecustomize.py").write_text(HIDE)
    (folder / "asked").touch()
    settings |= {
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "HIDDEN": " ".join(hidden),
        "ASKED": str(folder / "asked"),
    }
    return subprocess.run(
        [sys.executable, "-c", "from spark_jobs.commands.cli import main; main()", *map(str, args)],
        env=os.environ | settings, capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip


def test_a_run_in_a_folder_asks_for_no_optional_package(tmp_path):
    """Only PyArrow looks whether pandas is there."""
    networks = write_captures(tmp_path, 1, 1)
    run = ("run", "--warehouse", tmp_path / "w", "--networks", networks, tmp_path / "captures")
    done = giscope(tmp_path, *run)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "w/report.html").exists()
    assert set((tmp_path / "asked").read_text().split()) <= {"pandas"}


def test_no_process_of_giscope_imports_pandas(tmp_path):
    """PyArrow would, where it is installed, in every process."""
    networks = write_captures(tmp_path, 1, 1)
    run = ("run", "--warehouse", tmp_path / "w", "--networks", networks, tmp_path / "captures")
    command = [sys.executable, "-X", "importtime", GISCOPE, *map(str, run)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"pyarrow.compute", "spark_jobs.tables.day_tables"} <= imported
    assert "pandas.core" not in imported


@pytest.mark.parametrize(
    ("place", "package", "extra", "settings"),
    [
        ("GISCOPE_MASTER", "pyspark", "spark", {"GISCOPE_MASTER": "local[1]"}),
        ("GISCOPE_CATALOG", "psycopg", "postgres", {"GISCOPE_CATALOG": "postgresql://h/d"}),
        ("s3://bucket/w", "obstore", "s3", {}),
        ("s3://bucket/w", "fsspec", "s3", {}),
    ],
)
def test_a_missing_extra_gives_one_line(tmp_path, place, package, extra, settings):
    networks = write_captures(tmp_path, 1, 1)
    warehouse = place if "://" in place else tmp_path / "w"
    run = ("run", "--warehouse", warehouse, "--networks", networks, tmp_path / "captures")
    done = giscope(tmp_path, *run, hidden={package}, **settings)
    assert done.stderr == f"giscope: {place}: needs {package}: install giscope[{extra}]\n"
    assert done.returncode == 2


def test_the_command_line_imports_no_optional_package():
    code = f"import sys, spark_jobs.commands.cli; print({OPTIONAL} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "set()\n"


def test_an_extra_is_asked_for_by_its_packages():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert EXTRAS.keys() == extras.keys()
    for extra, packages in EXTRAS.items():
        declared = {re.match(r"[\w-]+", text)[0] for text in extras[extra]}
        assert set(packages) <= declared
