"""Figures: all of a table or figure is in one folder here, from its SQL to its pages.

All of a folder's files are optional:

mart.sql            the question that the figure answers, and its mart (see marts.py)
example.toml        a few rows of the tables, and the mart's rows and numbers that must come out
figure.py           NUMBERS, and FIGURE: its section of the report and its charts (see figure.py);
                    or FIGURES, several of them
numbers.py          numbers, labels and constants that several files need
page.py             sections that only the report has: `sections(selection)`
dashboard.py        charts that only a dashboard has: ROWS, on TAB, and COLOURS of labels

A new folder needs no entry in a list. The modules beside the folders are what figures share.
CONTRIBUTING.md shows how to add a figure.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

ORDER = (
    "summary",
    "metrics",
    "timeline",
    "daily_checks",
    "table1_summary",
    "fig03_setup_delay",
    "fig04_round_trip_time",
    "fig05_setup_tree",
    "fig07_channel_rate",
    "channel_rate_coverage",
    "table2_loss",
    "ecn_marks",
    "fig08_bottleneck",
    "fig09_throughput",
    "fig10_throughput_by_loss",
    "fig11_tcp_share",
    "fig13_user_throughput",
    "page_load_time",
    "table3_clusters",
    "quic_beside_tcp",
    "limits_by_window",
    "rtt_by_flight",
    "largest_rtt_by_user",
    "access_queues",
    "retransmissions_by_cause",
    "rto_by_options",
    "stalls_by_class",
    "recovery_by_restart",
    "examples",
    "worst_connections",
    "captures",
    "suppressed_groups",
)
"""Order of the figures in the report and on each dashboard.

Folders that are not listed come before the part of the report that is about the data.
"""
FOLDER = Path(__file__).parent


def _place(name: str) -> tuple[int, bool, str]:
    is_listed = name in ORDER
    return (ORDER.index(name if is_listed else "captures"), is_listed, name)


FOLDERS = sorted(
    {path.parent.name for name in ("mart.sql", "*.py") for path in FOLDER.glob(f"*/{name}")},
    key=_place,
)
"""Names of the figures' folders."""


def parts(*modules: str) -> Iterator[ModuleType]:
    """Yield the modules of these names that each figure has, such as `page`."""
    for folder in FOLDERS:
        for module in modules:
            if (FOLDER / folder / f"{module}.py").exists():
                yield import_module(f"{__name__}.{folder}.{module}")
