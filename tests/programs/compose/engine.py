"""A Docker engine for the test: the one that answers, or one that is started and ended here."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.programs.compose.programs import (
    BUILDX,
    CACHE,
    COMPOSE,
    build_go,
    install,
    output_of,
    run,
)

START_S = 60
EMPTY_TABLES = {
    "filter": "INPUT FORWARD OUTPUT",
    "nat": "PREROUTING INPUT OUTPUT POSTROUTING",
}
"""Tables of network rules that the engine fills, and their chains."""


def answers() -> bool:
    """Return whether a Docker engine answers, with Compose and buildx."""
    if not shutil.which("docker"):
        return False
    commands = (["info"], ["compose", "version"], ["buildx", "version"])
    return all(
        subprocess.run(["docker", *command], capture_output=True).returncode == 0
        for command in commands
    )


@contextmanager
def engine() -> Iterator[str]:
    """Set the environment for a Docker engine; yield its description.

    An engine of our own has its data, its socket and Compose's plugins below build/compose, and
    needs root. At the end its processes, interfaces and network rules are gone; its images stay.
    """
    folder = CACHE / "engine"
    if answers():
        yield f"the running engine, {_versions()}"
        return
    install("docker.io", "iptables", "git")
    plugins = folder / "cli-plugins"
    for module, name in ((COMPOSE, "docker-compose"), (BUILDX, "docker-buildx")):
        build_go(module, plugins / name)
    rules = {command: _rules(command) for command in ("iptables", "ip6tables")}
    forwarding = Path("/proc/sys/net/ipv4/ip_forward")
    forwarded = forwarding.read_text()
    os.environ |= {"DOCKER_HOST": f"unix://{folder}/socket", "DOCKER_CONFIG": str(folder)}
    log = (folder / "dockerd.log").open("w")
    daemon = subprocess.Popen(
        ["dockerd", "--data-root", folder / "data", "--exec-root", folder / "exec",
         "--pidfile", folder / "pid", "--host", os.environ["DOCKER_HOST"], "--ip", "127.0.0.1"],
        stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + START_S
        while subprocess.run(["docker", "info"], capture_output=True).returncode:
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the engine did not start: see {log.name}")
            time.sleep(0.5)
        yield f"an engine of its own, {_versions()}"
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(START_S)
        _remove_bridges()
        for command, saved in rules.items():
            run(f"{command}-restore", given=saved)
        forwarding.write_text(forwarded)


def _rules(command: str) -> str:
    """Return the network rules as `iptables-restore` reads them, also for tables without a rule."""
    saved = output_of(f"{command}-save")
    for table, chains in EMPTY_TABLES.items():
        if f"*{table}" not in saved.splitlines():
            policies = [f":{chain} ACCEPT [0:0]" for chain in chains.split()]
            saved = "\n".join([saved, f"*{table}", *policies, "COMMIT", ""])
    return saved + "\n"


def _versions() -> str:
    server = output_of("docker", "version", "--format", "{{.Server.Version}}")
    compose = output_of("docker", "compose", "version", "--short")
    buildx = output_of("docker", "buildx", "version").split()[1]
    return f"Docker {server}, Compose {compose}, buildx {buildx}"


def _remove_bridges() -> None:
    """Remove the bridges that the engine leaves behind."""
    for path in Path("/sys/class/net").iterdir():
        if path.name == "docker0" or (path.name.startswith("br-") and (path / "bridge").exists()):
            run("ip", "link", "delete", path.name)
