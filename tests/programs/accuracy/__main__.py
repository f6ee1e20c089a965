"""Compares losses, by giscope and by the simple rule, with the lab's ground truth: `make accuracy`.

With folders as arguments, uses those: of the lab's form (gi.pcap.gz, frames.csv.gz,
losses_unseen.csv) or of ns-3's (gi.pcap.zst, frames_lost.csv.zst, losses_unseen.csv.zst). With
--sensitivity (long: a minute or more a line), shows how far the losses on the access side depend on
each constant of their model, all captures together. With --why, compares what the servers' TCP did,
by giscope and by the sending kernel, for the extracts in tests/data/sender or for folders
(gi.pcap.gz, sender.csv.gz, kernel_srv.json).
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table as Grid

from spark_jobs.settings.networks import Network
from tests.programs.accuracy import sensitivity, why
from tests.programs.accuracy.lab import (
    NETWORK,
    NS3_MIN_RTO_S,
    Accuracy,
    Recording,
    downlink_frames,
    ingested,
    lost_frames_csv,
    measure,
)
from tests.programs.accuracy.why import Figure, Median, Share, Total, Why

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests/data"
SENDER = DATA / "sender"
NS3_LINKS = DATA / "ns3-links"
PACKED = "gi.pcap.zst", "frames_lost.csv.zst", "losses_unseen.csv.zst"


def _of_lab(name: str, capture: str) -> Recording:
    """Returns a shipped capture of the lab, by the name of its ground truth."""
    truth = DATA / "truth" / name
    return Recording(
        DATA / "captures" / f"{capture}.pcap.zst",
        truth / "frames_lost.csv.zst",
        truth / "losses_unseen.csv.zst",
    )


def _packed(folder: Path) -> Recording:
    """Returns a capture as tests.programs.recordings.ns3 writes it."""
    return Recording(*(folder / name for name in PACKED))


SHIPPED = {
    "aa-gprs-peak": _of_lab("aa-gprs-peak", "aa-gprs/peak"),
    "aa-gprs-offpeak": _of_lab("aa-gprs-offpeak", "aa-gprs/off-peak"),
    "bb-gprs-peak": _of_lab("bb-gprs-peak", "bb-gprs/peak"),
    "cc-dialup-peak": _of_lab("cc-dialup-peak", "cc-dialup/peak"),
    "ns3-lte-sack": _packed(DATA / "ns3-lte/sack"),
    "ns3-lte-no-sack": _packed(DATA / "ns3-lte/no-sack"),
} | {
    f"ns3-{name}": _packed(NS3_LINKS / name)  # the others have no losses
    for name in ("codel-bbr", "fast", "fifo-no-sack", "fq-codel", "pie")
}


@contextmanager
def of_folder(folder: Path) -> Iterator[Recording]:
    """Yields a capture as the lab or ns-3 writes it."""
    if (folder / PACKED[1]).is_file():
        require(folder, *PACKED)
        yield _packed(folder)
        return
    require(folder, "gi.pcap.gz", "frames.csv.gz", "losses_unseen.csv")
    capture = folder / "gi.pcap.gz"
    with TemporaryDirectory() as scratch:
        warehouse = ingested(Path(scratch) / "w", capture, NETWORK)
        lost = Path(scratch) / "lost.csv.zst"
        lost_frames_csv(folder / "frames.csv.gz", downlink_frames(warehouse), lost)
        yield Recording(capture, lost, folder / "losses_unseen.csv")


def require(folder: Path, *names: str) -> None:
    """Ends the program with status 2 if a folder lacks one of the files."""
    for name in names:
        if not (folder / name).is_file():
            print(f"accuracy: {folder / name}: no such file", file=sys.stderr)
            sys.exit(2)


def why_shipped(extract: str, network: Network) -> Why:
    """Measures a shipped extract, which has no counters of the host."""
    folder = SENDER / extract
    return why.measure(folder / "gi.pcap.zst", folder / "sender.csv.zst", None, network)


def why_of_folder(folder: Path, network: Network) -> Why:
    """Measures a capture of the lab or of ns-3, with what the sending TCP reported."""
    if (folder / "sender.csv.zst").is_file():
        require(folder, "gi.pcap.zst")
        network = network.model_copy(update={"min_rto_s": NS3_MIN_RTO_S})
        return why.measure(
            folder / "gi.pcap.zst", folder / "sender.csv.zst", None, network, counts_setup=False
        )
    require(folder, "gi.pcap.gz", "sender.csv.gz", "kernel_srv.json")
    return why.measure(
        folder / "gi.pcap.gz", folder / "sender.csv.gz", folder / "kernel_srv.json", network
    )


def losses_grid(results: dict[str, Accuracy]) -> Grid:
    """Makes a table with a row for each capture."""
    grid = Grid(title="Downlink data packets lost", title_justify="left")
    for heading in (
        "capture", "frames", "lost", "inferred", "precision", "recall", "recall of decided",
        "ratio, true → ours → simple rule", "simple: precision", "recall",
        "on the Internet side", "inferred", "expected", "precision", "recall",
    ):  # fmt: skip
        grid.add_column(heading, justify="left" if heading == "capture" else "right")
    for name, a in results.items():
        ratios = " → ".join(f"{100 * n / a.data:.2f} %" for n in (a.lost, a.expected, a.simple))
        grid.add_row(
            name, f"{a.data:,}", f"{a.lost:,}", f"{a.inferred:,}", f"{a.precision:.4f}",
            f"{a.recall:.4f}", f"{a.decided_recall:.4f}", ratios,
            f"{a.simple_hits / max(a.simple, 1):.2f}", f"{a.simple_hits / max(a.lost, 1):.2f}",
            str(a.unseen.lost), str(a.unseen.inferred), f"{a.unseen.expected:.1f}",
            f"{a.unseen.precision:.3f}", f"{a.unseen.recall:.3f}",
        )  # fmt: skip
    return grid


def shown(figure: Figure) -> str:
    """Formats a share; an estimate, the truth and the difference; or a median; marked where it is
    not as asked."""
    match figure:
        case Share(value=value, of=of):
            text = f"{100 * value:.1f} % of {of:,}" if of else "none"
        case Total(ours=ours, truth=truth):
            part = f"{100 * (ours / truth - 1):+.1f} %" if truth else f"{ours - truth:+,.0f}"
            text = f"{ours:,.0f} → {truth:,.0f}  {part}"
        case Median(value=value):
            text = f"{100 * value:.1f} %"
    return text if figure.kept else f"[bold]{text} ✗[/bold]"


def why_grid(results: dict[str, Why]) -> Grid:
    """Makes a table with a column for each capture."""
    grid = Grid(
        title="What the servers' TCP did: giscope → the sending kernel, difference",
        title_justify="left",
        caption="✗: not as asked",
        caption_justify="left",
    )
    for heading in ("", "asked", *results):
        grid.add_column(heading, justify="right" if heading else "left")
    all_of = results.values()
    grid.add_row("connections reported", "", *(f"{w.reported:,}" for w in all_of))
    grid.add_row("of these matched", "", *(f"{w.matched:,}" for w in all_of))
    grid.add_row("and reported to their end", "", *(f"{w.ended:,}" for w in all_of))
    for figures in ([w.of_connections for w in all_of], [w.of_host for w in all_of]):
        grid.add_section()
        for name, figure in figures[0].items():
            grid.add_row(name, figure.asked, *(shown(of[name]) for of in figures))
    return grid


def show_sensitivity(recordings: dict[str, Recording], constants: list[str]) -> None:
    """Prints a line for each constant halved and doubled, as soon as it is known."""
    variations = sensitivity.chosen(constants)
    print(f"{'':32} {'precision':>9} {'recall':>9} {'ratio':>9}  worst capture", flush=True)
    base = {}
    for variation, found in sensitivity.study(recordings, variations):
        if variation is None:
            base = found
        name = f"{variation.constant} x {variation.factor:g}" if variation else "as it is"
        print(f"{name:32} {sensitivity.line(found, base)}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(prog="accuracy", description=__doc__)
    arguments.add_argument("--why", action="store_true", help="what the servers' TCP did")
    arguments.add_argument(
        "--sensitivity", action="store_true", help="each constant halved and doubled (long)"
    )
    arguments.add_argument(
        "--constants", nargs="+", default=[], metavar="NAME", help="of a module or by name, only"
    )
    arguments.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    asked = arguments.parse_args()
    if asked.why:
        grid = why_grid(
            {f.name: why_of_folder(f, NETWORK) for f in asked.folders}
            or {path.name: why_shipped(path.name, NETWORK) for path in sorted(SENDER.iterdir())}
            | {path.name: why_of_folder(path, NETWORK) for path in sorted(NS3_LINKS.iterdir())}
        )
        Console(width=200).print(grid)
        return
    with ExitStack() as stack:
        given = {f.name: stack.enter_context(of_folder(f)) for f in asked.folders}
        recordings = given or SHIPPED
        if asked.sensitivity:
            show_sensitivity(recordings, asked.constants)
            return
        results = {name: measure(recording, NETWORK) for name, recording in recordings.items()}
    Console(width=200).print(losses_grid(results))


if __name__ == "__main__":
    main()
