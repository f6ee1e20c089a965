"""Errors that the user can mend: the command prints one line for each, and exits with status 2.

An error of one day, mart, section or page withholds it alone: `withheld` prints a line, the command
goes on with the others, and exits with status 2.
"""

import errno
import os
import re
import sys
import traceback
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

withheld_lines: list[str] = []
"""The lines about what this command has withheld so far."""
WITHHELD = "withheld: "
"""Beginning of a line about something that could not be made, beside others that were."""
ALL_ELSE = "everything else is done"
"""The last line of a command that has withheld something."""
OWN_WORDS = re.compile(r"[^\"'`\d]{,300}")
"""The beginning of an unexpected error's text up to a value, which may be a subscriber's."""
SOURCES = Path(__file__).resolve().parents[2]
QUOTED = re.compile(r"Error: \[Errno \d+\] (.*): ['\"](.*)['\"]$", re.MULTILINE)
"""The error of a file in a Python traceback: its reason and the file."""
LINE_BREAKING = ("Cc", "Zl", "Zp")
"""Unicode categories of control characters and of line separators."""


class UserError(Exception):
    """An error that the user can mend; it has one argument for each of several errors.

    A message names the file, the place and the reason. It is one line, even if a file's name has
    line breaks.
    """

    def __str__(self) -> str:
        return "\n".join(map(printable, self.args))


class FullDiskError(UserError):
    """A full disk, which is no fault of the file that was read."""


def in_a_line(error: BaseException) -> str:
    """Return the message of an error, with the place and the reason, in one line.

    An error that the code did not expect has its kind and the place in the code.
    """
    if isinstance(error, UserError):
        return "; ".join(map(printable, error.args))
    if isinstance(error, OSError) and error.strerror:
        return printable(f"{f'{error.filename}: ' if error.filename else ''}{error.strerror}")
    if isinstance(error, OSError):
        return printable(str(error))
    if quoted := quoted_error(error):
        return printable(quoted)
    text = OWN_WORDS.match(str(error).strip().partition("\n")[0])[0].rstrip(" :,([{=-")  # type: ignore[index]
    return printable(f"{type(error).__name__}{f': {text}' if text else ''}{_place(error)}")


def quoted_error(error: BaseException) -> str | None:
    """Return the line for the user if DuckDB's message quotes the error of a file; else None.

    Python opens the files of an object store for DuckDB.
    """
    found = QUOTED.search(str(error))
    return f"{found[2]}: {found[1]}" if found else None


def _place(error: BaseException) -> str:
    """Return where in giscope's code an error was raised, in parentheses; empty if not there."""
    frames = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    own = [(path, line) for path, line in frames if path.is_relative_to(SOURCES / "spark_jobs")]
    return f" ({own[-1][0].relative_to(SOURCES)}:{own[-1][1]})" if own else ""


def is_of_machine(error: BaseException) -> bool:
    """Return whether an error is the machine's, so that whatever follows would fail as well."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return full or isinstance(error, FullDiskError | ConnectionError | TimeoutError)


def withhold(what: str, reason: str) -> None:
    """Print that something could not be made, and is withheld until a later run makes it."""
    withheld_lines.append(printable(f"{WITHHELD}{what}: {reason}"))
    print(f"giscope: {withheld_lines[-1]}", file=sys.stderr, flush=True)


@contextmanager
def withheld(what: str, also_if_of_machine: bool = False) -> Iterator[None]:
    """Print an error within the block, and go on after it.

    Errors of the machine are raised, unless also_if_of_machine is set.
    """
    try:
        yield
    except Exception as error:
        if is_of_machine(error) and not also_if_of_machine:
            raise
        withhold(what, in_a_line(error))


def printable(text: str) -> str:
    """Return a text, such as a file's name, on one line of UTF-8.

    Control characters, and bytes that are not UTF-8, become escapes.
    """
    decoded = os.fsencode(text).decode("utf-8", "backslashreplace")
    return "".join(map(_escaped, decoded))


def user_message(error: Exception) -> str | None:
    """Return the message of an error of Python's that the user can mend; None for another."""
    if isinstance(error, UnicodeEncodeError):
        return "the command line, a variable or a path has bytes that are not UTF-8"
    if isinstance(error, OSError):
        return in_a_line(error)
    if quoted := quoted_error(error):
        return quoted
    of_pathlib = ("Symlink loop from", "Could not determine home directory")
    return str(error) if str(error).startswith(of_pathlib) else None


def _escaped(character: str) -> str:
    if unicodedata.category(character) in LINE_BREAKING:
        return character.encode("unicode_escape").decode()
    return character
