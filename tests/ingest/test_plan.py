"""The plan of an ingest: one file of each capture is read, if its rows are not there yet."""

import gzip
import os
from pathlib import Path

import pytest
import zstandard

from spark_jobs.base.places import NOT_REGULAR
from spark_jobs.capture import FrontEnd
from spark_jobs.ingest.plan import Plan, inputs_hash, plan_ingest

WHOLE = bytes(range(256)) * 40
PACKED = {".gz": gzip.compress, ".zst": zstandard.compress}


def part(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


STATES = {
    "being compressed": lambda packed: (WHOLE, part(packed), "plain"),
    "not begun to be compressed": lambda packed: (WHOLE, b"", "plain"),
    "being unpacked": lambda packed: (part(WHOLE), packed, "packed"),
    "not begun to be unpacked": lambda packed: (b"", packed, "packed"),
    "both": lambda packed: (WHOLE, packed, "newer"),
    "packed file is cut": lambda packed: (WHOLE, packed[:-1], "plain"),
    "neither is complete": lambda packed: (b"", part(packed), "newer"),
}
"""Plain bytes, compressed ones, and which file is read."""


def plan(network, *paths: Path) -> Plan:
    return plan_ingest((network, path) for path in paths)


@pytest.mark.parametrize("newer", ["plain", "packed"])
@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("state", STATES)
def test_the_newest_complete_file_is_read_and_the_other_named(
    network, tmp_path, state, suffix, newer
):
    plain, packed, taken = STATES[state](PACKED[suffix](WHOLE))
    paths = {"plain": tmp_path / "x.pcap", "packed": tmp_path / f"x.pcap{suffix}"}
    for name, data in (("plain", plain), ("packed", packed)):
        paths[name].write_bytes(data)
        os.utime(paths[name], (1, 2 if name == newer else 1))
    chosen = paths[newer if taken == "newer" else taken]
    (other,) = {*paths.values()} - {chosen}
    assert plan(network, *paths.values()) == Plan(
        files=[(network, chosen)],
        notes={(network, chosen): [f"{other}: skipped: {chosen} is read instead"]},
    )


def test_files_of_one_name_in_two_folders_are_refused_but_for_the_first(network, tmp_path):
    paths = [tmp_path / folder / "x.pcap" for folder in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(WHOLE)
    found = plan(network, *paths)
    assert found.files == [(network, paths[0])]
    assert found.errors == {
        (network, paths[1]): f"{paths[1]}: has the same capture name as {paths[0]}: rename one"
    }


def test_the_hash_of_the_inputs_changes_with_the_file_and_the_settings(network, tmp_path):
    path = tmp_path / "a.pcap"
    path.write_bytes(b"packets")
    first = inputs_hash((network, path), FrontEnd.AUTO)
    assert first == inputs_hash((network, path), FrontEnd.AUTO) != ""
    fewer = network.model_copy(update={"user_partitions": 1})
    others = [
        inputs_hash((fewer, path), FrontEnd.AUTO),
        inputs_hash((network, path), FrontEnd.ZEEK),
    ]
    path.write_bytes(b"more packets")
    others.append(inputs_hash((network, path), FrontEnd.AUTO))
    assert len({first, *others}) == 4


def test_a_missing_file_is_left_to_the_reader(network, tmp_path):
    file = network, tmp_path / "a.pcap"
    assert plan_ingest([file]).files == [file]
    assert inputs_hash(file, FrontEnd.AUTO) == ""


def test_a_pipe_is_not_read(network, tmp_path):
    path = tmp_path / "a.pcap"
    os.mkfifo(path)
    found = plan(network, path)
    assert (found.files, found.errors) == ([], {(network, path): f"{path}: {NOT_REGULAR}"})
