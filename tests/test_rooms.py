"""The packages: what their own modules need, and what may stand in a package's `__init__`."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_a_package_imports_none_of_its_modules() -> None:
    """Otherwise a module of the package that imports the package leads back to where it began."""
    for init in ROOT.glob("spark_jobs/**/__init__.py"):
        package = ".".join(init.parent.relative_to(ROOT).parts)
        nodes = ast.walk(ast.parse(init.read_text()))
        imported = [name for node in nodes for name in _imported_modules(node)]
        assert not [name for name in imported if f"{name}.".startswith(f"{package}.")], package


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
