"""Small files that users name, and secrets in a variable or in a file that VARIABLE_FILE names.

Superset's environment imports this module: it needs only the standard library.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

MAX_BYTES = 1 << 20
"""Maximum size of a small file: a networks file of this size has some 40,000 prefixes."""


def read_small_file(path: Path) -> str:
    """Return the text of a small file, pipe or device; a pipe without a writer is empty.

    Raises OSError if it cannot be read, is larger than MAX_BYTES or is not UTF-8.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        os.set_blocking(file.fileno(), True)
        content = file.read(MAX_BYTES + 1)
    with suppress(UnicodeDecodeError):
        if len(content) <= MAX_BYTES:
            return content.decode()
    raise OSError(errno.EINVAL, f"is no text of at most {MAX_BYTES:,} bytes", str(path))


def secret_of(variable: str) -> str | None:
    """Return a variable's value, or the content of the file that <variable>_FILE names, or None.

    Blanks around the content, such as the last line break, are removed. Raises OSError if the file
    cannot be read (see read_small_file).
    """
    value = os.environ.get(variable)
    if not value and (path := os.environ.get(f"{variable}_FILE")):
        value = read_small_file(Path(path)).strip()
    if value and not value.isprintable():  # not allowed in HTTP and PostgreSQL
        raise OSError(errno.EILSEQ, "has a control character or is not UTF-8", variable)
    return value or None
