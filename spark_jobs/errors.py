"""The user's mistakes: one clear line, exit status 2."""


class UserError(Exception):
    """Something the user can mend: the message names the file, the place and the reason."""


def in_a_line(error: UserError | OSError) -> str:
    """What the user is told of a mistake, or of what the system refused: place and reason."""
    if isinstance(error, UserError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
