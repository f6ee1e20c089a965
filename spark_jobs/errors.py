"""The user's mistakes: one clear line, exit status 2."""


class UserError(Exception):
    """Something the user can mend: the message names the file, the place and the reason."""
