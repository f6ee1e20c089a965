"""The giscope command.

Each command imports what it needs when it runs, so that all start at once.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spark_jobs.base.errors import (
    ALL_ELSE,
    UserError,
    printable,
    user_message,
    withheld,
    withheld_lines,
)
from spark_jobs.base.places import path_of
from spark_jobs.capture import FrontEnd
from spark_jobs.commands.options import (
    AddressOption,
    FilterOption,
    FollowLinksOption,
    FrontEndOption,
    NetworkOption,
    NetworksOption,
    OptionalNetworkOption,
    OptionalNetworksOption,
    PlainAddressesOption,
    PortOption,
    TimeOption,
    WarehouseOption,
    day_option,
)
from spark_jobs.figures.names import SERVE_PORT
from spark_jobs.queries import limits as query_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from spark_jobs.engine.queries import Answer
    from spark_jobs.ingest.files import CaptureFile
    from spark_jobs.ingest.publish import CaptureOutcome
    from spark_jobs.warehouse.store import Warehouse

app = typer.Typer(
    help="Passive measurement of TCP performance for the users of mobile networks: captures in, "
    "tables and a report out. Exit status: 0 done, 2 not all done (stderr says what and why).",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from spark_jobs.base.sources import giscope_version

        typer.echo(f"giscope {giscope_version()}")
        raise typer.Exit


@app.callback()
def _giscope(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: giscope run --warehouse W --networks networks.toml captures/")
def run(
    warehouse: WarehouseOption,
    networks: NetworksOption,
    captures: Annotated[
        Path,
        typer.Argument(
            parser=path_of,
            help="Folder with a folder CAPTURES/<network>/ for each network, with captures and "
            "logs of Zeek; or s3://BUCKET/PREFIX.",
        ),
    ],
    front_end: FrontEndOption = FrontEnd.AUTO,
    plain_addresses: PlainAddressesOption = False,
    follow_links: FollowLinksOption = False,
) -> None:
    """Ingest captures, and bring flows, marts and the report up to date.

    Only what has changed is made again. Files that cannot be read stop no others; each gives one
    line on stderr, and the exit status is 2.
    """
    from spark_jobs.commands.summary import table1_summary
    from spark_jobs.ingest.files import find_work
    from spark_jobs.jobs.run import run as run_steps
    from spark_jobs.report.build import REPORT
    from spark_jobs.settings.networks import load_networks
    from spark_jobs.warehouse.store import Warehouse

    store = Warehouse(warehouse)
    known = load_networks(networks)
    if plain_addresses:
        known = {name: network.with_plain_addresses() for name, network in known.items()}
    work = find_work(captures, known, networks, front_end, follow_links)
    _print_notes(work.notes)
    with _one_at_a_time(store):
        _make_key(work.files)
        outcomes = run_steps(
            store, known.values(), work.files, front_end, _print_outcomes, _print_note
        )
        failed = [outcome for outcome in outcomes if outcome.error]
        if not store.days("marts"):
            # Otherwise the error would say that there is nothing to show, but not why.
            _raise_failures(failed, work.errors)
        _finish_removal(store)  # now, because the run has made damaged files again
        with withheld("Table I"):
            typer.echo(table1_summary(store))
        report_file = store.root / REPORT
        if report_file.exists():
            typer.echo(printable(f"Report: {report_file.resolve()}"))
    _raise_failures(failed, [*work.errors, *store.damaged().values()])


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
            parser=path_of,
            help="Captures (pcap, pcapng) or logs of Zeek (giscope_packets, giscope_accounting, "
            "radius, conn, http, ssl; TSV or JSON), plain or compressed by gzip or zstd; or "
            "folders with such files.",
        ),
    ],
    front_end: FrontEndOption = FrontEnd.AUTO,
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going",
            help="Exit with status 0 even if existing files could not be read; `giscope check` "
            "holds their days.",
        ),
    ] = False,
    plain_addresses: PlainAddressesOption = False,
    follow_links: FollowLinksOption = False,
) -> None:
    """Read capture files and logs of Zeek into the warehouse.

    A file replaces the earlier file of the same name. If its folder is named for a day, YYYY-MM-DD,
    the folder is part of the name.
    """
    from spark_jobs.ingest.files import find_named
    from spark_jobs.ingest.job import ingest as ingest_files
    from spark_jobs.settings.networks import find_network, load_networks
    from spark_jobs.warehouse.store import Warehouse

    chosen = find_network(load_networks(networks), network, networks)
    chosen = chosen.with_plain_addresses() if plain_addresses else chosen
    work = find_named(files, chosen, front_end, follow_links)
    _print_notes(work.notes)
    if not work.files and not keep_going:
        nothing_found = f"{', '.join(map(str, files))}: no capture and no log of Zeek in it"
        raise UserError(*(work.errors or [nothing_found]))
    _make_key(work.files)
    outcomes = ingest_files(Warehouse(warehouse), work.files, front_end)
    _print_outcomes(outcomes)
    failed = [outcome for outcome in outcomes if outcome.error]
    if keep_going:
        failed, reported = (
            [outcome for outcome in failed if outcome.path.exists() == exists]
            for exists in (False, True)
        )
        _print_notes([*(outcome.error or "" for outcome in reported), *work.errors])
    _raise_failures(failed, () if keep_going else work.errors)


@app.command(
    epilog="Example: giscope pseudonym --networks networks.toml --network aa-gprs "
    "--address 10.64.1.7 --date 2004-03-02"
)
def pseudonym(
    networks: NetworksOption,
    network: NetworkOption,
    address: Annotated[
        str | None, typer.Option("--address", metavar="A", help="The subscriber's IP address.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="N",
            help="Or the name in RADIUS logs: IMSI, phone number or user name.",
        ),
    ] = None,
    day: Annotated[
        date | None,
        day_option("--date", "UTC day of the packets; needed if the network has a key_period."),
    ] = None,
) -> None:
    """Print the pseudonym of one subscriber, as it is in the tables.

    The pseudonym of an address is in packets.user. It is also in flows.user, unless RADIUS logs are
    read: then flows.user has the pseudonym of the RADIUS name. The command needs the key of the
    pseudonyms.
    """
    from spark_jobs.capture.users import user_keys
    from spark_jobs.settings.networks import find_network, load_networks

    keys = user_keys(find_network(load_networks(networks), network, networks))
    if (address is None) == (name is None):
        raise UserError("pseudonym: give either --address or --name")
    if day:
        keys = keys.for_day(day)
    elif keys.key_period:
        raise UserError(
            f"pseudonym: pseudonyms of {network} change every {keys.key_period}: give the day with "
            "--date"
        )
    try:
        typer.echo(
            keys.key_of_identity(name) if name is not None else keys.key_of_address(address or "")
        )
    except ValueError as error:
        raise UserError(f"--address {error}") from error


@app.command(
    "zeek-options",
    epilog="Example: giscope zeek-options --networks networks.toml --network aa-gprs "
    "> subscribers.zeek",
)
def zeek_options(networks: NetworksOption, network: NetworkOption) -> None:
    """Print a Zeek script with a network's subscribers, for the package in zeek_scripts/."""
    from spark_jobs.capture.addresses import subscriber_prefixes
    from spark_jobs.capture.front_end import subscribers_script
    from spark_jobs.settings.networks import find_network, load_networks

    chosen = find_network(load_networks(networks), network, networks)
    typer.echo(subscribers_script(subscriber_prefixes(chosen.prefixes)), nl=False)


