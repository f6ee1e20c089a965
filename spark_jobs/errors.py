"""Errors that the user can mend: the command prints one line for each, and exits with status 2."""

import os
import unicodedata

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


def in_a_line(error: UserError | OSError) -> str:
    """Return the message of an error, with the place and the reason, in one line."""
    if isinstance(error, UserError) or not error.strerror:
        return str(error)
    place = f"{error.filename}: " if error.filename else ""
    return printable(f"{place}{error.strerror}")


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
    of_pathlib = ("Symlink loop from", "Could not determine home directory")
    return str(error) if str(error).startswith(of_pathlib) else None


def _escaped(character: str) -> str:
    if unicodedata.category(character) in LINE_BREAKING:
        return character.encode("unicode_escape").decode()
    return character
