"""Records profiles, all at the same time, each by a process of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.programs import lab
from tests.programs.lab.profile import read
from tests.programs.lab.record import record

PROFILES = Path(__file__).parent / "profiles"


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(lab.__doc__)
    if os.getuid() or not Path("/dev/net/tun").exists():
        sys.exit("lab: needs root and /dev/net/tun")
    folder, *files = map(Path, sys.argv[1:])
    files = files or sorted(PROFILES.glob("*.toml"))
    for file in files:
        try:
            read(file)
        except (OSError, ValueError) as error:  # TOML's and pydantic's are of these
            print(f"lab: {file}: {error}", file=sys.stderr)
            sys.exit(2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all is undone
    if len(files) == 1:
        record(files[0], folder.resolve())
        return
    command = [sys.executable, "-m", "tests.programs.lab", str(folder)]
    running = {file: subprocess.Popen([*command, str(file)]) for file in files}
    failed = [file.name for file, process in running.items() if process.wait()]
    if failed:
        sys.exit(f"lab: not recorded: {', '.join(failed)}")


if __name__ == "__main__":
    main()