@app.command(
    epilog="Example: giscope flows --warehouse W --networks networks.toml "
    "--network aa-gprs --date 2004-03-02"
)
def flows(
    warehouse: WarehouseOption,
    networks: NetworksOption,
    network: NetworkOption,
    day: Annotated[
        date | None,
        day_option(
            "--date",
            "UTC day on which the flows start; without it, all days that are not up to date.",
        ),
    ] = None,
) -> None:
    """Make the flows of one day, or of every day whose packets have changed."""
    from spark_jobs.jobs import flows as flows_job
    from spark_jobs.jobs.hours import update_hours
    from spark_jobs.settings.networks import find_network, load_networks
    from spark_jobs.warehouse.store import Warehouse

    chosen = find_network(load_networks(networks), network, networks)
    store = Warehouse(warehouse)
    if day is None:
        counts = flows_job.bring_up_to_date(store, [chosen])
        _print_notes(flows_job.lines_about_another_format(store, [chosen]))
    elif day in flows_job.days_with_packets(store, network):
        counts = flows_job.publish_flows(store, [(chosen, day)])
    else:
        raise UserError(f"{warehouse}: no packets of {network} on {day}")
    update_hours(store, [chosen])
    for (name, flow_day), count in counts.items():
        typer.echo(f"{count} flows of {name} on {flow_day}")


