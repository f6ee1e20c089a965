"""Options that several commands share."""

from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from spark_jobs.base.places import path_of
from spark_jobs.capture import FrontEnd


def _day(text: str) -> date:
    """Return a UTC day. Raises ValueError for a text that is none, or that tables cannot have."""
    with suppress(ValueError):
        day = date.fromisoformat(text)
        if str(day) == text and day.year >= 1970:
            return day
    raise ValueError(f"{text!r} is not a day from 1970-01-01 to {date.max}, such as 2004-03-02")


def day_option(name: str, help_text: str) -> Any:
    """Return an option whose value is a UTC day."""
    return typer.Option(name, parser=_day, metavar="YYYY-MM-DD", help=help_text)


WarehouseOption = Annotated[
    Path,
    typer.Option(
        "--warehouse",
        metavar="W",
        parser=path_of,
        help="The warehouse: a folder, or s3://BUCKET/PREFIX. run, ingest and flows make a new "
        "one.",
    ),
]
NetworksOption = Annotated[
    Path,
    typer.Option(
        "--networks", metavar="FILE", help="The networks file (TOML), such as infra/networks.toml."
    ),
]
FrontEndOption = Annotated[
    FrontEnd,
    typer.Option(
        "--front-end",
        help="The program that reads the files. auto: the built-in reader for captures, zeek-log "
        "for logs of Zeek. builtin, zeek: only the captures of a folder. zeek-log: only its logs.",
    ),
]
NetworkOption = Annotated[str, typer.Option("--network", metavar="NAME", help="The network.")]
OptionalNetworkOption = Annotated[
    str | None, typer.Option("--network", metavar="NAME", help="Only this network.")
]
OptionalNetworksOption = Annotated[
    Path | None,
    typer.Option(
        "--networks",
        metavar="FILE",
        help="The networks file; with its key, subscribers are found by their addresses.",
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="A",
        help="Find the connection: an address of one of its ends, or a pseudonym.",
    ),
]
TimeOption = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="TIME",
        help="Find the connection in progress at this time, such as 2004-03-29T17:45:10 (local "
        "time of the network) or 2004-03-29T15:45:10Z.",
    ),
]
PortOption = Annotated[
    str | None, typer.Option("--port", metavar="N", help="Find the connection: one of its ports.")
]
FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="FILTER",
        help="Find the connection by Wireshark's display filter, such as 'ip.addr == 10.64.1.7 && "
        "tcp.port == 40001'.",
    ),
]
PlainAddressesOption = Annotated[
    bool,
    typer.Option(
        "--plain-addresses",
        help="Store subscribers' addresses and RADIUS names as they are, not as pseudonyms.",
    ),
]
FollowLinksOption = Annotated[
    bool,
    typer.Option(
        "--follow-links",
        help="Follow symbolic links in folders. Without it they are left out, and a line names "
        "them.",
    ),
]
