"""Conversion of the estimators' arrays to the rows of tables."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from schemas import Table


def table_of(table: Table, columns: dict[str, pa.Array]) -> pa.Table:
    """Return the columns as rows of a table, in its order and types."""
    schema = table.arrow_dictionary
    return pa.table(columns).select(schema.names).cast(schema)


def dictionary(
    codes: np.ndarray, texts: Sequence[str], valid: np.ndarray | None = None
) -> pa.Array:
    """Return texts by their codes; null if not valid. A text may have several codes."""
    mask = None if valid is None else ~valid
    unique = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    if len(unique) < len(texts):
        codes = np.array([unique[text] for text in texts], np.int32)[codes]
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=mask), pa.array([*unique], pa.string())
    )


def measured(values: np.ndarray) -> pa.Array:
    """Return numbers with null for NaN."""
    return pa.array(values, mask=np.isnan(values))


def column(records: np.ndarray, name: str, valid: np.ndarray | None = None) -> pa.Array:
    """Return a field of a structured array; null if not valid."""
    return pa.array(np.ascontiguousarray(records[name]), mask=None if valid is None else ~valid)
