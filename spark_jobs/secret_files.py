"""Small files that users name, and secrets in a variable or in a file that VARIABLE_FILE names.

Superset's environment imports this module: it needs only the standard library.
"""

import errno
import os
import stat
from pathlib import Path

MAX_BYTES = 1 << 20
"""Maximum size of a small file: a networks file of this size has some 40,000 prefixes."""


def read_small_file(path: Path) -> str:
    """Return the text of a small file or of a pipe; a pipe without a writer is empty.

    Raises OSError if it cannot be read, is a device, is larger than MAX_BYTES or not UTF-8.
    """

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK)  # a pipe without a writer would wait for one

    with open(path, "rb", opener=opener) as file:
        if not (stat.S_ISREG(mode := os.fstat(file.fileno()).st_mode) or stat.S_ISFIFO(mode)):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        os.set_blocking(file.fileno(), True)
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"is larger than {MAX_BYTES:,} bytes", str(path))
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, "is not UTF-8", str(path)) from error


def secret_of(variable: str) -> str | None:
    """Return a variable's value, or the content of the file that <variable>_FILE names, or None.

    Blanks around the content, such as the last line break, are removed. Raises OSError if the file
    cannot be read (see read_small_file).
    """
    value = os.environ.get(variable)
    if not value and (path := os.environ.get(f"{variable}_FILE")):
        value = read_small_file(Path(path)).strip()
    if value and not value.isprintable():  # HTTP headers and PostgreSQL's protocol have no such
        raise OSError(errno.EILSEQ, "has a control character or is not UTF-8", variable)
    return value or None
