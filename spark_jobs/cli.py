"""The giscope command. What a command needs is imported when it runs: all answer at once."""

from __future__ import annotations

import os
import sys
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from spark_jobs import query_limits
from spark_jobs.capture import FrontEnd
from spark_jobs.errors import UserError, in_a_line, printable
from spark_jobs.places import contents_of, place

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from spark_jobs.jobs.ingest import Ingested
    from spark_jobs.networks import Network
    from spark_jobs.warehouse import Warehouse
    from spark_jobs.warehouse.queries import Answer

app = typer.Typer(
    help="Passive measurement of TCP performance for the users of mobile networks.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
out = Console(width=None if sys.stdout.isatty() else 160, markup=False, emoji=False)
"""Names of files are printed: there is no markup in them."""

WarehouseOption = Annotated[
    Path,
    typer.Option(
        "--warehouse",
        metavar="W",
        parser=place,
        help="Folder of the tables, made if missing; or s3://BUCKET/PREFIX.",
    ),
]
NetworksOption = Annotated[
    Path, typer.Option("--networks", metavar="FILE", help="The networks file (TOML).")
]
FrontEndOption = Annotated[
    FrontEnd,
    typer.Option(
        "--front-end",
        help="What reads the files. auto: captures by the built-in reader, logs of Zeek as "
        "zeek-log; each other one leaves the other kind out of folders.",
    ),
]
NetworkOption = Annotated[str, typer.Option("--network", metavar="NAME", help="Which network.")]
OneNetworkOption = Annotated[
    str | None, typer.Option("--network", metavar="NAME", help="Only this network.")
]


PlainOption = Annotated[
    bool,
    typer.Option(
        "--plain-addresses",
        help="Keep subscribers' addresses and RADIUS names as they are, instead of pseudonyms.",
    ),
]


FollowOption = Annotated[
    bool,
    typer.Option(
        "--follow-links",
        help="Follow symbolic links below the folder; else they are left out and named.",
    ),
]


def _day_option(name: str, help_text: str) -> Any:
    return typer.Option(name, formats=["%Y-%m-%d"], metavar="YYYY-MM-DD", help=help_text)


class Format(StrEnum):
    """How `giscope sql` prints."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class Pages(StrEnum):
    """How `giscope schema` prints."""

    TABLE = "table"
    MARKDOWN = "markdown"


@app.command(epilog="Example: giscope run --warehouse W --networks networks.toml captures/")
def run(
    warehouse: WarehouseOption,
    networks: NetworksOption,
    captures: Annotated[
        Path,
        typer.Argument(
            parser=place,
            help="Folder with CAPTURES/<network>/: captures and logs of Zeek; or s3://BUCKET/PREFIX.",
        ),
    ],
    front_end: FrontEndOption = FrontEnd.AUTO,
    plain_addresses: PlainOption = False,
    follow_links: FollowOption = False,
) -> None:
    """All of it: ingest, flows, marts, report. What is up to date is not made again."""
    from spark_jobs.jobs import flows as flows_job
    from spark_jobs.jobs import marts as marts_job
    from spark_jobs.jobs import plot as plot_job
    from spark_jobs.jobs import quality
    from spark_jobs.jobs.summary import table1_summary
    from spark_jobs.networks import load_networks
    from spark_jobs.report import bring_up_to_date
    from spark_jobs.warehouse import Warehouse

    store = Warehouse(warehouse)
    known = {n.name: _called(n, plain_addresses) for n in load_networks(networks).values()}
    work, left_out = _captures(captures, known, networks, front_end, follow_links)

    with _alone(store):
        with store.one_update():
            failed = _ingest(store, work, front_end)
            refused = {result.network for result in failed if result.of_network}
            usable = [network for network in known.values() if network.name not in refused]
            flows_job.bring_up_to_date(store, usable)
            for verdict in quality.check(store, usable):
                for finding in verdict.findings:
                    typer.echo(f"giscope: {verdict.network} {verdict.date}: {finding}", err=True)
            marts_job.marts(store)
            if not store.days("marts"):
                # Else that there is nothing to show would be said in place of why.
                _fail_for(failed, left_out)
            report_file = bring_up_to_date(store)
            plot_job.bring_up_to_date(store)
        _finish_removal(store)  # files that it cannot read were made again
        out.print(table1_summary(store))
        out.print(f"Report: {report_file.resolve()}", soft_wrap=True)
    _fail_for(failed, [*left_out, *store.damaged().values()])


@app.command(
    epilog="Example: giscope ingest --warehouse W --networks networks.toml "
    "--network aa-gprs monday.pcap.zst tuesday.pcapng"
)
def ingest(
    warehouse: WarehouseOption,
    networks: NetworksOption,
    network: NetworkOption,
    files: Annotated[
        list[Path],
        typer.Argument(
            parser=place,
            help="Capture files: pcap, pcapng; logs of Zeek: giscope_packets, giscope_accounting, "
            "radius, conn, http, ssl as TSV or JSON. Plain, gzip, zstd. Or folders of these.",
        ),
    ],
    front_end: FrontEndOption = FrontEnd.AUTO,
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going",
            help="Exit status 0 though files that are there gave nothing: `giscope check` holds "
            "their days.",
        ),
    ] = False,
    plain_addresses: PlainOption = False,
    follow_links: FollowOption = False,
) -> None:
    """Read capture files into packets. A file of the same name replaces the earlier one; in a
    folder named for a day, YYYY-MM-DD, it is that day's."""
    from spark_jobs.networks import find_network, load_networks
    from spark_jobs.warehouse import Warehouse

    chosen = _called(find_network(load_networks(networks), network, networks), plain_addresses)
    work: list[tuple[Network, Path]] = []
    left_out: list[str] = []
    for path in files:
        if _is_folder(path):
            found, errors = _files_of(path, front_end, follow_links)
            left_out += errors
        else:
            found = [path]
        work += [(chosen, file) for file in found]
    if not work and not keep_going:
        none = f"{', '.join(map(str, files))}: no capture and no log of Zeek in it"
        raise UserError(*(left_out or [none]))
    failed = _ingest(Warehouse(warehouse), work, front_end)
    told = [result for result in failed if keep_going and result.path.exists()]
    for line in [*(result.error or "" for result in told), *(left_out if keep_going else ())]:
        typer.echo(f"giscope: {printable(line)}", err=True)
    _fail_for([r for r in failed if r not in told], () if keep_going else left_out)


@app.command(
    epilog="Example: giscope pseudonym --networks networks.toml --network aa-gprs "
    "--address 10.64.1.7 --date 2004-03-02"
)
def pseudonym(
    networks: NetworksOption,
    network: NetworkOption,
    address: Annotated[
        str | None, typer.Option("--address", metavar="A", help="A subscriber's address.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="N", help="Or what RADIUS calls one: IMSI, number or user name."
        ),
    ] = None,
    day: Annotated[
        datetime | None,
        _day_option("--date", "UTC day of the packets; needed where the network has a key_period."),
    ] = None,
) -> None:
    """Print what one subscriber is called in a network's tables: packets.user for an address,
    flows.user too where no RADIUS log is read, else that is of the name. Needs the key."""
    from spark_jobs.capture.users import user_keys
    from spark_jobs.networks import find_network, load_networks

    keys = user_keys(find_network(load_networks(networks), network, networks))
    if (address is None) == (name is None):
        raise UserError("pseudonym: either --address or --name")
    if day:
        keys = keys.on(day.date())
    elif keys.key_period:
        raise UserError(
            f"pseudonym: {network} has others each {keys.key_period}: --date tells which"
        )
    try:
        out.print(keys.of_identity(name) if name is not None else keys.of_address(address or ""))
    except ValueError as error:
        raise UserError(f"--address {error}") from error


@app.command(
    "zeek-options",
    epilog="Example: giscope zeek-options --networks networks.toml --network aa-gprs "
    "> subscribers.zeek",
)
def zeek_options(networks: NetworksOption, network: NetworkOption) -> None:
    """Print the Zeek script that gives the package in zeek_scripts/ the network's subscribers."""
    from spark_jobs.capture.addresses import subscriber_prefixes
    from spark_jobs.capture.front_end import subscribers_script
    from spark_jobs.networks import find_network, load_networks

    chosen = find_network(load_networks(networks), network, networks)
    typer.echo(subscribers_script(subscriber_prefixes(chosen.subscribers)), nl=False)


@app.command(
    epilog="Example: giscope flows --warehouse W --networks networks.toml "
    "--network aa-gprs --date 2004-03-02"
)
def flows(
    warehouse: WarehouseOption,
    networks: NetworksOption,
    network: NetworkOption,
    day: Annotated[
        datetime | None,
        _day_option(
            "--date", "UTC day on which the flows start; all that are not up to date if left out."
        ),
    ] = None,
) -> None:
    """Make the flows of a network's day, or of every day whose packets have changed."""
    from spark_jobs.jobs import flows as flows_job
    from spark_jobs.networks import find_network, load_networks
    from spark_jobs.warehouse import Warehouse

    chosen = find_network(load_networks(networks), network, networks)
    store = Warehouse(warehouse)
    if day is None:
        made = flows_job.bring_up_to_date(store, [chosen])
    elif day.date() in flows_job.days_with_packets(store, network):
        made = flows_job.flows(store, [(chosen, day.date())])
    else:
        raise UserError(f"{warehouse}: no packets of {network} on {day.date()}")
    for (name, when), count in made.items():
        out.print(f"{count} flows of {name} on {when}")


@app.command(
    epilog="Example: giscope check --warehouse W --networks networks.toml --date 2004-03-02"
)
def check(
    warehouse: WarehouseOption,
    networks: NetworksOption,
    network: OneNetworkOption = None,
    day: Annotated[
        datetime | None,
        _day_option("--date", "A day that must not be held, checked anew or not."),
    ] = None,
) -> None:
    """Check the quality of every day with new flows; that every published file (of that network
    and day) is there with the bytes that were published; and that the Iceberg tables show the
    published files. A day that fails is held back: `giscope marts`
    leaves what is published of it. Exit status 2 where this holds a day, or where a file is
    missing or changed; `giscope run` makes what is missing again."""
    from spark_jobs.jobs import quality
    from spark_jobs.networks import find_network, load_networks

    known = load_networks(networks)
    chosen = [find_network(known, network, networks)] if network else list(known.values())
    wanted = day.date() if day else None
    store = _existing(warehouse)
    damaged = [line for one in chosen for line in store.damaged(True, one.name, wanted).values()]
    damaged += store.holes().values()
    verdicts = quality.check(store, chosen, wanted)
    verdicts = [verdict for verdict in verdicts if verdict.fresh or verdict.date == wanted]
    for verdict in verdicts:
        if not verdict.held:
            why = f"released: {verdict.released}" if verdict.released else "passed"
            out.print(f"{verdict.network} {verdict.date}: {why}", soft_wrap=True)
    held = [
        f"{verdict.network} {verdict.date} is held back: {finding}"
        for verdict in verdicts
        if verdict.held
        for finding in verdict.findings
    ]
    if damaged or held:
        raise UserError(*damaged, *held)


@app.command(
    epilog="Example: giscope release --warehouse W --networks networks.toml --network aa-gprs "
    '--date 2004-03-02 --reason "public holiday"'
)
def release(
    warehouse: WarehouseOption,
    networks: NetworksOption,
    network: NetworkOption,
    day: Annotated[datetime, _day_option("--date", "The day held back.")],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the quality table.")
    ],
) -> None:
    """Publish a day in spite of its checks, until its packets change again."""
    from spark_jobs.jobs import marts as marts_job
    from spark_jobs.jobs import quality
    from spark_jobs.networks import find_network, load_networks

    chosen = find_network(load_networks(networks), network, networks)
    store = _existing(warehouse)
    quality.release(store, chosen, day.date(), reason)
    days = marts_job.marts(store, lambda other: other != (network, day.date()), network)
    out.print(f"{network} {day.date()} released, marts of {len(days)} network days made")


