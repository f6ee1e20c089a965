"""Records one profile: namespaces, programs, the emulation, and then the files."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.programs.lab.emulator import Emulator
from tests.programs.lab.profile import Profile, read
from tests.programs.lab.truth import Compressed, Truth
from tests.programs.recordings.network import SERVER_SIDE, namespace, run, tun

OPTIONS = range(4)
PRIORITY = 10
"""The real-time priority, above what else the machine does."""
READY = 1.0
"""Seconds that the servers' program may take to listen."""


def record(file: Path, into: Path) -> None:
    """Records a profile into a folder, as `tests.programs.lab` says; takes as long as the profile
    says."""
    profile = read(file)
    captures, folder = into / "captures" / file.stem, into / "truth" / file.stem
    for each in (captures, folder):
        each.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, folder / "profile.toml")
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    with ExitStack() as stack, TemporaryDirectory() as scratch:
        shutil.copy(file, Path(scratch, "profile.toml"))
        servers, to_servers = stack.enter_context(server_side(profile))
        ecn = max(group.ecn for group in profile.groups)
        mobiles = {number: stack.enter_context(mobile_side(number, ecn)) for number in OPTIONS}
        offset = profile.start.timestamp() - time.time()
        with Truth(captures, folder, offset) as truth:
            emulator = Emulator(profile, truth, to_servers, {k: m[1] for k, m in mobiles.items()})
            with _program(servers, "servers", scratch, offset):
                time.sleep(READY)
                with ExitStack() as clients:
                    for number, (inside, _) in mobiles.items():
                        clients.enter_context(_program(inside, "mobiles", scratch, offset, number))
                    emulator.run(profile.seconds)
                    _keep(folder / "kernel_srv.json", json.dumps(_counters(servers), indent=0))
        _pack(Path(scratch), folder)
        _keep(folder / "emulator.json", emulator.report())


@contextmanager
def server_side(profile: Profile) -> Iterator[tuple[str, int]]:
    """Their namespace, and the interface to them."""
    with namespace("servers") as inside:
        interface = tun("internet", inside, ["default"])
        window = profile.initial_window
        run(f"ip -n {inside} route change default dev internet initcwnd {window}")
        run(f"ip -n {inside} route add local {SERVER_SIDE[0]} dev lo")
        settings = {"tcp_congestion_control": profile.congestion_control} | profile.sysctl
        for name, value in settings.items():
            run(f"ip netns exec {inside} sysctl -qw net.ipv4.{name}={value}")
        yield inside, interface
        os.close(interface)


@contextmanager
def mobile_side(options: int, ecn: int = 0) -> Iterator[tuple[str, int]]:
    """The namespace of the mobiles with a pair of options, and the interface to them.

    ecn: their kernel's tcp_ecn."""
    with namespace(f"mobiles{options}") as inside:
        interface = tun("access", inside, ["default"])
        run(f"ip -n {inside} route add local 10.{64 + options}.0.0/16 dev lo")
        settings = {"tcp_sack": options & 1, "tcp_timestamps": options >> 1, "tcp_ecn": ecn}
        for name, value in settings.items():
            run(f"ip netns exec {inside} sysctl -qw net.ipv4.{name}={value}")
        yield inside, interface
        os.close(interface)


@contextmanager
def _program(inside: str, what: str, folder: str, offset: float, *more: int) -> Iterator[None]:
    arguments = [what, folder, repr(offset), *map(str, more)]
    command = ["ip", "netns", "exec", inside, sys.executable, "-m", "tests.programs.lab.endpoints"]
    process = subprocess.Popen([*command, *arguments])
    try:
        yield
        if process.poll():
            raise RuntimeError(f"{what}: exit status {process.returncode}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _counters(inside: str) -> dict[str, int]:
    """The kernel's own, by name: TcpRetransSegs, TcpExtTCPTimeouts, ..."""
    command = ["ip", "netns", "exec", inside, "cat", "/proc/net/netstat", "/proc/net/snmp"]
    lines = subprocess.check_output(command, text=True).splitlines()
    return {
        names.split(":")[0] + name: int(value)
        for names, values in zip(lines[::2], lines[1::2], strict=True)
        for name, value in zip(names.split()[1:], values.split()[1:], strict=True)
        if int(value)
    }


def _pack(scratch: Path, folder: Path) -> None:
    tables = [sorted(scratch.glob("clients*.csv")), [scratch / "sender.csv"]]
    for name, files in zip(("clients.csv", "sender.csv"), tables, strict=True):
        with Compressed(folder / name) as packed:
            for number, file in enumerate(files):
                lines = file.read_bytes().splitlines(keepends=True)
                packed.writelines(lines[number > 0 :])


def _keep(path: Path, text: str) -> None:
    path.write_text(text + "\n")
