"""A disk that is full at some moment of a run: one line, nothing half-published, and the next run
with more room makes what is missing. Slow: a file system of its own, as small as it takes."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import FEW, NETWORKS_FILE, ROOT

IN_A_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
TRY = """
import json, subprocess, sys
place, size, *run = sys.argv[1:]
def sh(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr
sh("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place)
full = sh(*run)
left = sh("find", place, "-name", ".*.*", "-type", "f")[1].split()
sh("mount", "-o", "remount,size=500m", place)
again = sh(*run)
ask = "select (select count(*) from packets), (select sum(flows)::int from table1_summary)"
rows = sh(run[0], "sql", "--warehouse", run[3], "--format", "csv", ask)[1].split()[-1]
used = int(sh("du", "-sb", place)[1].split()[0])
print(json.dumps([full[0], full[2], left, again[0], rows, used]))
"""


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    run_on_small_disk = subprocess.run(
        [*IN_A_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=False
    )
    return run_on_small_disk.returncode == 0


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not can_mount(), reason="this user may mount no file system (unshare)"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("small")


def run_on_small_disk(place: Path, captures: Path, size: int) -> tuple:
    """Run with a disk of `size` bytes: status, stderr, files left; then with enough: status,
    counts, bytes."""
    giscope = str(Path(sys.executable).with_name("giscope"))
    run = [giscope, "run", "--warehouse", str(place / "w"), "--networks", str(NETWORKS_FILE)]
    done = subprocess.run(
        [*IN_A_NAMESPACE, sys.executable, "-c", TRY, str(place), str(size), *run, str(captures)],
        check=True, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    return tuple(json.loads(done.stdout))


@pytest.fixture(scope="module")
def enough(place, few_captures) -> tuple[int, str]:
    """Return the bytes that a run takes, and its counts."""
    status, stderr, _, _, rows, used = run_on_small_disk(place, few_captures, 500 << 20)
    assert (status, rows.split(",")[0]) == (0, str(2 * FEW)), stderr
    return used, rows


@pytest.mark.parametrize("share", [0.02, 0.1, 0.15, 0.3, 0.4, 0.6, 0.9])
def test_a_full_disk_is_reported_in_a_line_and_nothing_is_lost(place, few_captures, enough, share):
    used, rows = enough
    status, stderr, left, again, counted, _ = run_on_small_disk(
        place, few_captures, int(share * used)
    )
    lines = [line for line in stderr.splitlines() if "in the peak hours" not in line]
    assert status == 2
    assert 1 <= len(lines) <= 2, stderr
    assert all(
        re.search(
            rf"{place}.*no space left .*: at least [\d,]+ bytes are needed, [\d,]+ are free", line
        )
        for line in lines
    ), stderr
    assert left == []
    assert (again, counted) == (0, rows)
