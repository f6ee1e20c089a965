"""The tables of the catalog's database."""

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, MetaData, String, Table, Text, and_

from schemas import CATALOG_NAME

NAMESPACE = "giscope"
"""The namespace of the Iceberg tables in Iceberg's catalog."""
FORMAT = 1
"""The catalog's format. Raise it with each change of these tables, or of the facts in them.

A warehouse with a catalog of another format is refused (see identity.py).
"""
SCHEMA = MetaData()


def _file_columns() -> list[Column[Any]]:
    """Return the columns of a file: its path, unit, content and number of rows."""
    return [
        Column("path", Text, primary_key=True),
        *(Column(name, Text, nullable=False) for name in UNIT),
        Column("size", BigInteger),
        Column("xxh3", Text),
        Column("rows", BigInteger),
    ]


UNIT = ("kind", "network", "name")
"""The columns of a unit's key."""
UNITS = Table(
    "giscope_units",
    SCHEMA,
    *(Column(name, Text, primary_key=True) for name in UNIT),
    Column("facts", Text, nullable=False),
    Column("generation", BigInteger, nullable=False, index=True),
)
FILES = Table(
    "giscope_files",
    SCHEMA,
    *_file_columns(),
    Column("since_ns", BigInteger, nullable=False, index=True),
    Column("published", Boolean, nullable=False),
    Column("superseded_ns", BigInteger, index=True),
    Index("giscope_files_of", *UNIT),
)
STORED = Table(
    "giscope_stored",
    SCHEMA,
    *_file_columns(),
    Column("stored_in", Text, nullable=False),
    Index("giscope_stored_in", "stored_in"),
    Index("giscope_stored_of", *UNIT),
)
IDENTITIES = Table("giscope_catalog", SCHEMA, Column("identity", Text, primary_key=True))
"""The identity that the warehouse has, too (see identity.py)."""
FENCES = Table(
    "giscope_fences",
    SCHEMA,
    Column("name", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
)
"""The number of times that each lock was taken (see database.PostgreSQL)."""
ICEBERG_TABLES = Table(
    "iceberg_tables",
    SCHEMA,
    *(
        Column(name, String(255), primary_key=True)
        for name in ("catalog_name", "table_namespace", "table_name")
    ),
    Column("metadata_location", String(1000)),
    Column("previous_metadata_location", String(1000)),
    Column("iceberg_type", String(5)),
)
NAMESPACES = Table(
    "iceberg_namespace_properties",
    SCHEMA,
    *(
        Column(name, String(255), primary_key=True)
        for name in ("catalog_name", "namespace", "property_key")
    ),
    Column("property_value", String(1000), nullable=False),
)
OWN_TABLES = and_(
    ICEBERG_TABLES.c.catalog_name == CATALOG_NAME, ICEBERG_TABLES.c.table_namespace == NAMESPACE
)