@app.command(epilog="Example: giscope marts --warehouse W")
def marts(
    warehouse: WarehouseOption,
    network: OneNetworkOption = None,
    checked: Annotated[
        bool,
        typer.Option("--checked", help="Only days that `giscope check` has seen as they are now."),
    ] = False,
) -> None:
    """Bring the marts up to date with the flows, but for days that are held back."""
    from spark_jobs.jobs import marts as marts_job
    from spark_jobs.jobs import quality

    store = _existing(warehouse)

    def leave(day: tuple[str, date]) -> bool:
        verdict = quality.verdict_of(store, *day)
        return verdict.held if verdict else checked

    days = marts_job.marts(store, leave, network)
    out.print(f"marts of {len(days)} network days made")


@app.command(epilog="Example: giscope maintain --warehouse W --keep-days 30")
def maintain(
    warehouse: WarehouseOption,
    keep_days: Annotated[
        float | None,
        typer.Option(
            "--keep-days",
            metavar="N",
            min=0,
            help="How long what was replaced stays, for those who read it and for time travel; 5 "
            "if left out, as Iceberg has it.",
        ),
    ] = None,
    remove_orphans: Annotated[
        bool,
        typer.Option(
            "--remove-orphans",
            help="Remove files that the catalog does not know, however many they are.",
        ),
    ] = False,
    rebuild_catalog: Annotated[
        bool,
        typer.Option(
            "--rebuild-catalog",
            help="Make a lost catalog again first, from the Parquet files and Iceberg's metadata.",
        ),
    ] = False,
) -> None:
    """Merge small files, forget what was replaced longer ago, remove orphans (old files of killed
    jobs, which the catalog does not know), and report what is there. Run it daily."""
    from rich.table import Table as Grid

    if rebuild_catalog:
        _rebuild(warehouse)
    store = _existing(warehouse, keep_days)
    held = store.maintain(remove_orphans)
    grid = Grid()
    for heading in ("files of the tables", "how many", "bytes"):
        grid.add_column(heading, justify="left" if heading == "files of the tables" else "right")
    for what, files, size in held:
        grid.add_row(what, f"{files:,}", "" if size is None else f"{size:,}")
    out.print(grid)
    if store.too_many:
        raise UserError(
            f"{warehouse}: there are more orphans than a tenth of the catalog's files: none is "
            "removed. If the catalog is an old copy, restore the newest or run giscope maintain "
            "--rebuild-catalog; else giscope maintain --remove-orphans"
        )
    if store.untold:
        sys.exit(2)


