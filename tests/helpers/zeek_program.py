"""The program zeek: unpacked from the folder beside a checkout, else the one on the PATH; and the
plugin in zeek_scripts/, built for it."""

import fcntl
import os
import shutil
import subprocess
import tarfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARCHIVES = ROOT.parent / "shared/zeek"
SCRIPTS = ROOT / "zeek_scripts/scripts"
SUBSCRIBERS_SCRIPT = "redef GiScope::subscribers += { 10.64.0.0/14 };\n"
"""Of the shipped captures."""
PLUGIN_SOURCE = ROOT / "zeek_scripts/plugin"
BUILT = ROOT / "build/zeek"
BUILT_FOR = "/opt/zeek"
"""The prefix that an archive's text files name."""
LIBRARIES = ("libpcap0.8", "libssl3", "zlib1g", "libmaxminddb0")
TO_BUILD = ("cmake", "make", "g++", "libssl-dev", "libpcap-dev")
TO_SEND = ("iproute2", "tcpreplay")
"""Debian's packages."""
NOT_HERE = f"no zeek: neither an archive of it in {ARCHIVES} nor the program on the PATH"


@cache
def environment() -> dict[str, str] | None:
    """The variables with which `zeek` runs; None where there is none."""
    for archive in sorted(ARCHIVES.glob("zeek-*.tar.xz")):
        tree = _unpacked(archive)
        found = {"PATH": f"{tree / 'bin'}{os.pathsep}{os.environ['PATH']}", "ZEEKPATH": _path(tree)}
        if _does_if_installed(LIBRARIES, [["zeek", "--version"]], found):
            return found
    return {} if shutil.which("zeek") else None


@cache
def plugin() -> Path | None:
    """The folder with the plugin, built from its present sources; None where it cannot be built."""
    variables = environment()
    folder = BUILT / "plugin"
    configure = ["cmake", "-S", str(PLUGIN_SOURCE), "-B", str(folder)]
    build = [configure, ["cmake", "--build", str(folder)]]
    built = variables is not None and _does_if_installed(TO_BUILD, build, variables)
    return folder if built else None


@cache
def tools_to_send() -> bool:
    """Whether packets can be sent to a Zeek in a network namespace."""
    return _does_if_installed(TO_SEND, [["ip", "-Version"], ["tcpreplay", "--version"]], {})


def _unpacked(archive: Path) -> Path:
    """The tree in the archive, unpacked once."""
    folder = BUILT / archive.name.removesuffix(".tar.xz")
    if not folder.exists():
        part = folder.with_name(f"{folder.name}.{os.getpid()}")
        with tarfile.open(archive) as whole:
            whole.extractall(part, filter="data")
        _relocate(part / "zeek", folder / "zeek")
        try:
            part.rename(folder)
        except OSError:
            shutil.rmtree(part)  # another process was first
    return folder / "zeek"


def _relocate(tree: Path, to: Path) -> None:
    """Write the place of the tree into the files that cmake and zeek-config read."""
    for path in [tree / "bin/zeek-config", *(tree / "share/zeek/cmake").glob("Zeek*.cmake")]:
        path.write_text(path.read_text().replace(BUILT_FOR, str(to)))


def _path(tree: Path) -> str:
    """ZEEKPATH of a tree that was moved: what is compiled in names the place it was built for."""
    scripts = tree / "share/zeek"
    return os.pathsep.join([".", *map(str, (scripts, scripts / "policy", scripts / "site"))])


def _does_if_installed(
    packages: tuple[str, ...], commands: list[list[str]], variables: dict[str, str]
) -> bool:
    """Whether the commands succeed, with Debian's packages where they do not without.

    One process at a time: neither apt-get nor a build waits for another of its kind.
    """
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return all(_does(command, variables) for command in commands) or (
            _installed(packages) and all(_does(command, variables) for command in commands)
        )


def _does(command: list[str], variables: dict[str, str]) -> bool:
    try:
        done = subprocess.run(command, env=os.environ | variables, capture_output=True)
    except FileNotFoundError:
        return False
    return done.returncode == 0


def _installed(packages: tuple[str, ...]) -> bool:
    """Whether Debian's packages could be installed."""
    if not shutil.which("apt-get") or os.geteuid():
        return False
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    _does(["apt-get", "update", "-qq"], quiet)
    install = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *packages]
    return _does(install, quiet)
