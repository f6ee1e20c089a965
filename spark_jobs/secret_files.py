"""Secrets from the environment: in a variable, or in a file that VARIABLE_FILE names.

Superset's environment imports this module: it needs only the standard library.
"""

import os
from pathlib import Path


def secret_of(variable: str) -> str | None:
    """Return a variable's value, or the content of the file that <variable>_FILE names, or None.

    Blanks around the content, such as the last line break, are removed. Raises OSError if the file
    cannot be read.
    """
    if value := os.environ.get(variable):
        return value
    path = os.environ.get(f"{variable}_FILE")
    return (path and Path(path).read_text().strip()) or None
