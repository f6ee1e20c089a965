"""The first run compiles what tasks need, and says so."""

import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest
from conftest import CAPTURES, NETWORKS_FILE, ROOT

from spark_jobs.base.sources import ENTRIES, compiled_folder, complete_marker
from spark_jobs.engine import compiling

PROGRAM = (
    "import numpy as np\n"
    "from spark_jobs.compiled.arrays import true_indices as f\n"
    "print(f(np.array([False, True])))"
)
UV = shutil.which("uv") or ROOT / ".tools/bin/uv"
OF = len(ENTRIES.read_text().splitlines())
DAY_S = 86400


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty cache; nothing is compiled into it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compiling, "_compile", lambda entry: None)
    monkeypatch.setattr(compiling, "compiled_folder", compiled_folder.__wrapped__)
    return tmp_path / "giscope"


def _compile_once() -> None:
    with ThreadPoolExecutor(1) as executor:
        compiling.compile_once(executor)


def test_compiling_is_announced_once(caches: Path, capsys: pytest.CaptureFixture):
    _compile_once()
    _compile_once()
    said = "giscope: compiling the estimators, once: {} of {}\n"
    assert capsys.readouterr().err == said.format(0, OF) + said.format(OF, OF)


def _printed(root: Path, program: str = PROGRAM, **settings: object) -> str:
    """Run a program with the sources in `root`, and return what it and Numba printed."""
    found = {"NUMBA_DEBUG_CACHE": "1", "PYTHONPATH": root, **settings}
    command = [sys.executable, "-c", program]
    environment = os.environ | {name: str(value) for name, value in found.items()}
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_copies_of_the_same_sources_share_what_is_compiled(tmp_path: Path):
    """Otherwise each copy would be compiled for a minute. Other sources are compiled anew."""
    said = []
    for name, change in (("first", ""), ("second", ""), ("changed", "# changed\n")):
        for package in ("schemas", "spark_jobs"):
            shutil.copytree(ROOT / package, tmp_path / name / package)
        with (tmp_path / name / "spark_jobs/estimators/pages.py").open("a") as file:
            file.write(change)
        printed = _printed(tmp_path / name, NUMBA_CACHE_DIR=tmp_path / "caches")
        assert printed.endswith("[1]\n")
        said.append("data saved" in printed)
    assert said == [True, False, True]


def test_functions_that_a_wheel_brings_are_not_compiled(tmp_path: Path):
    """It brings the one function that was compiled here.

    It is for this platform alone, and asks for the Numba that compiled it.
    """
    brought, caches = tmp_path / "brought", tmp_path / "caches"
    _printed(ROOT, NUMBA_CACHE_DIR=brought)
    complete_marker(brought).touch()
    subprocess.run(
        [UV, "build", "-q", "--wheel", "--out-dir", tmp_path],
        cwd=ROOT, env=os.environ | {"GISCOPE_MACHINE_CODE": str(brought)}, check=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    assert not wheel.name.endswith("-none-any.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    (metadata,) = (tmp_path / "installed").glob("*.dist-info/METADATA")
    assert f"Requires-Dist: numba=={version('numba')}\n" in metadata.read_text()
    printed = _printed(tmp_path / "installed", XDG_CACHE_HOME=caches)
    assert printed.endswith("[1]\n")
    assert "data loaded" in printed
    assert "data saved" not in printed
    assert not caches.exists()


def test_a_function_that_cannot_be_stored_still_runs(tmp_path: Path):
    no_bytes = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    assert _printed(ROOT, no_bytes + PROGRAM, NUMBA_CACHE_DIR=tmp_path).endswith("[1]\n")
    assert [*tmp_path.rglob("*.nbc")] == []


def test_a_wheel_is_refused_where_no_function_can_be_stored(tmp_path: Path):
    (tmp_path / "file").touch()
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs.engine"],
        cwd=ROOT, env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "file")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(
        rf"giscope: {tmp_path}/file/giscope/numba-\w+: cannot store the compiled estimators there: "
        "set NUMBA_CACHE_DIR to a folder that you may write\n",
        done.stderr,
    )


def test_functions_of_other_sources_are_removed_when_unused_for_a_month(caches: Path):
    old, recent, other = caches / "numba-old", caches / "numba-recent", caches / "other"
    for folder, days in ((old, 31), (recent, 29), (other, 31)):
        folder.mkdir(parents=True)
        (folder / "function.nbi").touch()
        os.utime(folder, (0, time.time() - days * DAY_S))
    _compile_once()
    assert not old.exists()
    assert recent.exists()
    assert other.exists()


def test_nothing_is_announced_where_no_cache_can_be_kept(
    caches: Path, capsys: pytest.CaptureFixture
):
    caches.touch()
    _compile_once()
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_first_run_compiles_all_before_its_tasks(tmp_path: Path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "caches")}
    environment.pop("NUMBA_CACHE_DIR", None)
    said = [_run(tmp_path / name, environment) for name in ("first", "second")]
    start, end = (f"giscope: compiling the estimators, once: {n} of {OF}" for n in (0, OF))
    assert said == [[start, end], []]
    (complete,) = (tmp_path / "caches").rglob("complete-*")
    made = [
        p
        for p in complete.parent.rglob("*.nbc")
        if p.stat().st_mtime_ns > complete.stat().st_mtime_ns
    ]
    assert made == []


def _run(warehouse: Path, environment: dict[str, str]) -> list[str]:
    command = [Path(sys.executable).with_name("giscope"), "run", CAPTURES]
    options = ["--warehouse", warehouse, "--networks", NETWORKS_FILE]
    done = subprocess.run(
        [*command, *options], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stderr.splitlines()
