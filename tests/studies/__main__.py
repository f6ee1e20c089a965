"""Prints docs/studies.md: `python -m tests.studies WAREHOUSE`, after `giscope run`."""

import sys
from pathlib import Path

from tests.studies import buffers, options, preemption, truths, umts
from tests.studies.warehouse import connect

SECTIONS = (preemption.section, options.section, buffers.section, umts.section)


def main() -> None:
    if len(sys.argv) != 2 or not Path(sys.argv[1], "flows").is_dir():
        print("studies: needs a warehouse with the recordings: make studies", file=sys.stderr)
        sys.exit(2)
    with connect(Path(sys.argv[1])) as db:
        parts = [section(db) for section in SECTIONS]
    print("\n".join([HEAD, *parts, truths.section()]))


HEAD = """\
# Four studies

`make studies` prints this page: giscope's figures from captures at Gi alone, beside those of the
papers, and beside what the lab knows (*truth*: what the mobiles' programs saw and what the network
did; *kernel*: what the sending Linux said of its connections). The captures are recordings of real
Linux TCP stacks over an emulated access network; `make record-studies` makes them anew
(`tests/lab`).
"""

if __name__ == "__main__":
    main()
