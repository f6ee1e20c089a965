"""Labels of access links at some times: those of the leases then (see schemas/labels.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import LEASES
from schemas.labels import LABEL_NAMES
from spark_jobs.users.subscribers import lease_spans

NO_LEASES = LEASES.arrow.empty_table()


@dataclass(frozen=True)
class LinkLabels:
    """The labels of access links.

    leases: rows of that table. links: the links' keys.
    """

    leases: pa.Table
    links: list[str]

    def at(
        self, link: np.ndarray, ts: np.ndarray, names: Sequence[str] = LABEL_NAMES
    ) -> dict[str, pa.Array]:
        """Return some columns of LABELS of links, as indices into `links`, at times (int64, µs).

        They are null without a lease then. Of several, the lease that began last counts.
        """
        rows, codes, begin, end = self._spans
        if not len(rows):
            return {name: pa.nulls(len(link), rows[name].type) for name in names}
        ts = np.asarray(ts, np.int64)
        origin = min(begin.min(), ts.min(initial=begin.min()))
        span = max(begin.max(), ts.max(initial=0)) - origin + 1
        keys = np.asarray(link, np.int64) * span + ts - origin
        latest = np.searchsorted(codes * span + begin - origin, keys, "right") - 1
        known = (latest >= 0) & (codes[latest] == link) & (ts < end[latest])
        places = pa.array(latest, mask=~known)
        return {name: rows[name].take(places) for name in names}

    @cached_property
    def _spans(self) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray, np.ndarray]:
        """The leases of `links` by link and begin; each one's link, begin and end (µs)."""
        codes = {name: code for code, name in enumerate(self.links)}
        leases = self.leases.filter(pc.is_in(self.leases["link"], pa.array(codes, pa.string())))
        rows, begin, end = lease_spans(leases)
        code = np.array([codes[name] for name in rows["link"].to_pylist()], np.int64)
        order = np.lexsort((begin, code))
        [*batches] = rows.take(order).combine_chunks().to_batches()
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)
        return batch, code[order], begin[order], end[order]