@app.command(
    epilog="Example: giscope check --warehouse W --networks networks.toml --date 2004-03-02"
)
def check(
    warehouse: WarehouseOption,
    networks: NetworksOption,
    network: OptionalNetworkOption = None,
    day: Annotated[
        date | None,
        day_option(
            "--date", "UTC day whose files are checked; also fails if this day was held earlier."
        ),
    ] = None,
) -> None:
    """Check the quality of days, and that all published files are there.

    Every day with new flows is checked. A day that fails is held: `giscope marts` leaves what is
    published of it.

    Every published file (of the given network and day) must be there, with the bytes that were
    published. The Iceberg tables must show exactly these files. `giscope run` makes missing files
    again.

    The exit status is 2 if a day is held, or if a file is missing or changed.
    """
    from spark_jobs.jobs import quality
    from spark_jobs.settings.networks import find_network, load_networks

    networks_by_name = load_networks(networks)
    chosen = (
        [find_network(networks_by_name, network, networks)]
        if network
        else list(networks_by_name.values())
    )
    store = _open_existing(warehouse)
    damage = [
        line
        for chosen_network in chosen
        for line in store.damaged(True, chosen_network.name, day).values()
    ]
    damage += store.iceberg_mismatches().values()
    verdicts = quality.check(store, chosen, day)
    verdicts = [verdict for verdict in verdicts if verdict.fresh or verdict.date == day]
    for verdict in verdicts:
        if not verdict.held:
            why = f"released: {verdict.released}" if verdict.released else "passed"
            typer.echo(
                "; ".join(
                    filter(None, [f"{verdict.network} {verdict.date}: {why}", verdict.remark])
                )
            )
    held = [
        f"{verdict.network} {verdict.date} is held back: {finding}"
        for verdict in verdicts
        if verdict.held
        for finding in verdict.findings
    ]
    if damage or held:
        raise UserError(*damage, *held)


@app.command(
    epilog="Example: giscope release --warehouse W --networks networks.toml --network aa-gprs "
    '--date 2004-03-02 --reason "public holiday"'
)
def release(
    warehouse: WarehouseOption,
    networks: NetworksOption,
    network: NetworkOption,
    day: Annotated[date, day_option("--date", "The held UTC day.")],
    reason: Annotated[
        str,
        typer.Option(
            "--reason", metavar="TEXT", help="The reason; it is stored in the table quality."
        ),
    ],
) -> None:
    """Publish a held day in spite of its checks, until its packets change."""
    from spark_jobs.jobs import marts as marts_job
    from spark_jobs.jobs import quality
    from spark_jobs.settings.networks import find_network, load_networks

    chosen = find_network(load_networks(networks), network, networks)
    store = _open_existing(warehouse)
    quality.release(store, chosen, day, reason)
    days = marts_job.update_marts(store, lambda other: other != (network, day), network)
    typer.echo(f"{network} {day} released, marts of {len(days)} network days made")


@app.command(epilog="Example: giscope marts --warehouse W")
def marts(
    warehouse: WarehouseOption,
    networks: Annotated[
        Path | None,
        typer.Option(
            "--networks", metavar="FILE", help="Only the networks of this file. [default: all]"
        ),
    ] = None,
    network: OptionalNetworkOption = None,
    checked: Annotated[
        bool,
        typer.Option(
            "--checked", help="Only days that `giscope check` has checked since they changed."
        ),
    ] = False,
) -> None:
    """Bring the marts, which are aggregate tables, up to date with the flows.

    Held days stay as they are.
    """
    from spark_jobs.jobs import marts as marts_job
    from spark_jobs.jobs import quality
    from spark_jobs.settings.networks import find_network, load_networks

    known = load_networks(networks) if networks else None
    if known and networks and network:
        find_network(known, network, networks)
    store = _open_existing(warehouse)

    def skip(day: tuple[str, date]) -> bool:
        if known and day[0] not in known:
            return True
        verdict = quality.verdict_of(store, *day)
        return verdict.held if verdict else checked

    days = marts_job.update_marts(store, skip, network)
    typer.echo(f"marts of {len(days)} network days made")


