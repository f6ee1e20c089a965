"""Measures how far the losses on the access side depend on each constant of their model.

Constants are compiled in. So each variation is written into another folder with the sources,
which a process of its own runs. Of compiled functions kept on disk, those of modules that do not
see the constant are reused.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from spark_jobs.warehouse.store import Warehouse
from tests.programs.accuracy.lab import NETWORK, Counts, Recording, access_counts, ingested

ROOT = Path(__file__).parents[3]
MODEL = Path("spark_jobs/estimators/loss")
SOURCES = ("schemas", "spark_jobs", "tests/programs/accuracy")
MODULES = (
    "costs", "search", "receiver", "link", "queue", "order", "path", "access", "lookahead",
)  # fmt: skip
NOT_MODEL = {"lookahead.SCRATCH_ROWS"}
"""The size of memory to work in."""
FACTORS = (0.5, 2.0)
IMPORT = re.compile(r"from spark_jobs\.estimators\.loss(?:\.| import )([^()\n]+|\([^)]*\))")
RUN = "from tests.programs.accuracy.sensitivity import child; child()"


@dataclass(frozen=True)
class Variation:
    """A constant, as `costs.LOSS`, and the factor by which it is multiplied."""

    constant: str
    factor: float


def constants() -> dict[str, float]:
    """Returns the numeric constants of the model's modules, by module and name, as the sources have
    it."""
    return {
        f"{module}.{name}": value
        for module in MODULES
        for name, node in _assigned(ast.parse(_source(module)))
        if (value := _number(node)) is not None and f"{module}.{name}" not in NOT_MODEL
    }


def _source(module: str) -> str:
    return (ROOT / MODEL / f"{module}.py").read_text()


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yields names in capitals and what is assigned to each in a module; of a tuple that one name
    has, its first."""
    for statement in tree.body:
        if not isinstance(statement, ast.Assign):
            continue
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=True))
        elif isinstance(value, ast.Tuple):
            pairs = [(target, value.elts[0])]
        else:
            pairs = [(target, value)]
        for name, node in pairs:
            if isinstance(name, ast.Name) and name.id.isupper():
                yield name.id, node


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    return None


def varied(source: str, name: str, factor: float) -> str:
    """Returns a module's source with a constant multiplied; a whole number stays one."""
    for assigned, node in _assigned(ast.parse(source)):
        value = _number(node)
        if assigned == name and value is not None:
            new = int(value * factor) if isinstance(value, int) else value * factor
            lines = source.splitlines(keepends=True)
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = (
                f"{line[: node.col_offset]}{new!r}{line[node.end_col_offset :]}"
            )
            return "".join(lines)
    raise KeyError(name)


def chosen(names: list[str]) -> list[Variation]:
    """Returns the variations of these constants, by name with or without the module, or of all."""
    known = constants()
    of = [c for c in known if not names or {c, c.split(".")[1], c.split(".")[0]} & set(names)]
    for name in names:
        if not any(name in (c, *c.split(".")) for c in known):
            print(f"accuracy: {name}: no such constant", file=sys.stderr)
            sys.exit(2)
    return [Variation(c, factor) for c in of for factor in FACTORS]


def study(
    recordings: dict[str, Recording], variations: list[Variation]
) -> Iterator[tuple[Variation | None, dict[str, Counts]]]:
    """Yields each variation's counts of the recordings, one by one; first (None) without
    variation."""
    with TemporaryDirectory() as folder:
        scratch = Path(folder)
        for name, recording in recordings.items():
            ingested(scratch / "warehouses" / name, recording.capture, NETWORK)
        lost = {name: str(of.lost_frames.resolve()) for name, of in recordings.items()}
        asked = json.dumps({"warehouses": str(scratch / "warehouses"), "lost": lost})
        for top in SOURCES:
            shutil.copytree(ROOT / top, scratch / "tree" / top)
        yield None, _run(scratch, asked)
        (scratch / "compiled").rename(scratch / "unvaried")
        for variation in variations:
            module, name = variation.constant.split(".")
            path = scratch / "tree" / MODEL / f"{module}.py"
            original, times = path.read_text(), path.stat()
            path.write_text(varied(original, name, variation.factor))
            stale = [f"{other}.*" for other in _modules_that_see(module, path.parent)]
            shutil.copytree(
                scratch / "unvaried", scratch / "compiled", ignore=shutil.ignore_patterns(*stale)
            )
            yield variation, _run(scratch, asked)
            shutil.rmtree(scratch / "compiled")
            path.write_text(original)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _modules_that_see(module: str, model: Path) -> set[str]:
    """Returns a module of the model and those that import it, directly or not: what is compiled of
    them contains its constants."""
    imports = {
        path.stem: set(re.findall(r"\w+", " ".join(IMPORT.findall(path.read_text()))))
        for path in model.glob("*.py")
    }
    out: set[str] = set()
    more = {module}
    while more:
        out |= more
        more = {name for name, of in imports.items() if of & more} - out
    return out


def _run(scratch: Path, asked: str) -> dict[str, Counts]:
    """Returns the counts of all recordings by the varied sources."""
    tree = scratch / "tree"
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(scratch / "compiled"),
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=asked, capture_output=True, text=True, cwd=tree, env=environment, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return {name: Counts(*counts) for name, counts in json.loads(done.stdout).items()}


def child() -> None:
    """Writes Counts of the recordings that the input names, as JSON; runs in the varied sources."""
    asked = json.load(sys.stdin)
    warehouses = Path(asked["warehouses"])
    found = {
        name: astuple(access_counts(Warehouse(warehouses / name), Path(lost), NETWORK))
        for name, lost in asked["lost"].items()
    }
    json.dump(found, sys.stdout)


def pooled(found: dict[str, Counts]) -> Counts:
    """Adds up all recordings."""
    return Counts(*map(sum, zip(*map(astuple, found.values()), strict=True)))


def line(found: dict[str, Counts], base: dict[str, Counts]) -> str:
    """Formats precision, recall and the ratio of losses inferred to true ones of all recordings as
    one, and how far each moves from the base; where both move most, and how far there."""
    now, before = _figures(pooled(found)), _figures(pooled(base))
    moved = " ".join(f"{100 * (a - b):+8.2f}%" for a, b in zip(now, before, strict=True))
    if found is base:
        return " ".join(f"{a:9.4f}" for a in now)
    worst = min(found, key=lambda name: _change(found[name], base[name]))
    there = zip(_figures(found[worst]), _figures(base[worst]), strict=True)
    return f"{moved}  {worst} " + " ".join(f"{100 * (a - b):+.2f}" for a, b in there)


def _figures(of: Counts) -> tuple[float, float, float]:
    return of.precision, of.recall, of.expected / of.lost


def _change(now: Counts, before: Counts) -> float:
    """Returns by how much precision and recall rise, added up."""
    return now.precision + now.recall - before.precision - before.recall
