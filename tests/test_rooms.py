"""The packages: what their own modules need, and what may stand in a package's `__init__`."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAX_JOB_LINES = 200
PACKAGES = sorted(ROOT.glob("spark_jobs/**/__init__.py"))


@pytest.mark.parametrize("init", PACKAGES, ids=lambda path: path.parent.name)
def test_a_package_imports_none_of_its_modules(init: Path) -> None:
    """Otherwise a module of the package that imports the package leads back to where it began."""
    package = ".".join(init.parent.relative_to(ROOT).parts)
    imported = [
        name
        for node in ast.walk(ast.parse(init.read_text()))
        for name in _imported_modules(node)
        if name == package or name.startswith(f"{package}.")
    ]
    assert not imported


def _imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def test_the_walk_through_the_code_names_modules_that_exist() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    walk = page.partition("## A walk through the code")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z_/]+/(?:[a-z_0-9]+\.py)?|cli\.py|networks\.py)`", walk))
    assert len(named) > 30
    assert [path for path in named if not (ROOT / "spark_jobs" / path).exists()] == ["spark_jobs/"]


@pytest.mark.parametrize("job", sorted(ROOT.glob("spark_jobs/jobs/*.py")), ids=lambda p: p.stem)
def test_a_job_finds_calls_and_publishes_and_is_short(job: Path) -> None:
    assert len(job.read_text().splitlines()) <= MAX_JOB_LINES


def test_code_reads_no_page_of_the_documentation() -> None:
    """Images have none. Messages and comments may name a page."""
    rooms = [ROOT / room for room in ("dags", "infra", "schemas", "spark_jobs")]
    modules = [path for room in rooms for path in room.rglob("*.py")]
    texts = [
        (path, node.value)
        for path in modules
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    read = [(path.name, text) for path, text in texts if re.fullmatch(r"(\S*/)?docs(/\S*)?", text)]
    scripts = [path for room in rooms for path in room.rglob("*") if _is_script(path)]
    said = re.compile(r"^\s*#[^\n]*|<<'?(\w+)'?.*?^\1$", re.MULTILINE | re.DOTALL)
    read += [(path.name, "docs/") for path in scripts if "docs/" in said.sub("", path.read_text())]
    assert len(modules) > 300
    assert len(scripts) > 10
    assert read == []


def _is_script(path: Path) -> bool:
    return path.suffix == ".sh" or path.name == "Dockerfile"