@app.command(epilog="Example: giscope maintain --warehouse W --keep-days 30")
def maintain(
    warehouse: WarehouseOption,
    keep_days: Annotated[
        float | None,
        typer.Option(
            "--keep-days",
            metavar="N",
            min=0,
            max=36500,
            help="Days for which superseded files stay, for running queries and for time travel "
            "(sql --at). [default: 5, as in Iceberg]",
        ),
    ] = None,
    remove_orphans: Annotated[
        bool,
        typer.Option(
            "--remove-orphans",
            help="Remove orphan files even if there are many.",
        ),
    ] = False,
    rebuild_catalog: Annotated[
        bool,
        typer.Option(
            "--rebuild-catalog",
            help="First rebuild a lost catalog from the Parquet files and Iceberg's metadata.",
        ),
    ] = False,
) -> None:
    """Merge small files, remove old superseded files and orphan files. Run it daily.

    Superseded files were replaced by a newer version. Orphan files were left by killed jobs, and
    the catalog does not know them. At its end the command prints how many files there are. If
    orphan files are more than a tenth of the catalog's files, it removes none, and the exit status
    is 2.
    """
    from spark_jobs.commands.text_grid import text_grid

    if rebuild_catalog:
        _rebuild_catalog(warehouse)
    store = _open_existing(warehouse, keep_days)
    contents = store.maintain(remove_orphans)
    headings = ("files of the tables", "how many", "bytes")
    rows = [(kind, f"{n:,}", "" if size is None else f"{size:,}") for kind, n, size in contents]
    typer.echo(text_grid(headings, rows, "", numeric=headings[1:]))
    if store.too_many_orphans:
        raise UserError(
            f"{warehouse}: there are more orphan files than a tenth of the catalog's files: none "
            "is removed. If the catalog is an old copy, restore the newest or run giscope "
            "maintain --rebuild-catalog; otherwise run giscope maintain --remove-orphans"
        )


@app.command(
    epilog="Example: giscope forget --warehouse W --networks networks.toml --network aa-gprs "
    "--address 10.64.1.7"
)
def forget(
    warehouse: WarehouseOption,
    networks: NetworksOption,
    network: NetworkOption,
    user: Annotated[
        list[str] | None,
        typer.Option(
            "--user",
            metavar="P",
            help="The user's pseudonym, as `giscope pseudonym` prints it; repeatable. If RADIUS "
            "logs are read, the pseudonym of the RADIUS name.",
        ),
    ] = None,
    address: Annotated[
        list[str] | None,
        typer.Option(
            "--address",
            metavar="A",
            help="Or the user's IP address, if RADIUS logs are not read; repeatable.",
        ),
    ] = None,
) -> None:
    """Remove everything that was captured of a user until now.

    The rows about the user go from every table of every network, from superseded files, and from
    the report. Tables that were made from them are made again without them. When captures are read
    again, the user is left out.

    At its end the command searches the whole warehouse for the name. The exit status is 2 if the
    name is found, if a file cannot be read, or if no user has the name.
    """
    from spark_jobs.ingest.exclusions import previously_forgotten
    from spark_jobs.jobs import remove_data
    from spark_jobs.removal.find_users import search_for_users, users_with_address
    from spark_jobs.settings.networks import find_network, load_networks

    known = load_networks(networks)
    chosen = find_network(known, network, networks)
    if not (user or address):
        raise UserError("forget: give --user or --address")
    store, users = _open_existing(warehouse), [*(user or ())]
    for one in address or ():
        try:
            users += users_with_address(store, chosen, one)
        except ValueError as error:
            raise UserError(f"--address {error}") from error
    users = list(dict.fromkeys(users))
    with _one_at_a_time(store):
        _finish_removal(store)
        forgotten_before = previously_forgotten(store, network, users)
        rows = remove_data.forget(store, chosen, users, known.values())
        search = search_for_users(store, chosen, users, known.values())
    typer.echo(f"{rows:,} rows removed")
    for name in forgotten_before:
        typer.echo(f"{name} was forgotten before, too")
    if search.problems:
        raise UserError(search.summary, *search.problems)
    typer.echo(f"{search.summary}: not found")


