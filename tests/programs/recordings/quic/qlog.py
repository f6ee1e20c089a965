"""Writes what connections did, from both ends' qlogs and the datagrams at the ends."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from tests.programs.lab.truth import Compressed
from tests.programs.recordings.quic.plan import first_port

V2 = 0x6B3343CF
LONG, FIXED, SPIN = 0x80, 0x40, 0x20
INITIAL, ZERO_RTT, HANDSHAKE, RETRY = "initial", "0RTT", "handshake", "retry"
TYPES = (INITIAL, ZERO_RTT, HANDSHAKE, RETRY)
RIGHT = 0.75
"""Share of a side's packets whose spin bit is as the specification says, from which it spins."""
COLUMNS = """
    stack scenario user user_port server server_port version offered_version result retry
    version_negotiation zero_rtt zero_rtt_accepted initials_sent started first_answer confirmed end
    ports migrations datagrams_sent_client bytes_sent_client datagrams_sent_server
    bytes_sent_server spin from_middle
"""
RTTS = ("latest_rtt", "smoothed_rtt", "min_rtt")
NOT_MEASURED = {0.333}
"""What quinn logs as all three before it has measured any."""


class Ends(NamedTuple):
    """A connection's first client address and port, and its server's."""

    user: str
    user_port: int
    server: str
    server_port: int


class Datagram(NamedTuple):
    """A datagram at one of the ends, with its first five bytes, or an ICMP error."""

    t: float
    side: str
    event: str
    port: int
    length: int
    head: bytes

    @property
    def version(self) -> int | None:
        return int.from_bytes(self.head[1:5]) if self.head and self.head[0] & LONG else None

    @property
    def type(self) -> str:
        """The type of its first packet."""
        if self.version is None:
            return "1RTT" if self.head else ""
        if self.version == 0:
            return "version_negotiation"
        return TYPES[((self.head[0] >> 4 & 3) - (self.version == V2)) % 4]


class Event(NamedTuple):
    """What an end logged: sent, with the packet's type, or metrics, with its RTTs."""

    t: float
    side: str
    name: str
    type: str
    rtts: dict[str, float]


def write_truth(logs: Path, folder: Path, offset: float, begin: float) -> None:
    """Writes connections and RTTs. offset: of the recording's clock to the host's;
    begin: of the capture, by the recording's clock."""
    datagrams = _datagrams(logs / "datagrams.csv")
    connections, rtts = [], []
    for stack in ("aioquic", "quinn"):
        events = _events(logs, stack, offset)
        for row in csv.DictReader((logs / f"clients-{stack}.csv").open()):
            ends = Ends(row["user"], int(row["port"]), row["server"], int(row["server_port"]))
            if not datagrams[ends] or datagrams[ends][-1].t < begin:
                continue
            connections.append(_connection(stack, ends, row, datagrams[ends], events[ends], begin))
            rtts += _rtts(stack, ends, events[ends])
    connections.sort(key=itemgetter(COLUMNS.split().index("started")))
    _write(folder / "connections.csv", COLUMNS.split(), connections)
    names = ("stack", "side", *Ends._fields, "t", *RTTS)
    _write(folder / "rtt.csv", names, rtts)


def _datagrams(path: Path) -> dict[Ends, list[Datagram]]:
    out = defaultdict(list)
    for row in csv.DictReader(path.open()):
        port = int(row["port"])
        ends = Ends(row["user"], first_port(port), row["server"], int(row["server_port"]))
        head, length = bytes.fromhex(row["head"]), int(row["length"] or 0)
        out[ends].append(Datagram(float(row["t"]), row["side"], row["event"], port, length, head))
    return out


def _events(logs: Path, stack: str, offset: float) -> dict[Ends, list[Event]]:
    out = defaultdict(list)
    for path in sorted(logs.glob(f"{stack}-*.qlog")):
        _, side, user, port, server, server_port, *_ = path.stem.split("-")
        ends = Ends(user, first_port(int(port)), server, int(server_port))
        read = _of_aioquic(path) if stack == "aioquic" else _of_quinn(path)
        for t, name, data in read:
            if event := _event(t + offset, side, name, data):
                out[ends].append(event)
    for events in out.values():
        events.sort(key=lambda event: event.t)
    return out


def _of_aioquic(path: Path) -> Iterator[tuple[float, str, dict]]:
    for event in json.loads(path.read_text())["events"]:
        data = event["data"]
        if event["name"] == "recovery:metrics_updated":
            data |= {name: data[name] / 1000 for name in RTTS if name in data}
        yield event["time"] / 1000, event["name"], data


