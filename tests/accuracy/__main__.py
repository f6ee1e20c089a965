"""Losses, ours beside the simple rule, against the lab's ground truth: `make accuracy`.

With folders of the lab's form as arguments (gi.pcap.gz, frames.csv.gz, losses_unseen.csv), those.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

from schemas import PACKETS
from spark_jobs.jobs.ingest import ingest_capture
from spark_jobs.networks import Network, load_networks
from spark_jobs.warehouse import Warehouse
from tests.accuracy.lab import Accuracy, lost_frames_csv, measure

ROOT = Path(__file__).parents[2]
SHIPPED = {
    "aa-gprs-peak": "aa-gprs/peak",
    "aa-gprs-offpeak": "aa-gprs/off-peak",
    "bb-gprs-peak": "bb-gprs/peak",
    "cc-dialup-peak": "cc-dialup/peak",
}


def shipped(lab: str, network: Network) -> Accuracy:
    """A shipped capture's, by the name of its truth."""
    truth = ROOT / "tests/data/truth" / lab
    capture = ROOT / "tests/data/captures" / f"{SHIPPED[lab]}.pcap.zst"
    return measure(capture, truth / "frames_lost.csv.zst", truth / "losses_unseen.csv.zst", network)


def of_folder(folder: Path, network: Network) -> Accuracy:
    """A capture as the lab leaves it."""
    for name in ("gi.pcap.gz", "frames.csv.gz", "losses_unseen.csv"):
        if not (folder / name).is_file():
            print(f"accuracy: {folder / name}: no such file", file=sys.stderr)
            sys.exit(2)
    with TemporaryDirectory() as scratch:
        warehouse = Warehouse(Path(scratch) / "w")
        ingest_capture(warehouse, network, folder / "gi.pcap.gz")
        frames = [
            pq.read_table(path, columns=["frame", "downlink"]) for path in warehouse.files(PACKETS)
        ]
        down = [f for t in frames for f in t["frame"].filter(t["downlink"]).to_pylist()]
        lost = Path(scratch) / "lost.csv.zst"
        lost_frames_csv(folder / "frames.csv.gz", sorted(down), lost)
        return measure(folder / "gi.pcap.gz", lost, folder / "losses_unseen.csv", network)


def main() -> None:
    network = load_networks(ROOT / "infra/networks.toml")["aa-gprs"]
    folders = [Path(arg) for arg in sys.argv[1:]]
    results = {f.name: of_folder(f, network) for f in folders} or {
        lab: shipped(lab, network) for lab in SHIPPED
    }
    grid = Grid(title="Downlink data packets lost", title_justify="left")
    for heading in (
        "capture", "frames", "lost", "inferred", "precision", "recall", "recall of decided",
        "ratio, true → ours → simple rule", "simple: precision", "recall",
        "before Gi", "inferred", "precision", "recall",
    ):  # fmt: skip
        grid.add_column(heading, justify="left" if heading == "capture" else "right")
    for name, a in results.items():
        ratios = " → ".join(f"{100 * n / a.data:.2f} %" for n in (a.lost, a.expected, a.simple))
        grid.add_row(
            name, f"{a.data:,}", f"{a.lost:,}", f"{a.inferred:,}", f"{a.precision:.4f}",
            f"{a.recall:.4f}", f"{a.decided_recall:.4f}", ratios,
            f"{a.simple_hits / max(a.simple, 1):.2f}", f"{a.simple_hits / max(a.lost, 1):.2f}",
            str(a.unseen), str(a.unseen_inferred),
            f"{a.unseen_hits / max(a.unseen_inferred, 1):.3f}",
            f"{a.unseen_hits / max(a.unseen, 1):.3f}",
        )  # fmt: skip
    Console(width=190).print(grid)


if __name__ == "__main__":
    main()
