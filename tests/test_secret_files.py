"""Secrets in variables, or in files that variables name."""

import psycopg
import pytest

from spark_jobs.base.secret_files import secret_of
from spark_jobs.warehouse.store import Warehouse


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "secret"
    path.write_text("of a file\n")
    return path


def test_a_secret_is_in_a_variable_or_in_a_file(monkeypatch, secret_file, tmp_path):
    monkeypatch.delenv("SOME_KEY", raising=False)
    assert secret_of("SOME_KEY") is None
    monkeypatch.setenv("SOME_KEY_FILE", str(secret_file))
    assert secret_of("SOME_KEY") == "of a file"
    monkeypatch.setenv("SOME_KEY", "of a variable")
    assert secret_of("SOME_KEY") == "of a variable"
    monkeypatch.setenv("SOME_KEY", "")
    secret_file.write_text("\n")
    assert secret_of("SOME_KEY") is None
    monkeypatch.setenv("SOME_KEY_FILE", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        secret_of("SOME_KEY")


@pytest.mark.parametrize(
    ("address", "password"), [("me@db", "of a file"), ("me:own@db", "own"), ("me@db", None)]
)
def test_a_catalogs_password_may_be_in_a_file(
    monkeypatch, secret_file, tmp_path, address, password
):
    """Where its address has none."""
    given = {}

    def connect(**arguments):
        given.update(arguments)
        raise psycopg.OperationalError("enough")

    monkeypatch.setattr(psycopg, "connect", connect)
    monkeypatch.setenv("GISCOPE_CATALOG", f"postgresql://{address}/lake")
    if password:
        monkeypatch.setenv("GISCOPE_CATALOG_PASSWORD_FILE", str(secret_file))
    with pytest.raises(Exception, match="enough"):
        Warehouse(tmp_path / "w").published_units("network")
    assert given.get("password") == password