def _of_quinn(path: Path) -> Iterator[tuple[float, str, dict]]:
    begin = 0.0
    for line in path.read_text().split("\x1e"):
        if not line.strip():
            continue
        said = json.loads(line)
        if "name" in said:
            yield begin + said["time"] / 1000, said["name"], said["data"]
        else:
            begin = float(said["title"])


def _event(t: float, side: str, name: str, data: dict) -> Event | None:
    match name.split(":")[1]:
        case "packet_sent":
            header = data.get("header", data)
            return Event(t, side, "sent", header.get("packet_type", header.get("type")), {})
        case "metrics_updated":
            rtts = {name: data[name] for name in RTTS if name in data}
            return Event(t, side, "metrics", "", rtts)
    return None


def _connection(
    stack: str, ends: Ends, row: dict, seen: list[Datagram], events: list[Event], begin: float
) -> tuple[object, ...]:
    def at(side: str, event: str) -> list[Datagram]:
        return [each for each in seen if (each.side, each.event) == (side, event)]

    sent, received = at("client", "sent"), at("client", "received")
    answer = received[0].t if received else float("inf")
    types = {each.type for each in received}
    initials = sum(each.type == INITIAL and each.t < answer for each in sent)
    versions = [each.version for each in sent if each.version]
    own = [e for e in events if (e.side, e.name) == ("client", "sent")]
    confirmed = [e.t for e in own if e.type in (HANDSHAKE, "1RTT")]
    if row["answered"] == "1":
        result = "ok"
    elif at("client", "icmp_received"):
        result = "refused"
    else:
        result = "failed" if received else "no_response"
    ports = list(dict.fromkeys(each.port for each in at("server", "received")))
    if not ports:
        ports = [ends.user_port]
    of_server = at("server", "sent")
    return (
        stack,
        row["scenario"],
        *ends,
        hex(versions[-1]),
        row["offered_version"],
        result,
        int(RETRY in types),
        int("version_negotiation" in types),
        int(any(e.type == ZERO_RTT for e in own)),
        int(row["zero_rtt_accepted"] or 0),
        initials,
        f"{sent[0].t:.6f}",
        f"{answer:.6f}" if received else "",
        f"{confirmed[0]:.6f}" if confirmed else "",
        f"{seen[-1].t:.6f}",
        " ".join(map(str, ports)),
        len(ports) - 1,
        len(sent),
        sum(each.length for each in sent),
        len(of_server),
        sum(each.length for each in of_server),
        _spin(stack, row["scenario"], seen),
        int(sent[0].t < begin),
    )


def _spin(stack: str, scenario: str, seen: Iterable[Datagram]) -> str:
    """Returns what a connection's spin bits do: yes, constant, random; "" without 1-RTT packets.

    Either end of quinn chooses random bits for one connection in eight, without saying so. Else a
    client's bit is the inverse of what it received last, a server's is the same."""
    last: dict[str, int] = {}
    right = defaultdict(list)
    for each in seen:
        if each.type != "1RTT":
            continue
        bit = each.head[0] & SPIN
        if each.event == "received":
            last[each.side] = bit
        elif each.side in last:
            right[each.side].append((bit == last[each.side]) == (each.side == "server"))
    if not right:
        return ""
    if stack == "aioquic":
        return scenario if scenario in ("constant", "random") else "yes"
    return "yes" if all(sum(r) >= RIGHT * len(r) for r in right.values()) else "random"


def _rtts(stack: str, ends: Ends, events: Iterable[Event]) -> Iterator[tuple[object, ...]]:
    """Yields a row for each change of an end's RTTs."""
    known: dict[str, dict[str, float]] = {"client": {}, "server": {}}
    for event in events:
        before, now = known[event.side], known[event.side] | event.rtts
        known[event.side] = now
        if now != before and set(now.values()) != NOT_MEASURED:
            values = (f"{now[name]:.6f}" if name in now else "" for name in RTTS)
            yield stack, event.side, *ends, f"{event.t:.6f}", *values


def _write(path: Path, names: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    with Compressed(path) as packed:
        text = io.TextIOWrapper(packed, newline="", write_through=True)
        out = csv.writer(text, lineterminator="\n")
        out.writerow(names)
        out.writerows(rows)
        text.detach()
