"""From estimators' arrays to the rows of a table."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from schemas import Table


def table_of(table: Table, columns: dict[str, pa.Array]) -> pa.Table:
    """The columns as a table of a schema."""
    schema = table.arrow_dictionary
    return pa.table(columns).select(schema.names).cast(schema)


def dictionary(
    codes: np.ndarray, texts: Sequence[str], valid: np.ndarray | None = None
) -> pa.Array:
    """Texts by their codes; null where not valid."""
    mask = None if valid is None else ~valid
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=mask), pa.array(texts, pa.string())
    )


def measured(values: np.ndarray) -> pa.Array:
    """Numbers; NaN is null."""
    return pa.array(values, mask=np.isnan(values))


def column(records: np.ndarray, name: str, valid: np.ndarray | None = None) -> pa.Array:
    """A field of a structured array; null where not valid."""
    return pa.array(np.ascontiguousarray(records[name]), mask=None if valid is None else ~valid)
