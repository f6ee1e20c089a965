"""Edit the code, and count the edits that the tests catch.

    python -m tests.programs.mutation FILE COVERAGE

COUNT single edits of spark_jobs are chosen with a fixed seed: an operator, a bound or a column.
They are written to FILE as JSON. If FILE exists, its edits are made, so that two versions of the
tests can be compared; an edit whose line is not there any more is left out.

First each test file runs under coverage, without the marker `slow`. The lines that it runs are
written to COVERAGE as JSON; if COVERAGE exists, they are read from there. For each edit, those
files run that have run its line, until a test fails or LIMIT_S is over: first those that import the
module, then those that name it, then the quickest. Coverage does not see the lines of compiled
functions. For these, the files run that have imported the module. All functions are compiled
before, outside the limit.

The program edits the files of this checkout, and restores them. It prints a row for each edit, and
the number of edits caught.
"""

import ast
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

from coverage import Coverage, CoverageData

from spark_jobs.figures.tables import TABLES

ROOT = Path(__file__).parents[2]
SEED, COUNT, LIMIT_S = 20261128, 60, 60
COVERAGE_LIMIT_S = 900
NO_TESTS = 5
"""Exit status of pytest if it has selected no test."""

COMPILED = {"compiled", "inlined", "inner", "making"}
"""Names of the decorators of compiled functions."""

OPERATORS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
COLUMNS = {
    column: others[(n + 1) % len(others)]
    for table in TABLES.values()
    for others in [table.arrow.names]
    for n, column in enumerate(others)
}
"""Each column's name, and another one of the same table."""


@dataclass(frozen=True)
class Edit:
    """One line of a file, before and after."""

    path: str
    line: int
    before: str
    after: str

    def place(self) -> int | None:
        """The line's index in the file as it is now, the nearest one; None if it is not there."""
        lines = (ROOT / self.path).read_text().split("\n") if (ROOT / self.path).exists() else []
        found = [n for n, text in enumerate(lines) if text == self.before]
        return min(found, key=lambda n: abs(n + 1 - self.line), default=None)

    def is_compiled(self, at: int) -> bool:
        """Whether a line is in a compiled function."""
        return any(
            isinstance(decorator, ast.Name) and decorator.id in COMPILED
            for node in ast.parse((ROOT / self.path).read_text()).body
            if isinstance(node, ast.FunctionDef) and node.lineno <= at + 1 <= node.end_lineno
            for decorator in node.decorator_list
        )


def edits_of(path: Path) -> Iterator[Edit]:
    """Every edit of a file."""
    text = path.read_text()
    lines = text.split("\n")

    def edit(row: int, begin: int, end: int, new: str) -> Edit:
        """Columns are in bytes, as ast has them."""
        raw = lines[row - 1].encode()
        after = (raw[:begin] + new.encode() + raw[end:]).decode()
        return Edit(str(path.relative_to(ROOT)), row, lines[row - 1], after)

    def operator(left: ast.expr, op: ast.AST, right: ast.expr) -> Iterator[Edit]:
        if type(op) in OPERATORS and left.end_lineno == right.lineno:
            old, new = OPERATORS[type(op)]
            begin, end = left.end_col_offset, right.col_offset
            between = lines[right.lineno - 1].encode()[begin:end].decode()
            if between.strip(" ()") == old:
                at = begin + between.index(old)
                yield edit(right.lineno, at, at + len(old), new)

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from operator(node.left, node.ops[0], node.comparators[0])
        elif isinstance(node, ast.BinOp):
            yield from operator(node.left, node.op, node.right)
        elif isinstance(node, ast.BoolOp):
            yield from operator(node.values[0], node.op, node.values[1])
        if isinstance(node, ast.Constant) and node.lineno == node.end_lineno:
            value, span = node.value, (node.lineno, node.col_offset, node.end_col_offset)
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield edit(*span, repr(value + 1 if isinstance(value, int) else value * 2))
            elif isinstance(value, str) and value in COLUMNS and value != COLUMNS[value]:
                yield edit(*span, json.dumps(COLUMNS[value]))


def chosen() -> list[Edit]:
    """COUNT edits, of as many files."""
    pick = random.Random(SEED)
    paths = sorted((ROOT / "spark_jobs").rglob("*.py"))
    pick.shuffle(paths)
    found = ([*edits_of(path)] for path in paths)
    return [pick.choice(edits) for edits in found if edits][:COUNT]


