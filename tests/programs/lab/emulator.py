"""Carries the packets of a profile's mobiles and servers, in real time, and writes Gi's capture."""

import heapq
import itertools
import json
import os
import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random

from tests.programs.lab.link import Frame, Link, Randoms
from tests.programs.lab.link import Path as InternetPath
from tests.programs.lab.profile import Profile
from tests.programs.lab.truth import Truth

AT_ONCE = 64
"""Packets read of one interface before events that are due have their turn."""
LATE = 0.01
"""Seconds from which an event is reported as late."""
TCP = 6


class Loop:
    """Runs events when they are due; counts those that run late."""

    def __init__(self) -> None:
        self.due: list[tuple[float, int, Callable[[float], None]]] = []
        self.count = itertools.count()
        self.events = self.late = 0
        self.latest = 0.0

    def at(self, due: float, call: Callable[[float], None]) -> None:
        heapq.heappush(self.due, (due, next(self.count), call))

    def run(self, files: Sequence[int], read: Callable[[int], None], until: float) -> None:
        with select.epoll() as poll:
            for file in files:
                poll.register(file, select.EPOLLIN)
            while (now := time.time()) < until:
                self._do(now)
                wait = self.due[0][0] - time.time() if self.due else 0.05
                for file, _ in poll.poll(min(max(wait, 0), 0.05)):
                    read(file)

    def _do(self, now: float) -> None:
        while self.due and self.due[0][0] <= now:
            due, _, call = heapq.heappop(self.due)
            self.events += 1
            self.late += now - due > LATE
            self.latest = max(self.latest, now - due)
            call(due)


class Emulator:
    """servers: the interface to them; mobiles: those to the mobiles, by number of options."""

    carried = frozenset({TCP})
    """IP protocols; packets of others are ignored."""

    def __init__(
        self, profile: Profile, truth: Truth, servers: int, mobiles: dict[int, int]
    ) -> None:
        self.truth, self.servers, self.mobiles = truth, servers, mobiles
        self.loop = Loop()
        self.path = InternetPath(profile.internet, self.loop, Random(profile.seed))
        self.queued: dict[int, Frame] = {}
        self.links: dict[bytes, Link] = {}
        for address, group in profile.users():
            fates = Fates(self, address, mobiles[group.options])
            *_, user = packed = bytes(map(int, address.split(".")))
            # What others do is the same for the first users of all groups, the second ones, ...
            own, others = f"{profile.seed}-{address}", f"{profile.seed}-others-{user}"
            randoms = Randoms(Random(own), Random(others))
            self.links[packed] = Link(group.access, self.loop, randoms, fates)
            truth.user(address, group.name, None if group.access.sharing else group.access.rate)

    def run(self, seconds: float) -> None:
        now = time.time()
        for link in self.links.values():
            link.begin(now)
        files = (self.servers, *self.mobiles.values())
        self.loop.run(files, self.read, now + seconds)
        for number in sorted(self.queued):
            self.truth.frame_lost(number, "queued")

    def read(self, file: int) -> None:
        with suppress(BlockingIOError):
            for _ in range(AT_ONCE):
                packet = os.read(file, 2048)
                if packet[0] >> 4 == 4 and packet[9] in self.carried:
                    self.take(packet, file == self.servers, time.time())

    def take(self, packet: bytes, down: bool, now: float) -> None:
        if not down:
            self.links[packet[12:16]].up(packet, now)
        elif not self.path.send(now, True, partial(self.down_at_gi, packet)):
            self.truth.unseen("internet", True, packet, now)

    def down_at_gi(self, packet: bytes, now: float) -> None:
        frame = Frame(self.truth.frame(packet, now), packet, now)
        self.queued[frame.number] = frame
        self.links[packet[16:20]].down(frame)

    def up_at_gi(self, packet: bytes, now: float) -> None:
        self.truth.frame(packet, now)
        if not self.path.send(now, False, lambda now: self.hand_over(self.servers, packet, now)):
            self.truth.unseen("internet", False, packet, now)

    def hand_over(self, interface: int, packet: bytes, now: float) -> None:
        """Gives a packet to the namespace at its end."""
        with suppress(OSError):  # the interface is down: the recording ends
            os.write(interface, packet)

    def report(self) -> str:
        """Returns how late events were, as JSON."""
        loop = self.loop
        share = loop.late / loop.events if loop.events else 0
        lateness = {"late_ms_max": round(1000 * loop.latest, 1), "late_share": round(share, 6)}
        return json.dumps(lateness | {"events": loop.events})


class Fates:
    """Records the fates of one mobile's packets."""

    def __init__(self, emulator: Emulator, user: str, interface: int) -> None:
        self.emulator, self.truth = emulator, emulator.truth
        self.user, self.interface = user, interface

    def delivered(self, frame: Frame, now: float) -> None:
        del self.emulator.queued[frame.number]
        self.emulator.hand_over(self.interface, frame.packet, now)

    def marked(self, frame: Frame) -> None:
        self.truth.frame_marked(frame.number)

    def lost(self, frame: Frame, fate: str, now: float) -> None:
        del self.emulator.queued[frame.number]
        self.truth.frame_lost(frame.number, fate)

    def arrived_at_gi(self, packet: bytes, now: float) -> None:
        self.emulator.up_at_gi(packet, now)

    def lost_up(self, packet: bytes, now: float) -> None:
        self.truth.unseen("access", False, packet, now)

    def event(self, what: str, now: float) -> None:
        self.truth.event(self.user, what, now)
