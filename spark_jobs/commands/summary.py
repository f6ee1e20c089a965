"""The tables that `giscope run` and `giscope ingest` print at their end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from spark_jobs.commands.text_grid import text_grid
from spark_jobs.figures.tables import MARTS
from spark_jobs.warehouse.store import Warehouse, fingerprint

if TYPE_CHECKING:
    from spark_jobs.ingest.publish import CaptureOutcome


def ingest_summary(outcomes: list[CaptureOutcome]) -> str:
    """Return a table with the outcome of each capture file."""
    rows = []
    unchanged_outcomes = [outcome for outcome in outcomes if outcome.unchanged]
    if len(unchanged_outcomes) > MAX_UNCHANGED_LISTED:
        outcomes = [outcome for outcome in outcomes if not outcome.unchanged]
        frames, packets = (
            sum(getattr(outcome.facts, name) for outcome in unchanged_outcomes)
            for name in ("frames", "packets")
        )
        captures = f"{len(unchanged_outcomes):,} captures"
        rows.append(("", captures, f"{frames:,}", f"{packets:,}", "", "", "unchanged"))
    for outcome in outcomes:
        facts = outcome.facts
        reasons = ", ".join(f"{count:,} {why}" for why, count in facts.skipped.items())
        note = (
            "not stored: no space left"
            if outcome.disk_full
            else "gave nothing"
            if outcome.error
            else "unchanged"
            if outcome.unchanged
            else ""
        )
        rows.append(
            (
                outcome.network,
                outcome.capture,
                f"{facts.frames:,}",
                f"{facts.packets:,}",
                f"{facts.rows - facts.packets:,}" if facts.rows > facts.packets else "",
                "" if outcome.unchanged else f"{facts.seconds or 0:.1f}",
                "; ".join(filter(None, [note, reasons])),
            )
        )
    return text_grid(INGEST_HEADINGS, rows, "Captures", NUMERIC)


def table1_summary(warehouse: Warehouse) -> str:
    """Return Table I for each network, with the mean set-up delay."""
    files = [warehouse.content_hashes(table) for table in SUMMED]
    columns = warehouse.cached_result(
        "table1", fingerprint(files, TABLE1), partial(_table1, warehouse)
    )
    networks = [column["network"] for column in columns]
    rows = []
    for name, heading in _HEADINGS.items():
        form = {"flows": "{:,}", "setup_delay": "{:.2f} s"}.get(name, "{:.2%}")
        values = [column[name] for column in columns]
        shown = [NOT_MEASURED if value is None else form.format(value) for value in values]
        rows.append((heading, *shown))
    return text_grid(("network", *networks), rows, TABLE1_TITLE, numeric=networks)


def _table1(warehouse: Warehouse) -> list[dict[str, Any]]:
    answer = warehouse.connect(TABLE1).sql(TABLE1)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]


TABLE1_TITLE = "Table I, and the mean set-up delay"
NUMERIC = ("frames", "packets", "other rows", "s")
INGEST_HEADINGS = ("network", "capture", *NUMERIC, "not read, and why")
MAX_UNCHANGED_LISTED = 20
"""Maximum number of unchanged captures that are listed one by one."""
SUMMED = tuple(mart for mart in MARTS if mart.name in ("table1_summary", "fig05_setup_tree"))
TABLE1 = """
        with summary as (
            select network, sum(flows)::bigint as flows, sum(sack) / sum(flows) as sack,
                sum(timestamps) / sum(flows) as timestamps, sum(mss_low) / sum(flows) as mss_low,
                sum(mss_high) / sum(flows) as mss_high, sum(window_low) / sum(flows) as window_low,
                sum(window_med) / sum(flows) as window_med,
                sum(window_high) / sum(flows) as window_high
            from table1_summary group by network
        ),
        delay as (
            select network, sum(delay_sum) / nullif(sum(delay_flows), 0) as setup_delay
            from fig05_setup_tree group by network
        )
        select * from summary left join delay using (network) order by network
"""

NOT_MEASURED = "\N{EN DASH}"

_HEADINGS = {
    "flows": "TCP flows",
    "sack": "SACK enabled",
    "timestamps": "TCP timestamp",
    "mss_low": "MSS low",
    "mss_high": "MSS high",
    "window_low": "window low",
    "window_med": "window med",
    "window_high": "window high",
    "setup_delay": "set-up delay, mean",
}
