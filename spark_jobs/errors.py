"""The user's mistakes: one clear line each, exit status 2."""

import os
import unicodedata

LINE_BREAKING = ("Cc", "Zl", "Zp")
"""Unicode's categories of control characters and separators of lines."""


class UserError(Exception):
    """Something the user can mend; of several, an argument each. A message names the file, the
    place and the reason, and is one line whatever the file is called."""

    def __str__(self) -> str:
        return "\n".join(map(printable, self.args))


def in_a_line(error: UserError | OSError) -> str:
    """What the user is told of a mistake, or of what the system refused: place and reason."""
    if isinstance(error, UserError) or not error.strerror:
        return str(error)
    place = f"{error.filename}: " if error.filename else ""
    return printable(f"{place}{error.strerror}")


def printable(text: str) -> str:
    """A text, as a file's name, on one line of UTF-8: control characters, and bytes that are not
    UTF-8, are written as escapes."""
    decoded = os.fsencode(text).decode("utf-8", "backslashreplace")
    return "".join(map(_escaped, decoded))


def _escaped(character: str) -> str:
    if unicodedata.category(character) in LINE_BREAKING:
        return character.encode("unicode_escape").decode()
    return character