def pytest(
    *arguments: str, limit_s: float, coverage: tuple[str, ...] = (), output: IO | None = None
) -> int | None:
    """The exit status of some files' tests; None if they take longer."""
    command = [sys.executable, *coverage, "-m", "pytest", "-qx", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [*command, "-m", "not slow", *arguments],
        cwd=ROOT,
        stdout=output or subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return None


@dataclass
class Ran:
    """A test file that passes: its time, and the lines that it runs, by file."""

    path: str
    seconds: float
    lines: dict[str, set[int]]

    def runs(self, path: str, line: int | None) -> bool:
        """Whether it runs a line of a module, or any line of it."""
        found = self.lines.get(path, set())
        return line in found if line else bool(found)

    def as_json(self) -> list:
        return [self.path, self.seconds, {path: sorted(n) for path, n in self.lines.items()}]

    @classmethod
    def from_json(cls, path: str, seconds: float, lines: dict[str, list[int]]) -> "Ran":
        return cls(path, seconds, {of: set(numbers) for of, numbers in lines.items()})


def ran(test: Path, edited: list[str]) -> Ran | None:
    """What a test file runs of some files; None if a test fails."""
    name = str(test.relative_to(ROOT))
    with TemporaryDirectory() as folder:
        settings = Path(folder, "coveragerc")
        settings.write_text(
            f"[run]\nparallel = true\ndata_file = {folder}/data\npatch = _exit, fork, subprocess\n"
            f"include = {','.join(str(ROOT / path) for path in edited)}\n"
        )
        begun = time.monotonic()
        coverage = ("-m", "coverage", "run", f"--rcfile={settings}")
        status = pytest(name, limit_s=COVERAGE_LIMIT_S, coverage=coverage)
        seconds = time.monotonic() - begun
        if status == NO_TESTS:
            return None
        if status != 0:
            print(f"{name}: status {status}, left out", file=sys.stderr, flush=True)
            return None
        together = Coverage(config_file=str(settings))
        together.combine([folder])
        data: CoverageData = together.get_data()
        lines = {
            str(Path(path).relative_to(ROOT)): set(data.lines(path) or ())
            for path in data.measured_files()
        }
    return Ran(name, seconds, lines)


def caught_by(edit: Edit, at: int, tests: list[Ran]) -> tuple[bool, str]:
    """Whether a test catches an edit, and which one, or why none does."""
    is_compiled, path = edit.is_compiled(at), ROOT / edit.path
    running = [test for test in tests if test.runs(edit.path, None if is_compiled else at + 1)]
    if not running:
        return False, "no test runs it"
    is_unique = len([*(ROOT / "spark_jobs").rglob(path.name)]) == 1
    module = path.stem if is_unique else path.parent.name
    texts = {test.path: (ROOT / test.path).read_text() for test in running}
    imported = edit.path.removesuffix(".py").replace("/", ".")
    running.sort(
        key=lambda t: (imported not in texts[t.path], module not in texts[t.path], t.seconds)
    )
    text = path.read_text()
    lines = text.split("\n")
    lines[at] = edit.after
    path.write_text("\n".join(lines))
    try:
        if is_compiled:
            subprocess.run(
                [sys.executable, "-m", "spark_jobs.engine"], cwd=ROOT, capture_output=True
            )
        names = [test.path for test in running]
        with TemporaryFile("w+") as output:
            status = pytest(*names, limit_s=LIMIT_S, output=output)
            output.seek(0)
            failed = [row for row in output if row.startswith(("FAILED ", "ERROR "))]
    finally:
        path.write_text(text)
    if status is None:
        return False, f"not in {LIMIT_S} s"
    if status == 0:
        return False, f"survived {len(running)} files"
    return True, failed[0].split(" - ")[0].strip() if failed else f"exit status {status} of pytest"


def main(file: Path, coverage: Path) -> None:
    """Choose the edits or read them, and print who catches them."""
    if subprocess.check_output(["git", "status", "--porcelain", "spark_jobs"], cwd=ROOT):
        raise SystemExit("spark_jobs: commit what has changed first, because the program edits it")
    if not file.exists():
        file.write_text(json.dumps([asdict(edit) for edit in chosen()], indent=1))
    edits = [Edit(**fields) for fields in json.loads(file.read_text())]
    there = [(edit, at) for edit in edits if (at := edit.place()) is not None]
    files = sorted({edit.path for edit, _ in there})
    if not coverage.exists():
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            names = sorted((ROOT / "tests").rglob("test_*.py"))
            found = [one for one in pool.map(lambda test: ran(test, files), names) if one]
        coverage.write_text(json.dumps([one.as_json() for one in found]))
    tests = [Ran.from_json(*row) for row in json.loads(coverage.read_text())]
    count = 0
    for edit, at in there:
        is_caught, by = caught_by(edit, at, tests)
        count += is_caught
        print(
            f"{edit.path}:{at + 1}: {edit.before.strip()} -> {edit.after.strip()}: {by}",
            flush=True,
        )
    print(f"{count} of {len(there)} edits caught; {len(edits) - len(there)} left out")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
