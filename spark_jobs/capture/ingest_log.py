"""A capture's row of ingest_log, made of its facts, and the sample of its packets beside it."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import INGEST_LOG, PACKETS, Table
from spark_jobs.capture.files import capture_day
from spark_jobs.warehouse.compaction import capture_metadata
from spark_jobs.warehouse.facts import CaptureFacts
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import PublishedUnit, Unit


def count_rows(facts: CaptureFacts, table: Table, day: date, rows: pa.Table) -> CaptureFacts:
    """Return the facts of a capture or log with some more rows of a day."""
    low, high = (time.as_py() for time in pc.min_max(rows["ts"].cast(pa.int64())).values())
    counted = facts.replace(
        rows=facts.rows + len(rows),
        values=facts.values + sum(len(rows) - c.null_count for c in rows.columns),
        first_us=low if facts.first_us is None else min(facts.first_us, low),
        last_us=high if facts.last_us is None else max(facts.last_us, high),
    )
    if table is not PACKETS:
        return counted
    return counted.replace(
        packets=facts.packets + len(rows),
        ipv6_packets=facts.ipv6_packets + rows["ip_id"].null_count,
        dates=sorted({*facts.dates, day}),
    )


def stage_log_row(
    staging: Staging, unit: Unit, facts: CaptureFacts, sample: np.ndarray | None = None
) -> None:
    """Stage a capture's row of ingest_log, with a sample of its packets (see packet_sample.py)."""
    from spark_jobs.capture.packet_sample import METADATA_KEY, encode_sample

    log = facts.log_row(unit.name)
    day = log["first_ts"].date() if log["first_ts"] else capture_day(unit.name)
    rows = pa.Table.from_pylist([log], schema=INGEST_LOG.arrow).cast(INGEST_LOG.arrow_dictionary)
    with staging.writer(INGEST_LOG, unit.network, day, unit.name) as writer:
        writer.write_table(rows)
        if sample is not None:
            writer.add_key_value_metadata({METADATA_KEY: encode_sample(sample)})


def restage_log_row(
    warehouse: Warehouse,
    staging: Staging,
    capture: PublishedUnit,
    facts: CaptureFacts,
    removed_keys: list[np.ndarray] | None = None,
) -> set[str]:
    """Stage a capture's row of ingest_log for changed facts; return the replaced files.

    The row keeps the capture's sample, without the keys in removed_keys; if removed_keys is None,
    it has no sample.
    """
    files = {target for target in capture.stored_in if target.startswith(f"{INGEST_LOG.name}/")}
    if not files:
        return files
    sample = None if removed_keys is None else stored_sample(warehouse, capture)
    if sample is not None and removed_keys:
        sample = np.setdiff1d(sample, np.concatenate(removed_keys))
    stage_log_row(staging, capture.unit, facts, sample)
    return files


def stored_sample(warehouse: Warehouse, capture: PublishedUnit) -> np.ndarray:
    """Return the sample of a capture's packets: uint64[n]; empty if it has none."""
    from spark_jobs.capture.packet_sample import METADATA_KEY, decode_sample

    for path in warehouse.unit_files(capture, INGEST_LOG):
        if text := capture_metadata(path, capture.unit.name).get(METADATA_KEY):
            return decode_sample(text)
    return np.empty(0, np.uint64)
