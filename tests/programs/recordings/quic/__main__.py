"""Builds quinn's program and records a network."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir

from tests.programs.recordings import quic
from tests.programs.recordings.quic.record import NETWORKS, record

CRATE = Path(__file__).parent / "quinn"


def main() -> None:
    known = [each.stem for each in NETWORKS.glob("*.toml")]
    if len(sys.argv) != 3 or sys.argv[1] not in known:
        sys.exit(quic.__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all is undone
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path(gettempdir(), "quinn-ends")))
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--target-dir", str(target)]
    subprocess.run(command, cwd=CRATE, check=True)
    record(sys.argv[1], Path(sys.argv[2]), target / "release" / "quinn-ends")


if __name__ == "__main__":
    main()
