"""Records what is asked for, each in a network of its own."""

import csv
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import recordings
from tests.programs.recordings import radius, tls, web
from tests.programs.recordings.network import network

RECORDINGS = {"web": web.record, "tls": tls.record, "radius": radius.record}


def write_csv(path: Path, rows: Sequence[dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    folder, *names = sys.argv[1:] or ["--help"]
    if folder.startswith("-") or not RECORDINGS.keys() >= set(names):
        sys.exit(recordings.__doc__)
    out = Path(folder).resolve()
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all is undone
    for name in names or RECORDINGS:
        with network() as net, TemporaryDirectory() as scratch:
            rows = RECORDINGS[name](net, out / f"{name}.pcap", Path(scratch))
        write_csv(out / f"{name}.csv", rows)


if __name__ == "__main__":
    main()
