"""FreeRADIUS, and the access servers that ask it."""

import re
import subprocess
from functools import partial
from itertools import repeat
from pathlib import Path
from string import Template
from typing import NamedTuple

from tests.programs.recordings.network import (
    ACCESS_SERVERS,
    PATIENCE,
    Network,
    capture,
    program,
    threads,
)

RADIUS = "192.0.2.129"

RADIUS_CONF = Template("""
name = radiusd
logdir = $scratch
run_dir = $scratch
pidfile = $scratch/radiusd.pid
log {
    destination = stdout
}
security {
    reject_delay = 0
}
client access_servers {
    ipaddr = $access_servers
    secret = secret
}
modules {
    files {
        usersfile = $scratch/users
    }
    pap {
    }
    always ok {
        rcode = ok
    }
    exec slow {
        program = "/bin/sleep 1.5"
        wait = yes
    }
}
server gi {
    listen {
        type = auth
        ipaddr = $address
        port = 1812
    }
    listen {
        type = acct
        ipaddr = $address
        port = 1813
    }
    authorize {
        if (User-Name == "slow") {
            slow
        }
        files
        pap
    }
    authenticate {
        Auth-Type PAP {
            pap
        }
    }
    post-auth {
        Post-Auth-Type REJECT {
            update reply {
                Framed-IP-Address !* ANY
                Framed-IPv6-Prefix !* ANY
            }
        }
    }
    accounting {
        if (Acct-Session-Id == "slow") {
            slow
        }
        if (User-Name == "silent") {
            update control {
                Response-Packet-Type := Do-Not-Respond
            }
        }
        ok
    }
}
""")

USERS = """
anna Cleartext-Password := "right"
    Framed-IP-Address = 10.64.1.1

bert Cleartext-Password := "right"
    Framed-IP-Address = 10.64.1.2,
    Framed-IPv6-Prefix = 2001:db8:64:2::/64

cleo Cleartext-Password := "right"

slow Cleartext-Password := "right"
    Framed-IP-Address = 10.64.1.3

silent Auth-Type := Accept, Response-Packet-Type := Do-Not-Respond

DEFAULT Calling-Station-Id == "491700000199", Auth-Type := Accept
    Framed-IP-Address = 10.64.1.99
"""
"""slow is answered late; silent, in accounting too, never."""
NUMBERS = {"anna": 101, "bert": 102, "cleo": 103, "slow": 104, "silent": 105}


class Ask(NamedTuple):
    """A run of radclient, which sends all its messages from one port, one after another or some at
    once, and retransmits what is not answered within a second or two."""

    kind: str
    messages: tuple[str, ...]
    nas: str = "192.0.2.1"
    at_once: int = 1


def auth(*messages: str, at_once: int = 1) -> Ask:
    return Ask("auth", messages, at_once=at_once)


def acct(*messages: str, nas: str = "192.0.2.1", at_once: int = 1) -> Ask:
    return Ask("acct", messages, nas, at_once)


def login(name: str, password: str = "right") -> str:
    attributes = f"User-Name = {name}, User-Password = {password}"
    return (
        f"{attributes}, Calling-Station-Id = 491700000{NUMBERS[name]}, Service-Type = Framed-User"
    )


def message(status: str, session: str, *attributes: str) -> str:
    parts = (f"Acct-Status-Type = {status}", f'Acct-Session-Id = "{session}"', *attributes)
    return ", ".join(parts)


start, interim, stop = (partial(message, each) for each in ("Start", "Interim-Update", "Stop"))


def named(number: int) -> str:
    """A subscriber, by all its names."""
    names = f"User-Name = user{number}, Calling-Station-Id = 491700000{number:03}"
    return f'{names}, 3GPP-Charging-ID = 1, 3GPP-IMSI = "262020000000{number:03}"'


def address(last: int) -> str:
    return f"Framed-IP-Address = 10.64.2.{last}"


def whole(number: int) -> str:
    return f"{named(number)}, {address(number)}"


def lasted(seconds: int) -> str:
    return f"Acct-Session-Time = {seconds}"