@app.command(
    epilog="Example: giscope forget --warehouse W --networks networks.toml --network aa-gprs "
    "--user 2nk4xv7aqlhm3c5e"
)
def forget(
    warehouse: WarehouseOption,
    networks: NetworksOption,
    network: NetworkOption,
    user: Annotated[
        list[str],
        typer.Option(
            "--user",
            metavar="P",
            help="As `giscope pseudonym` prints it; repeatable. Where RADIUS logs are read: that "
            "of the name.",
        ),
    ],
) -> None:
    """Remove all that was captured of a user until now, from every table of every network, from
    what was replaced and from the report, and leave it out where captures are read again. What is
    left is made anew without. Then look for the name everywhere in the warehouse; exit status 2
    where it is found, where a file cannot be read, or where nobody of the name is known."""
    from spark_jobs.jobs import removal
    from spark_jobs.networks import find_network, load_networks

    known = load_networks(networks)
    chosen = find_network(known, network, networks)
    store, users = _existing(warehouse), list(dict.fromkeys(user))
    with _alone(store):
        _finish_removal(store)
        before = removal.are_forgotten(store, network, users)
        rows = removal.forget(store, chosen, users, known.values())
        search = removal.prove(store, chosen, users, known.values())
    out.print(f"{rows:,} rows removed")
    for name in before:
        out.print(f"{name} was forgotten before, too", soft_wrap=True)
    if search.mistakes:
        raise UserError(search.looked, *search.mistakes)
    out.print(f"{search.looked}: not found", soft_wrap=True)


