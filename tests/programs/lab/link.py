"""Emulates the paths of packets between servers and mobiles, in any clock's time: `Path`,
`Link`."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple, Protocol

from tests.programs.lab.profile import Access, Internet, Preemption

IDLE = 2.0
"""Seconds after which a link has to be set up anew."""


class Clock(Protocol):
    def at(self, due: float, call: Callable[[float], None]) -> None:
        """Calls it when that time, in seconds, has come, with the time it was due."""


ECN, ECT_1, ECT_0, CE = 3, 1, 2, 3
"""The ECN field in the second byte of IPv4, and its values (RFC 3168, 5)."""


def marked(packet: bytes) -> bytes:
    """An IPv4 packet with CE, and the header's checksum for it (RFC 1624)."""
    head, length = bytearray(packet), 4 * (packet[0] & 15)
    head[1] |= CE
    head[10:12] = bytes(2)
    total = sum(int.from_bytes(head[k : k + 2], "big") for k in range(0, length, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    head[10:12] = (~total & 0xFFFF).to_bytes(2, "big")
    return bytes(head)


class Frame(NamedTuple):
    """A packet at Gi: its number in the capture, 0 on its way up."""

    number: int
    packet: bytes
    ts: float


class Fates(Protocol):
    """Receives the fates of a link's packets."""

    def delivered(self, frame: Frame, now: float) -> None: ...

    def lost(self, frame: Frame, fate: str, now: float) -> None:
        """Downlink: radio, overflow, expired, flushed."""

    def marked(self, frame: Frame) -> None:
        """Marked by the queue; it may be lost after that."""

    def arrived_at_gi(self, packet: bytes, now: float) -> None: ...

    def lost_up(self, packet: bytes, now: float) -> None:
        """On the access side, on its way up."""

    def event(self, what: str, now: float) -> None: ...


class Path:
    """The Internet between servers and Gi: losses, a delay that varies; packets stay in order,
    but for those that are overtaken."""

    def __init__(self, internet: Internet, clock: Clock, random: Random) -> None:
        self.internet, self.clock, self.random = internet, clock, random
        self.last = {True: 0.0, False: 0.0}

    def send(self, now: float, down: bool, arrive: Callable[[float], None]) -> bool:
        """Sends a packet; returns False where it is lost."""
        if self.random.random() < self.internet.loss:
            return False
        delay = self.internet.delay + abs(self.random.gauss(0, self.internet.jitter))
        if self.internet.overtaken and self.random.random() < self.internet.overtaken:
            self.clock.at(now + delay + self.internet.detour, arrive)
            return True
        self.last[down] = max(now + delay, self.last[down])
        self.clock.at(self.last[down], arrive)
        return True


class Server:
    """Serves one frame after the other, either way; frames that wait keep their order."""

    def __init__(
        self, link: "Link", rate: Callable[[], float], done: Callable[[Frame, float], None]
    ):
        self.link, self.rate, self.done = link, rate, done
        self.queue: deque[Frame] = deque()
        self.serving: Frame | None = None
        self.turn = 0
        """The number of the frame being served; events of earlier ones are void."""
        self.arrival = 0.0

    @property
    def waiting(self) -> int:
        """Bytes."""
        return sum(len(frame.packet) for frame in self.queue)

    def serve(self, now: float) -> None:
        """Begins with the next frame, where the link is free."""
        if self.serving or not self.queue or self.link.blocked:
            return
        self.serving = self.queue.popleft()
        self.turn += 1
        turn = self.turn
        due = self.link.start(now) + 8 * len(self.serving.packet) / self.rate()
        self.link.used = due
        self.link.clock.at(due, lambda now: self._served(turn, now))

    def _served(self, turn: int, now: float) -> None:
        frame = self.serving
        if turn != self.turn or frame is None:
            return
        self.serving = None
        self.done(frame, now)
        self.serve(now)

    def stop(self) -> None:
        """Puts the frame being served back at the head of the queue."""
        if self.serving:
            self.queue.appendleft(self.serving)
            self.serving = None

    def reached(self, now: float) -> float:
        """Returns when the frame just served reaches the other end."""
        access, random = self.link.access, self.link.random
        delay = access.delay + (random.expovariate(1 / access.jitter) if access.jitter else 0)
        while random.random() < access.repeats:
            delay += access.repeat_delay
        self.arrival = max(now + delay, self.arrival)
        return self.arrival


class Randoms(NamedTuple):
    """A link's chances: its own, and those of the others that share its channels."""

    own: Random
    others: Random


class Link:
    """One mobile's access link, with the queue in front of it."""

    def __init__(self, access: Access, clock: Clock, randoms: Randoms, fates: Fates) -> None:
        self.access, self.clock, self.fates = access, clock, fates
        self.random, self.others = randoms
        self.used = float("-inf")
        """The time until which the link was last busy, either way."""
        self.share = 1.0
        """The share of the rate that is left while a handover lasts."""
        self.rate = access.rate
        self.preempted = False
        self.silent = False
        """The calls are over, but nothing has ended the link's silence."""
        self.downlink = Server(self, lambda: self.rate * self.share, self._on_the_air)
        self.uplink = Server(self, lambda: access.uplink * self.share, self._sent_up)

    def begin(self, now: float) -> None:
        """Starts calls, handovers and others' traffic."""
        if self.access.preemption:
            self._preempt_later(self.access.preemption, now)
        if self.access.handover:
            for start in self.access.handover.at:
                self.clock.at(now + start, self._hand_over)
        if self.access.sharing:
            self._share(now)

    @property
    def blocked(self) -> bool:
        return self.preempted or self.silent

    def start(self, now: float) -> float:
        """Returns when a frame that is next now begins to be sent."""
        return now + (self.access.setup if now - self.used > IDLE else 0)

    def down(self, frame: Frame) -> None:
        """Takes a packet that passed Gi towards the mobile."""
        now = frame.ts
        self._expire(now)
        if self.downlink.waiting + len(frame.packet) > self.access.queue:
            self.fates.lost(frame, "overflow", now)
            return
        limit = self.access.mark_above
        if limit and self.downlink.waiting > limit and frame.packet[1] & ECN in (ECT_0, ECT_1):
            self.fates.marked(frame)
            frame = frame._replace(packet=marked(frame.packet))
        self.downlink.queue.append(frame)
        self._resume("resumed_down", now)
        self.downlink.serve(now)

    def up(self, packet: bytes, now: float) -> None:
        """Takes a packet that the mobile sends."""
        if self.random.random() < self.access.uplink_loss:
            self.fates.lost_up(packet, now)
            return
        self.uplink.queue.append(Frame(0, packet, now))
        self._resume("resumed_up", now)
        self.uplink.serve(now)

    def _on_the_air(self, frame: Frame, now: float) -> None:
        arrival = self.downlink.reached(now)
        if self.random.random() < self.access.loss:
            self.fates.lost(frame, "radio", now)
        else:
            self.clock.at(arrival, lambda now: self.fates.delivered(frame, now))
        self._expire(now)

    def _sent_up(self, frame: Frame, now: float) -> None:
        arrival = self.uplink.reached(now)
        self.clock.at(arrival, lambda now: self.fates.arrived_at_gi(frame.packet, now))

    def _expire(self, now: float) -> None:
        """Drops what has waited too long; called when the link would take it or a packet comes."""
        queue, lifetime = self.downlink.queue, self.access.lifetime
        while lifetime and queue and now - queue[0].ts > lifetime:
            self.fates.lost(queue.popleft(), "expired", now)

    def _preempt_later(self, preemption: Preemption, now: float) -> None:
        self.clock.at(now + preemption.every, lambda now: self._preempt(preemption, now))

    def _preempt(self, preemption: Preemption, now: float) -> None:
        self.fates.event("preempted", now)
        self.preempted, self.silent = True, False
        self.downlink.stop()
        self.uplink.stop()
        flushed = 0
        while self.downlink.queue and flushed < preemption.flush:
            frame = self.downlink.queue.popleft()
            flushed += len(frame.packet)
            self.fates.lost(frame, "flushed", now)
        self.clock.at(now + preemption.seconds, lambda now: self._free(preemption, now))

    def _free(self, preemption: Preemption, now: float) -> None:
        self.fates.event("free", now)
        self.preempted, self.silent = False, True
        held = self.uplink.queue
        while held and now - held[0].ts > preemption.uplink_lifetime:
            self.fates.lost_up(held.popleft().packet, now)
        if held:
            self._resume("resumed_up", now)
        self._preempt_later(preemption, now)

    def _resume(self, what: str, now: float) -> None:
        """Ends the silence of a link, both ways, when a packet comes."""
        if self.silent:
            self.silent = False
            self.fates.event(what, now)
            self.downlink.serve(now)
            self.uplink.serve(now)

    def _hand_over(self, now: float) -> None:
        handover = self.access.handover
        assert handover
        self.fates.event("handover", now)
        self.share = handover.rate
        self.clock.at(now + handover.seconds, self._handed_over)

    def _handed_over(self, _: float) -> None:
        self.share = 1.0

    def _share(self, now: float) -> None:
        sharing = self.access.sharing
        assert sharing
        self.rate = self.others.choice(sharing.rates)
        self.clock.at(now + self.others.expovariate(1 / sharing.seconds), self._share)