@app.command(
    epilog="Example: giscope purge --warehouse W --before 2004-03-01 --table packets\n\n"
    "Example: giscope purge --warehouse W --networks networks.toml\n\n"
    "Example: giscope purge --warehouse W --network aa-gprs --capture 2004-03-02/part.pcap"
)
def purge(
    warehouse: WarehouseOption,
    before: Annotated[
        date | None,
        day_option("--before", "The first UTC day that stays."),
    ] = None,
    networks: Annotated[
        Path | None,
        typer.Option(
            "--networks",
            metavar="FILE",
            help="Remove all that is older than [network.retention] in this networks file allows.",
        ),
    ] = None,
    network: OptionalNetworkOption = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="NAME",
            help="Only this table; repeatable. packets: also the logs of Zeek, and examples; "
            "flows: also the tables beside it; marts: all marts, the checks and ingest_log. "
            "[default: all tables]",
        ),
    ] = None,
    capture: Annotated[
        str | None,
        typer.Option(
            "--capture",
            metavar="NAME",
            help="Instead of days: the capture or log of this name in ingest_log, such as a part "
            "of another one. Remove its file, too, or the next run reads it again.",
        ),
    ] = None,
) -> None:
    """Remove old days of tables, and superseded files of the same tables; or one capture.

    Give --before, with or without --table, or --networks, or --network and --capture. Tables that
    were made from the removed days stay as they are. Those that were made from a removed capture
    are made again by the next `giscope run`.
    """
    from spark_jobs.jobs import remove_data
    from spark_jobs.settings.networks import find_network, load_networks

    given = sum(option is not None for option in (before, networks, capture))
    if given != 1 or (table and before is None) or (capture and not network):
        raise UserError(
            "purge: give either --before (with or without --table), or --networks, or --network "
            "and --capture"
        )
    store = _open_existing(warehouse)
    with _one_at_a_time(store):
        _finish_removal(store)
        if capture and network:
            remove_data.remove_capture(store, network, capture)
            typer.echo(f"removed {printable(capture)}; the next giscope run makes its days again")
            return
        if networks:
            known = load_networks(networks)
            chosen = [find_network(known, network, networks)] if network else known.values()
            purged_tables = remove_data.retain(store, chosen, datetime.now(UTC).date())
        else:
            assert before is not None
            tables = remove_data.tables_named(table or ())
            purged_tables = remove_data.purge_networks(store, network, before, tables)
    names = sorted(purged_table.name for purged_table in purged_tables)
    typer.echo(f"removed from {', '.join(names)}" if names else "nothing to remove")


@app.command(epilog="Example: giscope report --warehouse W --output report.html")
def report(
    warehouse: WarehouseOption,
    output: Annotated[
        Path,
        typer.Option("--output", metavar="FILE", parser=path_of, help="The HTML page to write."),
    ],
    network: Annotated[
        list[str] | None,
        typer.Option(
            "--network",
            metavar="NAME",
            help="Only this network; repeatable. [default: all]",
        ),
    ] = None,
    since: Annotated[
        date | None, day_option("--from", "First UTC day. [default: the first of all]")
    ] = None,
    until: Annotated[
        date | None, day_option("--to", "Last UTC day. [default: the last of all]")
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare",
            metavar="KEY=VALUE,...",
            help="Give it twice: the report then compares these two selections, such as "
            "hours=peak,sack=yes. Keys: hours (peak, off-peak, other, 18-21), days "
            "(2004-03-01..2004-03-07), network, access, sack, timestamps (yes, no), mss (low, "
            "high, other), window (low, med, high).",
        ),
    ] = None,
) -> None:
    """Write the report as one HTML page that opens offline.

    It compares peak and off-peak hours, and has the paper's tables and figures. The pages of its
    examples go into the folder `plots` beside it.
    """
    from spark_jobs.figures.metrics.compare import parse_subsets
    from spark_jobs.jobs.plot import write_examples
    from spark_jobs.report.build import write_report
    from spark_jobs.report.examples import examples

    if compare and len(compare) != 2:
        raise UserError(f"report: give --compare twice or not at all, not {len(compare)} times")
    subsets = parse_subsets(*compare) if compare else None
    store = _open_existing(warehouse)
    page = write_report(store, output, network or None, since, until, subsets)
    if not subsets:
        write_examples(store, examples(store, network or None, since, until), page.parent)
    typer.echo(printable(f"Report: {page.resolve()}"))