@app.command(epilog="Example: giscope purge --warehouse W --before 2004-03-01 --table packets")
def purge(
    warehouse: WarehouseOption,
    before: Annotated[
        datetime | None,
        _day_option("--before", "The first UTC day that stays; else --networks."),
    ] = None,
    networks: Annotated[
        Path | None,
        typer.Option(
            "--networks", metavar="FILE", help="Remove what is older than its [network.retention]."
        ),
    ] = None,
    network: OneNetworkOption = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="NAME",
            help="Only this one; repeatable. packets: also the logs of Zeek, and examples; flows: "
            "also the tables beside it; marts: all of them, the checks and ingest_log.",
        ),
    ] = None,
) -> None:
    """Remove old days, and what was replaced of the same tables. What was made of them stays."""
    from spark_jobs.jobs import removal
    from spark_jobs.networks import find_network, load_networks

    if (before is None) == (networks is None) or (networks and table):
        raise UserError("purge: either --before (and --table), or --networks")
    store = _existing(warehouse)
    with _alone(store):
        _finish_removal(store)
        if networks:
            known = load_networks(networks)
            chosen = [find_network(known, network, networks)] if network else known.values()
            gone = removal.retain(store, chosen, datetime.now(UTC).date())
        else:
            assert before is not None
            tables = removal.known_tables(table or ())
            gone = removal.purge_networks(store, network, before.date(), tables)
    names = sorted(one.name for one in gone)
    out.print(f"removed from {', '.join(names)}" if names else "nothing to remove", soft_wrap=True)


