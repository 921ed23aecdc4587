"""The one exception that is a message to the user."""


class UserError(ValueError):
    """Something the user can mend. The text is one line: what is wrong, where, and what to do.

    The command line prints it and exits with code 2; from Python it is an ordinary `ValueError`.
    """
