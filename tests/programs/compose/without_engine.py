"""The images' build without an engine: the build context, and the steps that run on any host."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from spark_jobs.base.sources import compiled_folder
from tests.programs.compose.programs import output_of

ROOT = Path(__file__).parents[3]
NOT_RUN = {"apt-get", "install", "pip", "rm", "useradd"}
"""Programs of build steps that change the system, and so need an image of their own."""
ENVIRONMENTS_NOT_MADE = ("uv", "pip", "sync")
"""Airflow's and Superset's. Slow tests install them; the download would be larger than `make`'s."""
WITHOUT_EFFECT = {"CMD", "ENTRYPOINT", "USER"}
"""Instructions that say how the image runs."""
UV = shutil.which("uv") or str(ROOT / ".tools/bin/uv")
OF_THE_TESTS = {"PYTHONPATH", "VIRTUAL_ENV"}
"""Variables of the tests that the steps do not have."""


def context_files(checkout: Path) -> list[str]:
    """Return the files of a checkout's build context, by the rules in its .dockerignore.

    Raises ValueError for rules that are not implemented here.
    """
    rules = []
    for line in (checkout / ".dockerignore").read_text().splitlines():
        if (text := line.strip()) and not line.startswith("#"):
            rules.append((not text.startswith("!"), _pattern(text.removeprefix("!"))))
    listed = output_of(
        "git", "-C", checkout, "ls-files", "--cached", "--others", "--exclude-standard"
    )
    files = [name for name in listed.splitlines() if (checkout / name).is_file()]
    return [name for name in files if not _is_ignored(name, rules)]


def _pattern(text: str) -> re.Pattern:
    """Return what a rule matches: paths, whose files and folders then match, too."""
    below = text.removeprefix("**/")
    if not re.fullmatch(r"(\*|[\w.-]+)(/(\*|[\w.-]+))*", below):
        raise ValueError(f".dockerignore: {text}: such rules are not implemented in the test")
    path = re.escape(below).replace(r"\*", "[^/]*")
    return re.compile(f"{'' if below == text else '(.*/)?'}{path}(/.*)?")


def _is_ignored(name: str, rules: list[tuple[bool, re.Pattern]]) -> bool:
    """Return whether the last rule that matches ignores the file."""
    return next((ignores for ignores, pattern in reversed(rules) if pattern.fullmatch(name)), False)


@dataclass
class Stage:
    """A stage of a Dockerfile: its file system in a folder, and its settings."""

    root: Path
    folder: Path = Path("/")
    variables: dict[str, str] = field(default_factory=dict)

    def here(self, place: str) -> Path:
        """Return the place on this host of a path in the image."""
        return self.root / Path("/", self.folder, place).relative_to("/")

    def expanded(self, text: str) -> str:
        """Return a word with the paths that it has on this host."""
        paths = re.sub(r"(?<![\w.$}-])/[\w./-]+", lambda path: str(self.here(path[0])), text)
        return paths.replace("$PATH", os.environ["PATH"])

    def set(self, name: str, value: str) -> None:
        """Set a variable, as ENV does: $NAME is an earlier value."""
        known = self.variables
        known[name] = re.sub(r"\$(\w+)", lambda word: known.get(word[1], word[0]), value)

    def copy(self, source: Path, to: str) -> None:
        """Copy a file, or a folder's content, as COPY does."""
        target = self.here(to)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, copy_function=_replace)
        else:
            target = target / source.name if to.endswith("/") else target
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace(source, target)

    def run(self, command: list[str]) -> None:
        """Run a step's command, unless it needs an image. Raises RuntimeError if it fails."""
        variables = dict(word.split("=", 1) for word in command if re.match(r"[A-Z_]+=", word))
        program, *arguments = command[len(variables) :]
        if program in NOT_RUN or tuple(command[:3]) == ENVIRONMENTS_NOT_MADE:
            return
        if program not in ("python", "uv"):
            raise ValueError(f"{program}: does this step run without an engine? See NOT_RUN")
        variables = {k: self.expanded(v) for k, v in (self.variables | variables).items()}
        if "NUMBA_CACHE_DIR" in variables:
            # The tests have compiled these functions. If their sources differ, they do not count.
            shutil.copytree(compiled_folder(), variables["NUMBA_CACHE_DIR"])
        self.here("/tmp").mkdir(exist_ok=True)
        environment = {k: v for k, v in os.environ.items() if k not in OF_THE_TESTS}
        environment |= variables | _of_this_host()
        program = UV if program == "uv" else shutil.which(program, path=environment["PATH"])
        done = subprocess.run(
            [program, *map(self.expanded, arguments)],
            cwd=self.here("."), env=environment, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{shlex.join(command)}:\n{done.stdout}{done.stderr}")


@cache
def _of_this_host() -> dict[str, str]:
    """Return uv's settings that differ from the image's: the tests' Python, and what is fast."""
    return {
        "UV_CACHE_DIR": output_of(UV, "cache", "dir"),
        "UV_COMPILE_BYTECODE": "0",
        "UV_NO_CACHE": "0",
        "UV_PYTHON": sys.executable,
    }


def _replace(source: str | Path, target: str | Path) -> None:
    """Copy a file. What is there may be a link to the file of an earlier stage."""
    Path(target).unlink(missing_ok=True)
    shutil.copy(source, target)


def build(dockerfile: Path, context: Path, folder: Path) -> dict[str, Stage]:
    """Run a Dockerfile's steps on a build context; return its stages by name.

    Raises FileNotFoundError for what the context lacks.
    """
    stages: dict[str, Stage] = {}
    text = re.sub(r"\\\n\s*|^#.*\n", "", dockerfile.read_text(), flags=re.MULTILINE)
    for line in filter(None, text.splitlines()):
        instruction, rest = line.split(" ", 1)
        if instruction == "FROM":
            image, _, name = rest.partition(" AS ")
            stage = stages[name] = Stage(folder / (name or "image"))
            if base := stages.get(image):
                shutil.copytree(base.root, stage.root, symlinks=True, copy_function=os.link)
                stage.folder, stage.variables = base.folder, dict(base.variables)
        elif instruction == "WORKDIR":
            stage.folder = Path(rest)
            stage.here(".").mkdir(parents=True)
        elif instruction == "ENV":
            for word in shlex.split(rest):
                stage.set(*word.split("=", 1))
        elif instruction == "COPY":
            *sources, to = rest.split()
            of = sources.pop(0).removeprefix("--from=") if rest.startswith("--from=") else None
            for source in sources:
                stage.copy(stages[of].here(source) if of else context / source, to)
        elif instruction == "RUN":
            for command in rest.split("&&"):
                stage.run(shlex.split(command))
        elif instruction not in WITHOUT_EFFECT:
            raise ValueError(f"{dockerfile}: {instruction} is not implemented in the test")
    return stages
