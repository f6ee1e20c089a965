"""Profiles: shared settings, lists, rejected input."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.programs.lab.profile import read

PROFILES = sorted((Path(__file__).parent / "programs/lab/profiles").glob("*.toml"))
SHORT = """
title = "one"
start = 2004-03-05T10:00:00Z
seconds = 10
seed = 1
internet = {}
access = { rate = 8000, uplink = 4000, delay = 0.2 }
load = { bytes = 1000 }
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "profile.toml"
    file.write_text(SHORT + text)
    return file


def test_groups_inherit_shared_settings(tmp_path: Path) -> None:
    groups = '[[groups]]\nname = "a"\naccess.rate = 9000\nusers = 2\ntimestamps = false\n'
    profile = read(written(tmp_path, groups + '[[groups]]\nname = "b"\nsack = false\n'))
    a, b = profile.groups
    assert (a.access.rate, a.access.uplink, a.load.path) == (9000, 4000, "/bytes/1000")
    assert (b.access.rate, b.window) == (8000, None)
    assert [address for address, _ in profile.users()] == ["10.65.0.1", "10.65.0.2", "10.66.1.1"]


def test_each_value_of_a_list_makes_a_group(tmp_path: Path) -> None:
    text = (
        '[[groups]]\nname = "{mss}, {load_connections}"\nmss = [500, 1000]\nwindow_segments = 4\n'
    )
    profile = read(written(tmp_path, text + "load.connections = [1, 2]\n"))
    made = {group.name: (group.receive_window, group.load.connections) for group in profile.groups}
    assert made == {
        "500, 1": (2000, 1),
        "500, 2": (2000, 2),
        "1000, 1": (4000, 1),
        "1000, 2": (4000, 2),
    }


def test_load_with_bytes_and_seconds_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="bytes or seconds"):
        read(written(tmp_path, '[[groups]]\nname = "a"\nload.seconds = 5\n'))


def test_unknown_setting_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="rates"):
        read(written(tmp_path, '[[groups]]\nname = "a"\naccess.rates = 9000\n'))


@pytest.mark.parametrize("file", PROFILES, ids=lambda file: file.stem)
def test_profiles_of_the_studies_can_be_read(file: Path) -> None:
    profile = read(file)
    names = [group.name for group in profile.groups]
    assert len(set(names)) == len(names)
    for group in profile.groups:
        assert group.load.start + (group.load.seconds or 0) < profile.seconds
