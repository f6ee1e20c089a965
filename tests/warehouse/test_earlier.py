"""Warehouses of version 0.1 are taken over."""

import json
from dataclasses import asdict
from datetime import timedelta

import pytest
from test_warehouse import countries, data_files, publish

from schemas import NETWORKS
from spark_jobs.warehouse import Unit, Warehouse
from spark_jobs.warehouse.earlier import COMMITS
from spark_jobs.warehouse.journal import CATALOG


@pytest.mark.parametrize("hashed", [False, True])
def test_commit_files_are_taken_over(tmp_path, hashed):
    """hashed: the later ones had each file's size and hash."""
    old = Warehouse(tmp_path)
    publish(old, "AA", "BB")
    commit = old.commit(Unit("network", "aa-gprs"))
    files = commit.contents if hashed else list(commit.files)
    (tmp_path / CATALOG).unlink()
    folder = tmp_path / COMMITS / "network/aa-gprs"
    folder.mkdir(parents=True)
    told = {"unit": asdict(commit.unit), "files": files, "facts": {"is": "old"}}
    (folder / "all.json").write_text(json.dumps(told))
    (folder / ".all.json.0123").write_text("begun")

    new = Warehouse(tmp_path, keep=timedelta(0))
    assert countries(new) == ["AA", "BB"]
    assert new.commit(commit.unit).facts == {"is": "old"}
    assert new.commit(commit.unit).contents == commit.contents
    assert not (tmp_path / COMMITS).exists()
    publish(new, "CC")
    new.update_views()
    assert countries(Warehouse(tmp_path)) == ["CC"]
    assert data_files(new) == set(new.files(NETWORKS))