LATE = "Acct-Delay-Time = 5"
ASKS = [
    auth(login("anna")),
    auth(login("bert")),
    auth(login("cleo")),
    auth(login("slow")),
    auth(login("silent")),
    auth(login("anna", "wrong")),
    auth("Calling-Station-Id = 491700000199, Service-Type = Framed-User"),
    auth(login("anna"), login("bert"), login("anna", "wrong")),
    auth(login("anna"), login("bert", "wrong"), login("cleo"), at_once=3),
    acct(message("Accounting-On", "on")),
    acct(message("Accounting-On", "on"), nas="192.0.2.2"),
    acct(
        start("s1", whole(1)),
        start("s2", whole(2)),
        interim("s1", whole(1), lasted(60)),
        stop("s1", whole(1), lasted(90), "Acct-Terminate-Cause = User-Request"),
    ),
    acct(interim("s2", whole(2), lasted(120))),
    acct(start("silent", "User-Name = silent", address(4))),
    acct(start("slow", whole(10))),
    acct(start("late", whole(5), LATE)),
    acct(stop("late", whole(5), lasted(1), LATE)),
    acct(start("no address", named(6))),
    acct(interim("no address", whole(6))),
    acct(stop("s2", named(2), lasted(180))),
    acct(start("name only", "User-Name = user7", address(7))),
    acct(start("number only", "Calling-Station-Id = 491700000008", address(8))),
    acct(start("nobody", address(9))),
    acct(start("first", whole(3)), stop("first", whole(3), lasted(1))),
    acct(start("second", named(11), address(3))),
    acct(start("third", named(12), address(3))),
    acct(start("prefix", named(21), "Framed-IPv6-Prefix = 2001:db8:64:21::/64")),
    acct(message("Tunnel-Start", "tunnel", whole(22))),
    acct(*(start(f"p{i}", whole(i)) for i in range(30, 36)), nas="192.0.2.2", at_once=6),
    acct(message("Accounting-Off", "off")),
]


def radclient(ask: Ask, scratch: Path) -> str:
    """What radclient says that it sent and received."""
    command = f"radclient -x -r 2 -t 1 -p {ask.at_once} -d {scratch} {RADIUS} {ask.kind} secret"
    sender = f"NAS-IP-Address = {ask.nas}, Packet-Src-IP-Address = {ask.nas}"
    done = subprocess.run(
        command.split(),
        input="\n\n".join(f"{each}, {sender}" for each in ask.messages),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout


MESSAGE = re.compile(
    r"^(Sent|Received) (\S+) Id (\d+) from (\S+):(\d+) to (\S+):(\d+) .*\n((?:\t.*\n)*)", re.M
)
ATTRIBUTE = re.compile(r'^\t(\S+) = "?([^"\n]*)"?$', re.M)
COLUMNS = {
    "status_type": ("Acct-Status-Type",),
    "session": ("Acct-Session-Id",),
    "address": ("Framed-IP-Address",),
    "subscriber": ("3GPP-IMSI", "Calling-Station-Id", "User-Name"),
    "session_time": ("Acct-Session-Time",),
    "delay": ("Acct-Delay-Time",),
}
"""Each has the first of its attributes that there is."""


def truth(output: str) -> list[dict[str, object]]:
    """A row for each message, from what radclient printed."""
    messages = MESSAGE.findall(output)
    replied = {number for way, _, number, *_ in messages if way == "Received"}
    rows: list[dict[str, object]] = []
    for way, code, number, *ends, lines in messages:
        sent, attributes = way == "Sent", dict(ATTRIBUTE.findall(lines))
        nas, port = ends[:2] if sent else ends[2:]
        row: dict[str, object] = {"code": code, "nas": nas, "nas_port": port, "id": number}
        for column, names in COLUMNS.items():
            row[column] = next((attributes[name] for name in names if name in attributes), "")
        rows.append(row | {"answered": str(number in replied).lower() if sent else ""})
    return rows


def record(net: Network, pcap: Path, scratch: Path) -> list[dict[str, object]]:
    conf = RADIUS_CONF.substitute(scratch=scratch, access_servers=ACCESS_SERVERS, address=RADIUS)
    (scratch / "radiusd.conf").write_text(conf)
    (scratch / "users").write_text(USERS)
    (scratch / "dictionary").touch()
    command = f"freeradius -X -d {scratch}"
    with (
        program(net.server, scratch / "radius.log", "Ready to process", command),
        capture(net, pcap, scratch),
        threads(net.mobile) as pool,
    ):
        outputs = pool.map(radclient, ASKS, repeat(scratch))
        rows = [row for output in outputs for row in truth(output)]
    return [{"order": i} | row for i, row in enumerate(rows, 1)]