@app.command(epilog="Example: giscope report --warehouse W --output report.html")
def report(
    warehouse: WarehouseOption,
    output: Annotated[
        Path, typer.Option("--output", metavar="FILE", parser=place, help="The page to write.")
    ],
    network: Annotated[
        list[str] | None,
        typer.Option("--network", metavar="NAME", help="Only this network; repeatable."),
    ] = None,
    since: Annotated[datetime | None, _day_option("--from", "First day.")] = None,
    until: Annotated[datetime | None, _day_option("--to", "Last day.")] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare",
            metavar="KEY=VALUE,...",
            help="Twice: compare these two selections instead. Keys: hours (peak, off-peak, other, "
            "18-21), days (2004-03-01..2004-03-07), network, access, sack, timestamps (yes, no), "
            "mss (low, high, other), window (low, med, high).",
        ),
    ] = None,
) -> None:
    """Write peak against off-peak and the paper's tables and figures as one page that opens
    offline; its examples' pages go into the folder plots beside it."""
    from spark_jobs.jobs.plot import write_examples
    from spark_jobs.report import write_report
    from spark_jobs.report.compare import parse_subset
    from spark_jobs.report.examples import examples

    if compare and len(compare) != 2:
        raise UserError(f"report: --compare is given twice or not at all, not {len(compare)} times")
    subsets = [parse_subset(text) for text in compare or ()]
    store = _existing(warehouse)
    days = (since.date() if since else None, until.date() if until else None)
    page = write_report(
        store, output, network or None, *days, (subsets[0], subsets[1]) if subsets else None
    )
    if not subsets:
        write_examples(store, examples(store, network or None, *days), page.parent)
    out.print(f"Report: {page.resolve()}", soft_wrap=True)


@app.command(
    epilog="""Example: giscope sql --warehouse W "select network, count(*) from flows """
    """group by all" """
)
def sql(
    warehouse: WarehouseOption,
    query: Annotated[str, typer.Argument(help="A query of DuckDB's SQL over the tables.")],
    form: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
    write: Annotated[
        bool,
        typer.Option(
            "--write",
            help="Let it be any statements, which may write, and read files anywhere.",
        ),
    ] = False,
    at: Annotated[
        datetime | None,
        typer.Option(
            "--at",
            formats=["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"],
            metavar="TIME",
            help="Of the tables as they were then (UTC), as far as what was replaced is kept.",
        ),
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit",
            metavar="SECONDS",
            envvar=query_limits.SECONDS_VARIABLE,
            help="Stop a query that is not printed after so long; 0: no limit.",
        ),
    ] = query_limits.SQL_SECONDS,
    memory_limit: Annotated[
        str,
        typer.Option(
            "--memory-limit",
            metavar="SIZE",
            envvar=query_limits.MEMORY_VARIABLE,
            help="Stop a query that needs more memory, or four times as much in temporary files.",
        ),
    ] = query_limits.MEMORY,
) -> None:
    """Ask SQL of every table. Reads the warehouse only, but with --write."""
    import duckdb

    from spark_jobs.warehouse.queries import asked

    limits = query_limits.Limits.of(time_limit, memory_limit)
    then = at.replace(tzinfo=UTC) if at else None
    try:
        with asked(_existing(warehouse), query, limits, write, then) as answer:
            _print_answer(answer, form)
    except duckdb.OutOfMemoryException:
        raise  # before the query ran: see main
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        if isinstance(error, duckdb.PermissionException) and not write:
            reason += "; --write reaches other files"
        raise UserError(f"sql: {reason}") from error
    except RuntimeError as error:
        if "interrupted" in str(error):
            raise KeyboardInterrupt from error
        raise


