"""The packages: what their own modules need, and what may stand in a package's `__init__`."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
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
