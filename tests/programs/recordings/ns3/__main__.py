"""Simulates a network and packs what it saw."""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.programs.recordings import ns3
from tests.programs.recordings.ns3 import links, lte, pack

NETWORKS = {"lte": lte.simulate, "links": links.simulate}
DEFAULTS = {
    "lte": {
        "buffer": 2_000_000,
        "internet_loss": 0.0005,
        "files": [100, 400, 1500, 4000],
        "pause": 6.0,
    },
    "links": {
        "buffer": 6_000_000,
        "internet_loss": 0.0003,
        "files": [100, 400, 1500, 6000],
        "pause": 5.0,
    },
}
"""The traffic of each network, where the arguments say nothing."""


def main() -> None:
    arguments = argparse.ArgumentParser(
        prog="ns3", description=ns3.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("network", choices=NETWORKS)
    arguments.add_argument("folder", type=Path, metavar="FOLDER")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--tcp", default="TcpCubic", help="ns-3's name, as TcpNewReno")
    arguments.add_argument("--segments-per-ack", type=int, default=2, help="as GRO and modems do")
    arguments.add_argument("--files", type=int, nargs="+", help="sizes to choose from (kB)")
    arguments.add_argument("--pause", type=float, help="mean pause between files (s)")
    arguments.add_argument("--buffer", type=int, help="of the sender (B)")
    arguments.add_argument("--window", type=int, help="of the receiver (B; default: as the buffer)")
    arguments.add_argument("--internet-loss", type=float, help="share of packets")
    for name in ("sack", "timestamps", "harq", "pacing"):
        arguments.add_argument(
            f"--{name}", action=argparse.BooleanOptionalAction, default=name != "pacing"
        )
    of_links = arguments.add_argument_group("links")
    of_links.add_argument("--queue", default="FqCoDelQueueDisc", help="ns-3's name")
    of_links.add_argument("--size", default="", help="of the queue, as 100p (default: ns-3's)")
    of_links.add_argument("--rates", type=float, nargs="+", default=[2, 5, 10, 20, 40])
    of_links.add_argument("--delays", type=float, nargs="+", default=[15, 25, 40], help="ms")
    arguments.add_argument("--simulate-only", action="store_true", help="leave ns-3's files")
    asked = arguments.parse_args()
    for name, value in DEFAULTS[asked.network].items():
        if getattr(asked, name) is None:
            setattr(asked, name, value)
    asked.window = asked.window or asked.buffer
    simulate = NETWORKS[asked.network]
    if asked.simulate_only:
        rates = simulate(asked, asked.folder)
        (asked.folder / "rates.json").write_text(json.dumps(rates))
        return
    with TemporaryDirectory() as captures:
        # A process of its own: ns-3 writes the last of its files when it ends.
        again = [sys.executable, "-m", "tests.programs.recordings.ns3", asked.network, captures]
        options = sys.argv[sys.argv.index(str(asked.folder)) + 1 :]
        subprocess.run([*again, *options, "--simulate-only"], check=True)
        rates = json.loads(Path(captures, "rates.json").read_text())
        pack.write(asked.folder, Path(captures), rates)


if __name__ == "__main__":
    main()
