"""Secrets that the environment gives: in a variable, or in a file that VARIABLE_FILE names.

Imported in Superset's environment, too: the standard library, no more.
"""

import os
from pathlib import Path


def secret_of(variable: str) -> str | None:
    """What a variable has, or else the file that <variable>_FILE names, without the line's end;
    None where neither has anything. Raises OSError where the file cannot be read."""
    if value := os.environ.get(variable):
        return value
    path = os.environ.get(f"{variable}_FILE")
    return (path and Path(path).read_text().strip()) or None
