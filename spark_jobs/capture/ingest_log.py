"""A capture's row of ingest_log, and the sample of its packets beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from schemas import INGEST_LOG
from spark_jobs.capture.files import capture_day
from spark_jobs.warehouse.compaction import capture_metadata
from spark_jobs.warehouse.facts import CaptureFacts
from spark_jobs.warehouse.files import read_rows
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import PublishedUnit, Unit


def stage_log_row(
    staging: Staging, unit: Unit, log: dict[str, Any], sample: np.ndarray | None = None
) -> None:
    """Stage a capture's row of ingest_log."""
    from spark_jobs.capture.packet_sample import METADATA_KEY, encode_sample

    day = log["first_ts"].date() if log["first_ts"] else capture_day(unit.name)
    rows = pa.Table.from_pylist([log], schema=INGEST_LOG.arrow).cast(INGEST_LOG.arrow_dictionary)
    with staging.writer(INGEST_LOG, unit.network, day, unit.name) as writer:
        writer.write_table(rows)
        if sample is not None:
            writer.add_key_value_metadata({METADATA_KEY: encode_sample(sample)})


def log_row(warehouse: Warehouse, capture: PublishedUnit) -> dict[str, Any]:
    """Return a capture's row of ingest_log."""
    filters = [("capture", "=", capture.unit.name)]
    (log,) = read_rows(INGEST_LOG, warehouse.unit_files(capture, INGEST_LOG), filters).to_pylist()
    return log


def restage_log_row(
    warehouse: Warehouse,
    staging: Staging,
    capture: PublishedUnit,
    facts: CaptureFacts,
    removed_keys: list[np.ndarray] | None = None,
) -> set[str]:
    """Stage a capture's row of ingest_log with the counts in `facts`; return the replaced files.

    The row keeps the capture's sample, without the keys in removed_keys; if removed_keys is None,
    it has no sample.
    """
    from spark_jobs.capture.packet_sample import METADATA_KEY, decode_sample

    files = [target for target in capture.stored_in if target.startswith(f"{INGEST_LOG.name}/")]
    if not files:
        return set()
    text = capture_metadata(warehouse.root / files[0], capture.unit.name).get(METADATA_KEY)
    sample = None
    if removed_keys is not None and text is not None:
        sample = np.setdiff1d(
            decode_sample(text), np.concatenate([np.empty(0, np.uint64), *removed_keys])
        )
    counts = facts.model_dump(include={"packets", "rows", "content"})
    stage_log_row(staging, capture.unit, log_row(warehouse, capture) | counts, sample)
    return set(files)
