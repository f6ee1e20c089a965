"""Watch a process and its descendants: the sockets they listen on, and their command lines."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from threading import Event, Thread

import psutil

PAUSE_S = 0.2


@dataclass
class Seen:
    """(program, address) of every listening socket, and every command line."""

    sockets: set[tuple[str, str]] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)
    _family: set[psutil.Process] = field(default_factory=set)

    @property
    def beyond_loopback(self) -> set[tuple[str, str]]:
        return {found for found in self.sockets if not is_loopback(found[1])}

    def look(self, root: psutil.Process) -> None:
        """Look at the process and at all that were its descendants, also after their parent
        ended."""
        for process in [root, *self._family]:
            try:
                self._family |= {process, *process.children(recursive=True)}
            except psutil.Error:
                self._family.discard(process)
        for process in self._family:
            try:
                self.commands.add("\0".join(process.cmdline()))
                self.sockets |= {
                    (process.name(), socket.laddr.ip)
                    for socket in process.net_connections("inet")
                    if not socket.raddr and socket.status in (psutil.CONN_LISTEN, psutil.CONN_NONE)
                }  # CONN_NONE: of UDP
            except psutil.Error:  # has ended meanwhile
                continue


def is_loopback(address: str) -> bool:
    found = ip_address(address)
    if isinstance(found, IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    return found.is_loopback


@contextmanager
def watched(process: subprocess.Popen) -> Iterator[Seen]:
    """Watch a process until the block ends; yield what is seen of it, which grows."""
    root, seen, end = psutil.Process(process.pid), Seen(), Event()

    def look() -> None:
        seen.look(root)
        while not end.wait(PAUSE_S):
            seen.look(root)

    watcher = Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        end.set()
        watcher.join()
