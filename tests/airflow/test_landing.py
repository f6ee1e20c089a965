"""When a day's landing folder is complete."""

import os
import re
import time
from datetime import date, timedelta
from pathlib import Path

import landing
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from landing import (
    MARKER,
    complete_folders,
    day_range,
    incomplete_reason,
    network_names,
    settings_of,
)

QUIET_S = 1800.0


@pytest.fixture
def day(tmp_path: Path) -> Path:
    folder = tmp_path / "aa-gprs" / "2004-03-02"
    folder.mkdir(parents=True)
    return folder


def changed(folder: Path, name: str, text: str = "") -> float:
    """Write a file; returns when the folder last changed."""
    (folder / name).write_text(text)
    return max(path.stat().st_ctime for path in (folder, folder / name))


def test_no_folder_is_not_complete(tmp_path):
    reason = incomplete_reason(tmp_path / "2004-03-02", time.time(), QUIET_S)
    assert reason
    assert "no such folder" in reason


def test_empty_folder_is_not_complete_however_quiet(day):
    reason = incomplete_reason(day, time.time() + 10 * QUIET_S, QUIET_S)
    assert reason
    assert "empty" in reason


def test_without_marker_complete_once_quiet(day):
    then = changed(day, "peak.pcap")
    assert incomplete_reason(day, then + QUIET_S - 1, QUIET_S)
    assert incomplete_reason(day, then + QUIET_S, QUIET_S) is None


def test_a_growing_file_keeps_the_day_open(day):
    changed(day, "peak.pcap")
    then = changed(day, "peak.pcap", "more")
    assert incomplete_reason(day, then + QUIET_S - 1, QUIET_S)


def test_old_modification_time_does_not_make_a_new_file_quiet(day):
    then = changed(day, "peak.pcap")
    os.utime(day / "peak.pcap", (0, 0))
    assert incomplete_reason(day, then + 1, QUIET_S)


def test_marker_makes_it_complete_at_once(day):
    then = changed(day, "peak.pcap")
    (day / MARKER).touch()
    assert incomplete_reason(day, then, QUIET_S) is None


def test_marker_that_names_a_missing_file_keeps_the_day_open(day):
    (day / MARKER).write_text("off-peak.pcap\npeak.pcap\n")
    then = changed(day, "peak.pcap")
    reason = incomplete_reason(day, then + 10 * QUIET_S, QUIET_S)
    assert reason
    assert "off-peak.pcap" in reason
    changed(day, "off-peak.pcap")
    assert incomplete_reason(day, then, QUIET_S) is None


@pytest.mark.parametrize("linked", ["network", "day", MARKER])
def test_links_are_followed_only_with_the_setting(day, tmp_path, linked):
    """Neither for folders, nor for the marker, whose lines are shown."""
    changed(day, "peak.pcap")
    (day / MARKER).touch()
    path = {"network": day.parent, "day": day, MARKER: day / MARKER}[linked]
    path.symlink_to(path.rename(tmp_path / "elsewhere"))
    reason = incomplete_reason(day, time.time(), QUIET_S)
    assert reason == f"{path}: symbolic link; to follow it, set GISCOPE_FOLLOW_LINKS=1"
    assert incomplete_reason(day, time.time(), QUIET_S, follow_links=True) is None


def test_a_marker_that_is_a_pipe_is_not_waited_for(day):
    os.mkfifo(day / MARKER)
    assert incomplete_reason(day, time.time(), QUIET_S) == f"{day / MARKER}: not a regular file"


def test_late_days_are_found_as_far_back_as_configured(tmp_path):
    for name in ("2004-02-29", "2004-03-01", "2004-03-02", "2004-03-03"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / MARKER).touch()
    (tmp_path / "2004-03-01" / MARKER).unlink()
    found = complete_folders(tmp_path, date(2004, 3, 2), 2, time.time(), QUIET_S)
    assert [folder.name for folder in found] == ["2004-03-02", "2004-02-29"]


