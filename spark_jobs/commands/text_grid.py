"""Tables with borders, which the commands print."""

import sys
from collections.abc import Collection, Iterable, Sequence

PIPE_WIDTH = 160
"""Width in characters where the output is not a terminal."""


def text_grid(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str,
    numeric: Collection[str] = (),
) -> str:
    """Return a table as text for standard output.

    Long cells are broken, so that nothing is lost. Columns with headings in `numeric` are aligned
    to the right.
    """
    # Here, because most commands print no table, and importing rich takes as long as they do.
    from rich.console import Console
    from rich.table import Table

    grid = Table(title=title or None, title_justify="left")
    for heading in headings:
        grid.add_column(heading, justify="right" if heading in numeric else "left", overflow="fold")
    for row in rows:
        grid.add_row(*row)
    # Without markup, because cells have names of files.
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    console = Console(width=width, markup=False, emoji=False)
    with console.capture() as printed:
        console.print(grid)
    return printed.get().rstrip("\n")