@app.command(
    epilog="""Example: giscope sql --warehouse W "select network, count(*) from flows """
    """group by all" """
)
def sql(
    warehouse: WarehouseOption,
    query: Annotated[str, typer.Argument(help="A query in DuckDB's SQL.")],
    form: Annotated[
        Literal["table", "csv", "json"],
        typer.Option("--format", help="The format of the answer."),
    ] = "table",
    write: Annotated[
        bool,
        typer.Option(
            "--write",
            help="Allow all statements: they may write, and read files outside the warehouse.",
        ),
    ] = False,
    at: Annotated[
        datetime | None,
        typer.Option(
            "--at",
            formats=["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"],
            metavar="TIME",
            help="Query the tables as they were at this time (UTC), if superseded files of then "
            "still exist.",
        ),
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit",
            metavar="SECONDS",
            envvar=query_limits.SECONDS_VARIABLE,
            help="Stop the query if its answer is not printed after this time (s); 0: no limit.",
        ),
    ] = query_limits.SQL_SECONDS,
    memory_limit: Annotated[
        str,
        typer.Option(
            "--memory-limit",
            metavar="SIZE",
            envvar=query_limits.MEMORY_VARIABLE,
            help="Stop the query if it needs more memory, such as 512MiB or 2GiB, or four times "
            "as much in temporary files.",
        ),
    ] = query_limits.MEMORY,
) -> None:
    """Run a SQL query over the tables. It cannot write, except with --write."""
    from tempfile import TemporaryDirectory

    from spark_jobs.engine.queries import run_in_fork, run_query

    limits = query_limits.Limits.of(time_limit, memory_limit)
    then = at.replace(tzinfo=UTC) if at else None
    with TemporaryDirectory(prefix="giscope-") as temporary:

        def answer() -> None:
            store = _open_existing(warehouse)
            with run_query(store, query, limits, write, then, temporary) as found:
                found.limit_process(limits)
                _print_answer(found, form)

        if status := run_in_fork(partial(_exit_status, answer), limits):
            raise typer.Exit(status)


def _print_answer(answer: Answer, form: str) -> None:
    import csv
    import json

    if form == "table":
        answer.show(max_width=200, max_rows=1000)
        return
    found = answer.columns_and_rows()
    if found is None:
        return
    columns, rows = found
    if form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    else:
        separator = "["
        for row in rows:
            named = dict(zip(columns, row, strict=True))
            indented = json.dumps(named, default=str, indent=1).replace("\n", "\n ")
            print(f"{separator}\n {indented}", end="")
            separator = ","
        print("[]" if separator == "[" else "\n]")


@app.command(
    epilog="Example: giscope why --warehouse W --networks networks.toml --address 10.64.1.7 "
    "--time 2004-03-02T11:16:30",
)
def why(
    warehouse: WarehouseOption,
    flow_id: Annotated[
        int | None, typer.Argument(help="The connection's flow_id in the table flows.")
    ] = None,
    address: AddressOption = None,
    time: TimeOption = None,
    port: PortOption = None,
    display_filter: FilterOption = None,
    network: OptionalNetworkOption = None,
    networks: OptionalNetworksOption = None,
) -> None:
    """Explain in five lines why a connection was as fast as it was.

    Give its flow_id, or what finds it. If several connections are found, they are listed.
    """
    from spark_jobs.report.connection import read_connection
    from spark_jobs.report.why import explanation

    store = _open_existing(warehouse)
    texts = (address, time, port, display_filter, network)
    (chosen,) = _chosen_flows("why", store, [] if flow_id is None else [flow_id], texts, networks)
    for sentence in explanation(read_connection(store, chosen)):
        typer.echo(sentence)


