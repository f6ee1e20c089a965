"""When a day's landing folder is complete."""

import os
import time
from datetime import date
from pathlib import Path

import pytest
from landing import MARKER, complete_folders, day_range, incomplete_reason, network_names

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


@pytest.mark.parametrize("text", [None, "[[network]", "", "network = 1", '[[network]]\nx = "y"'])
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
