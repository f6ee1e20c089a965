"""The first run compiles what tasks need, and says so."""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import CAPTURES, NETWORKS_FILE, ROOT

from spark_jobs.engine import compiling
from spark_jobs.sources import ENTRIES, compiled_folder

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


def test_copies_of_the_same_sources_share_what_is_compiled(tmp_path: Path):
    """Otherwise each copy would be compiled for a minute. Other sources are compiled anew."""
    caches = {"NUMBA_CACHE_DIR": str(tmp_path / "caches"), "NUMBA_DEBUG_CACHE": "1"}
    program = "import numpy as np\nfrom spark_jobs.compiled.arrays import true_indices as f\n"
    said = []
    for name, change in (("first", ""), ("second", ""), ("changed", "# changed\n")):
        for package in ("schemas", "spark_jobs"):
            shutil.copytree(ROOT / package, tmp_path / name / package)
        with (tmp_path / name / "spark_jobs/estimators/pages.py").open("a") as file:
            file.write(change)
        command = [sys.executable, "-c", f"{program}print(f(np.array([False, True])))"]
        environment = {**os.environ, **caches, "PYTHONPATH": str(tmp_path / name)}
        done = subprocess.run(
            command,
            cwd=tmp_path / name, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.endswith("[1]\n")
        said.append("data saved" in done.stdout)
    assert said == [True, False, True]


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
    (complete,) = (tmp_path / "caches").rglob(f"{compiling.COMPLETE}-*")
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