def _print_answer(answer: Answer, form: Format) -> None:
    import csv
    import json

    if form is Format.TABLE:
        answer.show(max_width=200, max_rows=1000)
        return
    found = answer.columns_and_rows()
    if found is None:
        return
    columns, rows = found
    if form is Format.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    else:
        before = "["
        for row in rows:
            named = dict(zip(columns, row, strict=True))
            indented = json.dumps(named, default=str, indent=1).replace("\n", "\n ")
            print(f"{before}\n {indented}", end="")
            before = ","
        print("[]" if before == "[" else "\n]")


@app.command(
    epilog='Example: giscope why --warehouse W "$(giscope sql --warehouse W --format csv '
    '"select flow_id from flows order by rto_expiries desc limit 1" | tail -1)"',
)
def why(
    warehouse: WarehouseOption,
    flow_id: Annotated[int, typer.Argument(help="The connection, as in the table flows.")],
) -> None:
    """Tell why a connection was as fast as it was, in five sentences."""
    from spark_jobs.report.connection import read_connection
    from spark_jobs.report.why import explanation

    for sentence in explanation(read_connection(_existing(warehouse), flow_id)):
        out.print(sentence, soft_wrap=True, highlight=False)


@app.command(
    epilog='Example: giscope plot --warehouse W "$(giscope sql --warehouse W --format csv '
    '"select flow_id from flows order by rto_expiries desc limit 1" | tail -1)"',
)
def plot(
    warehouse: WarehouseOption,
    flow_ids: Annotated[
        list[int],
        typer.Argument(help="Connections, as in the table flows.", metavar="FLOW_ID..."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="PATH",
            parser=place,
            help="The page to write, or a folder; flow-FLOW_ID.html here if left out.",
        ),
    ] = None,
) -> None:
    """Draw connections, a page each that opens offline: time-sequence graph, what limited it, what
    was outstanding, round trips and timeouts."""
    from spark_jobs.jobs.plot import plot as draw
    from spark_jobs.report import plot_file_name

    store = _existing(warehouse)
    target = output or Path()
    if len(flow_ids) > 1 and not target.is_dir():
        raise UserError(f"plot: {target}: no such folder")
    for flow_id in flow_ids:
        page = target / plot_file_name(flow_id) if target.is_dir() else target
        out.print(f"{draw(store, flow_id, page).resolve()}", soft_wrap=True, highlight=False)


@app.command(epilog="Example: giscope schema flows")
def schema(
    table: Annotated[str | None, typer.Argument(help="Which table; all if left out.")] = None,
    form: Annotated[Pages, typer.Option("--format", help="How to print.")] = Pages.TABLE,
) -> None:
    """Print the data dictionary: every column with type, unit, meaning and source."""
    from spark_jobs import dictionary

    if form is Pages.MARKDOWN:
        typer.echo(dictionary.markdown(table), nl=False)
    else:
        dictionary.print_tables(out, table)


def _existing(warehouse: Path, keep_days: float | None = None) -> Warehouse:
    from spark_jobs.warehouse import KEEP, Warehouse

    if not warehouse.is_dir():
        raise UserError(f"{warehouse}: no such warehouse")
    return Warehouse(warehouse, KEEP if keep_days is None else timedelta(keep_days))


def _rebuild(warehouse: Path) -> None:
    """Make a lost catalog again, and say what it has and what could not be found."""
    from spark_jobs.jobs.rebuild import rebuild

    if not warehouse.is_dir():
        raise UserError(f"{warehouse}: no such warehouse")
    rebuilt = rebuild(warehouse)
    for line in rebuilt.not_told:
        typer.echo(f"giscope: {printable(line)}", err=True)
    out.print(f"the catalog has {rebuilt.units:,} units with {rebuilt.files:,} files again")