def _chosen_flows(
    command: str,
    store: Warehouse,
    flow_ids: list[int],
    texts: tuple[str | None, ...],
    networks: Path | None,
) -> list[int]:
    """Return the given flow_ids, or that of the connection that the options find."""
    from spark_jobs.report.find_connections import only_connection, search_of
    from spark_jobs.settings.networks import load_networks

    if bool(flow_ids) == any(text is not None for text in texts):
        raise UserError(
            f"{command}: give either FLOW_ID, or one or more of --address, --time, --port, "
            "--filter and --network"
        )
    if flow_ids:
        return flow_ids
    known = load_networks(networks) if networks else {}
    return [only_connection(store, search_of(*texts), known)["flow_id"]]


@app.command(
    epilog="Example: giscope plot --warehouse W --filter 'ip.addr == 198.51.100.28 && "
    "tcp.port == 40001'",
)
def plot(
    warehouse: WarehouseOption,
    flow_ids: Annotated[
        list[int] | None,
        typer.Argument(help="The connections' flow_ids in the table flows.", metavar="FLOW_ID..."),
    ] = None,
    address: AddressOption = None,
    time: TimeOption = None,
    port: PortOption = None,
    display_filter: FilterOption = None,
    network: OptionalNetworkOption = None,
    networks: OptionalNetworksOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="PATH",
            parser=path_of,
            help="The page to write, or an existing folder. [default: flow-FLOW_ID.html in the "
            "current folder]",
        ),
    ] = None,
) -> None:
    """Draw connections, each on an HTML page that opens offline.

    A page has the time-sequence graph, what limited the connection, the data in flight, RTT samples
    and RTO expiries. Give flow_ids, or what finds one connection. If several are found, they are
    listed.
    """
    from spark_jobs.figures.names import plot_file_name
    from spark_jobs.jobs.plot import plot as draw

    store = _open_existing(warehouse)
    target = output or Path()
    texts = (address, time, port, display_filter, network)
    chosen = _chosen_flows("plot", store, flow_ids or [], texts, networks)
    if len(chosen) > 1 and not target.is_dir():
        raise UserError(f"plot: {target}: no such folder")
    for flow_id in chosen:
        page = target / plot_file_name(flow_id) if target.is_dir() else target
        typer.echo(printable(str(draw(store, flow_id, page).resolve())))


@app.command(epilog="Example: giscope serve --warehouse W --networks networks.toml")
def serve(
    warehouse: WarehouseOption,
    networks: OptionalNetworksOption = None,
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65535,
            help="The port. Links of dashboards and report files lead to the default. 0: any "
            "free one.",
        ),
    ] = SERVE_PORT,
) -> None:
    """Show the report and every connection's page in a browser on this machine, until Ctrl-C.

    Pages are made when the browser asks for them. Nothing is written to the warehouse, and only
    programs of the user who runs this command get an answer.
    """
    from spark_jobs.report.server import make_server
    from spark_jobs.settings.networks import load_networks

    known = load_networks(networks) if networks else {}
    with make_server(_open_existing(warehouse), known, port) as server:
        print(f"http://127.0.0.1:{server.server_port}/  (Ctrl-C ends)", flush=True)
        server.serve_forever()


@app.command(epilog="Example: giscope schema flows")
def schema(
    table: Annotated[str | None, typer.Argument(help="Only this table. [default: all]")] = None,
    form: Annotated[
        Literal["table", "markdown"],
        typer.Option("--format", help="The format of the dictionary."),
    ] = "table",
) -> None:
    """Print the data dictionary: every column with its type, unit, meaning and source."""
    from spark_jobs.commands import dictionary

    make = dictionary.markdown if form == "markdown" else dictionary.text
    typer.echo(make(table), nl=False)


