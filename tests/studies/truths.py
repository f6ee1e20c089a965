"""How right giscope is about each recording: losses, and what the servers' TCP did."""

from tests.accuracy.lab import NETWORK, Recording, measure
from tests.accuracy.why import Figure, Median, Share, Total
from tests.accuracy.why import measure as measure_why
from tests.studies.markdown import number, table
from tests.studies.warehouse import CAPTURES, TRUTH


def section() -> str:
    names = sorted(path.name for path in CAPTURES.iterdir())
    losses, why = [], {}
    for name in names:
        capture, truth = CAPTURES / name / "gi.pcap.zst", TRUTH / name
        found = measure(
            Recording(capture, truth / "frames_lost.csv.zst", truth / "losses_unseen.csv.zst"),
            NETWORK,
        )
        losses.append(
            (
                name,
                f"{found.data:,}",
                f"{found.lost:,}",
                f"{found.inferred:,}",
                number(found.expected, 1),
                number(found.precision, 3),
                number(found.recall, 3),
            )
        )
        why[name] = measure_why(
            capture, truth / "sender.csv.zst", truth / "kernel_srv.json", NETWORK
        )
    of_connections = [each.of_connections for each in why.values()]
    of_host = [each.of_host for each in why.values()]
    figures = [
        (name, group[0][name].asked, *(_shown(of[name]) for of in group))
        for group in (of_connections, of_host)
        for name in group[0]
    ]
    return TEXT.format(
        losses=table(
            ["recording", "data packets", "lost", "inferred", "expected", "precision", "recall"],
            losses,
        ),
        why=table(["", "asked", *names], figures),
    )


def _shown(figure: Figure) -> str:
    match figure:
        case Share(value=value, of=of):
            text = f"{100 * value:.1f} % of {of:,}" if of else "none"
        case Total(ours=ours, truth=truth):
            text = f"{ours:,.0f} ({truth:,.0f})"
        case Median(value=value):
            text = f"{number(100 * value, 1)} %"
    return text if figure.kept else f"{text} ✗"


TEXT = """\
## How right

Downlink data packets lost on the access side:

{losses}

What the servers' TCP did, ours against the sending kernel; sums: ours, in brackets the kernel's;
✗: not as asked.

{why}

- *Timeouts* and *slow_start* of the options' transfers: a link that stops for ten seconds again and
  again lets the timer go off about ten times in a transfer, and spurious retransmissions bring duplicate
  ACKs. Of each fifth connection one more or less is told, of most without SACK too many.
- *Probes and spurious timeouts* where the kernel says 0: TLP and F-RTO are off there, so it
  counts none. giscope tells by the packets what a server could have noticed.
- *rwnd_limited* of the preempted transfers: some ten seconds too many in 40 minutes, while a
  window of 64 KB is full and losses are repaired at the same time.
"""