def _alone(store: Warehouse) -> AbstractContextManager[None]:
    """One run, or removal, at a time."""

    def wait() -> None:
        typer.echo(f"giscope: {store.root}: another run is at work: waiting for its end", err=True)

    return store.locked("run", wait)


def _finish_removal(store: Warehouse) -> None:
    """End a removal that was broken off."""
    from spark_jobs.jobs import removal

    if removal.is_pending(store):
        typer.echo(f"giscope: {store.root}: ending a removal that was broken off", err=True)
        removal.finish(store)


def _captures(
    folder: Path,
    known: dict[str, Network],
    networks: Path,
    front_end: FrontEnd,
    follow_links: bool,
) -> tuple[list[tuple[Network, Path]], list[str]]:
    """What `giscope run` ingests, and a line for each thing that is left out of it. Raises
    UserError where there is nothing."""
    from spark_jobs.capture.files import not_followed
    from spark_jobs.networks import find_network

    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    contents = contents_of(folder, follow_links)
    left_out = [not_followed(folder, contents.links)] if contents.links else []
    work = []
    for of_network in contents.folders:
        found, errors = _files_of(of_network, front_end, follow_links)
        left_out += errors
        try:
            if found:
                network = find_network(known, of_network.name, networks)
                work += [(network, path) for path in found]
        except UserError as error:
            left_out += error.args
    if not work:
        raise UserError(*(left_out or [f"{folder}: no <network>/*.pcap* or *.log* in it"]))
    return work, left_out


def _called(network: Network, plain_addresses: bool) -> Network:
    """The network, its subscribers called as asked for."""
    return network.with_plain_addresses() if plain_addresses else network


def _is_folder(path: Path) -> bool:
    """Also of a name that no file can have."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _files_of(
    folder: Path, front_end: FrontEnd, follow_links: bool
) -> tuple[list[Path], list[str]]:
    """What can be ingested of a folder, and a line for each thing that cannot; tells which kinds of
    logs are left out."""
    from spark_jobs.capture.files import find_captures

    found = find_captures(folder, front_end, follow_links)
    if found.files and found.unused:
        left_out = f"{folder}: logs left out: {', '.join(sorted(found.unused))}"
        typer.echo(f"giscope: {printable(left_out)}", err=True)
    return found.files, found.errors


def _ingest(
    store: Warehouse, work: list[tuple[Network, Path]], front_end: FrontEnd = FrontEnd.AUTO
) -> list[Ingested]:
    """Ingest and tell about it; returns the files that gave nothing."""
    from spark_jobs.capture.users import make_secret
    from spark_jobs.jobs.ingest import ingest as ingest_all
    from spark_jobs.jobs.summary import ingest_summary

    if any(network.needs_key for network, _ in work) and (made := make_secret()):
        typer.echo(f"giscope: made the key of the pseudonyms, to be kept: {made}", err=True)
    results = ingest_all(store, work, front_end)
    for result in results:
        for note in result.notes:
            typer.echo(f"giscope: {printable(note)}", err=True)
    out.print(ingest_summary(results))
    return [result for result in results if result.error]


def _fail_for(failed: list[Ingested], others: Iterable[str] = ()) -> None:
    """Raise a UserError with a line for each, once for what is said of several files."""
    lines = dict.fromkeys([*(result.error or "" for result in failed), *others])
    if lines:
        raise UserError(*lines)


def main(args: list[str] | None = None) -> None:
    """Run the command; the user's mistakes, and what the system refuses, give one line and exit
    status 2."""
    try:
        status = app(args, standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        _mistake(error.format_message())
    except BrokenPipeError:
        _end_unheard()
    except UserError as error:
        _mistake(str(error))
    except (typer.Abort, KeyboardInterrupt):
        status = 130
    except Exception as error:
        from spark_jobs.engine.memory import too_little

        told = too_little(error) or (in_a_line(error) if isinstance(error, OSError) else None)
        if told is None:
            raise
        _mistake(told)
    if status:
        sys.exit(status)


def _end_unheard() -> NoReturn:
    """As a program ends whose reader has gone: without a word."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    sys.exit(1)


def _mistake(message: str) -> NoReturn:
    for line in message.splitlines():
        print(f"giscope: {line}", file=sys.stderr)
    sys.exit(2)