def _open_existing(warehouse: Path, keep_days: float | None = None) -> Warehouse:
    from spark_jobs.warehouse.store import GRACE_TIME, Warehouse

    if not warehouse.is_dir():
        raise UserError(f"{warehouse}: no such warehouse")
    return Warehouse(warehouse, GRACE_TIME if keep_days is None else timedelta(keep_days))


def _rebuild_catalog(warehouse: Path) -> None:
    """Rebuild a lost catalog, and print its size and what could not be restored."""
    from spark_jobs.jobs.rebuild import rebuild

    if not warehouse.is_dir():
        raise UserError(f"{warehouse}: no such warehouse")
    rebuilt = rebuild(warehouse)
    for line in rebuilt.missing:
        typer.echo(f"giscope: {printable(line)}", err=True)
    typer.echo(f"rebuilt the catalog: {rebuilt.units:,} units with {rebuilt.files:,} files")


def _one_at_a_time(store: Warehouse) -> AbstractContextManager[None]:
    """Return a lock under which only one run or removal works at a time."""

    def wait() -> None:
        typer.echo(
            f"giscope: {store.root}: another run is in progress: waiting for its end", err=True
        )

    return store.locked("run", wait)


def _finish_removal(store: Warehouse) -> None:
    """Finish a removal that was interrupted."""
    from spark_jobs.jobs import remove_data

    if remove_data.is_pending(store):
        typer.echo(f"giscope: {store.root}: finishing a removal that was interrupted", err=True)
        remove_data.finish_pending(store)


def _make_key(work: list[CaptureFile]) -> None:
    """Make the key of the pseudonyms, if a network needs one and there is none; say so."""
    from spark_jobs.capture.users import make_secret

    if any(network.needs_key for network, _ in work) and (key_file := make_secret()):
        _print_note(f"made the key of the pseudonyms, back it up: {key_file}")


def _print_outcomes(outcomes: list[CaptureOutcome]) -> None:
    """Print the notes about files that were ingested, and how many packets they gave."""
    from spark_jobs.commands.summary import ingest_summary

    for outcome in outcomes:
        _print_notes(outcome.notes)
    typer.echo(ingest_summary(outcomes))


def _print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        _print_note(note)


def _print_note(note: str) -> None:
    """Print a line that the user should know, though it is no error."""
    typer.echo(f"giscope: {printable(note)}", err=True)


def _raise_failures(failed: list[CaptureOutcome], others: Iterable[str] = ()) -> None:
    """Raise a UserError with a line for each failure; equal lines appear once.

    A full disk fails many files, each with its own number of bytes: it gives one line.
    """
    errors = {
        result.disk_full or number: result.error or "" for number, result in enumerate(failed, 2)
    }
    lines = dict.fromkeys([*errors.values(), *others])
    if lines:
        raise UserError(*lines)


def command() -> None:
    """Run the command in a process of its own, with shorter imports (see `lean`)."""
    from spark_jobs.engine import lean  # noqa: F401

    main()


def main(args: list[str] | None = None) -> None:
    """Run the command. Errors that the user can mend give one line each, and exit status 2."""
    withheld_lines.clear()

    def run_app() -> int | None:
        for word in sys.argv[1:] if args is None else args:
            os.path.lexists(word) or word.encode()  # only names of files may be other bytes
        return app(args, standalone_mode=False)

    if status := _exit_status(run_app):
        sys.exit(status)


def _exit_status(command: Callable[[], int | None]) -> int:
    """Return the exit status of a command, whose errors are printed."""
    try:
        status = command() or 0
        sys.stdout.flush()
        if withheld_lines and not status:
            return _print_error(ALL_ELSE)
    except typer.TyperException as error:
        return _print_error(error.format_message().replace(" Value error, ", " "))
    except BrokenPipeError:
        # The program that reads the output has ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except UserError as error:
        return _print_error(str(error))
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except Exception as error:
        from spark_jobs.engine.memory import memory_error_message

        message = memory_error_message(error) or user_message(error)
        if message is None:
            raise
        return _print_error(message)
    return status


def _print_error(message: str) -> int:
    """Print an error; return the exit status."""
    for line in message.splitlines():
        print(f"giscope: {line}", file=sys.stderr)
    return 2