def test_five_hundred_files_are_waited_for_one_by_one(day):
    """The reason names the one that is missing; without a marker, the newest decides."""
    names = [f"{n:03d}.pcap" for n in range(500)]
    for name in names:
        (day / name).touch()
    then = changed(day, names[250], "last")
    assert incomplete_reason(day, then + QUIET_S - 1, QUIET_S)
    assert incomplete_reason(day, then + QUIET_S, QUIET_S) is None
    (day / MARKER).write_text("\n".join(names))
    assert incomplete_reason(day, then, QUIET_S) is None
    (day / names[123]).unlink()
    reason = incomplete_reason(day, then, QUIET_S)
    assert reason == f"{day}: files of {MARKER} are missing: 123.pcap"


def test_names_of_networks_are_those_of_the_file(tmp_path):
    file = tmp_path / "networks.toml"
    file.write_text('[[network]]\nname = "op.4g"\n[[network]]\nname = "aa-gprs"\n')
    assert network_names(file) == ["op.4g", "aa-gprs"]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "[[network]",
        "",
        "network = 1",
        '[[network]]\nx = "y"',
        "x = " + "[" * 9999,
        *(
            f"[[network]]\nname = {name}"
            for name in ("3", '"a b"', '""', '"a"\n[[network]]\nname = "a"')
        ),
    ],
)
def test_a_networks_file_without_names_is_named(tmp_path, text):
    file = tmp_path / "networks.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValueError, match=f"^{file}: no names of networks: "):
        network_names(file)


TODAY = date(2026, 1, 31)


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        ("2026-01-30", None, (date(2026, 1, 30), None)),
        ("2026-01-30", "", (date(2026, 1, 30), None)),
        ("2025-01-30", None, (date(2025, 1, 30), None)),
        ("2004-03-02", "2004-03-04", (date(2004, 3, 2), date(2004, 3, 4))),
    ],
)
def test_days_are_those_of_the_settings(first, last, found):
    settings = {"GISCOPE_FIRST_DAY": first} | ({} if last is None else {"GISCOPE_LAST_DAY": last})
    assert day_range(settings, TODAY) == found


def test_a_first_day_long_ago_needs_a_last_one():
    with pytest.raises(
        ValueError, match=r"^GISCOPE_FIRST_DAY=2025-01-29 is 367 days ago.*LAST_DAY"
    ):
        day_range({"GISCOPE_FIRST_DAY": "2025-01-29"}, TODAY)


ODD = ("nan", "inf", "-1", "-0", "1e308", "1e-320", "9" * 5000, "x", "\udcff", "0001-01-01",
       "1969-12-31", "9999-12-31", "2004-02-30", "2026-01-30\n", " ", "")  # fmt: skip
VARIABLES = re.findall(r'"(GISCOPE_\w+)"', Path(landing.__file__).read_text())


def test_a_networks_file_that_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero")):
        with pytest.raises(ValueError, match="not a regular file"):
            network_names(path)


@pytest.mark.parametrize("name", sorted(set(VARIABLES)))
@settings(derandomize=True, deadline=None, database=None)
@given(st.one_of(st.sampled_from(ODD), st.floats().map(str), st.dates().map(str), st.text()))
def test_every_value_of_a_variable_is_a_setting_or_named(name, value):
    """What is taken can be used: as the schedule's days, as times to wait."""
    first = {"GISCOPE_FIRST_DAY": "2026-01-30"}
    found, reason = None, ""
    try:
        found = settings_of(first | {name: value}, TODAY)
    except ValueError as refused:
        reason = str(refused)
    assert found or (reason.startswith(f"{name}=") and len(reason.splitlines()) == 1)
    if found:
        assert found.first_day - timedelta(days=found.late_days)
        assert time.time() + found.quiet_s + (found.wait + found.look).total_seconds() < 1e10
