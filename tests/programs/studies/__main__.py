"""Prints docs/studies.md: `python -m tests.programs.studies WAREHOUSE`, after `giscope run`."""

import sys
from pathlib import Path

from tests.programs.studies import buffers, options, preemption, truths, umts
from tests.programs.studies.warehouse import connect

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

For those who want to know whether giscope finds what published studies found. This page compares
giscope's figures with those of four papers, and with the truth as the lab recorded it.

`make studies` prints this page. giscope reads captures at Gi alone. The captures are recordings of
real Linux TCP stacks over an emulated access network (`tests/programs/lab`); `make record-studies`
records them again. In the tables, *truth* is what the mobiles' programs measured and what the
network did; *kernel* is what the sending Linux reports about its connections. The
[glossary](glossary.md) defines the terms.
"""

if __name__ == "__main__":
    main()
