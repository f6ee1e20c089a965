"""Arrow's types of columns.

A column's definition has only the name of its type, because importing pyarrow takes longer than all
else that `giscope schema` does.
"""

import pyarrow as pa

ARROW_TIMESTAMP = pa.timestamp("us", tz="UTC")
ARROW_TYPES: dict[str, pa.DataType] = {
    str(type_): type_
    for type_ in (
        pa.bool_(),
        pa.date32(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.float64(),
        pa.int32(),
        pa.int64(),
        pa.list_(pa.int32()),
        pa.list_(pa.int64()),
        pa.list_(pa.string()),
        pa.list_(pa.uint32()),
        pa.map_(pa.string(), pa.int64()),
        pa.string(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        ARROW_TIMESTAMP,
    )
}
"""The types that columns have, by name."""
