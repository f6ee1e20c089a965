"""giscope's accuracy for each recording: losses, and the behaviour of the servers' TCP."""

from tests.programs.accuracy.lab import NETWORK, Recording, measure
from tests.programs.accuracy.why import Figure, Median, Share, Total
from tests.programs.accuracy.why import measure as measure_why
from tests.programs.studies.markdown import number, table
from tests.programs.studies.warehouse import CAPTURES, TRUTH

LABELS = {
    "timeouts: equal": "RTO expiries: equal",
    "timeouts: sum": "RTO expiries: sum",
    "timeouts, SYN ACKs' too": "RTO expiries, with those of SYN ACKs",
}
"""The page's names of figures that tests.programs.accuracy names otherwise."""


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
        (LABELS.get(name, name), group[0][name].asked, *(_shown(of[name]) for of in group))
        for group in (of_connections, of_host)
        for name in group[0]
    ]
    return TEXT.format(
        losses=table(
            [
                "recording",
                "data packets",
                "lost",
                "inferred",
                "expected losses",
                "precision",
                "recall",
            ],
            losses,
        ),
        why=table(["", "wanted", *names], figures),
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
## Accuracy

Downlink data packets lost on the access side:

{losses}

The behaviour of the servers' TCP, as giscope infers it and as the sending kernel reports it. Sums
are giscope's, with the kernel's in parentheses. ✗ marks values outside the wanted bounds.

{why}

- *RTO expiries* and *slow_start* of the transfers with TCP options: a link that repeatedly stops
  for ten seconds causes about ten RTO expiries in a transfer, and spurious retransmissions cause
  duplicate ACKs. In about one connection in five, giscope reports one expiry more or fewer; in most
  of those without SACK it reports too many.
- *tlp* and *spurious_rto* where the kernel has 0: TLP and F-RTO are off there, so the kernel counts
  none. giscope infers from the packets what a server could have detected.
- *rwnd_limited* of the preempted transfers: giscope reports about 20 s too many in 40 minutes,
  while a window of 64 KB is full and losses are repaired at the same time.
"""
